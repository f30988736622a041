"""Nodes on PostgreSQL.

A claim locks its node's row (`FOR KEY SHARE`) until it commits. To end a node, a transaction first
locks the row for update. After that no claim of the node is in progress, and the next statement
sees all its claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from tickwork.core.limits import check_node, check_system, check_ttl
from tickwork.core.model import Node, Scope
from tickwork.errors import NodeExpired
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.messages import rows


class PostgresNodes:
    """Running processes and their leases."""

    def __init__(self, database: Database, moment: Moment, wakeups: PostgresWakeups) -> None:
        self._database = database
        self._moment = moment
        self._wakeups = wakeups

    async def join(
        self,
        scope: Scope,
        node_id: UUID,
        *,
        name: str,
        roles: Sequence[str],
        ttl_seconds: float,
        workflows: Sequence[tuple[str, str | None]] = (),
    ) -> Node:
        check_system(scope)
        check_node(name, roles)
        check_ttl(ttl_seconds)
        declared = msgspec.json.encode(list(workflows)).decode()
        values = (node_id, name, list(roles), ttl_seconds, declared)
        try:
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.join_node, self._moment(), *values)
            )
        except asyncpg.UniqueViolationError:
            # An earlier answer was lost, or the id is used twice: a heartbeat shows which.
            return await self.heartbeat(scope, node_id, ttl_seconds)
        return rows.node(row)

    async def heartbeat(
        self, scope: Scope, node_id: UUID, ttl_seconds: float, hold_seconds: float | None = None
    ) -> Node:
        check_system(scope)
        check_ttl(ttl_seconds)
        row = await self._database.run(
            lambda connection: connection.fetchrow(
                SQL.heartbeat, self._moment(), node_id, ttl_seconds, hold_seconds
            )
        )
        if row is None:
            raise NodeExpired(node_id)
        return rows.node(row)

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

    async def list(self, scope: Scope) -> tuple[Node, ...]:
        check_system(scope)
        found = await self._database.run(lambda connection: connection.fetch(SQL.list_nodes))
        return tuple(rows.node(row) for row in found)

    async def claims(self, scope: Scope) -> dict[UUID, int]:
        check_system(scope)
        found = await self._database.run(lambda connection: connection.fetch(SQL.claims_of_holders))
        return {row["holder"]: row["claims"] for row in found}

    async def pause_all(self, scope: Scope, *, is_paused: bool) -> datetime | None:
        check_system(scope)
        return await self._database.change(
            lambda connection: connection.fetchval(SQL.pause_all, self._moment(), is_paused)
        )

    async def paused_at(self, scope: Scope) -> datetime | None:
        check_system(scope)
        return await self._database.run(lambda connection: connection.fetchval(SQL.paused_at))

    async def widen(self, scope: Scope, seconds: int) -> None:
        check_system(scope)
        await self._database.change(lambda connection: connection.execute(SQL.widen, seconds))

    async def widened_seconds(self, scope: Scope) -> int:
        check_system(scope)
        seconds: int = await self._database.run(
            lambda connection: connection.fetchval(SQL.widened_seconds)
        )
        return seconds
