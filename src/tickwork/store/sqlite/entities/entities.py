"""Entities on SQLite: what calls read, and direct calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.entity.call import (
    WAITING_CALLS_MAX,
    Entered,
    entered_message,
    too_many_waiting,
)
from tickwork.core.entity.model import (
    CallResult,
    EntityHead,
    EntityRecord,
    StorageSelection,
    StorageValues,
)
from tickwork.core.limits import check_limit, check_message
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NodeExpired
from tickwork.store.ids import own_tenant
from tickwork.store.shared.entity_rows import bounds, head_of, record_of
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import finish_removal, unblock
from tickwork.store.sqlite.messages.rows import Times, Uuids

_STORAGE = msgspec.json.Decoder(dict[str, str])


class _Entry(NamedTuple):
    caller: UUID
    scope: Scope
    queue: str
    message: NewMessage
    result_key: str | None


class SqliteEntities:
    """Entities of a tenant. Direct calls of many callers are stored by one piece of work."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # One at a time, so that the calls of a process are stored in order.
        self._entries: Coalescer[_Entry, Entered] = Coalescer(self._enter)
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
        return self._entries.submit(_Entry(caller, scope, queue, message, result_key))

    def _enter(self, entries: Sequence[_Entry]) -> asyncio.Future[list[Entered | Exception]]:
        def work(transaction: Transaction) -> list[Entered | Exception]:
            queues = {
                (scope, queue): UUID(bytes=find_queue(transaction, scope, queue).id)
                for scope, queue in {(entry.scope, entry.queue) for entry in entries}
            }
            return [
                _enter(transaction, queues[entry.scope, entry.queue], entry) for entry in entries
            ]

        return self._database.write(work, rows=len(entries))

    async def count_waiting(self, scope: Scope, queue: str, key: str) -> int:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> int:
            found = find_queue(transaction, scope, queue)
            asked = (found.id, tenant, key, WAITING_CALLS_MAX)
            (count,) = transaction.execute(SQL.count_waiting_calls, asked).fetchone()
            return int(count)

        return await self._database.read(work)

    async def entered(self, scope: Scope, calls: Sequence[UUID]) -> dict[UUID, bool]:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> dict[UUID, bool]:
            found = {
                call: transaction.execute(SQL.entered_call, (tenant, call.bytes)).fetchone()
                for call in calls
            }
            return {call: bool(row[0]) for call, row in found.items() if row is not None}

        return await self._database.read(work)

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
    ) -> asyncio.Future[list[EntityHead]]:
        return self._database.read(
            lambda transaction: [_head(transaction, *values) for values in asked]
        )

    async def result(self, scope: Scope, entity: UUID, key: str) -> CallResult | None:
        return (await self.head(scope, entity, key)).result

    async def values(self, scope: Scope, entity: UUID, names: Sequence[str]) -> StorageValues:
        asked = msgspec.json.encode(names).decode()
        values = (own_tenant(scope), entity.bytes, asked)
        return await self._database.read(
            lambda transaction: _values(transaction.execute(SQL.entity_values, values).fetchall())
        )

    async def listed(
        self, scope: Scope, entity: UUID, selection: StorageSelection
    ) -> StorageValues:
        reverse = selection.reverse
        statement = SQL.list_entity_storage_reversed if reverse else SQL.list_entity_storage
        limit = -1 if selection.limit is None else selection.limit  # -1 is none.
        values = (own_tenant(scope), entity.bytes, *bounds(selection), limit)
        return await self._database.read(
            lambda transaction: _values(transaction.execute(statement, values).fetchall())
        )

    async def list(
        self, scope: Scope, type_name: str, limit: int, *, prefix: str = "", after: str = ""
    ) -> tuple[EntityRecord, ...]:
        check_limit(limit)
        first, _, end = bounds(StorageSelection(prefix=prefix))
        values = (own_tenant(scope), type_name, first, end, after, limit)

        def work(transaction: Transaction) -> tuple[EntityRecord, ...]:
            return tuple(map(_record, transaction.execute(SQL.list_entities, values)))

        return await self._database.read(work)

    async def count(self, scope: Scope, type_name: str, limit: int) -> int:
        check_limit(limit)
        values = (own_tenant(scope), type_name, limit)
        (entities,) = await self._database.read(
            lambda transaction: transaction.execute(SQL.count_entities, values).fetchone()
        )
        return int(entities)


def _enter(transaction: Transaction, queue: UUID, entry: _Entry) -> Entered | Exception:
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
        (is_claimed,) = transaction.execute(SQL.entered_call, (tenant, m.id.bytes)).fetchone()
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


def _record(row: tuple[Any, ...]) -> EntityRecord:
    *named, alarm_at, schedules, created_at, updated_at = row
    at = None if alarm_at is None else from_microseconds(alarm_at)
    created, updated = from_microseconds(created_at), from_microseconds(updated_at)
    type_name, key, size, version = named
    return record_of(type_name, key, size, version, at, schedules, created, updated)


def _values(rows: Sequence[tuple[Any, ...]]) -> StorageValues:
    changed_by = rows[0][0]
    values = {name: value for _, name, value in rows if name is not None}
    return StorageValues(None if changed_by is None else UUID(bytes=changed_by), values)
