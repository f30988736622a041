"""Copies that exceed the backlog of a subscriber, on SQLite: they become dead letters there."""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.message.subscription import beyond_room
from tickwork.core.model import REASON_BACKLOG_FULL, NewMessage
from tickwork.errors import BacklogFull
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.dead_letters import NewDeadLetter, add_dead_letters
from tickwork.store.sqlite.messages.queue_rows import QueueRow


def bury_copies(
    transaction: Transaction, tenant: str, queue: QueueRow, stored: Sequence[NewMessage]
) -> None:
    """Makes dead letters of those copies, stored just before, that exceed the cap of their
    queue."""
    (room,) = transaction.execute(SQL.backlog_room, (queue.id,)).fetchone()
    if room >= 0 or not stored:
        return
    sizes = [len(copy.body) for copy in stored]
    beyond = [stored[index].id.bytes for index in beyond_room(room + sum(sizes), sizes)]
    rowids: dict[bytes, int] = {}
    for some in in_chunks(beyond):
        statement = for_rows(SQL.message_rowids, len(some))
        rowids.update(transaction.execute(statement, (tenant, *some)).fetchall())
    bytes_max = queue.settings.backlog_bytes_max
    assert bytes_max is not None
    error = str(BacklogFull(queue.name, bytes_max))
    add_dead_letters(
        transaction, [NewDeadLetter(rowids[id_], REASON_BACKLOG_FULL, error) for id_ in beyond]
    )
