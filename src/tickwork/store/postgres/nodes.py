"""What becomes of the messages of a node that leaves, on PostgreSQL.

A claim locks its node's row (`FOR KEY SHARE`) until it commits. To end a node, a transaction first
locks the row for update. After that no claim of the node is in progress, and the next statement
sees all its claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.store.ids import Moment
from tickwork.store.nouns.nodes import Nodes
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.steps import Port


class PostgresNodes(Nodes):
    """Running processes and their leases."""

    def __init__(
        self, port: Port, database: Database, moment: Moment, wakeups: PostgresWakeups
    ) -> None:
        super().__init__(port)
        self._database = database
        self._moment = moment
        self._wakeups = wakeups

    async def leave(self, scope: Scope, node_id: UUID) -> int:
        check_system(scope)

        async def work(connection: Connection) -> Sequence[asyncpg.Record]:
            if await connection.fetchval(SQL.lock_node, node_id) is None:
                return ()
            back = await connection.fetch(SQL.give_back, [node_id], 0)
            await connection.execute(SQL.end_nodes, [node_id], self._moment())
            return back

        return self._given_back(await self._database.transact(work))

    async def give_back_unknown(self, scope: Scope, node_id: UUID, known: Sequence[UUID]) -> int:
        check_system(scope)
        return self._given_back(
            await self._database.run(
                lambda connection: connection.fetch(SQL.give_back_unknown, node_id, list(known))
            )
        )

    def _given_back(self, back: Sequence[asyncpg.Record]) -> int:
        self._wakeups.notify({row["queue_id"] for row in back})
        return len(back)
