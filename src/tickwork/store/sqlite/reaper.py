"""The reaper on SQLite: one short transaction for each kind of thing that has ended."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.limits import check_limit
from tickwork.core.model import (
    LOST_CLAIMS_MAX,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    Reaped,
)
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.claiming import lanes
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.settling import Burial, bury
from tickwork.store.sqlite.statements import SQL

NODES_PER_PASS = 10
QUEUES_PER_PASS = 100


class SqliteReaper:
    """Gives back what its holder will not."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last_queue_id = b""

    async def reap(self, limit: int) -> Reaped:
        check_limit(limit)
        nodes = await self._database.write(_end_nodes)
        released, dead = await self._database.write(
            lambda transaction: _end_leases(transaction, limit)
        )
        expired = await self._database.write(lambda transaction: _bury_expired(transaction, limit))
        retired = await self._retire(limit)
        return Reaped(nodes.nodes, nodes.released + released, nodes.dead + dead + expired + retired)

    async def _retire(self, limit: int) -> int:
        """Expires what waited too long, some queues a pass, in turn."""
        values = (self._last_queue_id, QUEUES_PER_PASS)
        queues = await self._database.read(
            lambda transaction: transaction.execute(SQL.next_queues, values).fetchall()
        )
        self._last_queue_id = queues[-1][0] if len(queues) == QUEUES_PER_PASS else b""
        dead = 0
        for (queue_id,) in queues:
            dead += await self._database.write(
                lambda transaction, queue_id=queue_id: _retire_from(  # type: ignore[misc]
                    transaction, queue_id, limit
                )
            )
        return dead


def _end_nodes(transaction: Transaction) -> Reaped:
    execute = transaction.execute
    expired = execute(SQL.expired_nodes, (transaction.now, NODES_PER_PASS)).fetchall()
    released = dead = 0
    for (node_id,) in expired:
        killers = execute(SQL.lost_too_often, (node_id, LOST_CLAIMS_MAX)).fetchall()
        dead += bury(transaction, [Burial(place, REASON_WORKER_LOST) for (place,) in killers])
        released += execute(SQL.give_back, (node_id, 1)).rowcount
        execute(SQL.end_node, (node_id,))
    return Reaped(tuple(UUID(bytes=node_id) for (node_id,) in expired), released, dead)


def _end_leases(transaction: Transaction, limit: int) -> tuple[int, int]:
    found = transaction.execute(SQL.expired_leases, (transaction.now, limit)).fetchall()
    if not found:
        return 0, 0
    dead = bury(
        transaction,
        [Burial(place, REASON_MAX_RETRIES, counted=1) for place, used_up in found if used_up],
    )
    back = rows.as_json([place for place, used_up in found if not used_up])
    values = (back, transaction.now, "the pull lease ran out")
    return transaction.execute(SQL.end_leases, values).rowcount, dead


def _bury_expired(transaction: Transaction, limit: int) -> int:
    found = transaction.execute(SQL.expired_messages, (transaction.now, limit)).fetchall()
    return bury(transaction, [Burial(place, REASON_EXPIRED) for (place,) in found])


def _retire_from(transaction: Transaction, queue_id: bytes, limit: int) -> int:
    found: list[rows.Row] = []
    for lane in lanes(transaction, queue_id, None):
        if len(found) >= limit:
            break
        values = (queue_id, lane.tenant, lane.priority, transaction.now, limit - len(found))
        found += transaction.execute(SQL.retired_messages, values).fetchall()
    return bury(transaction, [Burial(place, REASON_EXPIRED) for (place,) in found])
