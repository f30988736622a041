"""1,000 users with three seconds of waiting each, in one process."""

from __future__ import annotations

import re
import sys
from datetime import timedelta

import pytest

from tests.examples.streaky_kit import DAY, Streaky, idle_users

USERS = 1_000
RUN_SECONDS_MAX = 120
TRIES = 5
"""Number of runs; the best one counts, because other programs only make it slower."""


async def measured(streaky: Streaky, number: int = 0) -> float:
    """Return the seconds that a new day takes in one process."""
    day = DAY + timedelta(days=number)
    child = streaky.module("measure", "--simulate", "--day", day.isoformat())
    await child.succeeded(RUN_SECONDS_MAX)
    found = re.match(r"1000 of 1000 users, concurrency \d+: ([\d.]+) s", child.lines()[0])
    assert found is not None, child.lines()
    sys.stdout.write(f"\n{child.lines()[0]}\n")
    return float(found[1])


async def best_seconds(streaky: Streaky, goal_seconds: float) -> float:
    """Return the shortest of several days; stop at the first that is short enough."""
    await streaky.prepare(idle_users(USERS))
    shortest = float("inf")
    for number in range(TRIES):
        shortest = min(shortest, await measured(streaky, number))
        if shortest <= goal_seconds:
            break
    return shortest


@pytest.mark.one_store("postgres")
@pytest.mark.parametrize(
    "streaky",
    [{"CONCURRENCY": 1_000, "ISOLATION": "task"}],
    indirect=True,
    ids=["concurrency 1000"],
)
async def test_a_thousand_users_are_checked_concurrently(streaky: Streaky) -> None:
    # With a concurrency of 100 it would take at least 30 seconds.
    assert 3.0 <= await best_seconds(streaky, 25.0) < 25.0


@pytest.mark.soak
@pytest.mark.parametrize(
    "streaky",
    [{"CONCURRENCY": 1_000, "ISOLATION": "task"}],
    indirect=True,
    ids=["concurrency 1000"],
)
async def test_a_concurrency_of_1000_takes_at_most_four_seconds(streaky: Streaky) -> None:
    assert await best_seconds(streaky, 4.0) <= 4.0


@pytest.mark.soak
@pytest.mark.parametrize(
    "streaky", [{"CONCURRENCY": 100, "ISOLATION": "task"}], indirect=True, ids=["concurrency 100"]
)
async def test_a_concurrency_of_100_takes_thirty_seconds(streaky: Streaky) -> None:
    assert 30.0 * 0.95 <= await best_seconds(streaky, 31.5) <= 30.0 * 1.05
