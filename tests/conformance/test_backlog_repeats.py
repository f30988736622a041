"""A queue over its cap refuses new messages but accepts repeats of stored ones."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    WORK,
    ack,
    counts,
    make_queue,
    new,
    pull_one,
    send,
    settle,
)
from tickwork.core.model import DEFAULT, Counts, NewMessage, Send, SettleResult
from tickwork.errors import BacklogFull
from tickwork.store.contract import Store

BODY = b"x" * 100_000
LESS = 128_000
"""Fewer bytes than two messages have."""


async def by_settling(store: Store, message: NewMessage) -> None:
    await make_queue(store, "before")
    await send(store, queue="before")
    held = await pull_one(store, queue="before")
    assert await settle(store, ack(held, Send(WORK, message))) == SettleResult()


WAYS: dict[str, Callable[[Store, NewMessage], Awaitable[Any]]] = {
    "send": lambda store, message: store.messages.send(DEFAULT, WORK, message),
    "batch": lambda store, message: store.messages.send_batch(DEFAULT, WORK, [message, message]),
    "bulk": lambda store, message: store.messages.send_bulk(DEFAULT, WORK, [message]),
    "settlement": by_settling,
}


async def make_overfull(store: Store, **fields: Any) -> list[NewMessage]:
    """A queue that got its cap after it had more bytes already."""
    await make_queue(store)
    sent = [await send(store, body=BODY, **fields) for _ in range(2)]
    await make_queue(store, backlog_bytes_max=LESS)
    return sent


@pytest.mark.parametrize("fields", [{}, {"key": "a"}, {"delay_seconds": 60}])
@pytest.mark.parametrize("way", WAYS)
async def test_repeating_a_stored_message_is_not_refused(
    store: Store, way: str, fields: dict[str, Any]
) -> None:
    _, last = await make_overfull(store, **fields)
    before = await counts(store)
    await WAYS[way](store, last)
    assert await counts(store) == before


async def test_repeating_a_claimed_message_is_not_refused(store: Store) -> None:
    first, _ = await make_overfull(store)
    assert (await pull_one(store, limit=1)).id == first.id
    await store.messages.send(DEFAULT, WORK, first)
    assert await counts(store) == Counts(ready=1, claimed=1)


async def test_repeating_a_copied_message_is_not_refused(store: Store) -> None:
    """Neither the target queue nor the queue with the copy refuses it."""
    await make_queue(store, "source")
    await make_queue(store)
    await store.subscriptions.put(DEFAULT, "paid", WORK)
    sent = [await send(store, queue="source", body=BODY, type="paid") for _ in range(2)]
    for name in ("source", WORK):
        await make_queue(store, name, backlog_bytes_max=LESS)
    for message in sent:
        await store.messages.send(DEFAULT, "source", message)
    assert await counts(store) == await counts(store, "source") == Counts(ready=2)


async def test_a_new_message_beside_a_repeated_one_refuses_both(store: Store) -> None:
    _, last = await make_overfull(store)
    fresh = new(body=b"x")
    with pytest.raises(BacklogFull):
        await store.messages.send_batch(DEFAULT, WORK, [last, fresh])
    assert await counts(store) == Counts(ready=2)


async def test_a_repeated_message_takes_no_bytes(store: Store) -> None:
    """Repeats never use up free bytes."""
    await make_queue(store, backlog_bytes_max=LESS)
    sent = await send(store, body=BODY)
    for way in WAYS.values():
        await way(store, sent)
    await send(store, body=b"x" * (LESS - len(BODY)))
    with pytest.raises(BacklogFull):
        await send(store, body=b"x")
