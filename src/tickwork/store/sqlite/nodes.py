"""Nodes on SQLite. A claim and the expiry of its node cannot overlap, because both are writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.limits import check_node, check_system, check_ttl
from tickwork.core.model import Node, Scope
from tickwork.errors import NodeExpired
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.schedules.shards import free_shards


class SqliteNodes:
    """Running processes and their leases."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        roles_text = msgspec.json.encode(list(roles)).decode()
        declared = msgspec.json.encode(list(workflows)).decode()

        def work(transaction: Transaction) -> rows.Row:
            now = transaction.now
            expires_at = now + microseconds(ttl_seconds)
            values = (node_id.bytes, name, roles_text, now, expires_at, declared)
            row: rows.Row | None = transaction.execute(SQL.join_node, values).fetchone()
            # The response to an earlier join was lost, or the id is used twice: a heartbeat
            # decides.
            return row or _renew(transaction, node_id, ttl_seconds, None)

        return rows.node(await self._database.write(work))

    async def heartbeat(
        self, scope: Scope, node_id: UUID, ttl_seconds: float, hold_seconds: float | None = None
    ) -> Node:
        check_system(scope)
        check_ttl(ttl_seconds)
        return rows.node(
            await self._database.write(
                lambda transaction: _renew(transaction, node_id, ttl_seconds, hold_seconds)
            )
        )

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

    async def list(self, scope: Scope) -> tuple[Node, ...]:
        check_system(scope)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_nodes).fetchall()
        )
        return tuple(rows.node(row) for row in found)

    async def claims(self, scope: Scope) -> dict[UUID, int]:
        check_system(scope)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.claims_of_holders).fetchall()
        )
        return {UUID(bytes=holder): claims for holder, claims in found}

    async def pause_all(self, scope: Scope, *, is_paused: bool) -> datetime | None:
        check_system(scope)

        def work(transaction: Transaction) -> int | None:
            values = (transaction.now, is_paused)
            (since,) = transaction.execute(SQL.pause_all, values).fetchone()
            return None if since is None else int(since)

        return _time(await self._database.change(work))

    async def paused_at(self, scope: Scope) -> datetime | None:
        check_system(scope)
        (since,) = await self._database.read(
            lambda transaction: transaction.execute(SQL.paused_at).fetchone()
        )
        return _time(since)

    async def widen(self, scope: Scope, seconds: int) -> None:
        check_system(scope)
        await self._database.change(
            lambda transaction: transaction.execute(SQL.widen, (seconds,)).rowcount
        )

    async def widened_seconds(self, scope: Scope) -> int:
        check_system(scope)
        (seconds,) = await self._database.read(
            lambda transaction: transaction.execute(SQL.widened_seconds).fetchone()
        )
        return int(seconds)


def _time(since: int | None) -> datetime | None:
    return None if since is None else from_microseconds(since)


def release_messages(
    transaction: Transaction, statement: str, values: tuple[Any, ...]
) -> list[rows.Row]:
    """Releases messages by a statement that returns their queues; returns its rows."""
    back = transaction.execute(statement, values).fetchall()
    transaction.queues_to_wake.update(UUID(bytes=queue_id) for queue_id in {row[0] for row in back})
    return back


def _renew(
    transaction: Transaction, node_id: UUID, ttl_seconds: float, hold_seconds: float | None
) -> rows.Row:
    now = transaction.now
    row: rows.Row | None = transaction.execute(
        SQL.heartbeat, (node_id.bytes, now, now + microseconds(ttl_seconds), hold_seconds)
    ).fetchone()
    if row is None:
        raise NodeExpired(node_id)
    return row
