"""Rules made of days and times of day: cron, daily, weekly and monthly.

Days are looked up by month. Times are a product of hours, minutes and seconds. The next match takes
two short lookups, and counting a year takes twelve, however many slots it has.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

DAY_SECONDS = 86_400
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

SEARCH_MONTHS_MAX = 12 * 400
"""Maximum number of months to search. The calendar repeats every 400 years."""

_LAST_YEAR = 9998


class Days(Protocol):
    """A set of days of the calendar."""

    def in_month(self, year: int, month: int) -> tuple[int, ...]:
        """The matching days of a month, in order."""


class Times:
    """Times of day: every combination of hours, minutes and seconds."""

    __slots__ = ("hours", "minutes", "per_day", "seconds")

    def __init__(
        self, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...] = (0,)
    ) -> None:
        self.hours = hours
        self.minutes = minutes
        self.seconds = seconds
        self.per_day = len(hours) * len(minutes) * len(seconds)

    @property
    def first(self) -> int:
        return self.hours[0] * 3600 + self.minutes[0] * 60 + self.seconds[0]

    def next_from(self, second_of_day: int) -> int | None:
        """The first time at or after a second of the day."""
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        hours = self.hours
        minutes = self.minutes
        seconds = self.seconds
        at = bisect_left(hours, hour)
        if at < len(hours) and hours[at] == hour:
            inner = bisect_left(minutes, minute)
            if inner < len(minutes) and minutes[inner] == minute:
                if second <= seconds[-1]:
                    found = seconds[bisect_left(seconds, second)]
                    return hour * 3600 + minute * 60 + found
                inner += 1
            if inner < len(minutes):
                return hour * 3600 + minutes[inner] * 60 + seconds[0]
            at += 1
        if at < len(hours):
            return hours[at] * 3600 + minutes[0] * 60 + seconds[0]
        return None

    def count_before(self, second_of_day: int) -> int:
        """Number of times before a second of the day (up to 86,400)."""
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        count = bisect_left(self.hours, hour) * len(self.minutes) * len(self.seconds)
        if hour in self.hours:
            count += bisect_left(self.minutes, minute) * len(self.seconds)
            if minute in self.minutes:
                count += bisect_left(self.seconds, second)
        return count

    def runs_around_the_clock(self) -> bool:
        """Whether the hours are evenly spaced around the clock."""
        if len(self.hours) < 2:
            return False
        steps = {after - before for before, after in pairwise(self.hours)}
        steps.add(self.hours[0] + 24 - self.hours[-1])
        return len(steps) == 1

    def min_gap_seconds(self) -> int:
        """The shortest distance between two times, across midnight too."""
        seconds = self.seconds
        minutes = self.minutes
        hours = self.hours
        gaps = [after - before for before, after in pairwise(seconds)]
        tail = seconds[0] - seconds[-1]
        gaps += [60 * (after - before) + tail for before, after in pairwise(minutes)]
        tail += 60 * (minutes[0] - minutes[-1])
        gaps += [3600 * (after - before) + tail for before, after in pairwise(hours)]
        tail += 3600 * (hours[0] - hours[-1])
        return min([*gaps, DAY_SECONDS + tail])


DaysT_co = TypeVar("DaysT_co", bound=Days, covariant=True)


class CalendarRule(Generic[DaysT_co]):
    """Days × times, on a naive clock."""

    __slots__ = ("days", "times")

    def __init__(self, days: DaysT_co, times: Times) -> None:
        self.days, self.times = days, times

    def next_naive(self, after: int) -> int | None:
        ordinal, second = divmod(after + 1, DAY_SECONDS)
        day = date.fromordinal(ordinal + EPOCH_ORDINAL)
        year, month = day.year, day.month
        matching = self.days.in_month(year, month)
        at = bisect_left(matching, day.day)
        if at < len(matching) and matching[at] == day.day:
            time = self.times.next_from(second)
            if time is not None:
                return ordinal * DAY_SECONDS + time
            at += 1
        if at < len(matching):
            return (ordinal + matching[at] - day.day) * DAY_SECONDS + self.times.first
        for _ in range(SEARCH_MONTHS_MAX):
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if year > _LAST_YEAR:
                return None
            matching = self.days.in_month(year, month)
            if matching:
                first = date(year, month, matching[0]).toordinal() - EPOCH_ORDINAL
                return first * DAY_SECONDS + self.times.first
        return None

    def count_naive(self, start: int, end: int) -> int:
        return self._count_before(end, start) if start < end else 0

    def _count_before(self, end: int, start: int) -> int:
        first, first_second = divmod(start, DAY_SECONDS)
        last, last_second = divmod(end, DAY_SECONDS)
        count = -self.times.count_before(first_second) if self._matches(first) else 0
        if self._matches(last):
            count += self.times.count_before(last_second)
        return count + self._days_between(first, last) * self.times.per_day

    def _matches(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal + EPOCH_ORDINAL)
        return day.day in self.days.in_month(day.year, day.month)

    def _days_between(self, first: int, last: int) -> int:
        """Matching days in `[first, last)`, month by month."""
        start = date.fromordinal(first + EPOCH_ORDINAL)
        end = date.fromordinal(last + EPOCH_ORDINAL)
        year = start.year
        month = start.month
        count = 0
        while (year, month) <= (end.year, end.month):
            matching = self.days.in_month(year, month)
            low = bisect_left(matching, start.day) if _same(year, month, start) else 0
            high = bisect_left(matching, end.day) if _same(year, month, end) else len(matching)
            count += high - low
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return count


def _same(year: int, month: int, day: date) -> bool:
    return day.year == year and day.month == month


_ALL_MONTHS = frozenset(range(1, 13))
_WHOLE_MONTH = {length: tuple(range(1, length + 1)) for length in (28, 29, 30, 31)}

LAST = -1
"""Stands for the last day of the month, or the last of its nth weekdays."""


class DayPattern(Struct, frozen=True, cache_hash=True):
    """Days by month, day of the month and day of the week (0 = Sunday).

    `days` None means any day of the month, `weekdays` None any day of the week. If both are given,
    `either` means that one match suffices. `nearest` are the days of `15W`: the weekday nearest to
    it in the same month. `nth` holds (weekday, n). `clamp` moves a day that a short month lacks to
    its last day.
    """

    months: frozenset[int] = _ALL_MONTHS
    days: frozenset[int] | None = None
    nearest: frozenset[int] = frozenset()
    last_workday: bool = False
    weekdays: frozenset[int] | None = None
    nth: frozenset[tuple[int, int]] = frozenset()
    either: bool = False
    clamp: bool = False

    def in_month(self, year: int, month: int) -> tuple[int, ...]:
        if month not in self.months:
            return ()
        before, length = monthrange(year, month)
        if self.days is None and self.weekdays is None:
            return _WHOLE_MONTH[length]
        return _matching(self, (before + 1) % 7, length)

    def has_day_every_month(self) -> bool:
        """Whether each of its months surely has a matching day, so that no search is needed."""
        if self.nth or (self.days is not None and self.weekdays is not None):
            return False
        if self.days is None or self.clamp or self.last_workday or LAST in self.days:
            return True
        return min(self.days | self.nearest) <= 28


@lru_cache(maxsize=8192)
def _matching(pattern: DayPattern, first_weekday: int, length: int) -> tuple[int, ...]:
    """The matching days of a month that starts on `first_weekday` (0 = Sunday)."""
    by_date = _by_date(pattern, first_weekday, length)
    by_week = _by_week(pattern, first_weekday, length)
    if by_date is None or by_week is None:
        found = by_date if by_week is None else by_week
        assert found is not None
    else:
        found = by_date | by_week if pattern.either else by_date & by_week
    return tuple(sorted(found))


def _by_date(pattern: DayPattern, first_weekday: int, length: int) -> set[int] | None:
    if pattern.days is None:
        return None
    found = {day for day in pattern.days if 1 <= day <= length}
    if LAST in pattern.days or (pattern.clamp and any(day > length for day in pattern.days)):
        found.add(length)
    if pattern.last_workday:
        found.add(_workday_near(length, first_weekday, length))
    found.update(
        _workday_near(day, first_weekday, length) for day in pattern.nearest if day <= length
    )
    return found


def _workday_near(day: int, first_weekday: int, length: int) -> int:
    """The Monday-to-Friday day nearest to `day` in the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _by_week(pattern: DayPattern, first_weekday: int, length: int) -> set[int] | None:
    if pattern.weekdays is None:
        return None
    found: set[int] = set()
    for weekday in pattern.weekdays:
        found.update(range(1 + (weekday - first_weekday) % 7, length + 1, 7))
    for weekday, n in pattern.nth:
        all_of_them = range(1 + (weekday - first_weekday) % 7, length + 1, 7)
        if n == LAST or n <= len(all_of_them):
            found.add(all_of_them[n if n == LAST else n - 1])
    return found
