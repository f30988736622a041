"""The contract of a store for access: tenants, API keys, sessions, readers, requests, and the audit
log.

It continues `contract.py`, whose rules hold here too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from tickwork.core.api_key import ApiKey, KeyRecord, NewApiKey
from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.model import Scope, Tenant
from tickwork.core.request import StoredRequest
from tickwork.core.session import Session
from tickwork.core.stream import StreamEvent
from tickwork.core.tenant_limits import MessageQuota, QuotaUse


class ApiKeys(Protocol):
    """API keys. In the system scope an id names a key of any tenant, lists have those of all
    tenants, and a new key belongs to the default tenant."""

    async def create(self, scope: Scope, new: NewApiKey) -> ApiKey:
        """Stores a new key. `Conflict` if its id is in use."""

    async def get(self, scope: Scope, key_id: str) -> ApiKey:
        """Returns one key."""

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[ApiKey, ...]:
        """Returns keys by id, after a given id; also expired and revoked ones."""

    async def find(self, scope: Scope, key_id: str) -> KeyRecord | None:
        """Returns what a key is checked against, or None; system only."""

    async def rotate(
        self, scope: Scope, key_id: str, secret_hash: bytes, *, keep_seconds: float
    ) -> ApiKey:
        """Replaces the secret; the one before stays valid for some seconds, and one before that not
        at all. `Conflict` if the key is revoked."""

    async def revoke(self, scope: Scope, key_id: str, *, keep_admin: bool = False) -> ApiKey:
        """Revokes a key for ever. A repeat has no effect. With `keep_admin`, `Conflict` for the
        last valid key with the scope `admin`, whatever others revoke at the same time."""

    async def touch(self, scope: Scope, key_id: str) -> None:
        """Stores that a key was used now, at most once in `LAST_USED_SECONDS`; system only."""


class Sessions(Protocol):
    """Sessions of the console; system only."""

    async def start(
        self,
        scope: Scope,
        session_id: bytes,
        *,
        tenant: str,
        key_id: str,
        secret_hash: bytes,
        seconds: float,
        ends_others: bool = False,
        is_limited: bool = True,
    ) -> Session:
        """Stores a session of a key of a tenant that ends after some seconds. With `ends_others`,
        the other sessions of the key end now. `TooMany` if the tenant has too many sessions, unless
        it is not limited."""

    async def find(self, scope: Scope, session_id: bytes) -> Session | None:
        """Returns a session, also one that has expired, or None."""

    async def end(self, scope: Scope, session_id: bytes) -> None:
        """Ends a session. A repeat has no effect."""


class Reader(Struct, frozen=True):
    """A role of the database that may read what one tenant has."""

    role: str
    tenant: str


class Readers(Protocol):
    """Roles of the database that read one tenant's rows with SQL of their own, for reports; system
    only. A store without roles raises `InvalidInput`."""

    async def grant(self, scope: Scope, reader: Reader) -> None:
        """Lets a role read the rows of one tenant, and of no other: row-level security holds it.
        It loses what it could read before. `InvalidInput` for a role that the security does not
        hold, `NotFound` if there is no such role or tenant."""

    async def revoke(self, scope: Scope, role: str) -> None:
        """Takes everything from a role that `grant` gave it. `NotFound` if that is nothing."""

    async def list(self, scope: Scope) -> tuple[Reader, ...]:
        """Returns the readers by their role."""


class Stream(Protocol):
    """What happened: system events, kept for a day, and the changes in the audit log."""

    async def after(self, scope: Scope, after: UUID, limit: int) -> tuple[StreamEvent, ...]:
        """Returns the events of the tenant with higher ids, in order; of all tenants for the
        system."""


class Audit(Protocol):
    """Records of changes in a tenant, kept for a year; the system's are those of `default`."""

    actor: str | None
    """Who acts in this process, unless a request or a command says so."""

    async def add(self, scope: Scope, record: NewAuditRecord) -> None:
        """Stores a record."""

    def joined(
        self, scope: Scope, make: Callable[[], NewAuditRecord | None]
    ) -> AbstractAsyncContextManager[None]:
        """Stores the first change that the caller makes inside and the record in one transaction.
        `make` is called in it and may return None for no record. Of a change that takes several
        transactions, the first one stores the record. A change that refuses, or has nothing to do,
        has none."""

    async def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None
    ) -> tuple[AuditRecord, ...]:
        """Returns records, newest first, before a given one."""


class Tenants(Protocol):
    """Tenants. `default` always exists."""

    async def put(self, scope: Scope, tenant: Tenant, *, replaces: bool = True) -> None:
        """Creates a tenant or replaces its settings; system only. `Conflict` if it exists and is
        not to be replaced."""

    async def change(
        self, scope: Scope, tenant_id: str, decide: Callable[[Tenant], Tenant]
    ) -> Tenant:
        """Replaces the settings of a tenant by those decided from the stored ones, in one
        transaction; system only."""

    async def get(self, scope: Scope, tenant_id: str) -> Tenant:
        """Returns one tenant."""

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[Tenant, ...]:
        """Returns tenants by id, after a given id; a tenant sees only itself."""

    async def quota(self, scope: Scope) -> MessageQuota:
        """Returns the tenant's quotas for messages. They are cached for seconds."""

    async def quota_use(self, scope: Scope) -> tuple[QuotaUse, ...]:
        """Returns how much the tenant has used of its quotas for schedules, waiting messages and
        emails, by name; only of those that it has."""

    async def admit(self, scope: Scope, messages: int, payload_bytes: int) -> None:
        """Charges messages, the largest of `payload_bytes`, to the tenant's quotas before they are
        sent; `TooMany` if they exceed one."""

    async def take_emails(self, scope: Scope, emails: int) -> int | None:
        """Counts emails that the tenant is about to send, and returns the day of UTC, in days since
        1970; None, and nothing is counted, if they exceed its quota of that day. Exact: concurrent
        calls wait for each other."""

    async def return_emails(self, scope: Scope, emails: int, day: int) -> None:
        """Takes back the count of emails of a day that were not sent. A day that is over stays."""


class Requests(Protocol):
    """Requests that carry an idempotency key. Rows are kept for a day."""

    async def begin(self, scope: Scope, key: str, fingerprint: bytes, seed: UUID) -> StoredRequest:
        """Records a request and returns it with `is_own`; the one that is stored under the key if
        it is running or has an answer. One that has run for a minute without an answer is
        taken over, with its seed."""

    def joined(
        self, scope: Scope, key: str, seed: UUID, answer: Callable[[], bytes]
    ) -> AbstractAsyncContextManager[None]:
        """Stores the first change that the caller makes inside and the answer of the request in one
        transaction. `answer` is called in it."""

    async def finish(self, scope: Scope, key: str, seed: UUID, answer: bytes) -> None:
        """Stores the answer of the request with this seed."""

    async def forget(self, scope: Scope, key: str, seed: UUID) -> None:
        """Deletes the request with this seed, unless it has an answer."""
