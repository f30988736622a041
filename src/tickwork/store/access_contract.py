"""The contract of a store for access: API keys, and the audit log.

It continues `contract.py`, whose rules hold here too.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from tickwork.core.api_key import ApiKey, KeyRecord, NewApiKey
from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.model import Scope


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

    async def revoke(self, scope: Scope, key_id: str) -> ApiKey:
        """Revokes a key for ever. A repeat has no effect."""

    async def touch(self, scope: Scope, key_id: str) -> None:
        """Stores that a key was used now, at most once in `LAST_USED_SECONDS`; system only."""


class Audit(Protocol):
    """Records of changes in a tenant, kept for a year; the system's are those of `default`."""

    async def add(self, scope: Scope, record: NewAuditRecord) -> None:
        """Stores a record."""

    async def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None
    ) -> tuple[AuditRecord, ...]:
        """Returns records, newest first, before a given one."""
