"""Shards of schedules and their leaders on PostgreSQL.

A hand-over is one statement: it ends the leases of dead leaders, and updates the rows of their
shards. A plan locks these rows (`FOR SHARE`) until it commits. So a hand-over waits for a plan in
progress, and afterwards no plan under the old token can start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    ShardFacts,
    ShardState,
    ShardWrites,
    hold_shards,
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
        self._database = database
        self._moment = moment
        self._wakeups = wakeups
        self._layout = layout

    async def hold(self, scope: Scope, node_id: UUID) -> tuple[Grant, ...]:
        check_system(scope)

        async def work(connection: Connection) -> tuple[tuple[Grant, ...], bool]:
            moment = await connection.fetchrow(SQL.read_moment, self._moment(), node_id)
            assert moment is not None
            if not moment["is_alive"]:
                raise NodeExpired(node_id)
            now, token_min = moment["now"], tokens.make_token(moment["epoch"], 0) + 1
            rows = await connection.fetch(SQL.living_schedulers, now)
            living = {row["id"]: row["hold_seconds"] for row in rows}
            if node_id not in living:
                return (), False
            seen = await self._read(connection)
            facts = [_facts(row) for row in seen.values()]
            writes = hold_shards(node_id, living, facts, now=now, token_min=token_min)
            led = {shard: row for shard, row in seen.items() if row["node"] == node_id}
            for row in await self._move(connection, node_id, seen, writes, token_min):
                led.pop(row["shard"], None)
                if row["node"] == node_id:
                    led[row["shard"]] = row
            grants = (Grant(*(led[shard][name] for name in _GRANTED)) for shard in sorted(led))
            return tuple(grants), writes.gave_up

        # Not one transaction: a node with a slow connection must not lock what others wait for.
        grants, gave_up = await self._database.run(work)
        if gave_up:
            self._wakeups.notify([SCHEDULES_TOPIC])
        return grants

    async def _move(
        self,
        connection: Connection,
        node_id: UUID,
        seen: Mapping[int, Any],
        writes: ShardWrites,
        token_min: int,
    ) -> Sequence[Any]:
        """Frees and takes shards that have not changed since they were read; returns their rows."""
        shards = [*writes.free, *writes.take]
        if not shards:
            return ()
        return await connection.fetch(
            SQL.move_shards,
            self._moment(),
            node_id,
            shards,
            [seen[shard]["token"] for shard in shards],
            [seen[shard]["node"] for shard in shards],
            [shard in writes.take for shard in shards],
            [writes.free.get(shard) for shard in shards],
            [writes.take.get(shard) for shard in shards],
            token_min,
        )

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
            statement = SQL.give_up_all_shards
            return len(await connection.fetch(statement, self._moment(), node_id))

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
        shards, granted = [grant.shard for grant in grants], [grant.token for grant in grants]
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


def _facts(row: Any) -> ShardFacts:
    return ShardFacts(
        shard=row["shard"],
        token=row["token"],
        leader=row["node"],
        lease_until=row["expires_at"],
        freed_at=row["freed_at"],
        kept_until=row["kept_until"],
    )
