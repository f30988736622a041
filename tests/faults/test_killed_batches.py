"""Batches whose fillers and workers are killed are still counted exactly."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from tests.faults import tables
from tests.faults.checks import judged_claims
from tests.faults.crew import START_SECONDS_MAX, Crew, Post, handling
from tests.faults.open_store import opened
from tests.faults.polling import Watching
from tests.faults.programs import filler, handler
from tests.faults.progress import Completions, Progressing
from tests.faults.reaper_loop import Reaping
from tests.faults.steps import QUEUE
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.batch import Batch, BatchStatus, NewBatch, completion_event
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, QueueSettings
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

COMPLETIONS = "completions"
SIZES = (0, 1, 2, 3, 5, 8, 13, 21)
ROUNDS, FILLERS_KILLED, BATCHES = 1, 2, 24
ROUNDS_OF_A_SOAK, FILLERS_KILLED_IN_A_SOAK, BATCHES_OF_A_SOAK = 60, 80, 400
ITEMS = 3
ORDERS = handler.Orders(ways={QUEUE: {"plain": 8, "retry": 2, "dead": 3}}, together=2)


async def put_queues(store: Store) -> None:
    await store.queues.put(SYSTEM, QUEUE, QueueSettings(max_retries=100))
    for name in (COMPLETIONS, handler.OUTPUTS):
        await store.queues.put(SYSTEM, name, QueueSettings())


class Killed:
    """Batches created and processed by processes that are killed."""

    def __init__(self, crew: Crew, store: Store, batches: int) -> None:
        sizes = tuple(crew.chance.choice(SIZES) for _ in range(batches))
        self._crew, self._store = crew, store
        self.orders = filler.Orders(
            root=new_id(), sizes=sizes, queue=QUEUE, completion_queue=COMPLETIONS
        )

    async def fill(self, kills: int) -> None:
        """Starts one process after the other, until one finishes."""
        post = Post(filler.PROGRAM, self.orders, filler.POINTS, "item")
        share = sum(self.orders.sizes) // kills
        for number in range(kills):
            passes = number * share + self._crew.chance.randrange(share)
            point = self._crew.chance.choice(("item", "statement"))
            child = self._crew.start(post, Arm(point, "kill", after=passes))
            code = await child.wait(START_SECONDS_MAX)
            if code == 0:  # It finished before it reached the point so often.
                return
            assert code == -signal.SIGKILL, child.stderr()
        await self._crew.start(post).succeeded(START_SECONDS_MAX)

    async def are_completed(self) -> bool:
        batches = await self._store.batches.list(DEFAULT, len(self.orders.sizes))
        return all(batch.status is BatchStatus.COMPLETED for batch in batches)

    async def check(self, url: str, told: Completions) -> None:
        """Every item ended once, as the tables say; every batch has all of its items, and one
        event."""
        ended = await tables.fetch(url, "SELECT id, status FROM tickwork_batch_items")
        assert Counter(tables.as_id(row[0]) for row in ended) == Counter(self._items())
        completed = {tables.as_id(id_) for id_, status in ended if status == "completed"}
        outputs = await tables.outputs_in(url, handler.OUTPUTS)
        assert Counter(cause for cause, _ in outputs) == Counter(completed)
        dead = await tables.dead_in(url, QUEUE)
        assert dead.keys() == {tables.as_id(id_) for id_, status in ended if status == "failed"}
        events: Counter[bytes] = Counter()
        for number, size in enumerate(self.orders.sizes):
            batch = await self._store.batches.get(DEFAULT, filler.batch_id(self.orders, number))
            assert batch.status is BatchStatus.COMPLETED
            assert size == batch.total == batch.completed + batch.failed
            event = completion_event(
                batch.id, total=size, completed=batch.completed, failed=batch.failed
            )
            events[event.body] += 1
        assert Counter(told.events) == events

    def _items(self) -> Iterator[str]:
        for number, size in enumerate(self.orders.sizes):
            for place in range(size):
                yield str(filler.item_id(self.orders, number, place))


class Plan(NamedTuple):
    """Rounds of killed workers, rounds of killed fillers, and number of batches."""

    rounds: int
    kills: int
    batches: int


async def killed_amid_batches(
    home: Home, children: Children, folder: Path, plan: Plan, *, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    posts = [handling(ORDERS)] * 2
    async with opened(home.url) as store, tables.looking(home.url) as look:
        await put_queues(store)
        work, told = Killed(crew, store, plan.batches), Completions(store, COMPLETIONS)
        seen = Progressing(store, look, home.url)
        async with (
            Watching(seen.look) as watching,
            Watching(told.look),
            Reaping(store, crew.history),
        ):
            async with crew.staffed(posts) as staff, asyncio.TaskGroup() as group:
                group.create_task(work.fill(plan.kills))
                group.create_task(crew.kill_by_turns(posts, staff, rounds=plan.rounds))
            await crew.drain(store, [QUEUE])
            await eventually(work.are_completed, timeout_seconds=START_SECONDS_MAX)
        await told.look()
        await seen.look()
        assert watching.looks > 0
        await work.check(home.url, told)
    assert judged_claims(crew.read()) == []


async def test_a_batch_counts_its_items_exactly_and_completes_once_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    plan = Plan(rounds=ROUNDS, kills=FILLERS_KILLED, batches=BATCHES)
    await killed_amid_batches(home, children, tmp_path, plan, seed=1)


@pytest.mark.soak
async def test_hundreds_of_batches_complete_once_in_sixty_rounds_of_kills(
    home: Home, children: Children, tmp_path: Path
) -> None:
    plan = Plan(rounds=ROUNDS_OF_A_SOAK, kills=FILLERS_KILLED_IN_A_SOAK, batches=BATCHES_OF_A_SOAK)
    seed = random.SystemRandom().randrange(1 << 32)
    await killed_amid_batches(home, children, tmp_path, plan, seed=seed)


async def ending_a_batch(crew: Crew, store: Store, point: str) -> tuple[UUID, Child]:
    """A batch of a few items, and a process stopped at a point before it ends them."""
    new = NewBatch(id=new_id(), queue=QUEUE, completion_queue=COMPLETIONS)
    items = [NewMessage(id=new_id(), body=b"1") for _ in range(ITEMS)]
    await store.batches.create(DEFAULT, new, items)
    orders = handler.Orders(ways={QUEUE: {"plain": 1}}, limit=ITEMS)
    child = crew.start(handling(orders), Arm(point, "pause"))
    await child.reached(point, START_SECONDS_MAX)
    return new.id, child


# On SQLite the last item and the completion are one transaction.
@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_the_reaper_completes_a_batch_whose_last_worker_was_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    crew = Crew(home.url, children, tmp_path, seed=1)
    async with opened(home.url) as store:
        await put_queues(store)
        batch_id, child = await ending_a_batch(crew, store, "completing")
        child.kill9()
        assert (await store.batches.get(DEFAULT, batch_id)).status is BatchStatus.RUNNING
        assert [(await store.reaper.reap(SYSTEM, 10)).batches for _ in range(2)] == [1, 0]
        await completed_once(store, batch_id)


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_late_completion_sends_no_second_event(
    home: Home, children: Children, tmp_path: Path
) -> None:
    crew = Crew(home.url, children, tmp_path, seed=1)
    async with opened(home.url) as store:
        await put_queues(store)
        batch_id, late = await ending_a_batch(crew, store, "completing")
        assert (await store.reaper.reap(SYSTEM, 10)).batches == 1
        completed = await completed_once(store, batch_id)
        late.release("completing")
        await late.reached("settled", START_SECONDS_MAX)
        assert await store.batches.get(DEFAULT, batch_id) == completed
        told = Completions(store, COMPLETIONS)
        await told.look()
        assert told.batches == {}


async def completed_once(store: Store, batch_id: UUID) -> Batch:
    """Asserts that one event was sent; returns the batch."""
    batch = await store.batches.get(DEFAULT, batch_id)
    assert batch.status is BatchStatus.COMPLETED
    assert (batch.total, batch.completed) == (ITEMS, ITEMS)
    told = Completions(store, COMPLETIONS)
    for _ in range(2):
        await told.look()
    assert told.batches == {str(batch_id): 1}
    return batch
