"""Backoff: delays grow up to the cap, plus at most a tenth of jitter."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.message.backoff import (
    BACKOFF_SECONDS_MAX,
    FACTOR_MAX,
    JITTER_MAX,
    LIST_LENGTH_MAX,
    Backoff,
    Exponential,
    Fixed,
    Listed,
    backoff_faults,
    delay_seconds,
)

SECONDS = st.floats(0, BACKOFF_SECONDS_MAX)
EXPONENTIALS = st.builds(Exponential, SECONDS, st.floats(1, FACTOR_MAX), SECONDS)
LISTS = st.builds(Listed, st.lists(SECONDS, min_size=1, max_size=10).map(tuple))
BACKOFFS: st.SearchStrategy[Backoff] = st.one_of(EXPONENTIALS, LISTS, st.builds(Fixed, SECONDS))
ATTEMPTS = st.integers(1, 101)
SPREADS = st.floats(0, 1)


def test_the_default_doubles_from_half_a_minute_to_ten() -> None:
    waits = [delay_seconds(Exponential(), attempt) for attempt in range(1, 8)]
    assert waits == [30, 60, 120, 240, 480, 600, 600]


@given(EXPONENTIALS)
def test_an_exponential_never_shrinks_and_stops_at_its_cap(backoff: Exponential) -> None:
    waits = [delay_seconds(backoff, attempt) for attempt in range(1, 102)]
    assert all(before <= after for before, after in pairwise(waits))
    assert max(waits) <= backoff.cap_seconds
    assert waits[0] == min(backoff.base_seconds, backoff.cap_seconds)


@given(LISTS)
def test_a_list_gives_one_delay_per_attempt_and_repeats_the_last(backoff: Listed) -> None:
    length = len(backoff.seconds)
    waits = [delay_seconds(backoff, attempt) for attempt in range(1, length + 5)]
    assert tuple(waits[:length]) == backoff.seconds
    assert set(waits[length:]) == {backoff.seconds[-1]}


@given(SECONDS, ATTEMPTS)
def test_a_fixed_backoff_is_always_the_same(seconds: float, attempt: int) -> None:
    assert delay_seconds(Fixed(seconds), attempt) == seconds


@given(BACKOFFS, ATTEMPTS, SPREADS)
def test_jitter_adds_at_most_a_tenth(backoff: Backoff, attempt: int, jitter: float) -> None:
    plain = delay_seconds(backoff, attempt)
    assert plain <= delay_seconds(backoff, attempt, jitter=jitter) <= plain + plain * JITTER_MAX


@given(BACKOFFS, ATTEMPTS, SPREADS)
def test_no_delay_is_negative_or_longer_than_a_store_accepts(
    backoff: Backoff, attempt: int, jitter: float
) -> None:
    assert 0 <= delay_seconds(backoff, attempt, jitter=jitter) <= DELAY_SECONDS_MAX


@given(BACKOFFS)
def test_a_valid_backoff_has_no_errors(backoff: Backoff) -> None:
    assert [*backoff_faults(backoff, "backoff")] == []


@pytest.mark.parametrize(
    ("backoff", "field"),
    [
        (Fixed(-1), "seconds"),
        (Fixed(float("nan")), "seconds"),
        (Fixed(float("inf")), "seconds"),
        (Listed(()), "seconds"),
        (Listed((1.0,) * (LIST_LENGTH_MAX + 1)), "seconds"),
        (Listed((1.0, -1.0)), "seconds[1]"),
        (Exponential(base_seconds=-1), "base_seconds"),
        (Exponential(cap_seconds=BACKOFF_SECONDS_MAX + 1), "cap_seconds"),
        (Exponential(factor=0.5), "factor"),
    ],
)
def test_an_error_of_a_backoff_names_its_field(backoff: Backoff, field: str) -> None:
    assert [fault.field for fault in backoff_faults(backoff, "backoff")] == [f"backoff.{field}"]
