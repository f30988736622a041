"""Keys: one message of a key at a time, in the order in which they were accepted."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    TTL_SECONDS,
    WORK,
    ack,
    ack_all,
    claim,
    claim_one,
    counts,
    create_batch,
    die,
    ids,
    join,
    kill_all,
    kill_holders,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    release,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import DEFAULT, LOST_CLAIMS_ALONE, SYSTEM, Counts, Ending, Message, State
from tickwork.store.contract import Store


async def test_one_message_of_a_key_is_in_flight_and_the_others_are_blocked(store: Store) -> None:
    await make_queue(store)
    sent = [await send(store, key="a") for _ in range(3)]
    assert await counts(store) == Counts(ready=1, blocked=2)
    states = [(await store.messages.get(DEFAULT, WORK, message.id)).state for message in sent]
    assert states == [State.READY, State.BLOCKED, State.BLOCKED]
    first = await pull_one(store)
    assert first.id == sent[0].id
    assert await pull(store) == ()
    assert await counts(store) == Counts(claimed=1, blocked=2)
    await settle(store, ack(first))
    assert await counts(store) == Counts(ready=1, blocked=1)
    assert await ack_all(store) == ids(sent[1:])


async def test_other_keys_and_messages_without_a_key_are_not_blocked(store: Store) -> None:
    await make_queue(store)
    sent = [await send(store, key=key) for key in ("a", "b", None, "A", "a ", None, "ä")]
    assert ids(await pull(store)) == ids(sent)


@pytest.mark.parametrize("way", ["batch", "bulk", "settlement", "settlement of many"])
async def test_messages_of_one_call_keep_their_order_per_key(store: Store, way: str) -> None:
    await make_queue(store)
    await make_queue(store, "before")
    # Not in the order of their ids: the order must not depend on it.
    messages = [new(key="ab"[number % 2]) for number in range(20)][::-1]
    if way == "batch":
        await store.messages.send_batch(DEFAULT, WORK, messages)
    elif way == "bulk":
        await store.messages.send_bulk(DEFAULT, WORK, messages)
    else:
        heads = await send_many(store, 4 if way == "settlement of many" else 1, queue="before")
        held = await pull(store, queue="before")
        share = len(messages) // len(heads)
        sends = [sending(WORK, **_fields(message)) for message in messages]
        await settle(
            store,
            *(ack(message, *sends[i * share : (i + 1) * share]) for i, message in enumerate(held)),
        )
    assert await counts(store) == Counts(ready=2, blocked=18)
    found = await ack_all(store)
    for key in "ab":
        mine = ids(message for message in messages if message.key == key)
        assert [message_id for message_id in found if message_id in mine] == mine


@pytest.mark.parametrize("fate", [retry, release])
async def test_a_delayed_retry_keeps_its_key(
    store: Store, clock: VirtualClock, fate: Callable[..., Ending]
) -> None:
    await make_queue(store)
    first, second = [await send(store, key="a") for _ in range(2)]
    await settle(store, fate(await pull_one(store), delay_seconds=60))
    assert await counts(store) == Counts(delayed=1, blocked=1)
    assert await pull(store) == ()
    clock.advance(seconds=60)
    assert await ack_all(store) == [first.id, second.id]


async def test_a_lost_claim_keeps_its_key(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    first, second = [await send(store, key="a") for _ in range(2)]
    await claim_one(store)
    await die(store, clock)
    assert await counts(store) == Counts(ready=1, blocked=1)
    await pull_one(store, lease_seconds=1)
    clock.advance(seconds=1)
    await store.reaper.reap(SYSTEM, ALL)
    assert await ack_all(store) == [first.id, second.id]


async def test_a_suspect_keeps_its_key(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    first, second = [await send(store, key="a") for _ in range(2)]
    await kill_holders(store, clock, LOST_CLAIMS_ALONE)
    node = await join(store)
    assert await claim(store, node) == ()
    assert ids(await claim(store, node, separate=True)) == [first.id]
    clock.advance(seconds=TTL_SECONDS)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 1
    assert ids(await pull(store)) == [second.id]


@pytest.mark.parametrize("way", ["leave", "give back"])
async def test_a_released_message_keeps_its_key(store: Store, way: str) -> None:
    await make_queue(store)
    first, second = [await send(store, key="a") for _ in range(2)]
    node = await join(store)
    await claim_one(store, node)
    if way == "leave":
        await store.nodes.leave(SYSTEM, node)
    else:
        await store.nodes.give_back_unknown(SYSTEM, node, [])
    assert await counts(store) == Counts(ready=1, blocked=1)
    assert await ack_all(store) == [first.id, second.id]


async def test_batch_items_keep_their_order_per_key(store: Store) -> None:
    await make_queue(store)
    outside = await send(store, key="a")
    items = news(5, key="a")[::-1]
    await create_batch(store, items)
    assert await ack_all(store) == [outside.id, *ids(items)]


@pytest.mark.parametrize("fields", [{"priority": 9}, {"priority": 0}, {"delay_seconds": 0.001}])
async def test_no_message_overtakes_an_earlier_one_of_its_key(
    store: Store, clock: VirtualClock, fields: dict[str, Any]
) -> None:
    await make_queue(store)
    first = await send(store, key="a", priority=4)
    second = await send(store, key="a", **fields)
    third = await send(store, key="a", priority=9)
    clock.advance(seconds=1)
    assert await ack_all(store) == ids([first, second, third])


async def test_a_delayed_message_blocks_its_key(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    first = await send(store, key="a", delay_seconds=60)
    second = await send(store, key="a")
    assert await counts(store) == Counts(delayed=1, blocked=1)
    assert await pull(store) == ()
    clock.advance(seconds=60)
    assert await ack_all(store) == [first.id, second.id]


async def test_a_repeated_send_takes_no_position_in_its_key(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    first, second = [await send(store, key="a") for _ in range(2)]
    for message in (second, first):
        await store.messages.send(DEFAULT, WORK, message)
        await store.messages.send(DEFAULT, "other", message)
    await store.messages.send_batch(DEFAULT, "other", [second, first, second])
    assert await counts(store, "other") == Counts()
    assert await ack_all(store) == [first.id, second.id]
    assert await counts(store) == Counts()
    late = [await send(store, queue=queue, key="a") for queue in (WORK, "other")]
    assert await ack_all(store) == [late[0].id]
    assert await ack_all(store, queue="other") == [late[1].id]


async def test_a_repeat_under_another_key_leaves_no_key_stuck(store: Store) -> None:
    await make_queue(store)
    message = await send(store, key="a")
    await store.messages.send(DEFAULT, WORK, new(id=message.id, key="b"))
    await store.messages.send(DEFAULT, WORK, new(id=message.id))
    both = [new(key="c"), new(id=message.id, key="c"), new(key="c")]
    await store.messages.send_batch(DEFAULT, WORK, both)
    behind = await send(store, key="b")
    assert await counts(store) == Counts(ready=3, blocked=1)
    found = await ack_all(store)
    assert sorted(found) == sorted([message.id, behind.id, both[0].id, both[2].id])


async def test_a_bulk_send_keeps_the_order_per_key_over_all_chunks(store: Store) -> None:
    await make_queue(store)
    first = await send(store, key="a")
    keys = ["abc"[number % 3] if number % 100 < 3 else None for number in range(6_000)]
    messages = [new(key=key) for key in keys][::-1]
    await store.messages.send_bulk(DEFAULT, WORK, messages)
    assert await counts(store) == Counts(ready=5_823, blocked=178)
    found: list[Message] = []
    while some := await pull(store):
        found += some
        await settle(store, *map(ack, some))
    for key in "abc":
        expected = ids(message for message in [first, *messages] if message.key == key)
        assert ids(message for message in found if message.key == key) == expected


async def test_a_bulk_send_with_repeats_leaves_no_key_stuck(store: Store) -> None:
    await make_queue(store)
    known = [await send(store, key=key) for key in "ab"]
    more = [new(key=key) for key in "abc"]
    again = [new(id=known[0].id, key="d"), more[0], known[1]]
    await store.messages.send_bulk(DEFAULT, WORK, [*known, *more, *again])
    assert await counts(store) == Counts(ready=3, blocked=2)
    found = await ack_all(store)
    assert sorted(found) == sorted(ids([*known, *more]))
    for first, second in zip(known, more[:2], strict=True):
        assert found.index(first.id) < found.index(second.id)
    late = [await send(store, key=key) for key in "abcd"]
    assert ids(await pull(store)) == ids(late)


async def test_a_key_belongs_to_one_queue_and_one_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    await make_queue(store, "other", scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    for queue in (WORK, "other"):
        for scope in (one, two):
            for _ in range(2):
                await send(store, queue=queue, scope=scope, key="a")
    for queue in (WORK, "other"):
        assert await counts(store, queue, scope=SYSTEM) == Counts(ready=2, blocked=2)
    await settle(store, ack(await pull_one(store, scope=one)), scope=one)
    assert await counts(store, scope=one) == Counts(ready=1)
    assert await counts(store, scope=two) == Counts(ready=1, blocked=1)
    assert await counts(store, "other", scope=one) == Counts(ready=1, blocked=1)


async def test_a_replay_goes_to_the_end_of_its_key(store: Store) -> None:
    await make_queue(store)
    await send(store, key="a")
    await kill_all(store)
    second, third = [await send(store, key="a") for _ in range(2)]
    (replayed,) = await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    assert await counts(store) == Counts(ready=1, blocked=2)
    assert await ack_all(store) == [second.id, third.id, replayed.message_id]


async def test_the_order_per_key_holds_under_concurrency(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """No message runs out of order, no key has two in flight, and none is stuck."""
    await make_queue(store)
    other = await home.open(clock)
    random, senders, rounds = Random(11), 6, 12
    in_flight: set[str] = set()
    done: list[tuple[str, str]] = []

    async def produce(own: Store, sender: int) -> None:
        for turn in range(rounds):
            keys = random.sample("abcde", 3)
            bodies = [f"{sender} {turn:03} {key}" for key in keys]
            fields = zip(keys, bodies, strict=True)
            messages = [new(key=key, body=body.encode()) for key, body in fields]
            await own.messages.send_batch(DEFAULT, WORK, messages)

    async def consume(own: Store) -> None:
        while len(done) < senders * rounds * 3:
            found = await pull(own, limit=3)
            keys = [str(message.key) for message in found]
            assert in_flight.isdisjoint(keys)
            in_flight.update(keys)
            done.extend((str(message.key), message.body.decode()) for message in found)
            in_flight.difference_update(keys)
            await settle(own, *map(ack, random.sample(found, len(found))))

    try:
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(produce((store, other)[sender % 2], sender) for sender in range(senders)),
                *(consume((store, other)[number % 2]) for number in range(4)),
            )
        for key in "abcde":
            bodies = [body for done_key, body in done if done_key == key]
            for sender in range(senders):
                own = [body for body in bodies if body.startswith(f"{sender} ")]
                assert own == sorted(own)
        assert await counts(store) == Counts()
    finally:
        await other.close()


async def test_the_order_per_key_holds_after_a_crash(home: Home, clock: VirtualClock) -> None:
    store = await home.open(clock)
    await make_queue(store)
    first, second, third = [await send(store, key="a") for _ in range(3)]
    await settle(store, ack(await pull_one(store)))
    await claim_one(store)
    await home.crash(store)
    again = await home.open(clock)
    try:
        assert await counts(again) == Counts(claimed=1, blocked=1)
        fourth = await send(again, key="a")
        await die(again, clock)
        assert await ack_all(again) == ids([second, third, fourth])
        assert first.id not in ids(await pull(again))
    finally:
        await again.close()


def _fields(message: Any) -> dict[str, Any]:
    return {"id": message.id, "key": message.key}
