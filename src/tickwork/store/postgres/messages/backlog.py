"""The backlog in bytes of queues with a cap, on PostgreSQL.

The sum is spread over stripes, so that sends and settlements do not wait for each other. Concurrent
transactions use different stripes. Concurrent sends do not see each other's bytes, so together they
may exceed the cap.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from tickwork.errors import BacklogFull
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, STRIPES
from tickwork.store.steps import Statement, Steps

_CREATE_STRIPES = Statement("create_backlog_stripes")
_LOCK_STRIPES = Statement("lock_backlog_stripes")
_RECOUNT = Statement("recount_backlog")


class BacklogChange:
    """Bytes that a transaction adds to queues with a cap, or frees."""

    def __init__(self) -> None:
        self.bytes: Counter[UUID] = Counter()
        self.names: dict[UUID, str] = {}
        self.must_fit: set[UUID] = set()
        """Queues that must not exceed their cap."""
        self.unchecked: Counter[UUID] = Counter()
        """Bytes that come after all others: they refuse none of them."""

    def take(self, queue_id: UUID, name: str, size: int, *, is_exempt: bool) -> None:
        """Adds bytes. Exempt bytes may exceed the cap, but reduce the room for other bytes of the
        transaction."""
        self.bytes[queue_id] += size
        self.names[queue_id] = name
        if not is_exempt:
            self.must_fit.add(queue_id)

    def take_unchecked(self, other: BacklogChange) -> None:
        """Adds the bytes of another change, which must not refuse what this transaction sends."""
        self.unchecked.update(other.bytes)

    def added(self, queue_id: UUID) -> int:
        """The bytes added to a queue so far."""
        return self.bytes[queue_id] + self.unchecked[queue_id]

    def free(self, queue_id: UUID, size: int) -> None:
        """Subtracts bytes."""
        self.bytes[queue_id] -= size


async def change_backlog(connection: Connection, change: BacklogChange) -> None:
    """Writes the change at the end of a transaction; `BacklogFull` if it exceeds a cap."""
    changed = [
        queue_id
        for queue_id in change.bytes.keys() | change.unchecked.keys()
        if change.bytes[queue_id] or change.unchecked[queue_id] or queue_id in change.must_fit
    ]
    if not changed:
        return
    fitting = await connection.fetch(
        SQL.change_backlog,
        changed,
        [change.bytes[queue_id] for queue_id in changed],
        [queue_id in change.must_fit for queue_id in changed],
        [change.unchecked[queue_id] for queue_id in changed],
    )
    full = set(changed) - {row["queue_id"] for row in fitting}
    for queue_id in full:
        bytes_max = await connection.fetchval(SQL.read_backlog_limit, queue_id)
        raise BacklogFull(change.names[queue_id], bytes_max)


def recount_backlog(queue_id: UUID) -> Steps[None]:
    """Recounts the backlog of a queue.

    It locks the stripes first. Transactions that changed a stripe have then committed and are
    counted. Others wait for the lock and change the stripe afterwards.
    """
    yield from _CREATE_STRIPES.execute(queue_id, STRIPES)
    yield from _LOCK_STRIPES.fetch(queue_id)
    yield from _RECOUNT.execute(queue_id)
