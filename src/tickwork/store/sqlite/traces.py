"""Traces on SQLite."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.trace import TraceRecord
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds


class SqliteTraces:
    """What belongs to one correlation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, scope: Scope, correlation_id: str, limit: int, *, first: UUID | None = None
    ) -> tuple[TraceRecord, ...]:
        check_limit(limit)
        values = (own_tenant(scope), correlation_id, first and first.bytes, limit)
        if not is_name(correlation_id):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.find_trace, values).fetchall()
        )
        return tuple(_record(row) for row in found)


def _record(row: tuple[Any, ...]) -> TraceRecord:
    values: dict[str, Any] = dict(zip(TraceRecord.__struct_fields__, row, strict=True))
    for name in ("id", "message_id", "schedule_id"):
        values[name] = None if values[name] is None else UUID(bytes=values[name])
    for name in ("at", "slot"):
        values[name] = None if values[name] is None else from_microseconds(values[name])
    return TraceRecord(**values)
