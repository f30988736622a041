"""Rules without excluded days. With `roll`, slots on them move to the nearest open day.

A rolled slot keeps its time of day. If the open day has the same slot, the two are one. Consecutive
excluded days form a run, with one open day before it and one after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from tickwork.core.when.calendar_rule import DAY_SECONDS, EPOCH_ORDINAL, CalendarRule, Days
from tickwork.core.when.model import PinnedTime, Roll
from tickwork.core.when.wall_clock import NaiveRule

EXCLUDED_DAYS_MAX = 10_000
"""Maximum number of excluded days of a rule or a calendar."""

ROLL_DAYS_MAX = 366
"""Maximum number of days that a slot rolls. Without an open day in reach it is skipped."""


def exclude_days(
    rule: NaiveRule, excluded: frozenset[date], roll: Roll, pinned: Sequence[PinnedTime] = ()
) -> NaiveRule:
    """The rule with slots on excluded days removed or rolled, except for the pinned ones."""
    if pinned:
        unpinned = _TimesWithout(rule, {time.natural for time in pinned})
        moved = {time.moved_to for time in pinned if time.moved_to is not None}
        return _TimesWith(OpenTimes(unpinned, excluded, roll), moved)
    if isinstance(rule, CalendarRule):
        return CalendarRule(OpenDays(rule.days, excluded, roll), rule.times)
    return OpenTimes(rule, excluded, roll)


def day_start(day: date) -> int:
    """The naive second at which a day starts."""
    return (day.toordinal() - EPOCH_ORDINAL) * DAY_SECONDS


class _Run(NamedTuple):
    """Excluded days `[first, end)` as ordinals, and the open day they roll to, if any."""

    first: int
    end: int
    target: int | None

    def rolled(self) -> range:
        """The days near enough to the open day to roll to it."""
        if self.target is None:
            return range(0)
        if self.target == self.end:
            return range(max(self.first, self.end - ROLL_DAYS_MAX), self.end)
        return range(self.first, min(self.end, self.first + ROLL_DAYS_MAX))


def _runs(excluded: frozenset[date], roll: Roll) -> list[_Run]:
    spans: list[tuple[int, int]] = []
    for ordinal in sorted(day.toordinal() for day in excluded):
        if spans and spans[-1][1] == ordinal:
            spans[-1] = (spans[-1][0], ordinal + 1)
        else:
            spans.append((ordinal, ordinal + 1))
    match roll:
        case Roll.NEXT_DAY:
            return [_Run(first, end, end) for first, end in spans]
        case Roll.PREVIOUS_DAY:
            return [_Run(first, end, first - 1) for first, end in spans]
        case Roll.SKIP:
            return [_Run(first, end, None) for first, end in spans]


class OpenDays:
    """The days of a calendar rule. All have the same times, so whole days are removed or added."""

    __slots__ = ("_base", "_touched")

    def __init__(self, base: Days, excluded: frozenset[date], roll: Roll) -> None:
        self._base = base
        closed = _by_month(day.toordinal() for day in excluded)
        rolled = _by_month(
            run.target
            for run in _runs(excluded, roll)
            if run.target is not None and any(map(self._is_natural, run.rolled()))
        )
        self._touched = {
            month: tuple(sorted(rolled[month].union(base.in_month(*month)) - closed[month]))
            for month in closed.keys() | rolled.keys()
        }

    def in_month(self, year: int, month: int) -> tuple[int, ...]:
        touched = self._touched.get((year, month))
        return self._base.in_month(year, month) if touched is None else touched

    def _is_natural(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal)
        return day.day in self._base.in_month(day.year, day.month)


def _by_month(ordinals: Iterable[int]) -> dict[tuple[int, int], set[int]]:
    months: dict[tuple[int, int], set[int]] = defaultdict(set)
    for ordinal in ordinals:
        day = date.fromordinal(ordinal)
        months[day.year, day.month].add(day.day)
    return months


class OpenTimes:
    """Any other rule without excluded days. Its days may have different times."""

    __slots__ = ("_base", "_firsts", "_moved", "_runs", "_targets")

    def __init__(self, base: NaiveRule, excluded: frozenset[date], roll: Roll) -> None:
        self._base = base
        self._runs = _runs(excluded, roll)
        self._firsts = [_start_of(run.first) for run in self._runs]
        self._targets = [_start_of(run.target) for run in self._runs if run.target is not None]
        self._moved: dict[int, list[int]] = {}

    def next_naive(self, after: int) -> int | None:
        natural = self._next_natural(after)
        for naive in self._moved_between(after + 1, natural):
            return naive
        return natural

    def count_naive(self, start: int, end: int) -> int:
        count = self._base.count_naive(start, end)
        first = max(bisect_right(self._firsts, start) - 1, 0)
        for run in self._runs[first : bisect_left(self._firsts, end)]:
            low, high = max(start, _start_of(run.first)), min(end, _start_of(run.end))
            if low < high:
                count -= self._base.count_naive(low, high)
        return count + sum(1 for _ in self._moved_between(start, end))

    def _next_natural(self, after: int) -> int | None:
        """The base's next match that is not on an excluded day."""
        naive = self._base.next_naive(after)
        for _ in range(len(self._runs)):
            at = bisect_right(self._firsts, naive) - 1 if naive is not None else -1
            if naive is None or at < 0 or naive >= _start_of(self._runs[at].end):
                return naive
            naive = self._base.next_naive(_start_of(self._runs[at].end) - 1)
        return naive

    def _moved_between(self, start: int, end: int | None) -> Iterator[int]:
        """The slots in `[start, end)` that rolled from an excluded day, in order."""
        upcoming: int | None = None
        for at in range(bisect_right(self._targets, start - DAY_SECONDS), len(self._targets)):
            days = self._runs[at].rolled()
            if end is not None and self._targets[at] >= end:
                return
            if upcoming is not None and upcoming >= _start_of(days.stop):
                continue
            upcoming = self._base.next_naive(_start_of(days.start) - 1)
            if upcoming is None:
                return
            for naive in self._moved_to(at):
                if start <= naive and (end is None or naive < end):
                    yield naive

    def _moved_to(self, at: int) -> list[int]:
        """The slots that a run adds to its open day, without those the day has anyway."""
        if at not in self._moved:
            days, target = self._runs[at].rolled(), self._targets[at]
            times: set[int] = set()
            naive = self._base.next_naive(_start_of(days.start) - 1)
            while naive is not None and naive < _start_of(days.stop):
                times.add(target + naive % DAY_SECONDS)
                naive = self._base.next_naive(naive)
            self._moved[at] = sorted(
                time for time in times if not self._base.count_naive(time, time + 1)
            )
        return self._moved[at]


class _TimesWithout:
    """A rule without some of its times."""

    __slots__ = ("_base", "_removed")

    def __init__(self, base: NaiveRule, removed: Iterable[int]) -> None:
        self._base = base
        self._removed = {time for time in removed if base.count_naive(time, time + 1)}

    def next_naive(self, after: int) -> int | None:
        naive = self._base.next_naive(after)
        while naive is not None and naive in self._removed:
            naive = self._base.next_naive(naive)
        return naive

    def count_naive(self, start: int, end: int) -> int:
        removed = sum(start <= time < end for time in self._removed)
        return self._base.count_naive(start, end) - removed


class _TimesWith:
    """A rule with some more times."""

    __slots__ = ("_added", "_base")

    def __init__(self, base: NaiveRule, added: Iterable[int]) -> None:
        self._base = base
        self._added = sorted(time for time in added if not base.count_naive(time, time + 1))

    def next_naive(self, after: int) -> int | None:
        naive, index = self._base.next_naive(after), bisect_right(self._added, after)
        later = [*self._added[index : index + 1], *([] if naive is None else [naive])]
        return min(later, default=None)

    def count_naive(self, start: int, end: int) -> int:
        added = sum(start <= time < end for time in self._added)
        return self._base.count_naive(start, end) + added


def _start_of(ordinal: int) -> int:
    return (ordinal - EPOCH_ORDINAL) * DAY_SECONDS
