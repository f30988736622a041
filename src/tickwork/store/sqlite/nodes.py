"""Nodes on SQLite. A claim and the end of its node cannot overlap: both are writes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from tickwork.core.limits import check_node, check_ttl
from tickwork.core.model import Node
from tickwork.errors import NodeExpired
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.times import duration


class SqliteNodes:
    """Running processes and their leases."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def join(
        self, node_id: UUID, *, name: str, roles: Sequence[str], ttl_seconds: float
    ) -> Node:
        check_node(name, roles)
        check_ttl(ttl_seconds)
        roles_text = msgspec.json.encode(list(roles)).decode()

        def work(transaction: Transaction) -> rows.Row:
            now = transaction.now
            values = (node_id.bytes, name, roles_text, now, now + duration(ttl_seconds))
            row: rows.Row | None = transaction.execute(SQL.join_node, values).fetchone()
            # Joined before an answer got lost, or an identity used twice: renewing tells.
            return row or _renew(transaction, node_id, ttl_seconds)

        return rows.node(await self._database.write(work))

    async def heartbeat(self, node_id: UUID, ttl_seconds: float) -> Node:
        check_ttl(ttl_seconds)
        return rows.node(
            await self._database.write(
                lambda transaction: _renew(transaction, node_id, ttl_seconds)
            )
        )

    async def leave(self, node_id: UUID) -> int:
        def work(transaction: Transaction) -> int:
            if transaction.execute(SQL.end_node, (node_id.bytes,)).rowcount == 0:
                return 0
            return transaction.execute(SQL.give_back, (node_id.bytes, 0)).rowcount

        return await self._database.write(work)

    async def give_back_unknown(self, node_id: UUID, known: Sequence[UUID]) -> int:
        kept = {each.bytes for each in known}

        def work(transaction: Transaction) -> int:
            held = transaction.execute(SQL.held_by, (node_id.bytes,))
            places = [place for place, id_ in held if id_ not in kept]
            return transaction.execute(SQL.give_back_places, (rows.as_json(places),)).rowcount

        return await self._database.write(work)

    async def list(self) -> tuple[Node, ...]:
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_nodes).fetchall()
        )
        return tuple(rows.node(row) for row in found)


def _renew(transaction: Transaction, node_id: UUID, ttl_seconds: float) -> rows.Row:
    now = transaction.now
    row: rows.Row | None = transaction.execute(
        SQL.heartbeat, (node_id.bytes, now, now + duration(ttl_seconds))
    ).fetchone()
    if row is None:
        raise NodeExpired(node_id)
    return row
