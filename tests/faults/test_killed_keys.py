"""Order per key while producers and workers are killed: no message overtakes, and none is stuck."""

import random
from pathlib import Path

import pytest

from tests.faults import tables
from tests.faults.checks import with_expiries
from tests.faults.crew import Crew, accounted_for, handling, producing
from tests.faults.open_store import opened
from tests.faults.programs import handler, producer
from tests.faults.reaper_loop import Reaping
from tests.kit.checkers import Violation, ended_in_order, handed_out_in_order, held_at_most
from tests.kit.history import Event
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork.core.model import SYSTEM, QueueSettings

QUEUE = "inputs"
KEYS = 16
ROUNDS = 1
ROUNDS_OF_A_SOAK = 60
ORDERS = handler.Orders(
    ways={QUEUE: {"plain": 8, "joint": 4, "retry": 3, "release": 1, "dead": 1}},
    busy_seconds_max=0.005,
)
POSTS = [
    *[producing(producer.Orders(queue=QUEUE, keys=KEYS, keyed=0.9, pause_seconds=0.01))] * 2,
    *[handling(ORDERS)] * 3,
]


async def killed_amid_keys(
    home: Home, children: Children, folder: Path, *, rounds: int, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    async with opened(home.url) as store:
        await store.queues.put(SYSTEM, QUEUE, QueueSettings(max_retries=100))
        await store.queues.put(SYSTEM, handler.OUTPUTS, QueueSettings())
        await tables.fetch(home.url, tables.EFFECTS)
        async with Reaping(store, crew.history):
            async with crew.staffed(POSTS) as staff:
                await crew.kill_by_turns(POSTS, staff, rounds=rounds)
            await crew.drain(store, [QUEUE])
    assert await judged(home.url, crew.read()) == []
    assert await tables.states_in(home.url, QUEUE) == {}
    if home.kind == "postgres":
        assert await tables.fetch(home.url, "SELECT * FROM tickwork_keys") == []


async def judged(url: str, history: list[Event]) -> list[Violation]:
    whole = with_expiries(history)
    ended = await tables.sent_in(url, handler.OUTPUTS) | await tables.dead_in(url, QUEUE)
    return [
        *held_at_most(whole, "key", 1),
        *handed_out_in_order(whole),
        *ended_in_order(whole, ended),
        *await accounted_for(url, history, QUEUE),
    ]


async def test_messages_of_a_key_are_handled_in_order_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await killed_amid_keys(home, children, tmp_path, rounds=ROUNDS, seed=1)


@pytest.mark.soak
async def test_sixty_rounds_of_kills_leave_every_key_in_order(
    home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    await killed_amid_keys(home, children, tmp_path, rounds=ROUNDS_OF_A_SOAK, seed=seed)
