"""Entities on SQLite: direct calls, and what they read first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from uuid import UUID

import msgspec

from tickwork.core.entity.call import (
    WAITING_CALLS_MAX,
    Entered,
    entered_message,
    too_many_waiting,
)
from tickwork.core.entity.model import (
    EntityHead,
)
from tickwork.core.limits import check_message
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NodeExpired
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.entities import Entities, NewCall
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.entity_rows import head_of
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import finish_removal, unblock
from tickwork.store.sqlite.messages.rows import Times, Uuids
from tickwork.store.steps import Port

_STORAGE = msgspec.json.Decoder(dict[str, str])


class SqliteEntities(Entities):
    """Entities of a tenant. Direct calls of many callers are stored by one piece of work."""

    def __init__(self, port: Port, paths: HotPaths, database: Database) -> None:
        super().__init__(port, paths)
        self._database = database
        # One at a time, so that the calls of a process are stored in order.
        self._entries: Coalescer[NewCall, Entered] = Coalescer(self._enter)
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
        result_key: str | None = None,
    ) -> asyncio.Future[Entered]:
        check_message(message)
        return self._entries.submit(NewCall(caller, scope, queue, message, result_key))

    def _enter(self, entries: Sequence[NewCall]) -> Awaitable[list[Entered | Exception]]:
        def work(transaction: Transaction) -> list[Entered | Exception]:
            queues = {
                (scope, queue): UUID(bytes=find_queue(transaction, scope, queue).id)
                for scope, queue in {(entry.scope, entry.queue) for entry in entries}
            }
            return [
                _enter(transaction, queues[entry.scope, entry.queue], entry) for entry in entries
            ]

        return self._database.write(work, rows=len(entries))

    async def withdraw(self, scope: Scope, call: UUID) -> bool:
        values = (own_tenant(scope), call.bytes)

        def work(transaction: Transaction) -> bool:
            removed = transaction.execute(SQL.withdraw_call, values).fetchall()
            finish_removal(transaction, removed, CounterName.PURGED, REASON_DELETED)
            return bool(removed)

        return await self._database.write(work)

    async def head(self, scope: Scope, entity: UUID, result_key: str | None = None) -> EntityHead:
        return await self._heads.submit((own_tenant(scope), entity, result_key))

    def _read_heads(
        self, asked: Sequence[tuple[str, UUID, str | None]]
    ) -> Awaitable[list[EntityHead]]:
        return self._database.read(
            lambda transaction: [_head(transaction, *values) for values in asked]
        )


def _enter(transaction: Transaction, queue: UUID, entry: NewCall) -> Entered | Exception:
    """A direct call that was stored, or why it was not."""
    m = entry.message
    now = transaction.now
    tenant = own_tenant(entry.scope)
    caller, queue_id = entry.caller.bytes, queue.bytes
    values = (
        *(caller, tenant, queue_id, m.key, m.id.bytes, m.body),
        *(m.correlation_id, m.causation_id, m.hops, now, WAITING_CALLS_MAX),
    )
    row = transaction.execute(SQL.enter_call, values).fetchone()
    if row is None:
        (is_alive,) = transaction.execute(SQL.is_alive, (caller, now)).fetchone()
        return too_many_waiting(m) if is_alive else NodeExpired(entry.caller)
    transaction.counted.append(CountedMessages(queue_id, tenant, CounterName.SENT, None, None, 1))
    is_claimed = row[0] == "claimed"
    assert m.key is not None
    if not is_claimed:
        unblock(transaction, [(queue_id, tenant, m.key)])
        (_, is_claimed) = transaction.execute(SQL.entered_call, (tenant, m.id.bytes)).fetchone()
    stored = entered_message(
        tenant,
        queue,
        m,
        entry.caller,
        is_claimed=bool(is_claimed),
        at=from_microseconds(now),
    )
    if not is_claimed:
        return Entered(stored)
    return Entered(stored, _head(transaction, tenant, UUID(m.key), entry.result_key))


def _head(
    transaction: Transaction, tenant: str, entity: UUID, result_key: str | None
) -> EntityHead:
    now = transaction.now
    row = transaction.execute(SQL.entity_head, (tenant, entity.bytes, result_key, now)).fetchone()
    changed_by, version, size, alarm_id, alarm_at, dead, schedules, *result, small = row
    ids = Uuids()
    times = Times()
    values = None
    if small is not None:
        values = {name: bytes.fromhex(value) for name, value in _STORAGE.decode(small).items()}
    return head_of(
        from_microseconds(now),
        *(ids[changed_by], version, size, ids[alarm_id], times[alarm_at], ids[dead]),
        *(schedules, *result),
        values=values,
    )


def delete_calls_of_dead_nodes(transaction: Transaction, limit: int) -> int:
    """Deletes direct calls whose node is dead; returns their number."""
    values = (transaction.now, limit)
    removed = transaction.execute(SQL.delete_calls_of_dead_nodes, values).fetchall()
    finish_removal(transaction, removed, CounterName.PURGED, REASON_DELETED)
    return len(removed)
