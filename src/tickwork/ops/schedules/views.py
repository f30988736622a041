"""Renders schedules and firings with the API's field names, and lists firings and next fires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core import when
from tickwork.core.limits import LIST_LIMIT_MAX, check_limit
from tickwork.core.model import Message, Scope
from tickwork.core.schedule.fields import render_definition
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.schedule.model import Schedule, ScheduleOrder, ScheduleSelection, ScheduleStatus
from tickwork.core.when import has_one_known_slot, is_fixed_delay, just_before
from tickwork.core.when.slots import spread_max
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.schedules.lookup import (
    LIST_LIMIT,
    calendar_of,
    get_schedule,
    holidays_among,
    list_schedules,
    with_holidays,
)
from tickwork.store.contract import Store

KINDS: dict[type, str] = {
    when.Cron: "cron",
    when.Interval: "interval",
    when.Daily: "daily",
    when.Weekly: "weekly",
    when.Monthly: "monthly",
    when.Once: "once",
    when.Recurrence: "rrule",
}

UPCOMING_COUNT = 10
"""Number of fires that `upcoming` returns unless the caller gives a count."""

EARLIER_SCHEDULES_MAX = 1_000
"""Maximum number of schedules to compute that are due before the first fire to list: overdue ones
while no scheduler runs, or those due before `since`."""

SPREAD_SLOTS_MAX = 100
"""Maximum number of slots to search for the last one that was due, in a fire window."""


async def show_schedules(
    store: Store, scope: Scope, found: Sequence[Schedule]
) -> list[dict[str, Any]]:
    """Returns schedules as dicts with the API's field names."""
    now = await store.now()
    fired = await last_slots(store, scope, found, now)
    return [show_schedule(each, now, fired=fired.get(each.id)) for each in found]


async def last_slots(
    store: Store, scope: Scope, found: Sequence[Schedule], now: datetime
) -> Mapping[UUID, datetime]:
    """The last slot that came due of each schedule whose latest planned slot is in the future."""
    ahead = [each for each in found if _is_ahead(each, now, each.definition.rule)]
    return await store.firings.last_due(scope, ahead, now) if ahead else {}


def show_schedule(
    schedule: Schedule,
    now: datetime,
    *,
    rule: when.Rule | None = None,
    fired: datetime | None = None,
) -> dict[str, Any]:
    """Returns a schedule as a dict with the API's field names.

    `rule` is its rule with the days of its calendar, `fired` its last slot that has a record or a
    message, where they are known.
    """
    rule = rule or schedule.definition.rule
    upcoming = next_fire_at(schedule, now, rule)
    last = fired if fired is not None else last_fire_at(schedule, now, rule)
    return {
        "id": str(schedule.id),
        "name": schedule.name,
        "status": str(schedule.status),
        "kind": KINDS[type(rule.timing)],
        "cron_equivalent": when.cron_equivalent(rule.timing),
        **render_definition(schedule.definition),
        "next_fire_at": _iso(upcoming),
        "next_due_at": _iso(None if upcoming is None else when.due_at(rule, upcoming)),
        "last_fire_at": _iso(last),
        "last_status": schedule.last_status,
        "last_error": schedule.last_error,
        "error_count": schedule.error_count,
        "fired": schedule.fired,
        "owner": schedule.owner,
        "created_at": _iso(schedule.created_at),
        "updated_at": _iso(schedule.updated_at),
    }


def next_fire_at(schedule: Schedule, now: datetime, rule: when.Rule) -> datetime | None:
    """Returns the next slot that is not due yet, planned or not."""
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    last = schedule.last_slot
    if last is None or not _is_ahead(schedule, now, rule):
        slot = next_fire_in_row(schedule)
        # The next slot of a fixed delay may lie after the schedule's end.
        is_past_end = slot is not None and rule.end_at is not None and slot > rule.end_at
        return None if is_past_end else slot
    planned = when.next_after(rule, now)
    return last if planned is None or planned > last else planned


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
    slot, due, rule = schedule.next_slot, schedule.due_at, schedule.definition.rule
    is_plain = (
        not (rule.exclude or rule.calendar)
        or rule.roll is not when.Roll.SKIP
        or has_one_known_slot(rule)
    )
    if slot is None or due is None or is_plain:
        return slot
    earliest = max(slot, due - spread_max(rule))
    near = when.slots_between(when.ignoring_days_off(rule), just_before(earliest), due)
    return next((each for each in near if when.due_at(rule, each) == due), slot)


def show_firing(firing: FiringRecord) -> dict[str, Any]:
    """Returns a firing as a dict with the API's field names."""
    shown = {
        "id": str(firing.id),
        "schedule_id": str(firing.schedule_id),
        "slot": _iso(firing.slot),
        "due_at": _iso(firing.due_at),
        "attempt": firing.attempt,
        "run": firing.run,
        "status": str(firing.status),
        "reason": firing.reason,
        "started_at": _iso(firing.started_at),
        "finished_at": _iso(firing.finished_at),
        "result_code": firing.result_code,
        "excerpt": firing.excerpt,
        "channels": msgspec.to_builtins(firing.channels),
        "catch_up": firing.catch_up,
        "count": firing.count,
    }
    if firing.last_slot is not None:
        shown["last_slot"] = _iso(firing.last_slot)
    return shown


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else when.iso(instant)


class UpcomingFire(Struct, frozen=True):
    """A slot of a schedule that will fire; `due_at` is later than `fire_at` in a fire window."""

    schedule_id: UUID
    name: str | None
    fire_at: datetime
    due_at: datetime
    timezone: str = "UTC"


class UpcomingFires(NamedTuple):
    """The next fires. `truncated`: more than `EARLIER_SCHEDULES_MAX` schedules are due before the
    first of them, and the fires of the others among those are missing."""

    fires: tuple[UpcomingFire, ...]
    truncated: bool = False


async def upcoming(
    store: Store,
    scope: Scope,
    reference: UUID | str | None = None,
    *,
    count: int = UPCOMING_COUNT,
    since: datetime | None = None,
    until: datetime | None = None,
    owner: str | None = None,
) -> UpcomingFires:
    """Returns the next fires of one schedule, or of all schedules of the scope, soonest first.

    `since` and `until` bound the time they are due, `owner` limits them to one user's schedules.
    Across schedules, a slot that is planned already is listed only if its schedule is among the
    first ones that are due next.
    """
    if not 1 <= count <= when.PREVIEW_COUNT_MAX:
        fault = f"must be a whole number from 1 to {when.PREVIEW_COUNT_MAX}, not {count}"
        raise InvalidInput([FieldError("count", fault)])
    for name, instant in (("since", since), ("until", until)):
        if instant is not None and instant.tzinfo is None:
            raise InvalidInput([FieldError(name, "must have an offset, such as +00:00")])
    now = await store.now()
    if reference is not None:
        found = [await get_schedule(store, scope, reference)]
        fires = _soonest(found, await _rules_of(store, found), now, count, since)
        return UpcomingFires(_until(fires, until))
    selection = ScheduleSelection(order=ScheduleOrder.NEXT_DUE, before=until, owner=owner)
    fires = ()
    size, earlier, truncated = count, 0, False
    start = now if since is None else max(now, since)
    while True:
        page = await list_schedules(store, scope, selection, limit=size)
        more = _until(_soonest(page, await _rules_of(store, page), now, count, since), until)
        fires = tuple(islice(merge(fires, more, key=lambda each: each.due_at), count))
        if len(page) < size or (len(fires) == count and _is_due_by(page[-1], fires[-1])):
            return UpcomingFires(fires, truncated)
        selection = structs.replace(selection, after=page[-1].id)
        size = min(2 * size, LIST_LIMIT_MAX)  # Few queries for very many.
        earlier += len(page)
        if earlier >= EARLIER_SCHEDULES_MAX and not truncated and _is_due_until(page[-1], start):
            truncated, size = True, count
            selection = structs.replace(selection, after=None, due_from=start)


def _is_due_by(last: Schedule, fire: UpcomingFire) -> bool:
    """Whether every schedule behind the last one is due after a fire."""
    return last.due_at is not None and last.due_at >= fire.due_at


def _is_due_until(schedule: Schedule, instant: datetime) -> bool:
    return schedule.due_at is not None and schedule.due_at < instant


def _until(fires: tuple[UpcomingFire, ...], until: datetime | None) -> tuple[UpcomingFire, ...]:
    return fires if until is None else tuple(each for each in fires if each.due_at < until)


async def _rules_of(store: Store, found: Sequence[Schedule]) -> dict[UUID, when.Rule]:
    """The rules of schedules, with the days off of their calendars."""
    rules: dict[UUID, when.Rule] = {}
    for tenant in {each.tenant for each in found}:
        own = [each for each in found if each.tenant == tenant]
        calendars = [{"calendar": calendar_of(each)} for each in own]
        holidays = await holidays_among(store, Scope(tenant), calendars)
        rules |= {each.id: with_holidays(each, holidays) for each in own}
    return rules


def _soonest(
    schedules: Sequence[Schedule],
    rules: Mapping[UUID, when.Rule],
    now: datetime,
    count: int,
    since: datetime | None,
) -> tuple[UpcomingFire, ...]:
    """Merges the next slots of the schedules, computing no more of each than it needs."""
    slots = [next_slots(each, rules[each.id], now, 1, since=since) for each in schedules]
    asked = [1] * len(schedules)
    heap: list[tuple[datetime, int, int]] = []

    def push(index: int, position: int) -> None:
        if position < len(slots[index]):
            due_at = when.due_at(rules[schedules[index].id], slots[index][position])
            heappush(heap, (due_at, index, position))

    for index in range(len(schedules)):
        push(index, 0)
    fires: list[UpcomingFire] = []
    while heap and len(fires) < count:
        due_at, index, position = heappop(heap)
        schedule = schedules[index]
        zone, slot = rules[schedule.id].timezone, slots[index][position]
        fires.append(UpcomingFire(schedule.id, schedule.name, slot, due_at, zone))
        if position + 1 == asked[index]:
            asked[index] = min(asked[index] * 4, count)
            slots[index] = next_slots(schedule, rules[schedule.id], now, asked[index], since=since)
        push(index, position + 1)
    return tuple(fires)


def next_slots(
    schedule: Schedule,
    rule: when.Rule,
    now: datetime,
    count: int,
    *,
    since: datetime | None = None,
) -> tuple[datetime, ...]:
    """Returns the next slots after `now`, or after `since` if that is later, that will fire.

    There are none unless the schedule is active. A fixed delay has at most one, as each follows the
    previous run. `rule` is the schedule's rule with the days of its calendar.
    """
    start = now if since is None else max(now, since)
    if schedule.status is not ScheduleStatus.ACTIVE:
        return ()
    if is_fixed_delay(rule):
        slot = next_fire_at(schedule, now, rule)
        return () if slot is None or (since is not None and slot < since) else (slot,)
    far = start.astimezone(UTC) + timedelta(days=366 * 50)
    # `schedule.fired` includes slots that are planned ahead.
    last, unbounded = schedule.last_slot or now, structs.replace(rule, max_firings=None)
    fired = max(schedule.fired - when.count_between(unbounded, now, last), 0)
    fired += when.count_between(unbounded, now, start)
    return tuple(when.slots_between(rule, start, far, fired=fired, limit=count))


Position = tuple[datetime | None, UUID]
"""Position of a firing in the list: when it finished, if it has, and its id."""

OPEN = frozenset({FiringStatus.PLANNED, FiringStatus.RUNNING})


async def list_firings(
    store: Store,
    scope: Scope,
    reference: UUID | str,
    *,
    limit: int = LIST_LIMIT,
    status: FiringStatus | None = None,
    before: Position | None = None,
) -> tuple[FiringRecord, ...]:
    """Returns the firings of a schedule, newest first.

    The first page starts with the planned and running firings; if they exceed the limit, with
    those that are due soonest. `before` is the position of the last firing of the page before.
    """
    check_limit(limit)
    schedule_id = (await get_schedule(store, scope, reference)).id
    if status in OPEN:
        found = await _unfinished(store, scope, schedule_id, LIST_LIMIT_MAX)
        return () if before else tuple(each for each in found if each.status is status)[-limit:]
    if status is not None or before is not None:
        return await _recorded(store, scope, schedule_id, limit, status, before)
    there = await _unfinished(store, scope, schedule_id, limit)
    records: tuple[FiringRecord, ...] = ()
    if len(there) < limit:
        records = await store.firings.list(scope, schedule_id, limit - len(there))
    ended = {(each.slot, each.run): each.attempt for each in reversed(records)}
    still = [each for each in there if ended.get((each.slot, each.run), 0) < _next_attempt(each)]
    return (*still, *records)


async def _recorded(
    store: Store,
    scope: Scope,
    schedule_id: UUID,
    limit: int,
    status: FiringStatus | None,
    before: Position | None,
) -> tuple[FiringRecord, ...]:
    position: tuple[datetime, UUID] | None = None
    if before is not None and before[0] is not None:
        position = before[0], before[1]
    return await store.firings.list(scope, schedule_id, limit, status=status, before=position)


async def _unfinished(
    store: Store, scope: Scope, schedule_id: UUID, limit: int
) -> tuple[FiringRecord, ...]:
    """Returns the earliest firings that are still messages, latest first."""
    messages = await store.schedules.messages(scope, schedule_id, limit)
    return tuple(_open(each) for each in reversed(messages))


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
        catch_up=message.catch_up,
    )


def _next_attempt(firing: FiringRecord) -> int:
    """Returns the attempt without a record yet; if it has one, the message was settled between our
    two queries."""
    return firing.attempt + (firing.status is FiringStatus.PLANNED)
