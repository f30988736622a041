"""Automatic concurrency: it grows with a backlog and shrinks with failures."""

from itertools import accumulate, repeat

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.queue.rate_limit import (
    AUTO_CONCURRENCY_MAX,
    AUTO_CONCURRENCY_MIN,
    FAILED_SHARE_MAX,
    FAILED_SHARE_TO_GROW,
    Load,
    grown_concurrency,
    next_concurrency,
)

BUSY = Load(finished=10, failed=0, all_busy=True, more_waiting=True)

LOADS = st.builds(
    lambda finished, failed, busy, more: Load(finished, min(failed, finished), busy, more),
    st.integers(0, 1_000),
    st.integers(0, 1_000),
    st.booleans(),
    st.booleans(),
)
CURRENT = st.integers(AUTO_CONCURRENCY_MIN, AUTO_CONCURRENCY_MAX)


def test_concurrency_grows_to_its_maximum_within_ten_checks() -> None:
    grown = [*accumulate(repeat(BUSY, 10), next_concurrency, initial=AUTO_CONCURRENCY_MIN)]
    assert grown == sorted(grown)
    assert grown[-1] == AUTO_CONCURRENCY_MAX


def test_idle_permits_or_an_empty_queue_stop_the_growth() -> None:
    assert next_concurrency(8, Load(10, 0, all_busy=False, more_waiting=True)) == 8
    assert next_concurrency(8, Load(10, 0, all_busy=True, more_waiting=False)) == 8


def test_failures_shrink_concurrency_to_its_minimum() -> None:
    failing = Load(finished=10, failed=10, all_busy=True, more_waiting=True)
    shrunk = [*accumulate(repeat(failing, 10), next_concurrency, initial=AUTO_CONCURRENCY_MAX)]
    assert shrunk == sorted(shrunk, reverse=True)
    assert shrunk[-1] == AUTO_CONCURRENCY_MIN


def test_some_failures_only_stop_the_growth() -> None:
    assert next_concurrency(8, Load(10, 2, all_busy=True, more_waiting=True)) == 8
    assert next_concurrency(8, Load(10, 5, all_busy=True, more_waiting=True)) == 8
    assert next_concurrency(8, Load(10, 6, all_busy=True, more_waiting=True)) == 4


def test_a_steady_share_of_a_few_failures_does_not_stop_the_growth() -> None:
    current = AUTO_CONCURRENCY_MIN
    finished = failed = 0
    for number in range(1, 2_001):  # Every fiftieth invocation fails.
        finished, failed = finished + 1, failed + (number % 50 == 0)
        if finished >= current:
            load = Load(finished, failed, all_busy=True, more_waiting=True)
            current, finished, failed = next_concurrency(current, load), 0, 0
    assert current == AUTO_CONCURRENCY_MAX


@given(CURRENT, LOADS)
def test_concurrency_stays_within_its_bounds(current: int, load: Load) -> None:
    assert AUTO_CONCURRENCY_MIN <= next_concurrency(current, load) <= AUTO_CONCURRENCY_MAX


@given(CURRENT, LOADS)
def test_concurrency_grows_only_with_few_failures_and_shrinks_only_with_many(
    current: int, load: Load
) -> None:
    after = next_concurrency(current, load)
    assert after <= current or load.failed <= load.finished * FAILED_SHARE_TO_GROW
    assert after >= current or load.failed > load.finished * FAILED_SHARE_MAX


@given(CURRENT, LOADS)
def test_without_enough_results_it_grows_by_the_same_rule_and_never_shrinks(
    current: int, load: Load
) -> None:
    assert grown_concurrency(current, load) == max(next_concurrency(current, load), current)
