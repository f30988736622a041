"""Messages that die while workers are killed: one dead letter each, moved once."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import tables
from tests.faults.crew import Crew, accounted_for, handling, producing
from tests.faults.open_store import opened
from tests.faults.programs import handler, producer
from tests.faults.reaper_loop import Reaping
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork.core.model import SYSTEM, QueueSettings

QUEUE, GRAVES = "inputs", "graves"
ROUNDS = 1
ROUNDS_OF_A_SOAK = 60
ORDERS = handler.Orders(
    ways={QUEUE: {"plain": 3, "dead": 5, "retry": 1}, GRAVES: {"plain": 3, "retry": 1}}, together=2
)
POSTS = [
    producing(producer.Orders(queue=QUEUE, keys=20, keyed=0.5, expiring=0.2)),
    *[handling(ORDERS)] * 2,
]


async def killed_amid_deaths(
    home: Home, children: Children, folder: Path, *, rounds: int, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    async with opened(home.url) as store:
        settings = QueueSettings(max_retries=100, dead_letter_queue=GRAVES)
        await store.queues.put(SYSTEM, QUEUE, settings)
        for name in (GRAVES, handler.OUTPUTS):
            await store.queues.put(SYSTEM, name, QueueSettings(max_retries=100))
        async with Reaping(store, crew.history):
            async with crew.staffed(POSTS) as staff:
                await crew.kill_by_turns(POSTS, staff, rounds=rounds)
            await crew.drain(store, [QUEUE, GRAVES])
    assert await accounted_for(home.url, crew.read(), QUEUE) == []
    # What arrived in the dead-letter queue was acked there, or died there again.
    outputs = await tables.outputs_in(home.url, handler.OUTPUTS)
    moved = Counter(cause for cause, way in outputs if way.startswith(f"{GRAVES}."))
    moved.update([*await tables.dead_in(home.url, GRAVES)])
    dead = await tables.dead_in(home.url, QUEUE)
    assert dead
    assert moved == Counter([*dead])
    if home.kind == "postgres":
        assert await tables.fetch(home.url, "SELECT * FROM tickwork_keys") == []


async def test_a_dead_message_is_one_dead_letter_and_moves_once_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await killed_amid_deaths(home, children, tmp_path, rounds=ROUNDS, seed=1)


@pytest.mark.soak
async def test_sixty_rounds_of_kills_make_one_dead_letter_of_each_message(
    home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    await killed_amid_deaths(home, children, tmp_path, rounds=ROUNDS_OF_A_SOAK, seed=seed)
