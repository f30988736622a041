"""Formats: messages of a newer format wait for newer nodes and are never misread."""

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    claim,
    counts,
    die,
    ids,
    join,
    make_queue,
    pull,
    send,
    send_many,
)
from tests.conformance.newer_format import make_newer
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, Counts
from tickwork.errors import StoreBroken
from tickwork.store.contract import Store


async def test_a_message_of_a_newer_format_is_not_claimed(home: Home, store: Store) -> None:
    await make_queue(store)
    newer, *others = await send_many(store, 4)
    await make_newer(home, newer.id)
    assert ids(await pull(store)) == ids(others)
    assert await pull(store) == ()
    assert await claim(store, await join(store)) == ()
    assert await counts(store) == Counts(ready=1, claimed=3)


async def test_a_message_of_a_newer_format_does_not_delay_others(home: Home, store: Store) -> None:
    await make_queue(store)
    for message in await send_many(store, 20):
        await make_newer(home, message.id)
    known = await send(store, priority=0)
    assert ids(await pull(store, limit=1)) == [known.id]


async def test_a_suspect_of_a_newer_format_is_not_claimed(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send(store)
    for _ in range(2):
        assert await claim(store, await join(store))
        await die(store, clock)
    await make_newer(home, sent.id)
    assert await claim(store, await join(store), separate=True) == ()


async def test_reading_a_message_of_a_newer_format_is_an_error(home: Home, store: Store) -> None:
    await make_queue(store)
    sent = await send(store)
    await make_newer(home, sent.id)
    for act in (
        store.messages.get(DEFAULT, WORK, sent.id),
        store.messages.peek(DEFAULT, WORK, ALL),
    ):
        with pytest.raises(StoreBroken, match="newer"):
            await act


async def test_a_message_of_a_newer_format_keeps_its_key_and_can_be_deleted(
    home: Home, store: Store
) -> None:
    await make_queue(store)
    newer = await send(store, key="a")
    behind = await send(store, key="a")
    await make_newer(home, newer.id)
    assert await pull(store) == ()
    assert await store.messages.delete(DEFAULT, WORK, newer.id)
    assert ids(await pull(store)) == [behind.id]
