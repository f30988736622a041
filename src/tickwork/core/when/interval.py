"""Intervals: slots by elapsed time, independent of daylight saving and without drift.

Only excluded days depend on local time. A local day can consist of several pieces: if the clock
goes back past midnight, the end of a day occurs twice, with the start of the next day between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from tickwork.core.when.excluded_days import day_start
from tickwork.core.when.zone import Timeline, instant_of, local_date, seconds_of

NEVER = datetime(9980, 1, 1, tzinfo=UTC)
"""An instant after every slot, one maximum interval before the last year of `datetime`."""

_DAY_SECONDS = 86_400
_ONE_DAY = timedelta(days=1)
_PIECES_PER_DAY_MAX = 3


class ClosedDays:
    """Excluded local days as ranges of instants."""

    __slots__ = ("_days", "_line", "_ordered")

    def __init__(self, days: frozenset[date], line: Timeline) -> None:
        self._days = days
        self._ordered = sorted(days)
        self._line = line

    def __len__(self) -> int:
        return len(self._ordered)

    def last_moment(self, instant: datetime) -> datetime | None:
        """The last moment of the excluded piece with this instant; None if it is not excluded."""
        if not self._ordered or (day := local_date(instant, self._line)) not in self._days:
            return None
        stretch = self._line.stretch(seconds_of(instant))
        ends = min(stretch.end, day_start(day) + _DAY_SECONDS - stretch.offset)
        return instant_of(ends) - timedelta.resolution

    def pieces(self, after: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The excluded parts of `(after, until]`, each as `(low, high]`."""
        if not self._ordered:
            return
        first = bisect_left(self._ordered, local_date(after, self._line) - _ONE_DAY)
        last = bisect_right(self._ordered, local_date(until, self._line) + _ONE_DAY)
        for day in self._ordered[first:last]:
            begin = day_start(day)
            for start, end in self._line.instants_showing(begin, begin + _DAY_SECONDS):
                low = max(after, instant_of(start) - timedelta.resolution)
                high = min(until, instant_of(end) - timedelta.resolution)
                if low < high:
                    yield low, high


class FixedRateSource:
    """Fixed rate: slot k at anchor + k · step for k ≥ 0, without excluded days."""

    __slots__ = ("_anchor", "_closed", "_step")

    def __init__(self, anchor: datetime, step: timedelta, closed: ClosedDays) -> None:
        self._anchor = anchor
        self._step = step
        self._closed = closed

    def next_after(self, after: datetime) -> datetime | None:
        for _ in range(_PIECES_PER_DAY_MAX * len(self._closed) + 1):
            if after >= NEVER:
                return None
            k = max((after - self._anchor) // self._step + 1, 0)
            slot = self._anchor + k * self._step
            closed_until = self._closed.last_moment(slot)
            if closed_until is None:
                return slot
            after = closed_until
        return None

    def count_between(self, after: datetime, until: datetime) -> int:
        after, until = max(after, self._anchor - timedelta.resolution), min(until, NEVER)
        if after >= until:
            return 0
        closed = sum(self._count(low, high) for low, high in self._closed.pieces(after, until))
        return self._count(after, until) - closed

    def _count(self, after: datetime, until: datetime) -> int:
        return (until - self._anchor) // self._step - (after - self._anchor) // self._step


class FixedDelaySource:
    """Fixed delay: each slot comes one step after the previous run finished.

    For more than the next slot it assumes that every run takes no time.
    """

    __slots__ = ("_anchor", "_closed", "_step")

    def __init__(self, anchor: datetime, step: timedelta, closed: ClosedDays) -> None:
        self._anchor = anchor
        self._step = step
        self._closed = closed

    def next_after(self, after: datetime) -> datetime | None:
        return None if after >= NEVER else self._from(after).next_after(after)

    def count_between(self, after: datetime, until: datetime) -> int:
        return 0 if after >= NEVER else self._from(after).count_between(after, until)

    def _from(self, after: datetime) -> FixedRateSource:
        first = self._anchor if after < self._anchor else after + self._step
        return FixedRateSource(first, self._step, self._closed)
