"""Schedules on SQLite: the contract's noun over maker, lister, changer and planner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Message, Scope
from tickwork.core.schedule.change import Decide
from tickwork.core.schedule.model import NewSchedule, Schedule, ScheduleSelection
from tickwork.core.schedule.plan import Due, Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.slot_outcome import Newer
from tickwork.core.schedule.tzdata_change import Waiting
from tickwork.core.schedule.withdraw import Withdraw
from tickwork.core.when.model import EPOCH
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.changing import Changer, find
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.listing import Lister
from tickwork.store.sqlite.making import Maker, own_tenant
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.planning import Planner
from tickwork.store.sqlite.schedule_rows import stored
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.times import to_microseconds


class SqliteSchedules:
    """Schedules, and what their leaders do with them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._maker, self._lister = Maker(database), Lister(database)
        self._changer, self._planner = Changer(database), Planner(database)

    async def create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
        return await self._maker.create(scope, new)

    async def create_bulk(self, scope: Scope, new: Iterable[NewSchedule]) -> int:
        return await self._maker.create_bulk(scope, new)

    async def get(self, scope: Scope, schedule_id: UUID) -> Schedule:
        found = await self._database.read(lambda transaction: find(transaction, scope, schedule_id))
        return found.schedule

    async def find(self, scope: Scope, name: str) -> Schedule | None:
        values = (own_tenant(scope), name)
        if not all(map(is_name, values)):
            return None
        row = await self._database.read(
            lambda transaction: transaction.execute(SQL.find_schedule, values).fetchone()
        )
        return None if row is None else stored(row).schedule

    async def of_keys(self, scope: Scope, keys: Sequence[str]) -> tuple[Schedule, ...]:
        tenant = own_tenant(scope)
        asked = [key for key in dict.fromkeys(keys) if is_name(tenant) and is_name(key)]

        def work(transaction: Transaction) -> list[Any]:
            found = (transaction.execute(SQL.schedule_of_key, (tenant, key)) for key in asked)
            return [row for rows in found for row in rows.fetchall()]

        return tuple(stored(row).schedule for row in await self._database.read(work))

    async def list(
        self, scope: Scope, selection: ScheduleSelection, limit: int
    ) -> tuple[Schedule, ...]:
        return await self._lister.list(scope, selection, limit)

    async def change(
        self,
        scope: Scope,
        schedule_id: UUID,
        withdraw: Withdraw,
        decide: Decide,
        *,
        under: Grant | None = None,
    ) -> Schedule:
        return await self._changer.change(scope, schedule_id, withdraw, decide, under=under)

    async def messages(
        self, scope: Scope, schedule_id: UUID, limit: int, *, since: datetime | None = None
    ) -> tuple[Message, ...]:
        check_limit(limit)
        earliest = to_microseconds(since or EPOCH)

        def work(transaction: Transaction) -> list[rows.Row]:
            schedule = find(transaction, scope, schedule_id).schedule
            values = (schedule.tenant, schedule_id.bytes, limit, earliest)
            return transaction.execute(SQL.schedule_messages, values).fetchall()

        return rows.known_messages(await self._database.read(work))

    async def due(self, scope: Scope, shards: Sequence[int], limit: int) -> tuple[Due, ...]:
        return await self._planner.due(scope, shards, limit)

    async def of_shard(
        self, scope: Scope, shard: int, limit: int, *, after: tuple[datetime, UUID] | None = None
    ) -> tuple[Waiting, ...]:
        return await self._planner.of_shard(scope, shard, limit, after=after)

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None:
        return await self._planner.next_look_at(scope, shards)

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        return await self._planner.plan(scope, grants, plans)

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[Newer, ...]:
        return await self._planner.newer_due(scope, slots)

    async def sweep(self, scope: Scope, limit: int) -> int:
        return await self._planner.sweep(scope, limit)
