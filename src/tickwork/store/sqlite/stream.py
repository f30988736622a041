"""Streams of tenants on SQLite: system events, and the changes in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.stream import NewStreamEvent, StreamEvent
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction


class SqliteStream:
    """What happened, oldest first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, scope: Scope, after: UUID, limit: int) -> tuple[StreamEvent, ...]:
        check_limit(limit)
        statement, values = SQL.list_whole_stream, tuple[Any, ...]((after.bytes, limit))
        if scope.tenant is not None:
            if not is_name(scope.tenant):
                return ()
            statement, values = SQL.list_stream, (scope.tenant, after.bytes, limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(statement, values).fetchall()
        )
        return tuple(
            StreamEvent(
                id=UUID(bytes=id_), tenant=tenant, owner=owner, at=from_microseconds(at),
                type=type_, data=msgspec.json.decode(data),
            )
            for id_, tenant, owner, at, type_, data in found
        )  # fmt: skip


def add_stream_events(transaction: Transaction, events: Sequence[NewStreamEvent]) -> None:
    """Stores system events for streams, in the transaction of what they report."""
    for event in events:
        schedule = None if event.schedule_id is None else event.schedule_id.bytes
        values = (event.id.bytes, event.tenant, schedule, transaction.now, event.type, event.data)
        transaction.execute(SQL.add_stream_events, values)
