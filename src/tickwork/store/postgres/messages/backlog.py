"""How many bytes wait in queues that have a cap, on PostgreSQL.

The sum is kept in stripes, so that senders and settlers do not wait for each other; a transaction
has one stripe, and those that run beside it have others. Two sends at the same moment do not see
each other: the cap may be passed by what was under way.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from tickwork.errors import BacklogFull
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, STRIPES


class BacklogChange:
    """What a transaction adds to queues with a cap, and what it frees there."""

    def __init__(self) -> None:
        self.bytes: Counter[UUID] = Counter()
        self.names: dict[UUID, str] = {}
        self.bound: set[UUID] = set()
        """Those that must have room for it."""

    def take(self, queue_id: UUID, name: str, size: int, *, is_exempt: bool) -> None:
        """Bytes that came; what is exempt is taken whatever the cap says, but what is not and
        comes with it must find room beside it."""
        self.bytes[queue_id] += size
        self.names[queue_id] = name
        if not is_exempt:
            self.bound.add(queue_id)

    def free(self, queue_id: UUID, size: int) -> None:
        """Bytes that went."""
        self.bytes[queue_id] -= size


async def change_backlog(connection: Connection, room: BacklogChange) -> None:
    """Writes it down, as the last thing that a transaction does; `BacklogFull` if it may not."""
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
    """Counts anew what waits in a queue.

    The stripes are taken first: whoever changed one has committed then, and is counted; whoever has
    not come to it yet is not, and will change it after us.
    """
    await connection.execute(SQL.create_backlog_stripes, queue_id, STRIPES)
    await connection.execute(SQL.lock_backlog_stripes, queue_id)
    await connection.execute(SQL.recount_backlog, queue_id)
