"""How messages of each queue and type fared, by the minute and by the hour: how many ended, how
long they waited for a handler, and how long it ran.

What a settlement ends is noted in its transaction, and rolled up a moment later. Durations are in
histograms whose buckets grow by a tenth: they are merged by addition, and a percentile of any time
is off by less than 5 %.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

GROWTH = 1.1
"""By which factor a bucket is wider than the one before."""

_SHORTEST_SECONDS, _LONGEST_SECONDS = 1e-5, 4e7


def _bounds() -> tuple[float, ...]:
    bounds = [_SHORTEST_SECONDS]
    while bounds[-1] < _LONGEST_SECONDS:
        bounds.append(float(f"{bounds[-1] * GROWTH:.6g}"))
    return tuple(bounds)


BOUNDS_SECONDS = _bounds()
"""Upper bounds of the buckets in seconds, from 10 microseconds to 15 months; the last bucket has
none. A duration is less than the bound of its bucket."""

PERCENTILES = (0.5, 0.95, 0.99)

ROLL_UP_SECONDS = 5.0
"""Seconds between two passes that roll up what settlements noted."""

ROLLED_UP_MAX = 5_000
"""Maximum number of notes of settlements that one pass rolls up."""

PERIODS_MAX = 10_000
"""Maximum number of rows that one answer has."""


class Width(StrEnum):
    """The length of a period."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        """The length as a duration."""
        return timedelta(**{f"{self}s": 1})

    @property
    def stored(self) -> Width:
        """The width of the rows that it is made of: days are made of hours."""
        return Width.HOUR if self is Width.DAY else self

    @property
    def usual_periods(self) -> int:
        """How many are shown to somebody who gives no time."""
        return _USUAL_PERIODS[self]


_USUAL_PERIODS = {Width.MINUTE: 60, Width.HOUR: 24, Width.DAY: 30}

STORED_WIDTHS = (Width.MINUTE, Width.HOUR)

KEPT_SECONDS: Mapping[Width, int] = {Width.MINUTE: 2 * 86_400, Width.HOUR: 90 * 86_400}
"""Seconds that the rows of a width are kept."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def period_of(at: datetime, width: Width) -> datetime:
    """The start of the period, in UTC, that a time is in."""
    return at - (at - _EPOCH) % width.length


Histogram: TypeAlias = Mapping[int, int]
"""Number of durations in each bucket that has some."""


def bucket_of(seconds: float) -> int:
    """The bucket of a duration: the number of bounds that it reaches."""
    return bisect_right(BOUNDS_SECONDS, seconds)


def percentiles(histogram: Histogram, shares: Sequence[float]) -> tuple[float | None, ...]:
    """Durations in seconds which these shares of all do not exceed, off by less than 5 %; None if
    there are no durations."""
    total = sum(histogram.values())
    if total == 0:
        return (None,) * len(shares)
    return tuple(_middle(_bucket_at(histogram, share * total)) for share in shares)


def mean_seconds(histogram: Histogram) -> float | None:
    """The mean of durations in seconds, off by less than 5 %; None if there are none."""
    total = sum(histogram.values())
    if total == 0:
        return None
    return sum(_middle(bucket) * number for bucket, number in histogram.items()) / total


def _bucket_at(histogram: Histogram, rank: float) -> int:
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= rank:
            return bucket
    return max(histogram)


def _middle(bucket: int) -> float:
    """The duration whose relative distance to both ends of a bucket is the same."""
    upper = BOUNDS_SECONDS[min(bucket, len(BOUNDS_SECONDS) - 1)]
    return upper * 2 / (1 + GROWTH)


class PeriodName(Struct, frozen=True, order=True):
    """What a row counts: messages of a tenant, queue and type in a period. An empty type means
    none."""

    width: Width
    period: datetime
    tenant: str
    queue: str
    type: str


class Measure(StrEnum):
    """What a note of a settlement says: numbers of messages by how they ended, durations by their
    bucket, and the microseconds of all runs together."""

    DONE = "done"
    FAILED = "failed"
    DISCARDED = "discarded"
    WAIT = "wait"
    RUN = "run"
    RUN_TIME = "run_time"


class Performance(Struct, frozen=True, kw_only=True):
    """How messages fared: how many ended how, and histograms of waits and of runs. `failed` ones
    died or expired."""

    done: int = 0
    failed: int = 0
    discarded: int = 0
    waits: Histogram = {}
    runs: Histogram = {}

    def plus(self, other: Performance) -> Performance:
        """Both together."""
        return Performance(
            done=self.done + other.done,
            failed=self.failed + other.failed,
            discarded=self.discarded + other.discarded,
            waits=Counter(self.waits) + Counter(other.waits),
            runs=Counter(self.runs) + Counter(other.runs),
        )


class Noted(Struct, frozen=True):
    """Messages that settlements ended in a minute: their number by a measure, for a duration by its
    bucket; of `RUN_TIME` the microseconds instead."""

    minute: datetime
    tenant: str
    queue: str
    type: str
    measure: Measure
    bucket: int
    messages: int


def roll_up(noted: Iterable[Noted]) -> dict[PeriodName, Performance]:
    """What notes add to the row of each period, in the order of their names."""
    counts: dict[PeriodName, dict[Measure, Counter[int]]] = {}
    for note in noted:
        for width in STORED_WIDTHS:
            period = period_of(note.minute, width)
            name = PeriodName(width, period, note.tenant, note.queue, note.type)
            measures = counts.setdefault(name, {measure: Counter() for measure in Measure})
            measures[note.measure][note.bucket] += note.messages
    return {
        name: Performance(
            done=measures[Measure.DONE].total(),
            failed=measures[Measure.FAILED].total(),
            discarded=measures[Measure.DISCARDED].total(),
            waits=measures[Measure.WAIT],
            runs=measures[Measure.RUN],
        )
        for name, measures in sorted(counts.items())
    }


class PeriodPerformance(Struct, frozen=True):
    """How the messages of a queue and type fared in a period."""

    period: datetime
    queue: str
    type: str | None
    performance: Performance


def merged(
    rows: Iterable[PeriodPerformance], width: Width, *, by_type: bool = True
) -> tuple[PeriodPerformance, ...]:
    """Rows as those of a wider period, or of all types of a queue together; in the order of time,
    queue and type."""
    sums: dict[tuple[datetime, str, str], Performance] = {}
    for row in rows:
        name = (period_of(row.period, width), row.queue, (row.type or "") if by_type else "")
        sums[name] = sums.get(name, Performance()).plus(row.performance)
    return tuple(
        PeriodPerformance(period, queue, type_ or None, performance)
        for (period, queue, type_), performance in sorted(sums.items(), key=lambda pair: pair[0])
    )
