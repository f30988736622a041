"""Which days a rule means, by month."""

from __future__ import annotations

from calendar import monthrange
from functools import lru_cache

from msgspec import Struct

_ALL_MONTHS = frozenset(range(1, 13))
_WHOLE_MONTH = {length: tuple(range(1, length + 1)) for length in (28, 29, 30, 31)}

LAST = -1
"""In place of a day of the month, or of the n of an nth weekday: the last one."""


class DayPattern(Struct, frozen=True, cache_hash=True):
    """Days by month, day of the month and day of the week (0 = Sunday).

    `days` None means any day of the month and `weekdays` None any day of the week; with both
    given, `either` tells whether one suffices. `nearest` are the days of `15W`: the weekday
    nearest to it within its month. `nth` holds (weekday, n). `clamp` moves a day that a short
    month lacks to its last.
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

    def surely_comes(self) -> bool:
        """Whether each of its months has such a day, so that nobody need search for one."""
        if self.nth or (self.days is not None and self.weekdays is not None):
            return False
        if self.days is None or self.clamp or self.last_workday or LAST in self.days:
            return True
        return min(self.days | self.nearest) <= 28


@lru_cache(maxsize=8192)
def _matching(pattern: DayPattern, first_weekday: int, length: int) -> tuple[int, ...]:
    """The days of a month that begins on `first_weekday` (0 = Sunday): all a pattern can see."""
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
    """The Monday-to-Friday day nearest to `day` that stays in the month."""
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
