"""How messages of each queue and type fared, as a user sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from tickwork.core.queue.performance import (
    PERCENTILES,
    Histogram,
    PeriodPerformance,
    Width,
    percentiles,
)


class Durations(Struct, frozen=True):
    """Seconds that half, 95 % and 99 % of the messages did not exceed, off by less than 5 %; null
    if no handler started."""

    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None

    @classmethod
    def of(cls, histogram: Histogram) -> Durations:
        """The answer for stored durations."""
        return cls(*percentiles(histogram, PERCENTILES))


class TypePerformance(Struct, frozen=True, kw_only=True):
    """How the messages of a queue and type fared that ended in a period."""

    period: Annotated[datetime, Meta(description="When the period begins, in UTC.")]
    queue: str
    type: str | None
    messages: Annotated[int, Meta(description="All that ended.")]
    done: int
    failed: Annotated[int, Meta(description="Those that died or expired.")]
    discarded: int
    wait: Annotated[
        Durations, Meta(description="From when they were ready to the start of the last handler.")
    ]
    run: Annotated[Durations, Meta(description="How long the last handler ran.")]

    @classmethod
    def of(cls, row: PeriodPerformance) -> TypePerformance:
        """The answer for stored numbers."""
        fared = row.performance
        return cls(
            period=row.period,
            queue=row.queue,
            type=row.type,
            messages=fared.done + fared.failed + fared.discarded,
            done=fared.done,
            failed=fared.failed,
            discarded=fared.discarded,
            wait=Durations.of(fared.waits),
            run=Durations.of(fared.runs),
        )


class PerformanceAnswer(Struct, frozen=True, kw_only=True):
    """How messages fared in a time. The period that `since` is in counts as a whole."""

    by: Width
    since: datetime
    until: datetime
    totals: Annotated[
        tuple[TypePerformance, ...], Meta(description="Each queue and type in the whole time.")
    ]
    periods: Annotated[
        tuple[TypePerformance, ...],
        Meta(description="Each queue and type in each period in which messages of it ended."),
    ]
