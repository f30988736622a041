"""Entities on PostgreSQL: direct calls, and what they read first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwork.core.entity.call import (
    WAITING_CALLS_MAX,
    Entered,
    entered_message,
    too_many_waiting,
)
from tickwork.core.entity.model import (
    SMALL_STORAGE_BYTES_MAX,
    EntityHead,
)
from tickwork.core.limits import check_message
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.model import NewMessage, Scope, State
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NodeExpired
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.nouns.entities import Entities, NewCall
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.keys import Key
from tickwork.store.postgres.messages.removal import AfterCommit, Removal, RemovedMessages
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.entity_rows import head_of
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.steps import Port


class PostgresEntities(Entities):
    """Entities of a tenant. Direct calls of many callers are stored by one statement."""

    def __init__(
        self,
        port: Port,
        paths: HotPaths,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        removal: Removal,
        counters: Counters,
    ) -> None:
        super().__init__(port, paths)
        self._database = database
        self._moment = moment
        self._queues = queues
        self._removal, self._counters = removal, counters
        # One at a time, so that the calls of a process are stored in order.
        self._coalescer: Coalescer[NewCall, Entered] = Coalescer(self._enter)
        self._heads: Coalescer[tuple[str, UUID, str | None], EntityHead] = Coalescer(
            self._read_heads, flights_max=2
        )

    def enter(
        self,
        scope: Scope,
        queue: str,
        message: NewMessage,
        caller: UUID,
        *,
        result_key: str | None = None,  # noqa: ARG002  see below
    ) -> asyncio.Future[Entered]:
        # Without the head: the snapshot of the statement that stores the call may be older than the
        # commit that frees the entity.
        check_message(message)
        return self._coalescer.submit(NewCall(caller, scope, queue, message))

    async def _enter(self, entries: Sequence[NewCall]) -> list[Entered | Exception]:
        # The queues are looked up here, so that no call overtakes another.
        queue_ids = {
            (scope, queue): await self._queues.id_of(scope, queue)
            for scope, queue in {(entry.scope, entry.queue) for entry in entries}
        }
        columns = [
            (
                *(entry.caller, own_tenant(entry.scope), queue_ids[entry.scope, entry.queue]),
                *(m.key, m.id, m.body, m.correlation_id, m.causation_id, m.hops),
            )
            for entry in entries
            for m in [entry.message]
        ]
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.enter_call,
                self._moment(),
                *map(list, zip(*columns, strict=True)),
                WAITING_CALLS_MAX,
            ),
            repeatable=False,
        )
        rows = {row["number"]: dict(row) for row in found}
        await self._let_pass(entries, rows, queue_ids)
        stored = [
            _stored(entry, queue_ids[entry.scope, entry.queue], rows.get(number))
            for number, entry in enumerate(entries, start=1)
        ]
        for outcome in stored:
            if isinstance(outcome, Entered):
                sent = CounterKey(
                    outcome.message.queue_id, outcome.message.tenant, CounterName.SENT, "", ""
                )
                self._counters.add(sent, 1)
        return stored

    async def _let_pass(
        self,
        entries: Sequence[NewCall],
        rows: Mapping[int, dict[str, Any]],
        queue_ids: Mapping[tuple[Scope, str], UUID],
    ) -> None:
        """Lets blocked calls pass sends that wait for their retry, and notes that in their rows.

        It looks after the calls are stored. A retry that is settled later locks the key, and finds
        the call; an earlier one is seen here.
        """
        blocked = {
            number: entry
            for number, entry in enumerate(entries, start=1)
            if number in rows and rows[number]["state"] == State.BLOCKED
        }
        if not blocked:
            return
        keys = {
            Key(
                own_tenant(entry.scope), queue_ids[entry.scope, entry.queue], str(entry.message.key)
            )
            for entry in blocked.values()
        }
        waiting = await self._database.run(
            lambda connection: connection.fetch(
                SQL.waiting_keys, self._moment(), *map(list, zip(*keys, strict=True))
            )
        )
        if not waiting:
            return
        passable = [Key(*row) for row in waiting]
        after_commit = await self._database.transact(
            lambda connection: self._removal.apply_effects(
                connection, RemovedMessages(), BacklogChange(), passable
            )
        )
        await self._removal.finish(after_commit)
        by_scope: dict[Scope, dict[UUID, int]] = {}
        for number, entry in blocked.items():
            by_scope.setdefault(entry.scope, {})[entry.message.id] = number
        for scope, numbers in by_scope.items():
            for call, is_claimed in (await self.entered(scope, [*numbers])).items():
                if is_claimed:
                    rows[numbers[call]]["state"] = State.CLAIMED

    async def withdraw(self, scope: Scope, call: UUID) -> bool:
        async def work(connection: Connection) -> AfterCommit:
            found = await connection.fetch(SQL.withdrawable_call, own_tenant(scope), call)
            return await self._delete(connection, found, [State.BLOCKED])

        after_commit = await self._database.transact(work)
        await self._removal.finish(after_commit)
        return after_commit.counts.total() > 0

    async def delete_calls_of_dead_nodes(self, limit: int) -> int:
        """Deletes direct calls whose node is dead; returns their number."""

        async def work(connection: Connection) -> AfterCommit:
            found = await connection.fetch(SQL.calls_of_dead_nodes, self._moment(), limit)
            return await self._delete(connection, found, [State.BLOCKED, State.CLAIMED])

        after_commit = await self._database.transact(work)
        await self._removal.finish(after_commit)
        return after_commit.counts.total()

    async def _delete(
        self, connection: Connection, found: Sequence[Any], states: Sequence[State]
    ) -> AfterCommit:
        removed = RemovedMessages()
        if found:
            await self._removal.lock_keys(connection, found)
            tenants, ids = [row["tenant"] for row in found], [row["id"] for row in found]
            rows = await connection.fetch(
                SQL.delete_calls, self._moment(), tenants, ids, REASON_DELETED, states
            )
            removed.add(rows, CounterName.PURGED, REASON_DELETED)
        return await self._removal.apply_effects(connection, removed, BacklogChange())

    async def head(self, scope: Scope, entity: UUID, result_key: str | None = None) -> EntityHead:
        return await self._heads.submit((own_tenant(scope), entity, result_key))

    async def _read_heads(self, asked: Sequence[tuple[str, UUID, str | None]]) -> list[EntityHead]:
        columns = [list(column) for column in zip(*asked, strict=True)]
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.entity_head, self._moment(), *columns)
        )
        return [_head(row) for row in found]

    async def drain(self) -> None:
        await self._coalescer.drain()


def _stored(entry: NewCall, queue_id: UUID, row: Any | None) -> Entered | Exception:
    """A direct call that was stored, or why it was not."""
    if row is None:
        return NodeExpired(entry.caller)
    if row["state"] is None:
        return too_many_waiting(entry.message)
    return Entered(
        entered_message(
            own_tenant(entry.scope),
            queue_id,
            entry.message,
            entry.caller,
            is_claimed=row["state"] == State.CLAIMED,
            at=row["now"],
        )
    )


def _head(row: Any) -> EntityHead:
    *columns, names, stored = row
    is_small = row["bytes"] is not None and row["bytes"] <= SMALL_STORAGE_BYTES_MAX
    values = dict(zip(names or (), stored or (), strict=True)) if is_small else None
    return head_of(*columns, values=values)
