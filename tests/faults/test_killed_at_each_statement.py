"""Settlements with every kind of effect, killed before each of their statements.

Every message has a key with a blocked message behind it, is the only item of a batch, and goes to a
dead-letter queue if it dies. What an ack sends, it sends or publishes. For each statement there is
a process that settles messages and is killed there.
"""

import random
import signal
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from tests.faults import tables
from tests.faults.checks import with_expiries
from tests.faults.crew import START_SECONDS_MAX, Crew, accounted_for, handling
from tests.faults.open_store import opened
from tests.faults.polling import Watching
from tests.faults.programs import handler
from tests.faults.progress import Completions, Progressing
from tests.faults.reaper_loop import Reaping
from tests.kit.checkers import ended_in_order, handed_out_in_order, held_at_most
from tests.kit.process import Arm, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.batch import BatchStatus, NewBatch
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, QueueSettings
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

QUEUE, GRAVES, COMPLETIONS = "inputs", "graves", "completions"
ITEMS_PER_KEY, KEYS_PER_DEATH = 2, 2
STATEMENTS, STEP = 20, 2
"""About as many statements as such a settlement has; a process armed for a later one dies in its
next settlement. The short test kills at every other one, a soak at all."""

STATEMENTS_OF_A_SOAK, ROUNDS_OF_A_SOAK = 40, 5
ORDERS = handler.Orders(ways={QUEUE: {"plain": 1, "publish": 1, "dead": 2}}, limit=1)


async def put_queues(store: Store) -> None:
    settings = QueueSettings(max_retries=100, dead_letter_queue=GRAVES)
    await store.queues.put(SYSTEM, QUEUE, settings)
    for name in (GRAVES, COMPLETIONS, handler.OUTPUTS):
        await store.queues.put(SYSTEM, name, QueueSettings(max_retries=100))
    await store.subscriptions.put(SYSTEM, f"{QUEUE}.publish", handler.OUTPUTS)


async def make_batches(crew: Crew, store: Store, key: str) -> list[UUID]:
    """Batches whose items share a key; their sends are in the history."""
    made: list[UUID] = []
    for place in range(ITEMS_PER_KEY):
        batch = NewBatch(id=new_id(), queue=QUEUE, completion_queue=COMPLETIONS)
        item = NewMessage(id=new_id(), body=b"1", key=key)
        facts = {"message": str(item.id), "key": key, "list": key, "place": place}
        call = crew.history.invoke("send", **facts)
        await store.batches.create(DEFAULT, batch, [item])
        crew.history.ok(call, message=str(item.id))
        made.append(batch.id)
    return made


async def killed_before_each_statement(
    home: Home, children: Children, folder: Path, *, statements: range, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    async with opened(home.url) as store, tables.looking(home.url) as look:
        await put_queues(store)
        keys = [f"key-{number}" for number in range(KEYS_PER_DEATH * len(statements))]
        batches = [
            make_batch for key in keys for make_batch in await make_batches(crew, store, key)
        ]
        seen, told = Progressing(store, look, home.url), Completions(store, COMPLETIONS)

        async def are_completed() -> bool:
            found = await store.batches.list(DEFAULT, len(batches))
            return all(batch.status is BatchStatus.COMPLETED for batch in found)

        async with Watching(seen.look), Watching(told.look), Reaping(store, crew.history):
            points = [Arm(handler.SETTLEMENT, "kill", after=after) for after in statements]
            for child in [crew.start(handling(ORDERS), point) for point in points]:
                assert await child.wait(START_SECONDS_MAX) == -signal.SIGKILL, child.stderr()
            sending: handler.Ways = {"plain": 1, "publish": 1}
            await crew.drain(store, [QUEUE, GRAVES], ways={QUEUE: sending})
            await eventually(are_completed, timeout_seconds=START_SECONDS_MAX)
        await seen.look()
        await told.look()
    assert told.batches == Counter(map(str, batches))
    await check_moves(home.url)
    await check_order(home.url, crew)


async def check_moves(url: str) -> None:
    """Acks sent and published. Every dead message arrived in the dead-letter queue once, and ended
    there."""
    outputs = await tables.outputs_in(url, handler.OUTPUTS)
    assert {way for _, way in outputs} >= {f"{QUEUE}.plain", f"{QUEUE}.publish"}
    moved = Counter(cause for cause, way in outputs if way.startswith(f"{GRAVES}."))
    moved.update([*await tables.dead_in(url, GRAVES)])
    assert moved == Counter([*await tables.dead_in(url, QUEUE)])


async def check_order(url: str, crew: Crew) -> None:
    """Keys kept their order, and no key is left."""
    history = with_expiries(crew.read())
    ended = await tables.sent_in(url, handler.OUTPUTS) | await tables.dead_in(url, QUEUE)
    assert [
        *await accounted_for(url, crew.read(), QUEUE),
        *held_at_most(history, "key", 1),
        *handed_out_in_order(history),
        *ended_in_order(history, ended),
    ] == []
    if not tables.is_sqlite(url):
        assert await tables.fetch(url, "SELECT * FROM tickwork_keys") == []


async def test_a_settlement_killed_at_any_statement_commits_all_of_its_effects_or_none(
    home: Home, children: Children, tmp_path: Path
) -> None:
    # PostgreSQL and SQLite have different statements at the same places.
    statements = range(home.kind == "sqlite", STATEMENTS, STEP)
    await killed_before_each_statement(home, children, tmp_path, statements=statements, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("_number", range(ROUNDS_OF_A_SOAK))
async def test_many_settlements_killed_at_any_statement_commit_all_of_their_effects_or_none(
    _number: int, home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    await killed_before_each_statement(
        home, children, tmp_path, statements=range(STATEMENTS_OF_A_SOAK), seed=seed
    )
