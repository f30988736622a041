"""Requests with an idempotency key on PostgreSQL."""

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
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.joined_writes import joined


class PostgresRequests:
    """Requests by their key."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def begin(self, scope: Scope, key: str, fingerprint: bytes, seed: UUID) -> StoredRequest:
        named = (own_tenant(scope), key)
        limits = (float(REQUEST_RETENTION_SECONDS), float(REQUEST_SECONDS_MAX))

        async def work(connection: Connection) -> StoredRequest:
            own = await connection.fetchval(
                SQL.begin_request, self._moment(), *named, fingerprint, seed, *limits
            )
            if own is not None:
                return StoredRequest(own, fingerprint, is_own=True)
            row = await connection.fetchrow(SQL.get_request, *named)
            if row is None:  # It failed just now and was forgotten.
                return StoredRequest(seed, fingerprint, is_own=False)
            return StoredRequest(row["seed"], row["fingerprint"], False, row["answer"])

        # Not repeated: if the reply was lost, the request would look like one that is running.
        return await self._database.transact(work, repeatable=False)

    def joined(
        self, scope: Scope, key: str, seed: UUID, answer: Callable[[], bytes]
    ) -> AbstractAsyncContextManager[None]:
        async def write(connection: Connection) -> None:
            await connection.execute(SQL.finish_request, own_tenant(scope), key, seed, answer())

        return joined(write, lambda: self.finish(scope, key, seed, answer()))

    async def finish(self, scope: Scope, key: str, seed: UUID, answer: bytes) -> None:
        values = (own_tenant(scope), key, seed, answer)
        await self._database.run(lambda connection: connection.execute(SQL.finish_request, *values))

    async def forget(self, scope: Scope, key: str, seed: UUID) -> None:
        values = (own_tenant(scope), key, seed)
        await self._database.run(lambda connection: connection.execute(SQL.forget_request, *values))
