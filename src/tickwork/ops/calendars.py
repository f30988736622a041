"""Calendars: days off under a name, from dates or from an ICS file, and what follows a change.

When a calendar changes, the schedules that use it are computed anew, one by one: what was planned
and is not due yet is taken back, and the next slot follows the new days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from dateutil.rrule import rrulestr

from tickwork.core import changing
from tickwork.core.model import Scope
from tickwork.core.schedule import Calendar, Order, Schedule, ScheduleSelection
from tickwork.core.when.excluded import EXCLUDED_DAYS_MAX
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.recomputing import Moved, change_times
from tickwork.ops.schedule_facts import holidays_among, with_holidays
from tickwork.store.contract import Store

ICS_BYTES_MAX = 4_000_000
ICS_YEARS_AHEAD = 10
"""Days that come again every year are written out so far ahead; import again before then."""

EVENT_DAYS_MAX = 366
PAGE = 500

Progress = Callable[[int], None]


async def put_calendar(
    store: Store,
    scope: Scope,
    name: str,
    days: Sequence[date],
    *,
    on_progress: Progress | None = None,
) -> tuple[Calendar, tuple[Moved, ...]]:
    """Creates a calendar or replaces its days; says which schedules moved."""
    _check(name, days)
    before = await _days_of(store, scope, name)
    calendar = await store.calendars.put(scope, name, sorted(set(days)))
    if before is None:
        return calendar, ()
    # Also if the days are the same: an earlier call may not have come to its end.
    moved = await recompute(
        store,
        scope,
        ScheduleSelection(calendar=name),
        old_holidays={name: before},
        on_progress=on_progress,
    )
    return calendar, moved


async def recompute(
    store: Store,
    scope: Scope,
    selection: ScheduleSelection,
    *,
    old_holidays: dict[str, frozenset[date]] | None = None,
    on_progress: Progress | None = None,
) -> tuple[Moved, ...]:
    """Computes schedules anew under the days and zones of now; says which ones moved."""
    moved: list[Moved] = []
    after: UUID | None = None
    seen = 0
    while True:
        page = ScheduleSelection(
            status=selection.status, calendar=selection.calendar, order=Order.CREATED, after=after
        )
        found = await store.schedules.list(scope, page, PAGE)
        for schedule in found:
            change = await _recompute_one(store, schedule, old_holidays or {})
            if change is not None:
                moved.append(change)
        seen += len(found)
        if on_progress is not None and found:
            on_progress(seen)
        if len(found) < PAGE:
            return tuple(moved)
        after = found[-1].id


async def _recompute_one(
    store: Store, schedule: Schedule, old_holidays: dict[str, frozenset[date]]
) -> Moved | None:
    own, calendar = Scope(schedule.tenant), schedule.definition.rule.calendar
    holidays = await holidays_among(store, own, [{"calendar": calendar}])
    former = {**holidays, **old_holidays}

    def decide(found: Schedule, withdrawn: Any, now: datetime) -> changing.Change | None:
        if found.definition.rule.calendar != calendar:
            return None
        # Of the schedule as it stands now: somebody may have changed it since it was listed.
        rules = with_holidays(found, former), with_holidays(found, holidays)
        return changing.update(found.definition, found.name, *rules)(found, withdrawn, now)

    return await change_times(store, schedule, decide)


def read_ics(text: str | bytes, *, now: datetime) -> tuple[date, ...]:
    """The days of the events in an ICS file. An event that comes again is written out for the
    years ahead; one with a time of day takes the days that it touches."""
    import icalendar  # Heavy, and only for those who import a file.

    if len(text) > ICS_BYTES_MAX:
        raise _refused(f"has {len(text)} bytes; at most {ICS_BYTES_MAX}")
    try:
        parsed = icalendar.Calendar.from_ical(text)
    except ValueError as error:
        raise _refused(f"is not an ICS file: {error}") from None
    days: set[date] = set()
    for event in parsed.walk("VEVENT"):
        days.update(_days_of_event(event, now))
        if len(days) > EXCLUDED_DAYS_MAX:
            raise _refused(f"has more than {EXCLUDED_DAYS_MAX} days")
    if not days:
        raise _refused("has no events with days")
    return tuple(sorted(days))


def _days_of_event(event: Any, now: datetime) -> Iterator[date]:
    begin, end = event.get("DTSTART"), event.get("DTEND")
    if begin is None:
        return
    first = _day(begin.dt)
    last = first if end is None else _last_day(end.dt, first)
    length = min((last - first).days + 1, EVENT_DAYS_MAX)
    for start in _starts(event, first, now):
        for offset in range(length):
            yield start + timedelta(days=offset)


def _starts(event: Any, first: date, now: datetime) -> Iterator[date]:
    rule = event.get("RRULE")
    if rule is None:
        yield first
        return
    # Days have no zone: without one, an end of the rule with or without "Z" means the same.
    start = datetime(first.year, first.month, first.day, tzinfo=UTC).replace(tzinfo=None)
    horizon = start.replace(year=now.year + ICS_YEARS_AHEAD, month=12, day=31)
    text = rule.to_ical().decode()
    try:
        occurrences = rrulestr(text.replace("Z", ""), dtstart=start)
    except ValueError as error:
        raise _refused(f"has a rule that cannot be read, {text}: {error}") from None
    left_out = {_day(each.dt) for listed in _listed(event.get("EXDATE")) for each in listed.dts}
    for count, occurrence in enumerate(occurrences):
        if occurrence > horizon or count >= EXCLUDED_DAYS_MAX:
            return
        if occurrence.date() not in left_out:
            yield occurrence.date()


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _day(moment: date | datetime) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _last_day(end: date | datetime, first: date) -> date:
    """The end of an event is the first instant that is not in it any more."""
    if isinstance(end, datetime):
        return max(first, (end - timedelta.resolution).date())
    return max(first, end - timedelta(days=1))


def read_days(lines: Sequence[str]) -> tuple[date, ...]:
    """Days as ISO dates, one a line; what follows a `#` is a comment."""
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


def _check(name: str, days: Sequence[date]) -> None:
    faults = []
    if not name.strip() or len(name) > 120 or not name.isprintable():
        faults.append(FieldError("name", "must be 1 to 120 printable characters"))
    if len(days) > EXCLUDED_DAYS_MAX:
        faults.append(FieldError("days", f"has {len(days)}; at most {EXCLUDED_DAYS_MAX}"))
    if faults:
        raise InvalidInput(faults)


async def _days_of(store: Store, scope: Scope, name: str) -> frozenset[date] | None:
    try:
        calendar = await store.calendars.get(scope, name)
    except NotFound:
        return None
    return frozenset(map(date.fromisoformat, calendar.days))


def _refused(message: str) -> InvalidInput:
    return InvalidInput([FieldError("ics", message)])
