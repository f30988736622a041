"""What becomes of the messages of a node that leaves, on SQLite. A claim and the end of its node
cannot overlap, because both are writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.store.nouns.nodes import Nodes
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.schedules.shards import free_shards
from tickwork.store.steps import Port


class SqliteNodes(Nodes):
    """Running processes and their leases."""

    def __init__(self, port: Port, database: Database) -> None:
        super().__init__(port)
        self._database = database

    async def leave(self, scope: Scope, node_id: UUID) -> int:
        check_system(scope)

        def work(transaction: Transaction) -> int:
            if transaction.execute(SQL.end_nodes, (node_id.bytes,)).rowcount == 0:
                return 0
            free_shards(transaction, node_id.bytes)
            return len(release_messages(transaction, SQL.give_back, (node_id.bytes, 0)))

        return await self._database.write(work)

    async def give_back_unknown(self, scope: Scope, node_id: UUID, known: Sequence[UUID]) -> int:
        check_system(scope)
        kept = {message_id.bytes for message_id in known}

        def work(transaction: Transaction) -> int:
            claimed = transaction.execute(SQL.claimed_by, (node_id.bytes,))
            rowids = [rowid for rowid, id_ in claimed if id_ not in kept]
            released = (rows.as_json(rowids),)
            return len(release_messages(transaction, SQL.give_back_unknown, released))

        return await self._database.write(work)


def release_messages(
    transaction: Transaction, statement: str, values: tuple[Any, ...]
) -> list[rows.Row]:
    """Releases messages by a statement that returns their queues; returns its rows."""
    back = transaction.execute(statement, values).fetchall()
    transaction.queues_to_wake.update(UUID(bytes=queue_id) for queue_id in {row[0] for row in back})
    return back
