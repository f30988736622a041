"""Finds out who makes a request: checks its API key, token or session, and caches them for some
seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from math import inf
from typing import NamedTuple

from tickwork.core.access import Caller, acting_for, suspended
from tickwork.core.api_key import (
    LAST_USED_SECONDS,
    KeyRecord,
    caller_of,
    hash_of,
    no_such_key,
    parse_token,
)
from tickwork.core.model import SYSTEM, Tenant
from tickwork.core.session import Session, session_ended, session_id
from tickwork.errors import Forbidden, NotFound, StoreError, Unauthorized
from tickwork.store.contract import Store

CACHE_SECONDS = 3.0
"""Seconds that a key is used without reading it again: a revoked key works at most this long."""

CACHED_KEYS_MAX = 10_000
"""Maximum number of cached keys; beyond it all are dropped."""

_TOKEN_LENGTH_MAX = 8_192

CheckJwt = Callable[[str], Awaitable[Caller]]


class _Cached(NamedTuple):
    record: KeyRecord
    read_monotonic: float


class SignedIn(NamedTuple):
    """The caller of a request with a session, and when the session ends."""

    caller: Caller
    expires_at: datetime


class Authenticator:
    """Checks the keys and tokens of requests against a store."""

    def __init__(
        self,
        store: Store,
        monotonic: Callable[[], float],
        check_jwt: CheckJwt | None = None,
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._check_jwt = check_jwt
        self._cached: dict[str, _Cached] = {}
        self._tenants: dict[str, tuple[Tenant, float]] = {}
        self._sessions: dict[bytes, tuple[Session, float]] = {}
        self._touched: dict[str, float] = {}
        self._touching: set[asyncio.Task[None]] = set()

    async def caller(self, authorization: str | None, tenant: str | None) -> Caller:
        """The caller of a request with this `Authorization` header, in the tenant that it names.

        Raises `Unauthorized`, `Forbidden`, and `NotFound` if there is no such tenant.
        """
        return await self._acting(await self._known(_bearer(authorization)), tenant)

    async def caller_of_session(self, secret: str, tenant: str | None) -> SignedIn:
        """The caller of a request with this cookie. Raises `Unauthorized` if the session has ended,
        or the key that it was started with."""
        session = await self._session(secret)
        caller, now = await self._of_key(session.key_id, session.secret_hash)
        if session.expires_at <= now:
            raise session_ended()
        return SignedIn(await self._acting(caller, tenant), session.expires_at)

    def forget_session(self, secret: str) -> None:
        """Makes this process read a session again that has ended."""
        self._sessions.pop(session_id(secret), None)

    def forget_sessions(self, key_id: str | None) -> None:
        """Makes this process read the sessions of a key again."""
        for known_id, (session, _) in [*self._sessions.items()]:
            if session.key_id == key_id:
                del self._sessions[known_id]

    async def _acting(self, caller: Caller, tenant: str | None) -> Caller:
        acting = acting_for(caller, tenant)
        if acting is not caller:
            await self._store.tenants.get(SYSTEM, acting.tenant)
        return acting

    async def close(self) -> None:
        """Finishes what was begun in the background."""
        await asyncio.gather(*self._touching)

    async def _known(self, text: str) -> Caller:
        token = parse_token(text)
        if token is not None:
            caller, _ = await self._of_key(token.key_id, hash_of(token.secret))
            return caller
        if self._check_jwt is not None and text.count(".") == 2:
            return await self._of_jwt(await self._check_jwt(text))
        raise Unauthorized("unauthorized", "this is not an API key of the form tw_<id>_<secret>")

    async def _of_key(self, key_id: str, secret_hash: bytes) -> tuple[Caller, datetime]:
        """The caller whom a key stands for, and the database's time."""
        cached = self._cached.get(key_id)
        if cached is not None and self._monotonic() - cached.read_monotonic < CACHE_SECONDS:
            # It is not refused by what may be old: its secret may be new, or its tenant resumed.
            with suppress(Unauthorized, Forbidden):
                return self._judged(cached, secret_hash)
        cached = await self._read(key_id)
        if cached is None:
            raise no_such_key()
        return self._judged(cached, secret_hash)

    def _judged(self, cached: _Cached, secret_hash: bytes) -> tuple[Caller, datetime]:
        """The caller for whom a key stands as it was read. Raises if it refuses."""
        now = self._monotonic()
        # The database's clock decides about expiry; this process counts on since it was read.
        database_now = cached.record.read_at + timedelta(seconds=now - cached.read_monotonic)
        caller = caller_of(cached.record, secret_hash, database_now)
        self._touch(cached.record.key.id, now)
        return caller, database_now

    async def _session(self, secret: str) -> Session:
        found_id, now = session_id(secret), self._monotonic()
        known = self._sessions.get(found_id)
        if known is None or now - known[1] >= CACHE_SECONDS:
            found = await self._store.sessions.find(SYSTEM, found_id)
            if found is None:
                self._sessions.pop(found_id, None)
                raise session_ended()
            if len(self._sessions) >= CACHED_KEYS_MAX:
                self._sessions.clear()
            known = self._sessions[found_id] = found, now
        return known[0]

    async def _of_jwt(self, caller: Caller) -> Caller:
        """The caller of a token, if the tenant that the settings name exists and is not
        suspended."""
        now = self._monotonic()
        known = self._tenants.get(caller.tenant)
        if known is None or now - known[1] >= CACHE_SECONDS:
            try:
                tenant = await self._store.tenants.get(SYSTEM, caller.tenant)
            except NotFound:
                fault = f"the token is not valid: there is no tenant {caller.tenant}"
                raise Unauthorized("invalid_token", fault) from None
            known = self._tenants[caller.tenant] = tenant, now
        if known[0].suspended:
            raise suspended(caller.tenant)
        return caller

    async def _read(self, key_id: str) -> _Cached | None:
        began = self._monotonic()
        record = await self._store.keys.find(SYSTEM, key_id)
        if record is None:
            self._cached.pop(key_id, None)
            return None
        if len(self._cached) >= CACHED_KEYS_MAX:
            self._cached.clear()
            self._touched.clear()
        cached = self._cached[key_id] = _Cached(record, began)
        return cached

    def _touch(self, key_id: str, now: float) -> None:
        """Stores in the background that a key was used; once a minute is enough."""
        if now - self._touched.get(key_id, -inf) < LAST_USED_SECONDS:
            return
        self._touched[key_id] = now
        task = asyncio.create_task(self._store_use(key_id))
        self._touching.add(task)
        task.add_done_callback(self._touching.discard)

    async def _store_use(self, key_id: str) -> None:
        with suppress(StoreError):  # The request itself reports a database that fails.
            await self._store.keys.touch(SYSTEM, key_id)


def _bearer(authorization: str | None) -> str:
    if authorization is None:
        raise Unauthorized(
            "unauthorized", "send your API key in the header Authorization: Bearer tw_…"
        )
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "bearer" or not text.strip() or len(text) > _TOKEN_LENGTH_MAX:
        raise Unauthorized("unauthorized", "the header must be Authorization: Bearer tw_…")
    return text.strip()
