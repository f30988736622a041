"""Lists the messages of a queue on SQLite: one read transaction for a page."""

from __future__ import annotations

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
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.send import find_queue

_END_OF_TIME = 2**63 - 1


async def list_messages(
    database: Database,
    scope: Scope,
    queue: str,
    selection: MessageSelection,
    limit: int,
    after: MessagePosition | None,
) -> tuple[Message, ...]:
    """The selected messages of a tenant after a position."""
    check_limit(limit)

    def work(transaction: Transaction) -> list[rows.Row]:
        queue_id = find_queue(transaction, scope, queue).id
        sent_until = selection.sent_until
        filters = (
            queue_id,
            own_tenant(scope),
            selection.type,
            selection.key,
            selection.correlation_id,
            None if sent_until is None else to_microseconds(sent_until),
        )
        found: list[rows.Row] = []
        for section in sections_after(selection, after):
            if len(found) == limit:
                break
            if section is State.READY:
                found += _ready(transaction, filters, selection, limit - len(found), after)
            else:
                statement = SQL.list_claimed if section is State.CLAIMED else SQL.list_blocked
                values = (*filters, limit - len(found), id_after(section, after).bytes)
                found += transaction.execute(statement, values)
        return found

    return rows.known_messages(await database.read(work))


def _ready(
    transaction: Transaction,
    filters: tuple[object, ...],
    selection: MessageSelection,
    limit: int,
    after: MessagePosition | None,
) -> list[rows.Row]:
    visible_until = transaction.now if selection.state is ShownState.READY else _END_OF_TIME
    found: list[rows.Row] = []
    for lane in lanes_after(selection, after, from_microseconds(transaction.now)):
        if len(found) == limit:
            break
        start = 0 if lane.visible_at is None else to_microseconds(lane.visible_at)
        values = (*filters, limit - len(found), lane.priority, start, lane.id.bytes, visible_until)
        found += transaction.execute(SQL.list_ready, values)
    return found
