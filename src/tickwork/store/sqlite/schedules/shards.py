"""Shard leadership on SQLite: which node plans which part of the schedules.

Taking a shard and planning under its token are both writes, and writes are serialized: only the
token of the node that took the shard last is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.core.schedule import shards as tokens
from tickwork.core.schedule.clock_change import (
    ClockJump,
    ClockReading,
    JumpsApplied,
    shift_microseconds,
)
from tickwork.core.schedule.shards import (
    Grant,
    ShardFacts,
    ShardState,
    hold_shards,
    replace_shards,
)
from tickwork.errors import NodeExpired
from tickwork.store.ids import SCHEDULES_TOPIC
from tickwork.store.shared.shard_layout import (
    LOOK_INDEX_MARK,
    ShardLayout,
    fit_statement,
    look_index,
)
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows


class SqliteShards:
    """Shards, their leaders and their tokens."""

    def __init__(self, database: Database, layout: ShardLayout) -> None:
        self._database, self._layout = database, layout

    async def hold(self, scope: Scope, node_id: UUID) -> tuple[Grant, ...]:
        check_system(scope)
        grants, self._layout.count = await self._database.write(
            lambda transaction: (
                _hold(transaction, node_id),
                len(transaction.execute(SQL.read_shards).fetchall()),
            )
        )
        return grants

    async def give_up(self, scope: Scope, node_id: UUID) -> int:
        check_system(scope)

        def work(transaction: Transaction) -> int:
            transaction.execute(SQL.drop_scheduler_role, (node_id.bytes,))
            return free_shards(transaction, node_id.bytes)

        return await self._database.write(work)

    async def come_back(self, scope: Scope, node_id: UUID) -> None:
        check_system(scope)

        def work(transaction: Transaction) -> None:
            values = (node_id.bytes, transaction.now)
            if not transaction.execute(SQL.rejoin, values).rowcount:
                raise NodeExpired(node_id)

        await self._database.write(work)

    async def behind(self, scope: Scope, before: datetime) -> tuple[tuple[int, datetime], ...]:
        check_system(scope)
        values, statement = (to_microseconds(before),), self._layout.fit(SQL.shards_behind)
        found = await self._database.read(
            lambda transaction: transaction.execute(statement, values).fetchall()
        )
        return tuple((shard, from_microseconds(at)) for shard, at in found)

    async def note_zones(self, scope: Scope, grants: Sequence[Grant], tzdata: str) -> int:
        check_system(scope)

        def work(transaction: Transaction) -> int:
            return sum(
                transaction.execute(SQL.note_zones, (grant.shard, grant.token, tzdata)).rowcount
                for grant in grants
            )

        return await self._database.write(work)

    async def clock(self, scope: Scope) -> ClockReading:
        check_system(scope)

        def work(transaction: Transaction) -> ClockReading:
            (clock,) = transaction.execute(SQL.read_jumps).fetchone()
            return ClockReading(from_microseconds(transaction.now), clock)

        return await self._database.read(work)

    async def set_clock(self, scope: Scope, jump: ClockJump, ttl_seconds: float) -> bool:
        check_system(scope)
        by, after = jump.microseconds, to_microseconds(jump.after)
        values = (by, jump.known, to_microseconds(jump.before), after)

        def work(transaction: Transaction) -> bool:
            is_set = transaction.execute(SQL.set_clock, (transaction.now, *values)).rowcount > 0
            if is_set and by > 0:
                transaction.execute(SQL.mark_followed, (by, after))
            elif is_set:
                ttl = round(ttl_seconds * 1_000_000)
                transaction.execute(SQL.shorten_leases, (transaction.now, by, ttl))
            return is_set

        return await self._database.write(work)

    async def follow_clock(self, scope: Scope, grant: Grant) -> JumpsApplied | None:
        check_system(scope)
        statement = self._layout.fit(SQL.intervals_to_move)
        return await self._database.write(
            lambda transaction: _follow(transaction, grant, statement)
        )

    async def replace(self, scope: Scope, count: int) -> None:
        check_system(scope)

        def work(transaction: Transaction) -> None:
            execute = transaction.execute
            execute(fit_statement(SQL.create_look_index, count))
            new = replace_shards(Grant(*row) for row in execute(SQL.read_shards))
            execute(SQL.delete_shards)
            execute(SQL.insert_shards, (count, new.token, new.tzdata, new.clock))
            transaction.queues_to_wake.add(SCHEDULES_TOPIC)

        await self._database.change(work)
        self._layout.count = count

    async def drop_old_indexes(self, scope: Scope) -> None:
        check_system(scope)

        def work(transaction: Transaction) -> None:
            count = len(transaction.execute(SQL.read_shards).fetchall())
            for (name,) in transaction.execute(SQL.look_indexes).fetchall():
                if name != look_index(count):
                    transaction.execute(SQL.drop_look_index.replace(LOOK_INDEX_MARK, name))

        await self._database.write(work)

    async def list(self, scope: Scope) -> tuple[ShardState, ...]:
        check_system(scope)

        def work(transaction: Transaction) -> list[rows.Row]:
            return transaction.execute(SQL.list_shards, (transaction.now,)).fetchall()

        found = await self._database.read(work)
        self._layout.count = len(found)
        return tuple(
            ShardState(
                shard,
                token,
                None if node is None else UUID(bytes=node),
                None if node is None else from_microseconds(taken_at),
                tzdata,
            )
            for shard, token, node, taken_at, tzdata in found
        )


def free_shards(transaction: Transaction, node_id: bytes) -> int:
    """Frees all shards of a node; returns how many."""
    freed = transaction.execute(SQL.give_up_all_shards, (node_id, transaction.now)).rowcount
    if freed:
        transaction.queues_to_wake.add(SCHEDULES_TOPIC)
    return freed


def _follow(transaction: Transaction, grant: Grant, intervals: str) -> JumpsApplied | None:
    execute = transaction.execute
    led = execute(SQL.unfollowed_jumps, (grant.shard, grant.token)).fetchone()
    if led is None:
        return None
    clock, behind, *last = led
    if not behind:
        return JumpsApplied(clock, 0)
    by = shift_microseconds(behind)
    values = (grant.shard, transaction.now, by, *last)
    rowids = [rowid for (rowid,) in execute(intervals, values)]
    execute(SQL.move_planned_slots, (rows.as_json(rowids), by))
    execute(SQL.move_intervals, (rows.as_json(rowids), by))
    execute(SQL.set_followed, (grant.shard, clock))
    return JumpsApplied(clock, len(rowids))


def _hold(transaction: Transaction, node_id: UUID) -> tuple[Grant, ...]:
    execute = transaction.execute
    now = transaction.now
    own = (node_id.bytes,)
    (alive,) = execute(SQL.is_alive, (node_id.bytes, now)).fetchone()
    if not alive:
        raise NodeExpired(node_id)
    found = execute(SQL.living_schedulers, (now,))
    living = {UUID(bytes=id_): hold_seconds for id_, hold_seconds in found}
    if node_id not in living:
        return ()
    (_, _, epoch) = execute(SQL.read_meta).fetchone()
    token_min = tokens.make_token(epoch, 0) + 1
    facts = [_facts(row) for row in execute(SQL.shard_leaders)]
    at = from_microseconds(now)
    writes = hold_shards(node_id, living, facts, now=at, token_min=token_min)
    if writes.free:
        free = [(shard, _optional_microseconds(since)) for shard, since in writes.free.items()]
        execute(SQL.give_up_shards, (_as_json(free),))
    if writes.gave_up:
        transaction.queues_to_wake.add(SCHEDULES_TOPIC)
    if writes.take:
        take = [(shard, _optional_microseconds(until)) for shard, until in writes.take.items()]
        execute(SQL.take_shards, (_as_json(take), node_id.bytes, now, token_min))
    return tuple(Grant(*row) for row in execute(SQL.own_shards, own))


def _facts(row: rows.Row) -> ShardFacts:
    shard, token, leader, freed_at, kept_until, lease_until = row
    return ShardFacts(
        shard=shard,
        token=token,
        leader=None if leader is None else UUID(bytes=leader),
        lease_until=_optional_time(lease_until),
        freed_at=_optional_time(freed_at),
        kept_until=_optional_time(kept_until),
    )


def _optional_time(at: int | None) -> datetime | None:
    return None if at is None else from_microseconds(at)


def _optional_microseconds(at: datetime | None) -> int | None:
    return None if at is None else to_microseconds(at)


def _as_json(pairs: Sequence[tuple[int, int | None]]) -> str:
    return msgspec.json.encode(pairs).decode()
