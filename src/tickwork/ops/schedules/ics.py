"""Reads the days off of an ICS file: each event as whole days, recurring events expanded.

It uses an event's start, its end or duration, `RRULE`, `RDATE` and `EXDATE`. An occurrence that was
moved (`RECURRENCE-ID`) counts on its new day; a cancelled event does not count. The work is
bounded: a file that exceeds a limit is refused, and nothing is left out silently.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

from tickwork.core.when.excluded_days import EXCLUDED_DAYS_MAX
from tickwork.core.when.rrule import RecurrenceRule
from tickwork.core.when.rrule.text import Frequency, RecurrenceError, normalize, parse_parts
from tickwork.core.when.zone import timeline
from tickwork.errors import FieldError, InvalidInput

ICS_BYTES_MAX = 4_000_000
"""Maximum size of a file."""

ICS_YEARS_AHEAD = 10
"""Years ahead for which recurring events are expanded; import the file again before then."""

EVENT_DAYS_MAX = 366
"""Maximum number of days of one event."""

EVENTS_MAX = 1_000
"""Maximum number of events in a file. They are counted before they are parsed, which takes a
millisecond for each."""

DAYS_EXPANDED_MAX = 10 * EXCLUDED_DAYS_MAX
"""Maximum number of days of all events; a day that several events share counts for each."""

NAME_LENGTH_MAX = 100
"""Maximum number of characters of an event's summary in an error."""

_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError)
"""Errors that the library raises for a malformed file or event."""

_FOLD = re.compile(r"\r?\n[ \t]")
_BEGIN = re.compile(r"^BEGIN:VEVENT", re.IGNORECASE | re.MULTILINE)
_DAY = timedelta(days=1)
_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
_TIMES_OF_DAY = ("BYHOUR", "BYMINUTE", "BYSECOND")


def read_ics(text: str | bytes, *, now: datetime) -> tuple[date, ...]:
    """Returns the days of the events in an ICS file.

    A recurring event is expanded for `ICS_YEARS_AHEAD`. An event with a time of day counts for
    every day it touches.
    """
    import icalendar  # Imported late: slow, and only needed here.

    if len(text) > ICS_BYTES_MAX:
        raise _refused(f"has {len(text)} bytes; at most {ICS_BYTES_MAX}")
    # Some programs write a byte order mark.
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(BOM_UTF8)
    _check_events(_begun(text))
    try:
        events = icalendar.Calendar.from_ical(text).walk("VEVENT")
    except _UNREADABLE as error:
        raise _refused(f"is not an ICS file: {error}") from None
    _check_events(len(events))
    days: set[date] = set()
    for expanded, day in enumerate(_days_of(events, date(now.year + ICS_YEARS_AHEAD, 12, 31))):
        if day >= _EPOCH:  # No schedule has earlier slots.
            days.add(day)
        if len(days) > EXCLUDED_DAYS_MAX or expanded >= DAYS_EXPANDED_MAX:
            raise _refused(f"has more than {EXCLUDED_DAYS_MAX} days")
    if not days:
        raise _refused("has no events with days")
    return tuple(sorted(days))


def _begun(text: str | bytes) -> int:
    """How many events begin in a file, whose lines may be folded."""
    lines = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return len(_BEGIN.findall(_FOLD.sub("", lines)))


def _check_events(count: int) -> None:
    if count > EVENTS_MAX:
        raise _refused(f"has {count:,} events; at most {EVENTS_MAX:,}: leave out those of the past")


def _days_of(events: Sequence[Any], until: date) -> Iterator[date]:
    moved: dict[str, list[date]] = defaultdict(list)
    for event in events:
        if "RECURRENCE-ID" in event:
            with _reading(event):
                moved[str(event.get("UID"))].append(_moment(event, "RECURRENCE-ID"))
    for event in events:
        if "DTSTART" not in event or str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        moved_from = [] if "RECURRENCE-ID" in event else moved[str(event.get("UID"))]
        with _reading(event):
            yield from _days_of_event(event, moved_from, until)


@contextmanager
def _reading(event: Any) -> Iterator[None]:
    """Refuses a malformed event, naming it by its summary."""
    try:
        yield
    except _UNREADABLE as error:
        name = str(event.get("SUMMARY") or event.get("UID") or "without a name")
        raise _refused(
            f"has an event that cannot be read ({name[:NAME_LENGTH_MAX]}): {error}"
        ) from None


def _days_of_event(event: Any, moved_from: Sequence[date], until: date) -> Iterator[date]:
    begin = _moment(event, "DTSTART")
    moved = {_day(moment, begin) for moment in moved_from}
    length = _length_days(event, begin)
    for start in _starts(event, begin, until):
        if start not in moved:
            yield from (start + offset * _DAY for offset in range(length))


def _length_days(event: Any, begin: date) -> int:
    end = begin
    if "DTEND" in event:
        end = _moment(event, "DTEND")
    elif "DURATION" in event:
        end = begin + _moment(event, "DURATION", timedelta)
    first = _day(begin, begin)
    # The end of an event is exclusive.
    last = _day(end - timedelta.resolution, begin) if isinstance(end, datetime) else end - _DAY
    length = (max(first, last) - first).days + 1
    if length > EVENT_DAYS_MAX:
        raise _refused(f"has an event of {length} days on {first}; at most {EVENT_DAYS_MAX}")
    return length


def _starts(event: Any, begin: date, until: date) -> Iterator[date]:
    """Yields the days on which an event starts: its first day or those of its rules, and its
    `RDATE`s, without its `EXDATE`s."""
    first, excluded = _day(begin, begin), {*_listed(event, "EXDATE", begin)}
    rules = event.get("RRULE", [])
    for rule in rules if isinstance(rules, list) else [rules]:
        yield from (day for day in _days_of_rule(rule, begin, until) if day not in excluded)
    more = [*_listed(event, "RDATE", begin), *([] if rules else [first])]
    yield from (day for day in more if day not in excluded)


def _days_of_rule(rule: Any, begin: date, until: date) -> Iterator[date]:
    written, first = normalize(rule.to_ical().decode()), _day(begin, begin)
    parts = written.split(";")
    last = _last_day(rule, begin)
    if last is not None:
        parts = [part for part in parts if not part.startswith("UNTIL=")]
        parts.append(f"UNTIL={last:%Y%m%d}")
    if "COUNT=" not in written:
        # Only days matter. Times of day could drop the last day if UNTIL is in another zone.
        parts = [part for part in parts if not part.startswith(_TIMES_OF_DAY)]
    text = ";".join(parts)
    start = (first - _EPOCH).days * _DAY_SECONDS
    try:
        if parse_parts(text).frequency > Frequency.DAILY:
            raise RecurrenceError("it recurs more than once a day; a calendar has whole days")
        found = RecurrenceRule(text, start, timeline("UTC"))
    except RecurrenceError as error:
        raise _refused(f"has a rule that cannot be read, {written}: {error}") from None
    naive = found.next_naive(start - 1)
    if naive is None:
        raise _refused(f"has a rule that matches no day, {written}")
    while naive is not None:
        day = _EPOCH + timedelta(seconds=naive)
        if day > until:
            return
        yield day
        naive = found.next_naive(naive)


def _last_day(rule: Any, begin: date) -> date | None:
    """Returns the last day of a rule that ends at an instant, in the zone of its event's start;
    None if the rule has no such end or the day is ambiguous."""
    (until,) = rule.get("UNTIL", [None])
    if not (isinstance(begin, datetime) and isinstance(until, datetime)):
        return None
    if any(name in rule for name in _TIMES_OF_DAY) or (begin.tzinfo is None and until.tzinfo):
        return None
    local = until if until.tzinfo is None else until.astimezone(begin.tzinfo)
    is_cut_off = local.time() < begin.time() and local.date() > begin.date()
    return local.date() - _DAY if is_cut_off else local.date()


def _listed(event: Any, name: str, begin: date) -> list[date]:
    """Returns the days that a property lists; for a period, its first day."""
    given = event.get(name, [])
    lists = given if isinstance(given, list) else [given]
    moments = [value.dt for listed in lists for value in listed.dts]
    firsts = [moment[0] if isinstance(moment, tuple) else moment for moment in moments]
    return [_day(_checked(first, name, date), begin) for first in firsts]


def _moment(event: Any, name: str, kind: type = date) -> Any:
    given = event[name]
    if isinstance(given, list):
        raise ValueError(f"{name} occurs more than once")
    return _checked(getattr(given, "dt", given), name, kind)


def _checked(value: Any, name: str, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is not a {'date' if kind is date else 'duration'}")
    return value


def _day(moment: date, begin: date) -> date:
    """Returns the day of a moment in the zone of its event's start."""
    if not isinstance(moment, datetime):
        return moment
    if isinstance(begin, datetime) and begin.tzinfo is not None and moment.tzinfo is not None:
        moment = moment.astimezone(begin.tzinfo)
    return moment.date()


def _refused(message: str) -> InvalidInput:
    return InvalidInput([FieldError("ics", message)])
