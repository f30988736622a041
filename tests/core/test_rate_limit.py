"""Rate limits: at most the rate and one bucket in any time, without rounding errors."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.messages import NOON
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN, allowance, interval, spend

RATES = st.one_of(
    st.floats(RATE_MIN, RATE_MAX), st.sampled_from([RATE_MIN, 0.1, 1 / 3, 1.0, 3.0, 7e5, RATE_MAX])
)
STEPS = st.lists(st.tuples(st.integers(0, 3_000_000), st.floats(0, 1)), min_size=1, max_size=30)
MICROSECOND = timedelta(microseconds=1)


def taken(rate: float, steps: list[tuple[int, float]]) -> list[tuple[datetime, int]]:
    """Messages that consumers take: each after some microseconds, and a share of the allowance."""
    now, spent, took = NOON, None, []
    for microseconds, share in steps:
        now += microseconds * MICROSECOND
        may = allowance(spent, now, rate)
        messages = round(may * share)
        spent = spend(spent, now, rate, messages)
        took.append((now, messages))
    return took


@settings(deadline=None)
@given(RATES, STEPS)
def test_no_more_than_the_rate_and_one_bucket_is_allowed_in_any_time(
    rate: float, steps: list[tuple[int, float]]
) -> None:
    took = taken(rate, steps)
    exactly = Fraction(rate)
    bucket = max(exactly, Fraction(1))
    for begin in range(len(took)):
        for end in range(begin, len(took)):
            elapsed = Fraction((took[end][0] - took[begin][0]) // MICROSECOND, 1_000_000)
            messages = sum(number for _, number in took[begin : end + 1])
            assert messages <= exactly * elapsed + bucket


@settings(deadline=None)
@given(RATES)
def test_a_consumer_that_takes_all_it_can_gets_the_rate(rate: float) -> None:
    per_message = interval(rate)
    spent = spend(None, NOON, rate, allowance(None, NOON, rate))
    later = NOON + 1_000 * per_message
    got, now = 0, NOON
    while now < later:
        now = min(now + max(per_message, timedelta(milliseconds=500)), later)
        may = allowance(spent, now, rate)
        spent = spend(spent, now, rate, may)
        got += may
    # Of the last bucket a part may have been left.
    assert 999 <= got <= 1_001


@settings(deadline=None)
@given(RATES, st.integers(0, 10**9), st.integers(1, 50))
def test_taking_messages_one_by_one_is_the_same_as_all_at_once(
    rate: float, elapsed: int, pieces: int
) -> None:
    spent = NOON
    now = NOON + elapsed * MICROSECOND
    may = allowance(spent, now, rate)
    one_by_one: datetime = spent
    for piece in range(pieces):
        part = may // pieces + (piece < may % pieces)
        one_by_one = spend(one_by_one, now, rate, part)
    assert one_by_one == spend(spent, now, rate, may)
    assert allowance(one_by_one, now, rate) == 0


def test_a_rate_that_was_never_used_has_one_bucket() -> None:
    assert allowance(None, NOON, 50.0) == 50
    assert allowance(None, NOON, 0.01) == 1
    assert allowance(NOON - timedelta(days=1), NOON, 50.0) == 50


def test_a_slow_rate_allows_one_message_per_interval() -> None:
    spent = spend(None, NOON, 0.01, 1)
    assert allowance(spent, NOON + timedelta(seconds=99.999999), 0.01) == 0
    assert allowance(spent, NOON + timedelta(seconds=100), 0.01) == 1


def test_a_clock_that_goes_back_does_not_block_the_rate() -> None:
    spent = spend(None, NOON, 10.0, 10)
    assert allowance(spent, NOON - timedelta(seconds=0.5), 10.0) == 0
    assert allowance(spent, NOON - timedelta(hours=1), 10.0) == 10
