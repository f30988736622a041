"""`kill -9` in the middle of sends and settlements: nothing is lost, nothing happens twice."""

import random
from pathlib import Path

import pytest

from tests.faults import tables
from tests.faults.campaign import Campaign
from tests.faults.open_store import opened
from tests.faults.programs.worker import INPUTS, OUTPUTS
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork.core.model import SYSTEM

ROUNDS = 2
ROUNDS_OF_A_SOAK = 100


async def killed_again_and_again(
    home: Home, children: Children, folder: Path, *, rounds: int, seed: int
) -> None:
    campaign = Campaign(home.url, children, folder, seed=seed)
    await campaign.run(rounds)
    assert await campaign.judged() == [], f"seed {seed}"
    async with opened(home.url) as store:
        for queue in (INPUTS, OUTPUTS):
            counts = await store.queues.counts(SYSTEM, queue)
            found = (counts.ready, counts.delayed, counts.claimed, counts.blocked)
            assert tables.rows_are(found, await tables.states_in(home.url, queue))


async def test_accepted_messages_are_done_once_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await killed_again_and_again(home, children, tmp_path, rounds=ROUNDS, seed=1)


@pytest.mark.soak
async def test_a_hundred_rounds_of_kills_lose_and_duplicate_nothing(
    home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    rounds = ROUNDS_OF_A_SOAK
    await killed_again_and_again(home, children, tmp_path, rounds=rounds, seed=seed)
