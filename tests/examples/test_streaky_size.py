"""1,000 users who take three seconds of waiting each, on one process."""

from __future__ import annotations

import re
import sys
from datetime import timedelta

import pytest

from tests.examples.streaky_kit import DAY, Streaky, idle

USERS = 1_000
ENDS_SECONDS_MAX = 120
TRIES = 5
"""A neighbour on the machine only makes it slower: the best of some is what it takes. What was
printed says how long others had the processors."""


async def measured(streaky: Streaky, number: int = 0) -> float:
    """The seconds that a new day takes in one process, all of it."""
    day = DAY + timedelta(days=number)
    child = streaky.module("measure", "--here", "--day", day.isoformat())
    await child.succeeded(ENDS_SECONDS_MAX)
    found = re.match(r"1000 of 1000 users, \d+ slots: ([\d.]+) s", child.lines()[0])
    assert found is not None, child.lines()
    sys.stdout.write(f"\n{child.lines()[0]}\n")
    return float(found[1])


async def best_seconds(streaky: Streaky, wanted_seconds: float) -> float:
    """The shortest of some days; the first that is as short as wanted will do."""
    await streaky.prepare(idle(USERS))
    shortest = float("inf")
    for number in range(TRIES):
        shortest = min(shortest, await measured(streaky, number))
        if shortest <= wanted_seconds:
            break
    return shortest


@pytest.mark.parametrize("streaky", [{"SLOTS": 1_000}], indirect=True, ids=["1000 slots"])
async def test_a_thousand_users_wait_at_the_same_time(streaky: Streaky) -> None:
    await streaky.prepare(idle(USERS))
    seconds = await measured(streaky)
    # A hundred slots could not do it in less than 30, however quick the machine.
    assert 3.0 <= seconds < 25.0


@pytest.mark.soak
@pytest.mark.parametrize("streaky", [{"SLOTS": 1_000}], indirect=True, ids=["1000 slots"])
async def test_a_thousand_slots_take_four_seconds_at_most(streaky: Streaky) -> None:
    assert await best_seconds(streaky, 4.0) <= 4.0


@pytest.mark.soak
@pytest.mark.parametrize("streaky", [{"SLOTS": 100}], indirect=True, ids=["100 slots"])
async def test_a_hundred_slots_take_thirty_seconds(streaky: Streaky) -> None:
    assert 30.0 * 0.95 <= await best_seconds(streaky, 31.5) <= 30.0 * 1.05
