"""Requests with an idempotency key on SQLite."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from tickwork.core.model import Scope
from tickwork.core.request import (
    REQUEST_RETENTION_SECONDS,
    REQUEST_SECONDS_MAX,
    StoredRequest,
)
from tickwork.store.ids import own_tenant
from tickwork.store.shared.joined_writes import joined
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, microseconds
from tickwork.store.sqlite.engine.work import Transaction


class SqliteRequests:
    """Requests by their key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, scope: Scope, key: str, fingerprint: bytes, seed: UUID) -> StoredRequest:
        named = (own_tenant(scope), key)

        def work(transaction: Transaction) -> StoredRequest:
            now = transaction.now
            expired = now - microseconds(REQUEST_RETENTION_SECONDS)
            abandoned = now - microseconds(REQUEST_SECONDS_MAX)
            values = (*named, fingerprint, seed.bytes, now, expired, abandoned)
            own = transaction.execute(SQL.begin_request, values).fetchone()
            if own is not None:
                return StoredRequest(UUID(bytes=own[0]), fingerprint, is_own=True)
            known, seed_, answer = transaction.execute(SQL.get_request, named).fetchone()
            return StoredRequest(UUID(bytes=seed_), known, is_own=False, answer=answer)

        return await self._database.write(work)

    def joined(
        self, scope: Scope, key: str, seed: UUID, answer: Callable[[], bytes]
    ) -> AbstractAsyncContextManager[None]:
        def write(transaction: Transaction) -> None:
            values = (own_tenant(scope), key, seed.bytes, answer())
            transaction.execute(SQL.finish_request, values)

        return joined(write, lambda: self.finish(scope, key, seed, answer()))

    async def finish(self, scope: Scope, key: str, seed: UUID, answer: bytes) -> None:
        values = (own_tenant(scope), key, seed.bytes, answer)

        def work(transaction: Transaction) -> None:
            transaction.execute(SQL.finish_request, values)

        await self._database.write(work)

    async def forget(self, scope: Scope, key: str, seed: UUID) -> None:
        values = (own_tenant(scope), key, seed.bytes)

        def work(transaction: Transaction) -> None:
            transaction.execute(SQL.forget_request, values)

        await self._database.write(work)
