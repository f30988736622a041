"""A naive rule without some days; with a roll, their slots go to a neighbouring day.

A rolled slot keeps its time of day; where the neighbour has that slot anyway they are one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, timedelta

from tickwork.core.when.calendar_rule import DAY_SECONDS, EPOCH_ORDINAL
from tickwork.core.when.model import Roll
from tickwork.core.when.wall import NaiveRule

EXCLUDED_DAYS_MAX = 10_000


def day_start(day: date) -> int:
    """The naive second at which a day begins."""
    return (day.toordinal() - EPOCH_ORDINAL) * DAY_SECONDS


class ExcludedDays:
    """Another rule, with excluded days taken out or rolled."""

    __slots__ = ("_base", "_days", "_moved", "_targets")

    def __init__(self, base: NaiveRule, excluded: frozenset[date], roll: Roll) -> None:
        self._base = base
        self._days = [day_start(day) for day in sorted(excluded)]
        self._targets: list[int] = []
        if roll is not Roll.SKIP:
            step = timedelta(days=1 if roll is Roll.NEXT_DAY else -1)
            self._targets = [day_start(_open_day(day, step, excluded)) for day in sorted(excluded)]
        self._moved: dict[int, list[int]] = {}

    def next_naive(self, after: int) -> int | None:
        natural = self._next_natural(after)
        for naive in self._moved_from(after + 1):
            if natural is not None and naive >= natural:
                break
            if naive > after:
                return naive
        return natural

    def count_naive(self, start: int, end: int) -> int:
        count = self._base.count_naive(start, end)
        first = bisect_left(self._days, start - DAY_SECONDS + 1)
        for day in self._days[first : bisect_left(self._days, end)]:
            count -= self._base.count_naive(max(day, start), min(day + DAY_SECONDS, end))
        for naive in self._moved_from(start):
            if naive >= end:
                break
            count += naive >= start
        return count

    def _next_natural(self, after: int) -> int | None:
        """The base's next match that is not on an excluded day."""
        naive = self._base.next_naive(after)
        for _ in range(len(self._days) + 1):
            if naive is None:
                return None
            day = naive // DAY_SECONDS * DAY_SECONDS
            at = bisect_left(self._days, day)
            if at == len(self._days) or self._days[at] != day:
                return naive
            naive = self._base.next_naive(day + DAY_SECONDS - 1)
        return naive

    def _moved_from(self, start: int) -> Iterator[int]:
        """Slots that rolled to another day, in order, from the day of `start` on."""
        at = bisect_left(self._targets, start // DAY_SECONDS * DAY_SECONDS)
        while at < len(self._targets):
            target = self._targets[at]
            moved: set[int] = set()
            while at < len(self._targets) and self._targets[at] == target:
                moved.update(self._moved_between(self._days[at], target))
                at += 1
            yield from sorted(moved)

    def _moved_between(self, day: int, target: int) -> list[int]:
        """The slots of one excluded day, at the target, that the target has not anyway."""
        if day not in self._moved:
            found: list[int] = []
            naive = self._base.next_naive(day - 1)
            while naive is not None and naive < day + DAY_SECONDS:
                there = target + naive - day
                if not self._base.count_naive(there, there + 1):
                    found.append(there)
                naive = self._base.next_naive(naive)
            self._moved[day] = found
        return self._moved[day]


def _open_day(day: date, step: timedelta, excluded: frozenset[date]) -> date:
    for _ in range(EXCLUDED_DAYS_MAX + 1):
        if day not in excluded:
            return day
        day += step
    return day
