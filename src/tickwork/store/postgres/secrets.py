"""Encrypted secrets on PostgreSQL."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL


class PostgresSecrets:
    """Secrets by owner and field."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def get(self, scope: Scope, owner: str, field: str) -> tuple[bytes, ...]:
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.get_secrets, self._moment(), own_tenant(scope), owner, field
            )
        )
        return tuple(row["value"] for row in found)

    async def put(self, scope: Scope, owner: str, field: str, value: bytes) -> None:
        named = (own_tenant(scope), owner, field)
        try:
            await self._database.run(
                lambda connection: connection.execute(SQL.put_secret, *named, value)
            )
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("tenant", named[0]) from None

    async def rotate(
        self,
        scope: Scope,
        owner: str,
        field: str,
        value: bytes,
        *,
        keep_seconds: float,
        endpoint_id: UUID | None = None,
    ) -> None:
        named = (own_tenant(scope), owner, field)

        async def work(connection: Connection) -> None:
            await connection.execute(SQL.drop_previous_secret, *named)
            await connection.execute(SQL.retire_secret, self._moment(), *named, keep_seconds)
            await connection.execute(SQL.put_secret, *named, value)
            if endpoint_id is not None:
                touched = (self._moment(), endpoint_id, named[0])
                await connection.execute(SQL.touch_endpoint, *touched)

        await self._database.change(work)

    async def delete(self, scope: Scope, owner: str) -> None:
        named = (own_tenant(scope), owner)
        await self._database.change(
            lambda connection: connection.execute(SQL.delete_secrets, *named)
        )
