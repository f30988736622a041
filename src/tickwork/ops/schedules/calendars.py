"""Creates, reads and deletes calendars, and recomputes the schedules that use them.

When a calendar changes, each schedule that uses it is recomputed: its slots that are not due yet
are withdrawn, and the next slot follows the new days.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from tickwork.core.answers.ids import fields_as_in
from tickwork.core.answers.schedule import CalendarAnswer, ChangedCalendar, MovedSchedule
from tickwork.core.fields import Reader
from tickwork.core.model import Scope
from tickwork.core.schedule import change
from tickwork.core.schedule.model import Schedule, ScheduleOrder, ScheduleSelection
from tickwork.core.when.excluded_days import EXCLUDED_DAYS_MAX
from tickwork.errors import FieldError, InvalidInput, NotFound, TooMany
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.schedules.change import change_times
from tickwork.ops.schedules.ics import read_ics
from tickwork.ops.schedules.lookup import holidays_among, with_holidays
from tickwork.store.contract import Store

PAGE = 500
"""Number of schedules that are listed and recomputed at a time."""

Progress = Callable[[int], None]


async def list_calendars(context: Context) -> tuple[CalendarAnswer, ...]:
    """Returns the calendars of a tenant by name."""
    return tuple(map(CalendarAnswer.of, await context.store.calendars.list(context.scope)))


async def get_calendar(context: Context, name: str) -> CalendarAnswer:
    """Returns one calendar; raises `NotFound` if there is none of that name."""
    return CalendarAnswer.of(await context.store.calendars.get(context.scope, name))


async def delete_calendar(context: Context, name: str) -> None:
    """Removes a calendar; raises `Conflict` if a schedule that is not deleted uses it."""
    async with recorded(context, "calendar.delete", name):
        await context.store.calendars.delete(context.scope, name)


async def put_ics_calendar(
    context: Context,
    name: str,
    text: str | bytes,
    *,
    on_progress: Progress | None = None,
) -> ChangedCalendar:
    """Creates a calendar or replaces its days with those of an ICS file.

    Returns the calendar and the schedules whose next slot moved.
    """
    # In a thread: parsing a large file must not block the event loop.
    days = await asyncio.to_thread(read_ics, text, now=await context.store.now())
    return await put_calendar(context, name, days, on_progress=on_progress)


async def put_calendar(
    context: Context,
    name: str,
    days: Iterable[date | str],
    *,
    on_progress: Progress | None = None,
) -> ChangedCalendar:
    """Creates a calendar or replaces its days, given as dates or ISO texts.

    Returns the calendar and the schedules whose next slot moved.
    """
    chosen = _read(name, days)
    before = await _days_of(context, name)
    was, becomes = _day_count(before), _day_count(chosen)
    async with recorded(context, "calendar.put", name, before=was, after=becomes):
        calendar = await context.store.calendars.put(context.scope, name, chosen)
    shown = fields_as_in(calendar, CalendarAnswer)
    if before is None:
        return ChangedCalendar(**shown, moved=())
    # Also if the days are the same: an earlier call may have stopped halfway.
    moved = await recompute(
        context,
        ScheduleSelection(calendar=name),
        old_holidays={name: before},
        on_progress=on_progress,
    )
    return ChangedCalendar(**shown, moved=moved)


def _day_count(days: Collection[date] | None) -> object:
    """What the audit log shows of a calendar: how many days, the first and the last one."""
    if days is None:
        return None
    return {"days": len(days), "first": min(days, default=None), "last": max(days, default=None)}


async def recompute(
    context: Context,
    selection: ScheduleSelection,
    *,
    old_holidays: dict[str, frozenset[date]] | None = None,
    on_progress: Progress | None = None,
) -> tuple[MovedSchedule, ...]:
    """Recomputes schedules with the current calendars and zones; returns those that moved."""
    moved: list[MovedSchedule] = []
    after: UUID | None = None
    seen = 0
    while True:
        page = ScheduleSelection(
            status=selection.status,
            calendar=selection.calendar,
            order=ScheduleOrder.CREATED,
            after=after,
        )
        found = await context.store.schedules.list(context.scope, page, PAGE)
        for schedule in found:
            recomputed = await _recompute_one(context.store, schedule, old_holidays or {})
            if recomputed is not None:
                moved.append(recomputed)
        seen += len(found)
        if on_progress is not None and found:
            on_progress(seen)
        if len(found) < PAGE:
            return tuple(moved)
        after = found[-1].id


async def _recompute_one(
    store: Store, schedule: Schedule, old_holidays: dict[str, frozenset[date]]
) -> MovedSchedule | None:
    own, calendar = Scope(schedule.tenant), schedule.definition.rule.calendar
    holidays = await holidays_among(Context(store, own), [{"calendar": calendar}])
    former = {**holidays, **old_holidays}

    def decide(found: Schedule, withdrawn: Any, now: datetime) -> change.Change | None:
        if found.definition.rule.calendar != calendar:
            return None
        # Uses `found`, not `schedule`: it may have changed since it was listed.
        rules = with_holidays(found, former), with_holidays(found, holidays)
        return change.update(found.definition, found.name, *rules)(found, withdrawn, now)

    try:
        return await change_times(store, schedule, decide)
    except TooMany:
        return None  # It is completed, and the tenant has no room to reactivate it.


def read_days(lines: Sequence[str]) -> tuple[date, ...]:
    """Parses ISO dates, one per line; text after a `#` is a comment."""
    faults: list[FieldError] = []
    days: set[date] = set()
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            days.add(date.fromisoformat(text))
        except ValueError:
            fault = f"line {number}: {text!r} is not a date such as 2027-12-24"
            faults.append(FieldError("days", fault))
    if faults:
        raise InvalidInput(faults)
    return tuple(sorted(days))


def _read(name: object, days: object) -> tuple[date, ...]:
    """Returns the days, sorted and distinct; raises `InvalidInput` for a bad name or day."""
    faults: list[FieldError] = []
    given = days if isinstance(days, str) or not isinstance(days, Iterable) else [*days]
    chosen = Reader({"days": given}, faults).dates("days", EXCLUDED_DAYS_MAX)
    is_name = isinstance(name, str) and name.strip() and len(name) <= 120 and name.isprintable()
    if not is_name:
        faults.append(FieldError("name", "must be 1 to 120 printable characters"))
    if faults:
        raise InvalidInput(faults)
    return chosen


async def _days_of(context: Context, name: str) -> frozenset[date] | None:
    try:
        calendar = await context.store.calendars.get(context.scope, name)
    except NotFound:
        return None
    return frozenset(map(date.fromisoformat, calendar.days))
