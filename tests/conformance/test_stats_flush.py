"""A process stores its counters when it closes its store, and the next process reads them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    create_batch,
    kill_all,
    make_queue,
    news,
    pull,
    retry,
    send,
    send_many,
    settle,
)
from tests.conformance.test_stats import passed
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS, Pace, Selection
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.queue.stats import CounterName
from tickwork.store.contract import Store


async def delete_one(store: Store) -> None:
    sent = await send(store)
    assert await store.messages.delete(DEFAULT, WORK, sent.id)


async def cancel(store: Store) -> None:
    batch = await create_batch(store, news(2))
    await store.batches.cancel(DEFAULT, batch.id)


async def work_off(store: Store) -> None:
    await send_many(store, 3)
    first, second, third = await pull(store)
    await settle(store, ack(first), ack(second), retry(third, delay_seconds=60))


Act = Callable[[Store], Awaitable[Any]]
ACTS: dict[str, tuple[Act, dict[CounterName, int]]] = {
    "purge": (lambda store: store.queues.purge(DEFAULT, WORK), {CounterName.PURGED: 3}),
    "delete": (delete_one, {CounterName.SENT: 1, CounterName.PURGED: 1}),
    "cancel": (cancel, {CounterName.SENT: 2, CounterName.PURGED: 2}),
    "discard": (
        lambda store: store.dead_letters.discard(DEFAULT, WORK, Selection()),
        {CounterName.DISCARDED: 2},
    ),
    "replay": (
        lambda store: store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace()),
        {CounterName.SENT: 2, CounterName.REPLAYED: 2},
    ),
    "settle": (work_off, {CounterName.SENT: 3, CounterName.DONE: 2, CounterName.RETRIED: 1}),
}


@pytest.mark.parametrize("act", ACTS)
async def test_counts_are_flushed_when_the_store_closes(
    home: Home, clock: VirtualClock, act: str
) -> None:
    """Runs each action in a process of its own that does nothing else."""
    first = await home.open(clock)
    await make_queue(first)
    await send_many(first, 2)
    await kill_all(first)
    await send_many(first, 3, delay_seconds=0 if act == "purge" else 3_600)
    before = await passed(first)
    await first.close()
    second = await home.open(clock)
    do, expected = ACTS[act]
    await do(second)
    await second.close()
    third = await home.open(clock)
    try:
        after = await passed(third)
    finally:
        await third.close()
    new = {kind: after[kind] - before.get(kind, 0) for kind in after}
    assert {kind: number for kind, number in new.items() if number} == expected


async def test_counts_of_pruned_rows_are_flushed_when_the_store_closes(
    home: Home, clock: VirtualClock
) -> None:
    first = await home.open(clock)
    await make_queue(first)
    await send(first)
    await kill_all(first)
    clock.advance(seconds=DEAD_LETTER_RETENTION_SECONDS + 1)
    assert (await first.pruner.prune(SYSTEM, ALL)).dead_letters == 1
    await first.close()
    second = await home.open(clock)
    try:
        assert (await passed(second))[CounterName.PRUNED] == 1
    finally:
        await second.close()
