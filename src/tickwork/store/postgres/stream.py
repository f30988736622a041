"""Streams of tenants on PostgreSQL: system events, and the changes in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.stream import NewStreamEvent, StreamEvent
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL


class PostgresStream:
    """What happened, oldest first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, scope: Scope, after: UUID, limit: int) -> tuple[StreamEvent, ...]:
        check_limit(limit)
        statement, values = SQL.list_whole_stream, tuple[object, ...]((after, limit))
        if scope.tenant is not None:
            if not is_name(scope.tenant):
                return ()
            statement, values = SQL.list_stream, (scope.tenant, after, limit)
        found = await self._database.run(lambda connection: connection.fetch(statement, *values))
        return tuple(
            StreamEvent(**{**row, "data": msgspec.json.decode(row["data"])}) for row in found
        )


async def add_stream_events(
    connection: Connection, moment: Moment, events: Sequence[NewStreamEvent]
) -> None:
    """Stores system events for streams, in the transaction of what they report."""
    await connection.execute(
        SQL.add_stream_events,
        moment(),
        [event.id for event in events],
        [event.tenant for event in events],
        [event.schedule_id for event in events],
        [event.type for event in events],
        [event.data for event in events],
    )
