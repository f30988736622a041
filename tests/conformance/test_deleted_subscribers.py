"""A send to a subscriber's queue that another process has just deleted commits without the copy.

Under the real clock, because a store caches subscriptions for a moment.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    WORK,
    ack,
    counts,
    dead,
    ids,
    make_queue,
    new,
    news,
    pull,
    pull_one,
    send,
    sending,
    settle,
)
from tests.stores.home import KINDS, Home
from tickwork.core.model import DEFAULT, Counts, Settlement, SettleResult
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

OUT, AUDIT = "out", "audit"


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    """With the database's own clock."""
    opened = await home.open()
    yield opened
    await opened.close()


@pytest.fixture
async def other(home: Home) -> AsyncIterator[Store]:
    """A second store, as another process has it."""
    opened = await home.open()
    yield opened
    await opened.close()


async def make_gone(store: Store, other: Store) -> None:
    """The first store has just copied to a queue that the second store then deleted."""
    for name in (WORK, OUT, AUDIT):
        await make_queue(store, name)
    await store.subscriptions.put(DEFAULT, "paid", AUDIT)
    await send(store, queue=OUT, type="paid")
    assert await counts(store, AUDIT) == Counts(ready=1)
    assert await counts(store, OUT) == Counts(ready=1)
    await other.queues.purge(DEFAULT, AUDIT)
    await other.queues.delete(DEFAULT, AUDIT)


async def test_a_settlement_commits_without_the_copy(store: Store, other: Store) -> None:
    await make_gone(store, other)
    await send(store)
    held = await pull_one(store)
    assert await settle(store, ack(held, sending(OUT, type="paid"))) == SettleResult()
    assert await counts(store) == Counts()
    assert await counts(store, OUT) == Counts(ready=2)


async def test_a_joint_settlement_commits_without_the_copy(store: Store, other: Store) -> None:
    await make_gone(store, other)
    await send(store)
    held = await pull_one(store)
    settlement = Settlement((ack(held, sending(OUT, type="paid")),))
    await store.messages.settle_jointly(DEFAULT, settlement, lambda _: None)
    assert await counts(store) == Counts()
    assert await counts(store, OUT) == Counts(ready=2)


WAYS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "send": lambda store: send(store, queue=OUT, type="paid"),
    "batch": lambda store: store.messages.send_batch(DEFAULT, OUT, [new(type="paid")]),
    "bulk": lambda store: store.messages.send_bulk(DEFAULT, OUT, news(1, type="paid")),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_send_commits_without_the_copy(store: Store, other: Store, way: str) -> None:
    await make_gone(store, other)
    await WAYS[way](store)
    assert await counts(store, OUT) == Counts(ready=2)


async def test_other_subscribers_get_their_copies(store: Store, other: Store) -> None:
    await make_queue(store, "kept")
    await store.subscriptions.put(DEFAULT, "*", "kept")
    await make_gone(store, other)
    await send(store)
    held = await pull_one(store)
    assert await settle(store, ack(held, sending(OUT, type="paid"))) == SettleResult()
    assert await counts(store, "kept") == Counts(ready=2)


async def test_a_dead_letter_event_reaches_the_remaining_subscribers(
    store: Store, other: Store
) -> None:
    for name in ("kept", AUDIT):
        await make_queue(store, name)
        await store.subscriptions.put(DEFAULT, "message.dead", name)
    await make_gone(store, other)
    await send(store)
    held = await pull_one(store)
    assert await settle(store, dead(held, reason="x")) == SettleResult()
    assert await counts(store) == Counts(dead=1)
    assert await counts(store, "kept") == Counts(ready=1)


async def test_a_published_event_reaches_the_remaining_subscribers(
    store: Store, other: Store
) -> None:
    await make_queue(store, "kept")
    await store.subscriptions.put(DEFAULT, "paid", "kept")
    await make_gone(store, other)
    assert await store.messages.notify(DEFAULT, new(type="paid", body=b"{}")) == 1
    assert await counts(store, "kept") == Counts(ready=2)


async def test_settlements_of_the_same_group_commit_too(store: Store, other: Store) -> None:
    await make_gone(store, other)
    for message in news(3):
        await store.messages.send(DEFAULT, WORK, message)
    one, *rest = await pull(store)
    result = await settle(store, ack(one, sending(OUT, type="paid")), *map(ack, rest))
    assert result == SettleResult()
    assert await counts(store) == Counts()


async def test_a_recreated_and_subscribed_queue_gets_its_copies(store: Store, other: Store) -> None:
    await make_gone(store, other)
    await make_queue(other, AUDIT)
    await other.subscriptions.put(DEFAULT, "paid", AUDIT)
    await send(store)
    held = await pull_one(store)
    sent = sending(OUT, type="paid")
    assert await settle(store, ack(held, sent)) == SettleResult()
    assert sent.message.id in ids(await pull(store, queue=OUT))
