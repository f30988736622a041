"""Traces on PostgreSQL."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.trace import TraceRecord
from tickwork.store.ids import own_tenant
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL


class PostgresTraces:
    """What belongs to one correlation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, scope: Scope, correlation_id: str, limit: int, *, first: UUID | None = None
    ) -> tuple[TraceRecord, ...]:
        check_limit(limit)
        values = (own_tenant(scope), correlation_id, first, limit)
        if not is_name(correlation_id):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.find_trace, *values)
        )
        return tuple(TraceRecord(**row) for row in found)
