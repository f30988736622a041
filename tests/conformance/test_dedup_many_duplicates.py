"""Many duplicates of a done event in front of a message: one claim still finds the message."""

from typing import Any

import pytest

from tests.conformance.acts import (
    ack,
    claim,
    counts,
    ids,
    join,
    make_queue,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Counts
from tickwork.store.contract import Store

PAID = "paid-1"
MANY = 150


async def make_doubles(store: Store, number: int = MANY, **fields: Any) -> None:
    """Sends duplicates of an event that is done."""
    await send(store, event_id=PAID)
    await settle(store, ack(await pull_one(store)))
    await send_many(store, number, event_id=PAID, **fields)


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_a_claim_finds_a_message_behind_many_duplicates(
    store: Store, clock: VirtualClock, limit: int
) -> None:
    await make_queue(store)
    await make_doubles(store)
    clock.advance(seconds=1)
    sent = await send(store)
    assert ids(await pull(store, limit=limit)) == [sent.id]
    assert await counts(store) == Counts(claimed=1)


async def test_a_claim_of_a_node_or_the_system_finds_it_too(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    await make_doubles(store)
    clock.advance(seconds=1)
    sent = [await send(store) for _ in range(2)]
    node = await join(store)
    assert ids(await claim(store, node, scope=SYSTEM, limit=1)) == [sent[0].id]
    assert ids(await claim(store, node, limit=1)) == [sent[1].id]


async def test_a_claim_finds_a_message_of_lower_priority_behind_duplicates(store: Store) -> None:
    await make_queue(store)
    await make_doubles(store, priority=9)
    sent = await send(store, priority=0)
    assert ids(await pull(store, limit=1)) == [sent.id]


async def test_a_claim_finds_a_message_behind_duplicates_of_its_key(store: Store) -> None:
    await make_queue(store)
    await make_doubles(store, key="a")
    sent = await send(store, key="a")
    assert ids(await pull(store, limit=1)) == [sent.id]
    assert await counts(store) == Counts(claimed=1)


async def test_duplicates_of_many_keys_do_not_hide_a_message(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_doubles(store, 0)
    for number in range(MANY):
        await send(store, key=f"key-{number}", event_id=PAID)
    clock.advance(seconds=1)
    sent = await send(store)
    assert ids(await pull(store, limit=1)) == [sent.id]


async def test_duplicates_count_towards_the_rate_limit(store: Store, clock: VirtualClock) -> None:
    """A duplicate counts as claimed, although only the store saw it."""
    await make_queue(store, rate_per_second=10)
    await make_doubles(store, 12)
    clock.advance(seconds=60)
    sent = await send(store)
    assert await pull(store) == ()
    assert await counts(store) == Counts(ready=3)
    clock.advance(seconds=0.3)
    assert ids(await pull(store, limit=1)) == [sent.id]
    assert await store.messages.peek(DEFAULT, "work", 10) == ()
    await send(store)
    assert await pull(store) == ()
