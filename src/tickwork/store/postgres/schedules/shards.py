"""Shards of schedules and their leaders on PostgreSQL.

A hand-over updates the rows of its shards and nothing else. A plan locks them (`FOR SHARE`) until
it commits. So a hand-over waits for a plan in progress, and afterwards no plan under the old token
can start.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

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
    ShardState,
    balance_shards,
    replace_shards,
)
from tickwork.errors import NodeExpired
from tickwork.store.ids import SCHEDULES_TOPIC, Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.migrate import connected
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.shared.shard_layout import (
    LOOK_INDEX_MARK,
    ShardLayout,
    fit_statement,
    look_index,
)

_GRANTED = Grant.__struct_fields__


class PostgresShards:
    """Leaders and their tokens."""

    def __init__(
        self, database: Database, moment: Moment, wakeups: PostgresWakeups, layout: ShardLayout
    ) -> None:
        self._database, self._moment, self._wakeups = database, moment, wakeups
        self._layout = layout

    async def hold(self, scope: Scope, node_id: UUID) -> tuple[Grant, ...]:
        check_system(scope)

        async def work(connection: Connection) -> tuple[tuple[Grant, ...], bool]:
            own = await connection.fetchrow(SQL.lock_living_node, self._moment(), node_id)
            if own is None:
                raise NodeExpired(node_id)
            now, lowest = own["now"], tokens.make_token(own["epoch"], 0) + 1
            living = [row["id"] for row in await connection.fetch(SQL.living_schedulers, now)]
            if node_id not in living:
                return (), False
            seen = await self._read(connection)
            sharing = balance_shards(
                node_id, living, {shard: row["node"] for shard, row in seen.items()}
            )
            earlier = [
                shard
                for shard, row in seen.items()
                if row["node"] == node_id and row["token"] < lowest and shard not in sharing.give_up
            ]
            moving = sorted((*sharing.give_up, *sharing.take, *earlier))
            old_leaders = {seen[shard]["node"] for shard in sharing.take} - {None}
            alive = await _still_alive(connection, old_leaders, now)
            if moving:
                # Locks all of them in a fixed order. The hand-over skips shards that have changed
                # since they were read.
                await connection.execute(SQL.lock_shards, moving)
                given_up = [seen[shard] for shard in sharing.give_up]
                await _hand_over(connection, given_up, None, now, lowest)
                taken = [seen[shard] for shard in sharing.take if seen[shard]["node"] not in alive]
                # Shards that it leads under a token of an earlier epoch get a new token.
                taken += [seen[shard] for shard in earlier]
                await _hand_over(connection, taken, node_id, now, lowest)
                seen = await self._read(connection)
            led = (row for row in seen.values() if row["node"] == node_id)
            grants = tuple(Grant(*(row[name] for name in _GRANTED)) for row in led)
            return grants, bool(sharing.give_up)

        grants, gave_up = await self._database.transact(work)
        if gave_up:
            self._wakeups.notify([SCHEDULES_TOPIC])
        return grants

    async def _read(self, connection: Connection) -> dict[int, Any]:
        """All shards. Remembers how many there are."""
        seen = {row["shard"]: row for row in await connection.fetch(SQL.read_shards)}
        self._layout.count = len(seen)
        return seen

    async def give_up(self, scope: Scope, node_id: UUID) -> int:
        check_system(scope)

        async def work(connection: Connection) -> int:
            # Waits for a concurrent `hold` of this node, and then sees the shards it took.
            await connection.execute(SQL.lock_node, node_id)
            await connection.execute(SQL.drop_scheduler_role, node_id)
            led = [row for row in await connection.fetch(SQL.read_shards) if row["node"] == node_id]
            if not led:
                return 0
            await connection.execute(SQL.lock_shards, [row["shard"] for row in led])
            now = self._moment() or await connection.fetchval(SQL.read_clock)
            return await _hand_over(connection, led, None, now, 0)

        given_up = await self._database.transact(work)
        if given_up:
            self._wakeups.notify([SCHEDULES_TOPIC])
        return given_up

    async def come_back(self, scope: Scope, node_id: UUID) -> None:
        check_system(scope)
        found = await self._database.run(
            lambda connection: connection.fetchrow(SQL.rejoin, self._moment(), node_id)
        )
        if found is None:
            raise NodeExpired(node_id)

    async def behind(self, scope: Scope, before: datetime) -> tuple[tuple[int, datetime], ...]:
        check_system(scope)
        statement = self._layout.fit(SQL.shards_behind)
        found = await self._database.run(lambda connection: connection.fetch(statement, before))
        return tuple((row["shard"], row["since"]) for row in found)

    async def note_zones(self, scope: Scope, grants: Sequence[Grant], tzdata: str) -> int:
        check_system(scope)
        shards, granted = [each.shard for each in grants], [each.token for each in grants]
        noted = await self._database.run(
            lambda connection: connection.fetch(SQL.note_zones, shards, granted, tzdata)
        )
        return len(noted)

    async def clock(self, scope: Scope) -> ClockReading:
        check_system(scope)
        row = await self._database.run(
            lambda connection: connection.fetchrow(SQL.read_jumps, self._moment())
        )
        assert row is not None
        return ClockReading(row["now"], row["clock"])

    async def set_clock(self, scope: Scope, jump: ClockJump, ttl_seconds: float) -> bool:
        check_system(scope)
        values = (jump.microseconds, jump.known, jump.before, jump.after, ttl_seconds)

        async def work(connection: Connection) -> bool:
            # Locks all shards in order, because some may have to be marked.
            await connection.execute(SQL.lock_shards, [*await self._read(connection)])
            return await connection.fetchval(SQL.set_clock, self._moment(), *values) is not None

        return await self._database.transact(work)

    async def follow_clock(self, scope: Scope, grant: Grant) -> JumpsApplied | None:
        check_system(scope)

        async def work(connection: Connection) -> JumpsApplied | None:
            # A statement of its own: after waiting for a plan in progress, the next statement
            # must see what it planned.
            led = await connection.fetchrow(SQL.unfollowed_jumps, grant.shard, grant.token)
            if led is None:
                return None
            if not led["behind"]:
                return JumpsApplied(led["clock"], 0)
            moved = await connection.fetch(
                self._layout.fit(SQL.follow_clock),
                self._moment(),
                grant.shard,
                shift_microseconds(led["behind"]),
                led["clock_set_from"],
                led["clock_set_to"],
            )
            await connection.execute(SQL.set_followed, grant.shard, led["clock"])
            return JumpsApplied(led["clock"], len(moved))

        return await self._database.transact(work)

    async def replace(self, scope: Scope, count: int) -> None:
        check_system(scope)
        await self._build_index(count)

        async def work(connection: Connection) -> None:
            # Waits for plans and hand-overs in progress; others wait until this is committed.
            await connection.execute(SQL.lock_all_shards)
            seen = await self._read(connection)
            new = replace_shards(Grant(*(row[name] for name in _GRANTED)) for row in seen.values())
            await connection.execute(SQL.delete_shards)
            await connection.execute(SQL.insert_shards, count, new.token, new.tzdata, new.clock)

        await self._database.change(work)
        self._layout.count = count
        self._wakeups.notify([SCHEDULES_TOPIC])

    async def _build_index(self, count: int) -> None:
        """Builds the index that leaders of so many shards need, while schedules change."""
        async with connected(self._database.url) as connection:
            found = await connection.fetch(SQL.look_indexes)
            is_valid = {row["name"]: row["is_valid"] for row in found}.get(look_index(count))
            if is_valid is False:  # A build was interrupted.
                await connection.execute(fit_statement(SQL.drop_look_index, count))
            if not is_valid:
                await connection.execute(fit_statement(SQL.create_look_index, count))

    async def drop_old_indexes(self, scope: Scope) -> None:
        check_system(scope)
        async with connected(self._database.url) as connection:
            count = len(await self._read(connection))
            for row in await connection.fetch(SQL.look_indexes):
                if row["name"] != look_index(count):
                    old = SQL.drop_look_index.replace(LOOK_INDEX_MARK, row["name"])
                    await connection.execute(old)

    async def list(self, scope: Scope) -> tuple[ShardState, ...]:
        check_system(scope)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_shards, self._moment())
        )
        self._layout.count = len(found)
        return tuple(ShardState(*row) for row in found)


async def _still_alive(connection: Connection, nodes: set[UUID], now: datetime) -> set[UUID]:
    """Confirms that nodes are dead and stay dead: a renewed lease is not visible before its
    commit. Returns those that are alive."""
    if not nodes:
        return set()
    return {row["id"] for row in await connection.fetch(SQL.confirm_dead_nodes, [*nodes], now)}


async def _hand_over(
    connection: Connection, seen: Sequence[Any], node_id: UUID | None, now: datetime, lowest: int
) -> int:
    """Gives unchanged shards to a node, or to none; returns their number."""
    if not seen:
        return 0
    moved = await connection.fetch(
        SQL.hand_over_shards,
        [row["shard"] for row in seen],
        [row["token"] for row in seen],
        [row["node"] for row in seen],
        node_id,
        now,
        lowest,
    )
    return len(moved)
