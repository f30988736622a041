"""The backlog in bytes of queues with a cap, on PostgreSQL.

The sum is spread over stripes, so that sends and settlements do not wait for each other. A
transaction uses one stripe, and concurrent ones use others. Concurrent sends do not see each other,
so they may exceed the cap by what is in progress.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from tickwork.errors import BacklogFull
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, STRIPES


class BacklogChange:
    """Bytes that a transaction adds to capped queues, or frees."""

    def __init__(self) -> None:
        self.bytes: Counter[UUID] = Counter()
        self.names: dict[UUID, str] = {}
        self.bound: set[UUID] = set()
        """Those that must have room for it."""

    def take(self, queue_id: UUID, name: str, size: int, *, is_exempt: bool) -> None:
        """Adds bytes. Exempt bytes ignore the cap, but others in the same transaction must fit
        beside them."""
        self.bytes[queue_id] += size
        self.names[queue_id] = name
        if not is_exempt:
            self.bound.add(queue_id)

    def free(self, queue_id: UUID, size: int) -> None:
        """Subtracts bytes."""
        self.bytes[queue_id] -= size


async def change_backlog(connection: Connection, room: BacklogChange) -> None:
    """Writes the change, at the end of a transaction; `BacklogFull` if it exceeds a cap."""
    changed = {each: size for each, size in room.bytes.items() if size or each in room.bound}
    if not changed:
        return
    fitting = await connection.fetch(
        SQL.change_backlog,
        list(changed),
        list(changed.values()),
        [queue_id in room.bound for queue_id in changed],
    )
    full = changed.keys() - {row["queue_id"] for row in fitting}
    for queue_id in full:
        bytes_max = await connection.fetchval(SQL.read_backlog_limit, queue_id)
        raise BacklogFull(room.names[queue_id], bytes_max)


async def recount_backlog(connection: Connection, queue_id: UUID) -> None:
    """Recounts the backlog of a queue.

    It locks the stripes first. A transaction that has changed one has then committed, and is
    counted; one that has not is not counted, and changes it afterwards.
    """
    await connection.execute(SQL.create_backlog_stripes, queue_id, STRIPES)
    await connection.execute(SQL.lock_backlog_stripes, queue_id)
    await connection.execute(SQL.recount_backlog, queue_id)
