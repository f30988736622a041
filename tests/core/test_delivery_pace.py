"""Limits of one receiver: never exceeded, and what waits comes back in time, not all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.delivery.pace import (
    IDLE,
    RETURN_SECONDS_MAX,
    RETURNS_PER_SECOND,
    Limit,
    finished,
    is_idle,
    may_start,
    sent_away,
    started,
)
from tickwork.core.queue.rate_limit import bucket_size, interval

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LIMITS = st.builds(
    Limit,
    st.none() | st.floats(0.01, 1_000.0),
    st.none() | st.integers(1, 30),
)
STEPS = st.lists(st.tuples(st.sampled_from(["start", "end"]), st.floats(0.0, 2.0)), max_size=200)


@given(LIMITS, STEPS)
def test_neither_the_rate_nor_the_concurrency_is_exceeded(
    limit: Limit, steps: list[tuple[str, float]]
) -> None:
    pace, now, starts = IDLE, NOW, list[datetime]()
    for what, seconds in steps:
        now += timedelta(seconds=seconds)
        if what == "end" and pace.running:
            pace = finished(pace)
        elif what == "start" and may_start(pace, limit, now):
            pace = started(pace, limit, now)
            starts.append(now)
        assert limit.concurrency is None or pace.running <= limit.concurrency
    if limit.rate_per_second is not None:
        step, bucket = interval(limit.rate_per_second), bucket_size(limit.rate_per_second)
        for index, first in enumerate(starts):
            for later, last in enumerate(starts[index:], 1):
                assert later <= (last - first) // step + bucket + 1


@given(LIMITS, st.integers(1, 500))
def test_what_is_sent_away_comes_back_in_time_and_not_all_at_once(
    limit: Limit, waiting: int
) -> None:
    pace, waits, rate = IDLE, list[float](), limit.rate_per_second or RETURNS_PER_SECOND
    for _ in range(waiting):
        pace, seconds = sent_away(pace, limit, NOW)
        waits.append(seconds)
    assert all(0 < wait <= RETURN_SECONDS_MAX for wait in waits)
    if waiting < rate * RETURN_SECONDS_MAX / 2:
        assert all(after - before > 0.9 / rate for before, after in pairwise(waits))


def test_a_receiver_without_deliveries_is_idle_again_after_a_while() -> None:
    limit = Limit(1.0, 1)
    pace = started(IDLE, limit, NOW)
    assert not is_idle(pace, NOW)
    pace, _ = sent_away(finished(pace), limit, NOW)
    assert not is_idle(pace, NOW)
    assert is_idle(pace, NOW + timedelta(seconds=RETURN_SECONDS_MAX))
