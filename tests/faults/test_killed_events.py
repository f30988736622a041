"""An event sent many times has one effect, while producers and workers are killed."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import tables
from tests.faults.checks import judged_claims
from tests.faults.crew import Crew, handling, producing
from tests.faults.open_store import opened
from tests.faults.programs import handler, producer
from tests.faults.reaper_loop import Reaping
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, QueueSettings
from tickwork.store.ids import new_id

QUEUE = "inputs"
EVENTS, ROUNDS = 200, 1
EVENTS_OF_A_SOAK, ROUNDS_OF_A_SOAK = 3_000, 60
ORDERS = handler.Orders(
    ways={QUEUE: {"plain": 4, "joint": 4, "retry": 2, "dead": 1}}, together=2, busy_seconds_max=0.01
)


async def killed_amid_events(
    home: Home, children: Children, folder: Path, *, events: int, rounds: int, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    posts = [
        *[producing(producer.Orders(queue=QUEUE, events=events))] * 2,
        *[handling(ORDERS)] * 2,
    ]
    async with opened(home.url) as store:
        await store.queues.put(SYSTEM, QUEUE, QueueSettings(max_retries=100))
        await store.queues.put(SYSTEM, handler.OUTPUTS, QueueSettings())
        await tables.fetch(home.url, tables.EFFECTS)
        async with Reaping(store, crew.history):
            async with crew.staffed(posts) as staff:
                await crew.kill_by_turns(posts, staff, rounds=rounds)
            # Events whose every message died may be done at last; the others must stay done.
            names = [f"event-{number}" for number in range(events)]
            again = [NewMessage(id=new_id(), body=b"1", event_id=name) for name in names]
            await store.messages.send_bulk(DEFAULT, QUEUE, again)
            await crew.drain(store, [QUEUE])
    outputs = await tables.outputs_in(home.url, handler.OUTPUTS)
    joint = [event for event, way in outputs if way == f"{QUEUE}.joint"]
    assert Counter(event for event, _ in outputs) == Counter(names)
    assert Counter(await tables.effects_of(home.url)) == Counter(joint)
    assert judged_claims(crew.read()) == []


async def test_an_event_sent_many_times_has_one_effect_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await killed_amid_events(home, children, tmp_path, events=EVENTS, rounds=ROUNDS, seed=1)


@pytest.mark.soak
async def test_thousands_of_events_have_one_effect_in_sixty_rounds_of_kills(
    home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    events, rounds = EVENTS_OF_A_SOAK, ROUNDS_OF_A_SOAK
    await killed_amid_events(home, children, tmp_path, events=events, rounds=rounds, seed=seed)
