"""Lists the next fires of schedules: slots that are messages already, and those that the rules
give."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush, merge
from itertools import islice
from uuid import UUID

from msgspec import structs

from tickwork import clock
from tickwork.core import when
from tickwork.core.access import visible_owner
from tickwork.core.answers.ids import GivenId, Id, Prefix
from tickwork.core.answers.schedule import Fires, UpcomingFire
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.model import Scope
from tickwork.core.schedule.firing import PlannedSlot
from tickwork.core.schedule.model import Schedule, ScheduleOrder, ScheduleSelection, ScheduleStatus
from tickwork.core.when import is_fixed_delay
from tickwork.core.when.slots import spread_max
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import (
    calendar_of,
    get_schedule,
    holidays_among,
    list_schedules,
    with_holidays,
)
from tickwork.ops.schedules.views import unplanned_fire_at
from tickwork.store.contract import Store

UPCOMING_LIMIT = 10
"""Number of fires that `upcoming` returns unless the caller gives a limit."""

EARLIER_SCHEDULES_MAX = 1_000
"""Maximum number of schedules to compute that are due before the first fire to list: overdue ones
while no scheduler runs, or those due before `since`."""

COMPUTE_SECONDS_MAX = 2.0
"""Seconds of processor time that computing the fires of one call may take."""

PLANNED_MAX = 10_000
"""Maximum number of slots to read that are messages and not due yet."""


async def upcoming(
    context: Context,
    reference: GivenId | None = None,
    *,
    limit: int = UPCOMING_LIMIT,
    since: datetime | None = None,
    until: datetime | None = None,
    owner: str | None = None,
) -> Fires:
    """Returns the next fires of one schedule, or of all schedules of the scope, soonest first.

    `since` and `until` bound the time they are due, `owner` limits them to one user's schedules.
    A slot that is a message already is listed until it is due.
    """
    if not 1 <= limit <= when.PREVIEW_LIMIT_MAX:
        fault = f"must be a whole number from 1 to {when.PREVIEW_LIMIT_MAX}, not {limit}"
        raise InvalidInput([FieldError("limit", fault)])
    for name, instant in (("since", since), ("until", until)):
        if instant is not None and instant.tzinfo is None:
            raise InvalidInput([FieldError(name, "must have an offset, such as +00:00")])
    owner = visible_owner(context.scope, owner)
    now = await context.store.now()
    budget = _Budget()

    async def soonest(found: Sequence[Schedule]) -> tuple[UpcomingFire, ...]:
        rules = await _rules_of(context.store, found)
        # In a thread: slots of a century hence, or spread over a day, take longer than other
        # requests should wait.
        return await asyncio.to_thread(_soonest, found, rules, now, limit, since, budget)

    if reference is not None:
        found = [await get_schedule(context, reference)]
        planned = await context.store.firings.planned_of(context.scope, found, now)
        if found[0].status is not ScheduleStatus.ACTIVE:
            planned = ()
        merged = merge(_planned(planned, since), await soonest(found), key=lambda fire: fire.due_at)
        return Fires(_until(tuple(islice(merged, limit)), until))
    selection = ScheduleSelection(order=ScheduleOrder.NEXT_DUE, before=until, owner=owner)
    # Those before `since` are few: slots are planned for the next seconds.
    planned = await context.store.firings.planned(context.scope, now, PLANNED_MAX, owner=owner)
    fires = _until(_planned(planned, since), until)[:limit]
    size = limit
    earlier = 0
    truncated = len(planned) == PLANNED_MAX and len(fires) < limit
    start = now if since is None else max(now, since)
    while True:
        page = await list_schedules(context, selection, limit=size)
        more = _until(await soonest(page), until)
        fires = tuple(islice(merge(fires, more, key=lambda fire: fire.due_at), limit))
        if len(page) < size or (len(fires) == limit and _is_due_by(page[-1], fires[-1])):
            return Fires(fires, truncated)
        selection = structs.replace(selection, after=page[-1].id)
        size = min(2 * size, LIST_LIMIT_MAX)  # Larger pages: fewer queries.
        earlier += len(page)
        if earlier >= EARLIER_SCHEDULES_MAX and not truncated and _is_due_until(page[-1], start):
            truncated, size = True, limit
            selection = structs.replace(selection, after=None, due_from=start)


class _Budget:
    """The processor time that the fires of one call may take."""

    def __init__(self) -> None:
        self._used_seconds = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the time of this thread, also that of an error."""
        began = clock.thread_seconds()
        try:
            yield
        finally:
            self._used_seconds += clock.thread_seconds() - began

    def check(self) -> None:
        """Raises `InvalidInput` if it is used up."""
        if self._used_seconds > COMPUTE_SECONDS_MAX:
            fault = "takes too long to compute for so many schedules; give an earlier time"
            raise InvalidInput([FieldError("since", f"{fault}, or ask for one schedule")])


def _planned(slots: Sequence[PlannedSlot], since: datetime | None) -> tuple[UpcomingFire, ...]:
    """Slots that are messages, as fires that are due from `since` on."""
    return tuple(
        UpcomingFire(
            schedule_id=Id.of(Prefix.SCHEDULE, slot.schedule_id),
            name=slot.name,
            fire_at=slot.slot,
            due_at=slot.due_at,
            timezone=slot.timezone,
            tenant=slot.tenant,
        )
        for slot in slots
        if since is None or slot.due_at >= since
    )


def _is_due_by(last: Schedule, fire: UpcomingFire) -> bool:
    """Whether every schedule behind the last one is due after a fire."""
    return last.due_at is not None and last.due_at >= fire.due_at


def _is_due_until(schedule: Schedule, instant: datetime) -> bool:
    return schedule.due_at is not None and schedule.due_at < instant


def _until(fires: tuple[UpcomingFire, ...], until: datetime | None) -> tuple[UpcomingFire, ...]:
    return fires if until is None else tuple(fire for fire in fires if fire.due_at < until)


async def _rules_of(store: Store, found: Sequence[Schedule]) -> dict[UUID, when.Rule]:
    """The rules of schedules, with the days off of their calendars."""
    rules: dict[UUID, when.Rule] = {}
    for tenant in {schedule.tenant for schedule in found}:
        own = [schedule for schedule in found if schedule.tenant == tenant]
        calendars = [{"calendar": calendar_of(schedule)} for schedule in own]
        holidays = await holidays_among(Context(store, Scope(tenant)), calendars)
        rules |= {schedule.id: with_holidays(schedule, holidays) for schedule in own}
    return rules


def _soonest(
    schedules: Sequence[Schedule],
    rules: Mapping[UUID, when.Rule],
    now: datetime,
    limit: int,
    since: datetime | None,
    budget: _Budget,
) -> tuple[UpcomingFire, ...]:
    """Merges the next slots of the schedules, computing no more of each than it needs."""

    def computed(schedule: Schedule, count: int) -> tuple[datetime, ...]:
        budget.check()
        with budget.counted():
            return next_slots(schedule, rules[schedule.id], now, count, since=since)

    slots = [computed(schedule, 1) for schedule in schedules]
    asked = [1] * len(schedules)
    heap: list[tuple[datetime, int, int]] = []

    def push(index: int, position: int) -> None:
        if position < len(slots[index]):
            due_at = when.due_at(rules[schedules[index].id], slots[index][position])
            heappush(heap, (due_at, index, position))

    for index in range(len(schedules)):
        push(index, 0)
    fires: list[UpcomingFire] = []
    while heap and len(fires) < limit:
        due_at, index, position = heappop(heap)
        schedule = schedules[index]
        fires.append(
            UpcomingFire(
                schedule_id=Id.of(Prefix.SCHEDULE, schedule.id),
                name=schedule.name,
                fire_at=slots[index][position],
                due_at=due_at,
                timezone=rules[schedule.id].timezone,
                tenant=schedule.tenant,
            )
        )
        if position + 1 == asked[index]:
            asked[index] = min(asked[index] * 4, limit)
            slots[index] = computed(schedule, asked[index])
        push(index, position + 1)
    return tuple(fires)


def next_slots(
    schedule: Schedule,
    rule: when.Rule,
    now: datetime,
    limit: int,
    *,
    since: datetime | None = None,
) -> tuple[datetime, ...]:
    """Returns the next slots that are no messages yet and are due after `now`, or after `since` if
    that is later.

    There are none unless the schedule is active. A fixed delay has at most one, as each follows the
    previous run. `rule` is the schedule's rule with the days of its calendar.
    """
    start = now if since is None else max(now, since)
    if schedule.status is not ScheduleStatus.ACTIVE:
        return ()
    if is_fixed_delay(rule):
        slot = unplanned_fire_at(schedule, rule)
        return () if slot is None or (since is not None and slot < since) else (slot,)
    far = start.astimezone(UTC) + timedelta(days=366 * 50)
    # A slot that has passed may be due later, in its window.
    planned = schedule.last_slot or schedule.created_at
    first, unbounded = (
        max(start - spread_max(rule), planned),
        structs.replace(rule, max_firings=None),
    )
    fired = schedule.fired
    if rule.max_firings is not None:  # Nothing else needs it, and it takes a second for a century.
        fired += when.count_between(unbounded, max(now, planned), first)
    passed = when.count_between(unbounded, first, max(start, first))
    slots = when.slots_between(rule, first, far, fired=fired, limit=limit + passed)
    return tuple(islice((slot for slot in slots if when.due_at(rule, slot) > start), limit))
