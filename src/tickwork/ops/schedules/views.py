"""When schedules fire and fired, as users see it, and the list of their firings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from tickwork.core import when
from tickwork.core.answers.ids import GivenId
from tickwork.core.answers.schedule import FiringAnswer
from tickwork.core.fields import read_id
from tickwork.core.limits import LIST_LIMIT_MAX, check_limit
from tickwork.core.model import Message
from tickwork.core.schedule.firing import (
    SPREAD_MAX,
    FiringRecord,
    FiringStatus,
    PlannedSlot,
)
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.when import has_one_known_slot, just_before
from tickwork.core.when.slots import spread_max
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import (
    LIST_LIMIT,
    get_schedule,
)

KINDS: dict[type, str] = {
    when.Cron: "cron",
    when.Interval: "interval",
    when.Daily: "daily",
    when.Weekly: "weekly",
    when.Monthly: "monthly",
    when.Once: "once",
    when.Recurrence: "rrule",
}

SPREAD_SLOTS_MAX = 100
"""Maximum number of slots to search for the last one that was due, in a fire window."""


class SlotsInSight(Struct, frozen=True):
    """What the store has of a schedule around now: its last slot that came due, and the slots that
    are messages and not due yet, soonest first."""

    last_due: datetime | None = None
    planned: tuple[PlannedSlot, ...] = ()


async def slots_in_sight(
    context: Context, found: Sequence[Schedule], now: datetime
) -> Mapping[UUID, SlotsInSight]:
    """The slots around now of each schedule whose latest planned slot may be in the future."""
    near = [
        schedule
        for schedule in found
        if schedule.last_slot and schedule.last_slot + SPREAD_MAX > now
    ]
    if not near:
        return {}
    last = await context.store.firings.last_due(context.scope, near, now)
    planned: dict[UUID, tuple[PlannedSlot, ...]] = {}
    for slot in await context.store.firings.planned_of(context.scope, near, now):
        planned[slot.schedule_id] = (*planned.get(slot.schedule_id, ()), slot)
    return {
        schedule.id: SlotsInSight(last.get(schedule.id), planned.get(schedule.id, ()))
        for schedule in near
    }


class FireTimes(NamedTuple):
    """When a schedule fires next and fired last, and how many of its slots came due."""

    next_fire_at: datetime | None
    next_due_at: datetime | None
    last_fire_at: datetime | None
    fired: int


def fire_times(
    schedule: Schedule, now: datetime, rule: when.Rule, in_sight: SlotsInSight | None
) -> FireTimes:
    """The fires of a schedule around now; from its row and rule alone if nothing is in sight."""
    is_active = schedule.status is ScheduleStatus.ACTIVE
    if in_sight is None or (not in_sight.planned and _is_ahead(schedule, now, rule)):
        # The message of a slot that is not due was deleted, or nothing was read.
        slot = next_fire_at(schedule, now, rule)
        due = None if slot is None else when.due_at(rule, slot)
    elif is_active and in_sight.planned:
        slot, due = in_sight.planned[0].slot, in_sight.planned[0].due_at
    else:
        slot = unplanned_fire_at(schedule, rule) if is_active else None
        due = None if slot is None else when.due_at(rule, slot)
    last = None if in_sight is None else in_sight.last_due
    planned = () if in_sight is None else in_sight.planned
    if last is None and (in_sight is None or planned or _is_ahead(schedule, now, rule)):
        last = last_fire_at(schedule, now, rule)
    elif last is None:
        last = schedule.last_slot
    return FireTimes(slot, due, last, max(schedule.fired - len(planned), 0))


def next_fire_at(schedule: Schedule, now: datetime, rule: when.Rule) -> datetime | None:
    """Returns the next slot that is not due yet, planned or not, from its row and rule."""
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    last = schedule.last_slot
    if last is None or not _is_ahead(schedule, now, rule):
        return unplanned_fire_at(schedule, rule)
    planned = when.next_after(rule, now)
    return last if planned is None or planned > last else planned


def unplanned_fire_at(schedule: Schedule, rule: when.Rule) -> datetime | None:
    """Returns the next slot that will fire and is no message yet."""
    slot = next_fire_in_row(schedule)
    # The next slot of a fixed delay may lie after the schedule's end.
    is_past_end = slot is not None and rule.end_at is not None and slot > rule.end_at
    return None if is_past_end else slot


def last_fire_at(schedule: Schedule, now: datetime, rule: when.Rule) -> datetime | None:
    """Returns the last slot that was due, as far as the schedule's row shows it.

    If the row's last slot is planned ahead, the slot before it is computed from the rule; that is
    possible only for an active schedule, back to its last change of status.
    """
    if not _is_ahead(schedule, now, rule):
        return schedule.last_slot
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    planned = now if schedule.last_slot is None else schedule.last_slot
    if has_one_known_slot(rule) or schedule.fired <= when.count_between(rule, now, planned):
        return None
    slot = when.last_between(rule, schedule.changed_at, now)
    for _ in range(SPREAD_SLOTS_MAX):
        if slot is None or when.due_at(rule, slot) <= now:
            return slot
        slot = when.last_between(rule, schedule.changed_at, just_before(slot))
    return None


def _is_ahead(schedule: Schedule, now: datetime, rule: when.Rule) -> bool:
    """Whether the last slot that became a message is not due yet. For a schedule that is not
    active, whether that is possible: its rule is not evaluated, as its zone may be unknown."""
    slot = schedule.last_slot
    if slot is None:
        return False
    if schedule.status is not ScheduleStatus.ACTIVE:
        return slot + spread_max(rule) > now
    return when.due_at(rule, slot) > now


def next_fire_in_row(schedule: Schedule) -> datetime | None:
    """Returns the next slot that will fire, from the schedule's row alone.

    The row's `due_at` identifies the slot, so the days of the calendar are not needed.
    """
    slot = schedule.next_slot
    due = schedule.due_at
    rule = schedule.definition.rule
    is_plain = (
        not (rule.exclude or rule.calendar)
        or rule.roll is not when.Roll.SKIP
        or has_one_known_slot(rule)
    )
    if slot is None or due is None or is_plain:
        return slot
    earliest = max(slot, due - spread_max(rule))
    near = when.slots_between(when.ignoring_days_off(rule), just_before(earliest), due)
    return next((candidate for candidate in near if when.due_at(rule, candidate) == due), slot)


Position = tuple[datetime | None, GivenId]
"""Position of a firing in the list: when it finished, if it has, and its id."""

OPEN = frozenset({FiringStatus.PLANNED, FiringStatus.RUNNING})


async def list_firings(
    context: Context,
    reference: GivenId,
    *,
    limit: int = LIST_LIMIT,
    status: FiringStatus | None = None,
    before: Position | None = None,
) -> tuple[FiringAnswer, ...]:
    """Returns the firings of a schedule, newest first.

    The first page starts with the planned and running firings; if they exceed the limit, with
    those that are due soonest. `before` is the position of the last firing of the page before.
    """
    check_limit(limit)
    schedule_id = (await get_schedule(context, reference)).id
    found = await _list_records(context, schedule_id, limit, status, before)
    return tuple(map(FiringAnswer.of, found))


async def _list_records(
    context: Context,
    schedule_id: UUID,
    limit: int,
    status: FiringStatus | None,
    before: Position | None,
) -> tuple[FiringRecord, ...]:
    if status in OPEN:
        found = await _unfinished(context, schedule_id, LIST_LIMIT_MAX)
        return (
            () if before else tuple(firing for firing in found if firing.status is status)[-limit:]
        )
    if status is not None or before is not None:
        return await _recorded(context, schedule_id, limit, status, before)
    there = await _unfinished(context, schedule_id, limit)
    records: tuple[FiringRecord, ...] = ()
    if len(there) < limit:
        records = await context.store.firings.list(context.scope, schedule_id, limit - len(there))
    ended = {(record.slot, record.run): record.attempt for record in reversed(records)}
    still = [
        firing
        for firing in there
        if ended.get((firing.slot, firing.run), 0) < _next_attempt(firing)
    ]
    return (*still, *records)


async def _recorded(
    context: Context,
    schedule_id: UUID,
    limit: int,
    status: FiringStatus | None,
    before: Position | None,
) -> tuple[FiringRecord, ...]:
    position: tuple[datetime, UUID] | None = None
    if before is not None and before[0] is not None:
        position = before[0], read_id("before", before[1])
    return await context.store.firings.list(
        context.scope, schedule_id, limit, status=status, before=position
    )


async def _unfinished(context: Context, schedule_id: UUID, limit: int) -> tuple[FiringRecord, ...]:
    """Returns the earliest firings that are still messages, latest first."""
    messages = await context.store.schedules.messages(context.scope, schedule_id, limit)
    return tuple(_open(message) for message in reversed(messages))


def _open(message: Message) -> FiringRecord:
    assert message.schedule_id is not None
    assert message.slot is not None
    runs = message.is_running
    return FiringRecord(
        id=message.id,
        tenant=message.tenant,
        schedule_id=message.schedule_id,
        slot=message.slot,
        run=message.run,
        attempt=message.attempts + runs,
        status=FiringStatus.RUNNING if runs else FiringStatus.PLANNED,
        reason=None,
        due_at=message.due_at or message.slot,
        started_at=message.claimed_at or message.waits_since,
        finished_at=None,
        result_code=None,
        excerpt=None,
        channels=(),
        catch_up=message.catch_up,
        count=1,
        last_slot=None,
    )


def _next_attempt(firing: FiringRecord) -> int:
    """Returns the attempt without a record yet; if it has one, the message was settled between our
    two queries."""
    return firing.attempt + (firing.status is FiringStatus.PLANNED)
