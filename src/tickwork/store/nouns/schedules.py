"""Schedules, and the operations of their leaders. Creating, changing, planning and listing them is
written for each database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.health_facts import ScheduleFacts
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Message, Scope
from tickwork.core.schedule.change import Decision
from tickwork.core.schedule.model import NewSchedule, Schedule
from tickwork.core.schedule.plan import DueSchedule, Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.core.when.model import EPOCH
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.messages import read_messages
from tickwork.store.steps import Noun, Port, Statement, Steps, page, reads, searches

_COUNT = Statement("count_schedules")
_TROUBLED = Statement("troubled_schedules", ScheduleFacts)
_MESSAGES = Statement("schedule_messages", Message)


class ScheduleCreator(Protocol):
    """Creates schedules."""

    async def create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]: ...

    async def create_bulk(self, scope: Scope, new: Iterable[NewSchedule]) -> int: ...


class ScheduleChanger(Protocol):
    """Changes schedules."""

    async def change(
        self,
        scope: Scope,
        schedule_id: UUID,
        withdraw: WithdrawScope,
        decide: Decision,
        *,
        under: Grant | None = None,
    ) -> Schedule: ...


class SchedulePlanner(Protocol):
    """What leaders do."""

    async def due(
        self, scope: Scope, shards: Sequence[int], limit: int
    ) -> tuple[DueSchedule, ...]: ...

    async def of_shard(
        self, scope: Scope, shard: int, limit: int, *, after: tuple[datetime, UUID] | None = None
    ) -> tuple[WaitingSchedule, ...]: ...

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None: ...

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult: ...

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[LaterSlots, ...]: ...

    async def sweep(self, scope: Scope, limit: int) -> int: ...


class Schedules(Noun, ABC):
    """Schedules. What is written for each database is taken as it is."""

    def __init__(
        self,
        port: Port,
        creator: ScheduleCreator,
        changer: ScheduleChanger,
        planner: SchedulePlanner,
    ) -> None:
        super().__init__(port)
        self.create, self.create_bulk = creator.create, creator.create_bulk
        self.change = changer.change
        self.plan, self.sweep = planner.plan, planner.sweep
        self.due, self.newer_due = planner.due, planner.newer_due
        self.of_shard, self.next_look_at = planner.of_shard, planner.next_look_at

    @abstractmethod
    async def get(self, scope: Scope, schedule_id: UUID) -> Schedule:
        """The schedule, read together with those that others ask for at the same time."""

    @reads
    def count(self, scope: Scope) -> Steps[int]:
        tenant = own_tenant(scope)
        schedules = (yield from _COUNT.fetch_value(tenant)) if is_name(tenant) else None
        return schedules or 0

    @searches
    def troubled(self, scope: Scope, limit: int) -> Steps[tuple[ScheduleFacts, ...]]:
        return (yield from page(_TROUBLED, lambda row: ScheduleFacts(**row), scope, limit=limit))

    async def messages(
        self, scope: Scope, schedule_id: UUID, limit: int, *, since: datetime | None = None
    ) -> tuple[Message, ...]:
        check_limit(limit)
        tenant = (await self.get(scope, schedule_id)).tenant
        return await self._messages(tenant, schedule_id, limit, since or EPOCH)

    @reads
    def _messages(
        self, tenant: str, schedule_id: UUID, limit: int, since: datetime
    ) -> Steps[tuple[Message, ...]]:
        return read_messages((yield from _MESSAGES.fetch(tenant, schedule_id, limit, since)))
