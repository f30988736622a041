"""The days of an ICS file: events as whole days, and those that come again written out.

What counts of an event: its start, its end or duration, `RRULE`, `RDATE`, `EXDATE`; a single day of
a series that was moved (`RECURRENCE-ID`) is where it was moved to, and what is cancelled is no day
off. The work is bounded: what would take more is refused, and nothing is left out silently.
"""

from __future__ import annotations

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
ICS_YEARS_AHEAD = 10
"""Days that come again every year are written out so far ahead; import again before then."""

EVENT_DAYS_MAX = 366
RULES_MAX = 1_000
DAYS_WRITTEN_MAX = 10 * EXCLUDED_DAYS_MAX
"""Days as the events have them: a day that several have counts for each."""

NAME_LENGTH_MAX = 100
"""An event is named with so much of its summary."""

_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError)
"""What reading a file, or an event with a property that is not what it should be, ends with."""

_DAY = timedelta(days=1)
_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
_TIMES_OF_DAY = ("BYHOUR", "BYMINUTE", "BYSECOND")


def read_ics(text: str | bytes, *, now: datetime) -> tuple[date, ...]:
    """The days of the events in an ICS file. An event that comes again is written out for the
    years ahead; one with a time of day takes the days that it touches."""
    import icalendar  # Heavy, and only for those who import a file.

    if len(text) > ICS_BYTES_MAX:
        raise _refused(f"has {len(text)} bytes; at most {ICS_BYTES_MAX}")
    # Some programs put a mark of the byte order in front.
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(BOM_UTF8)
    try:
        events = icalendar.Calendar.from_ical(text).walk("VEVENT")
    except _UNREADABLE as error:
        raise _refused(f"is not an ICS file: {error}") from None
    if sum("RRULE" in event for event in events) > RULES_MAX:
        raise _refused(f"has more than {RULES_MAX} events that come again")
    days: set[date] = set()
    for written, day in enumerate(_days_of(events, date(now.year + ICS_YEARS_AHEAD, 12, 31))):
        if day >= _EPOCH:  # No schedule has a slot before.
            days.add(day)
        if len(days) > EXCLUDED_DAYS_MAX or written >= DAYS_WRITTEN_MAX:
            raise _refused(f"has more than {EXCLUDED_DAYS_MAX} days")
    if not days:
        raise _refused("has no events with days")
    return tuple(sorted(days))


def _days_of(events: Sequence[Any], until: date) -> Iterator[date]:
    moved: dict[str, list[date]] = defaultdict(list)
    for event in events:
        if "RECURRENCE-ID" in event:
            with _reading(event):
                moved[str(event.get("UID"))].append(_moment(event, "RECURRENCE-ID"))
    for event in events:
        if "DTSTART" not in event or str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        elsewhere = [] if "RECURRENCE-ID" in event else moved[str(event.get("UID"))]
        with _reading(event):
            yield from _days_of_event(event, elsewhere, until)


@contextmanager
def _reading(event: Any) -> Iterator[None]:
    """Refuses an event that has not what it should have, by the name that people know it by."""
    try:
        yield
    except _UNREADABLE as error:
        name = str(event.get("SUMMARY") or event.get("UID") or "it has no name")
        raise _refused(
            f"has an event that cannot be read ({name[:NAME_LENGTH_MAX]}): {error}"
        ) from None


def _days_of_event(event: Any, elsewhere: Sequence[date], until: date) -> Iterator[date]:
    begin = _moment(event, "DTSTART")
    moved = {_day(each, begin) for each in elsewhere}
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
    # The end of an event is the first instant that is not in it any more.
    last = _day(end - timedelta.resolution, begin) if isinstance(end, datetime) else end - _DAY
    length = (max(first, last) - first).days + 1
    if length > EVENT_DAYS_MAX:
        raise _refused(f"has an event of {length} days on {first}; at most {EVENT_DAYS_MAX}")
    return length


def _starts(event: Any, begin: date, until: date) -> Iterator[date]:
    """The days that an event begins on: its first, or those of its rule, and those that are
    listed, without those that are left out."""
    first, left_out = _day(begin, begin), {*_listed(event, "EXDATE", begin)}
    rules = event.get("RRULE", [])
    for rule in rules if isinstance(rules, list) else [rules]:
        yield from (day for day in _days_of_rule(rule, begin, until) if day not in left_out)
    more = [*_listed(event, "RDATE", begin), *([] if rules else [first])]
    yield from (day for day in more if day not in left_out)


def _days_of_rule(rule: Any, begin: date, until: date) -> Iterator[date]:
    written, first = normalize(rule.to_ical().decode()), _day(begin, begin)
    parts = written.split(";")
    last = _last_day(rule, begin)
    if last is not None:
        parts = [part for part in parts if not part.startswith("UNTIL=")]
        parts.append(f"UNTIL={last:%Y%m%d}")
    if "COUNT=" not in written:
        # Days have no time, and no zone: an end of the rule in the zone of nobody cuts no day off.
        parts = [part for part in parts if not part.startswith(_TIMES_OF_DAY)]
    text = ";".join(parts)
    start = (first - _EPOCH).days * _DAY_SECONDS
    try:
        if parse_parts(text).frequency > Frequency.DAILY:
            raise RecurrenceError("it comes more than once a day; a calendar has whole days")
        found = RecurrenceRule(text, start, timeline("UTC"))
    except RecurrenceError as error:
        raise _refused(f"has a rule that cannot be read, {written}: {error}") from None
    naive = found.next_naive(start - 1)
    if naive is None:
        raise _refused(f"has a rule that no day fits, {written}")
    while naive is not None:
        day = _EPOCH + timedelta(seconds=naive)
        if day > until:
            return
        yield day
        naive = found.next_naive(naive)


def _last_day(rule: Any, begin: date) -> date | None:
    """The last day of a rule that ends at an instant, where its event begins; None if that cannot
    be told, or there is no such end."""
    (until,) = rule.get("UNTIL", [None])
    if not (isinstance(begin, datetime) and isinstance(until, datetime)):
        return None
    if any(name in rule for name in _TIMES_OF_DAY) or (begin.tzinfo is None and until.tzinfo):
        return None
    local = until if until.tzinfo is None else until.astimezone(begin.tzinfo)
    is_cut_off = local.time() < begin.time() and local.date() > begin.date()
    return local.date() - _DAY if is_cut_off else local.date()


def _listed(event: Any, name: str, begin: date) -> list[date]:
    """The days that a property lists; of a period, the first one."""
    given = event.get(name, [])
    lists = given if isinstance(given, list) else [given]
    moments = [each.dt for listed in lists for each in listed.dts]
    firsts = [each[0] if isinstance(each, tuple) else each for each in moments]
    return [_day(_checked(each, name, date), begin) for each in firsts]


def _moment(event: Any, name: str, kind: type = date) -> Any:
    given = event[name]
    if isinstance(given, list):
        raise ValueError(f"{name} is there more than once")
    return _checked(getattr(given, "dt", given), name, kind)


def _checked(value: Any, name: str, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is no {'date' if kind is date else 'duration'}")
    return value


def _day(moment: date, begin: date) -> date:
    """The day of a moment where its event begins: an instant has another day elsewhere."""
    if not isinstance(moment, datetime):
        return moment
    if isinstance(begin, datetime) and begin.tzinfo is not None and moment.tzinfo is not None:
        moment = moment.astimezone(begin.tzinfo)
    return moment.date()


def _refused(message: str) -> InvalidInput:
    return InvalidInput([FieldError("ics", message)])
