"""RFC 5545 recurrences on a naive clock.

A rule consists of the days that its date parts allow, filtered by its interval, and the times on
each day. `text` parses, `days` and `times` answer for one day, and `RecurrenceRule` iterates them.

dateutil computes which days of a year match. Used alone it iterates every occurrence from DTSTART,
up to the year 9999 if there is none. Here it is asked for one year at a time and everything else is
counted, so an old start costs no more than a new one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import islice

from msgspec import structs

from tickwork.core.when.calendar_rule import DAY_SECONDS, EPOCH_ORDINAL, Times
from tickwork.core.when.rrule.days import AllowedDays, Periods
from tickwork.core.when.rrule.text import Frequency, Parts, Until, parse_parts
from tickwork.core.when.rrule.times import times_of
from tickwork.core.when.zone import Timeline

SEARCH_DAYS_MAX = 100 * 366
"""Maximum number of days to search for the next match: a hundred years."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (naive local time, on purpose)
_LAST_DAY = date(9990, 1, 1).toordinal() - EPOCH_ORDINAL


class RecurrenceRule:
    """The matches of one RRULE. COUNT counts from its start."""

    __slots__ = ("_all", "_days", "_periods", "_start", "_times", "_until", "runs_around_the_clock")

    def __init__(self, text: str, start: int, line: Timeline) -> None:
        parts = _with_implied_parts(parse_parts(text), _EPOCH + timedelta(seconds=start))
        self.runs_around_the_clock = (
            not parts.hours or Times(parts.hours, (0,)).runs_around_the_clock()
        )
        self._start = start
        self._until = None if parts.until is None else _naive(parts.until, line)
        self._days = AllowedDays(parts)
        self._periods = Periods(parts, start // DAY_SECONDS)
        self._times = times_of(parts, start, self._days, self._periods)
        self._all: tuple[int, ...] | None = None
        if parts.count is not None:
            self._all = tuple(islice(self._iterate(), parts.count))

    def next_naive(self, after: int) -> int | None:
        if self._all is None:
            return self._next(after)
        at = bisect_right(self._all, after)
        return self._all[at] if at < len(self._all) else None

    def count_naive(self, start: int, end: int) -> int:
        if self._all is not None:
            return max(bisect_left(self._all, end) - bisect_left(self._all, start), 0)
        start = max(start, self._start)
        if self._until is not None:
            end = min(end, self._until + 1)
        if start >= end:
            return 0
        count = 0
        for day in self._days_between(start // DAY_SECONDS, (end - 1) // DAY_SECONDS + 1):
            times, begin = self._times.on(day), day * DAY_SECONDS
            count += bisect_left(times, end - begin) - bisect_left(times, start - begin)
        return count

    def _next(self, after: int) -> int | None:
        after = max(after, self._start - 1)
        first = (after + 1) // DAY_SECONDS
        last = min(first + SEARCH_DAYS_MAX, _LAST_DAY)
        if self._until is not None:
            last = min(last, self._until // DAY_SECONDS)
        for day in self._days_between(first, last + 1):
            times, begin = self._times.on(day), day * DAY_SECONDS
            at = bisect_right(times, after - begin)
            if at < len(times):
                naive = begin + times[at]
                return naive if self._until is None or naive <= self._until else None
        return None

    def _iterate(self) -> Iterator[int]:
        naive = self._next(self._start - 1)
        while naive is not None:
            yield naive
            naive = self._next(naive)

    def _days_between(self, start: int, end: int) -> Iterable[int]:
        return self._periods.in_step(self._days.between(start, end))


def _with_implied_parts(parts: Parts, start: datetime) -> Parts:
    """The parts, completed by those that the start implies."""
    implied: dict[str, tuple[object, ...]] = {}
    if not (parts.year_days or parts.month_days or parts.weekdays):
        if parts.frequency is Frequency.WEEKLY or (
            parts.week_numbers and parts.frequency <= Frequency.MONTHLY
        ):
            implied["weekdays"] = ((start.weekday(), None),)
        elif parts.frequency <= Frequency.MONTHLY:
            implied["month_days"] = (start.day,)
            if parts.frequency is Frequency.YEARLY and not parts.months:
                implied["months"] = (start.month,)
    if parts.frequency < Frequency.HOURLY and not parts.hours:
        implied["hours"] = (start.hour,)
    if parts.frequency < Frequency.MINUTELY and not parts.minutes:
        implied["minutes"] = (start.minute,)
    if parts.frequency < Frequency.SECONDLY and not parts.seconds:
        implied["seconds"] = (start.second,)
    return structs.replace(parts, **implied)


def _naive(until: Until, line: Timeline) -> int:
    """UNTIL as a naive second. A UTC value is converted to the zone's local time."""
    seconds = (until.moment - _EPOCH) // timedelta(seconds=1)
    return seconds + line.stretch(seconds).offset if until.in_utc else seconds
