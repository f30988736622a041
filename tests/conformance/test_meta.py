"""The meta row of a store, its time, and what remains after it was closed."""

import asyncio

from tests.conformance.acts import (
    WORK,
    ack,
    counts,
    ids,
    make_queue,
    new,
    pull,
    retry,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, Counts, Meta, SettleResult
from tickwork.store.contract import Store


async def test_a_new_database_has_its_meta_row(store: Store) -> None:
    meta = await store.meta()
    assert meta.schema_version >= 1
    assert meta == Meta(meta.schema_version, cell="main", epoch=0)


async def test_the_stores_time_is_the_given_clock(store: Store, clock: VirtualClock) -> None:
    assert await store.now() == clock.now()
    clock.advance(seconds=0.000001)
    assert await store.now() == clock.now()
    clock.advance(seconds=86_400 * 365 * 10)
    assert await store.now() == clock.now()


async def test_accepted_messages_survive_a_close(home: Home, clock: VirtualClock) -> None:
    first = await home.open(clock)
    await make_queue(first)
    sent = await send_many(first, 3)
    one, two, three = await pull(first)
    await settle(first, ack(one), retry(two))
    before = [await first.messages.get(DEFAULT, WORK, message.id) for message in (two, three)]
    await first.close()

    second = await home.open(clock)
    try:
        assert await counts(second) == Counts(ready=1, claimed=1)
        after = [await second.messages.get(DEFAULT, WORK, message.id) for message in sent[1:]]
        assert after == before
        assert await settle(second, ack(three)) == SettleResult()
    finally:
        await second.close()


async def test_a_close_finishes_accepted_calls(home: Home, clock: VirtualClock) -> None:
    first = await home.open(clock)
    await make_queue(first)
    messages = [new() for _ in range(50)]
    sends = [
        asyncio.create_task(first.messages.send(DEFAULT, WORK, message)) for message in messages
    ]
    await sends[0]
    await first.close()
    answers = await asyncio.gather(*sends, return_exceptions=True)
    accepted = [m for m, answer in zip(messages, answers, strict=True) if answer is None]
    assert messages[0] in accepted

    second = await home.open(clock)
    try:
        found = ids(await pull(second))
        assert set(ids(accepted)) <= set(found)
        assert len(found) == len(set(found))
    finally:
        await second.close()
