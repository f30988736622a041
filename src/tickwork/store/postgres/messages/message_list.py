"""Lists the messages of a queue on PostgreSQL: one statement for each stored state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tickwork.core.limits import check_limit
from tickwork.core.message.message_list import (
    MessagePosition,
    MessageSelection,
    ShownState,
    id_after,
    lanes_after,
    sections_after,
)
from tickwork.core.model import Message, Scope, State
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages import rows

_START_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


async def list_messages(
    database: Database,
    scope: Scope,
    queue_id: UUID,
    selection: MessageSelection,
    limit: int,
    *,
    after: MessagePosition | None,
    moment: Moment,
) -> tuple[Message, ...]:
    """The selected messages of a tenant after a position."""
    check_limit(limit)
    filters = (
        queue_id,
        own_tenant(scope),
        selection.type,
        selection.key,
        selection.correlation_id,
        selection.sent_until,
    )

    async def work(connection: Connection) -> list[Any]:
        found: list[Any] = []
        now = moment() or await connection.fetchval(SQL.read_clock)
        for section in sections_after(selection, after):
            rest = limit - len(found)
            if not rest:
                break
            if section is State.READY:
                values = _ready_values(selection, after, now)
                found += await connection.fetch(SQL.list_ready, *filters, rest, *values)
            else:
                statement = SQL.list_claimed if section is State.CLAIMED else SQL.list_blocked
                start = id_after(section, after)
                found += await connection.fetch(statement, *filters, rest, start)
        return found

    return rows.messages(await database.run(work))


def _ready_values(
    selection: MessageSelection, after: MessagePosition | None, now: datetime
) -> tuple[object, ...]:
    lanes = lanes_after(selection, after, now)
    return (
        [lane.priority for lane in lanes],
        [lane.visible_at or _START_OF_TIME for lane in lanes],
        [lane.id for lane in lanes],
        now if selection.state is ShownState.READY else _END_OF_TIME,
    )
