"""Nodes and the reaper on PostgreSQL.

A claim holds its node's row (`FOR KEY SHARE`) until it commits, and whoever ends a node takes
the row for update first: so after a node is taken no claim of it can still be under way, and
the next statement sees everything it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from tickwork.core.limits import check_limit, check_node, check_ttl
from tickwork.core.model import (
    LOST_CLAIMS_MAX,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    Ending,
    Fate,
    Held,
    Node,
    Reaped,
)
from tickwork.errors import NodeExpired
from tickwork.store.ids import new_id
from tickwork.store.lanes import LANES_MAX
from tickwork.store.moment import Moment
from tickwork.store.postgres import rows
from tickwork.store.postgres.database import SQL, Connection, Database
from tickwork.store.postgres.settling import Settler

NODES_PER_PASS = 10
QUEUES_PER_PASS = 100


class PostgresNodes:
    """Running processes and their leases."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def join(
        self, node_id: UUID, *, name: str, roles: Sequence[str], ttl_seconds: float
    ) -> Node:
        check_node(name, roles)
        check_ttl(ttl_seconds)
        try:
            row = await self._database.run(
                lambda connection: connection.fetchrow(
                    SQL.join_node, self._moment(), node_id, name, list(roles), ttl_seconds
                )
            )
        except asyncpg.UniqueViolationError:
            # Joined before an answer got lost, or an identity used twice: renewing tells.
            return await self.heartbeat(node_id, ttl_seconds)
        return rows.node(row)

    async def heartbeat(self, node_id: UUID, ttl_seconds: float) -> Node:
        check_ttl(ttl_seconds)
        row = await self._database.run(
            lambda connection: connection.fetchrow(
                SQL.heartbeat, self._moment(), node_id, ttl_seconds
            )
        )
        if row is None:
            raise NodeExpired(node_id)
        return rows.node(row)

    async def leave(self, node_id: UUID) -> int:
        async def work(connection: Connection) -> int:
            if await connection.fetchval(SQL.lock_node, node_id) is None:
                return 0
            back = await connection.fetch(SQL.give_back, [node_id], 0)
            await connection.execute(SQL.end_nodes, [node_id])
            return len(back)

        return await self._database.transact(work)

    async def give_back_unknown(self, node_id: UUID, known: Sequence[UUID]) -> int:
        back = await self._database.run(
            lambda connection: connection.fetch(SQL.give_back_unknown, node_id, list(known))
        )
        return len(back)

    async def list(self) -> tuple[Node, ...]:
        found = await self._database.run(lambda connection: connection.fetch(SQL.list_nodes))
        return tuple(rows.node(row) for row in found)


class PostgresReaper:
    """Gives back what its holder will not."""

    def __init__(self, database: Database, moment: Moment, settler: Settler) -> None:
        self._database, self._moment, self._settler = database, moment, settler
        self._last_queue_id: UUID | None = None

    async def reap(self, limit: int) -> Reaped:
        check_limit(limit)
        nodes = await self._database.transact(self._end_nodes)
        released, dead = await self._database.transact(
            lambda connection: self._end_leases(connection, limit)
        )
        expired = await self._database.transact(
            lambda connection: self._bury_expired(connection, limit)
        )
        retired = await self._retire(limit)
        return Reaped(nodes.nodes, nodes.released + released, nodes.dead + dead + expired + retired)

    async def _end_nodes(self, connection: Connection) -> Reaped:
        taken = await connection.fetch(SQL.lock_expired_nodes, self._moment(), NODES_PER_PASS)
        node_ids = [row["id"] for row in taken]
        if not node_ids:
            return Reaped()
        killers = await connection.fetch(SQL.lost_too_often, node_ids, LOST_CLAIMS_MAX)
        dead = await self._bury(connection, killers, REASON_WORKER_LOST)
        back = await connection.fetch(SQL.give_back, node_ids, 1)
        await connection.execute(SQL.end_nodes, node_ids)
        return Reaped(tuple(node_ids), len(back), dead)

    async def _end_leases(self, connection: Connection, limit: int) -> tuple[int, int]:
        found = await connection.fetch(SQL.expired_leases, self._moment(), limit)
        spent = [row for row in found if row["used_up"]]
        dead = await self._bury(connection, spent, REASON_MAX_RETRIES)
        back = [
            Ending(held=_held(row), fate=Fate.RETRY, error="the pull lease ran out")
            for row in found
            if not row["used_up"]
        ]
        released = len(await self._settler.put_back(connection, back)) if back else 0
        return released, dead

    async def _bury_expired(self, connection: Connection, limit: int) -> int:
        taken = await connection.fetch(SQL.expired_messages, self._moment(), new_id(), limit)
        return await self._bury(connection, taken, REASON_EXPIRED)

    async def _retire(self, limit: int) -> int:
        """Expires what waited too long, some queues a pass, in turn."""
        queues = await self._database.run(
            lambda connection: connection.fetch(
                SQL.next_queues, self._last_queue_id, QUEUES_PER_PASS
            )
        )
        self._last_queue_id = queues[-1]["id"] if len(queues) == QUEUES_PER_PASS else None
        dead = 0
        for queue in queues:
            dead += await self._database.transact(
                lambda connection, queue_id=queue["id"]: self._retire_from(  # type: ignore[misc]
                    connection, queue_id, limit
                )
            )
        return dead

    async def _retire_from(self, connection: Connection, queue_id: UUID, limit: int) -> int:
        lanes = await connection.fetch(SQL.lanes, self._moment(), queue_id, None, "", LANES_MAX)
        if not lanes:
            return 0
        taken = await connection.fetch(
            SQL.retired_messages,
            self._moment(),
            queue_id,
            new_id(),
            [lane["tenant"] for lane in lanes],
            [lane["priority"] for lane in lanes],
            limit,
        )
        return await self._bury(connection, taken, REASON_EXPIRED)

    async def _bury(
        self, connection: Connection, taken: Sequence[asyncpg.Record], reason: str
    ) -> int:
        if not taken:
            return 0
        endings = [Ending(held=_held(row), fate=Fate.DEAD, reason=reason) for row in taken]
        return len(await self._settler.bury(connection, endings))


def _held(row: asyncpg.Record) -> Held:
    return Held(row["tenant"], row["id"], row["claim"], row["holder"])
