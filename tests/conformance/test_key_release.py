"""Freed keys: when the head of a key is removed in any way, the next message is unblocked."""

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    counts,
    create_batch,
    dead,
    ids,
    letters,
    make_queue,
    make_tenants,
    news,
    pull,
    pull_one,
    release,
    retry,
    send,
    sending,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, REASON_EXPIRED, SYSTEM, Counts, Reaped, State
from tickwork.store.contract import Store


async def test_a_dead_letter_frees_its_key(store: Store) -> None:
    await make_queue(store)
    first, second = [await send(store, key="a") for _ in range(2)]
    await settle(store, dead(await pull_one(store), reason="poison"))
    assert await counts(store) == Counts(ready=1, dead=1)
    assert ids(await pull(store)) == [second.id]
    (letter,) = await letters(store)
    assert (letter.message_id, letter.key) == (first.id, "a")


async def test_a_lease_that_expired_on_the_last_attempt_frees_its_key(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, max_retries=0)
    _, second = [await send(store, key="a") for _ in range(2)]
    await pull_one(store, lease_seconds=1)
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    assert ids(await pull(store)) == [second.id]


async def test_a_head_that_expires_frees_its_key(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, retention_seconds=600)
    _, second, third = [
        await send(store, key="a", expires_after_seconds=expiry) for expiry in (60, None, None)
    ]
    clock.advance(seconds=60)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    assert await counts(store) == Counts(ready=1, blocked=1, dead=1)
    clock.advance(seconds=600)
    # By retention, which counts from when a message could first be claimed.
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    assert [letter.message_id for letter in await letters(store)][1:] == [second.id]
    assert ids(await pull(store)) == [third.id]


async def test_a_blocked_message_expires_at_its_own_time(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    first, middle, last = [
        await send(store, key="a", expires_after_seconds=expiry) for expiry in (None, 60, None)
    ]
    clock.advance(seconds=60)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    (letter,) = await letters(store)
    assert (letter.message_id, letter.reason) == (middle.id, REASON_EXPIRED)
    assert await counts(store) == Counts(ready=1, blocked=1, dead=1)
    assert await ack_all(store) == [first.id, last.id]


async def test_retention_of_a_blocked_message_counts_from_when_it_is_unblocked(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, retention_seconds=60)
    first, second = [await send(store, key="a") for _ in range(2)]
    message = await pull_one(store, lease_seconds=3_600)
    assert message.id == first.id
    clock.advance(seconds=1_000)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    await settle(store, ack(message))
    clock.advance(seconds=59)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    assert ids(await pull(store)) == [second.id]


async def test_all_messages_of_a_key_can_expire_in_one_pass(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    for _ in range(5):
        await send(store, key="a", expires_after_seconds=60)
    clock.advance(seconds=60)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=5)
    assert await counts(store) == Counts(dead=5)
    late = await send(store, key="a")
    assert ids(await pull(store)) == [late.id]


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_deleted_message_frees_its_key(store: Store, which: int) -> None:
    await make_queue(store)
    sent = [await send(store, key="a") for _ in range(3)]
    gone = sent.pop(which)
    assert await store.messages.delete(DEFAULT, WORK, gone.id)
    assert await counts(store) == Counts(ready=1, blocked=1)
    assert await ack_all(store) == ids(sent)


async def test_a_purge_deletes_blocked_messages_and_frees_the_key(store: Store) -> None:
    await make_queue(store)
    for _ in range(3):
        await send(store, key="a")
    message = await pull_one(store)
    assert await store.queues.purge(DEFAULT, WORK) == 2
    behind = await send(store, key="a")
    assert await counts(store) == Counts(claimed=1, blocked=1)
    await settle(store, ack(message))
    assert await ack_all(store) == [behind.id]
    for _ in range(3):
        await send(store, key="a")
    assert await store.queues.purge(DEFAULT, WORK) == 3
    after = await send(store, key="a")
    assert await ack_all(store) == [after.id]


async def test_a_tenants_purge_frees_only_its_own_keys(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two):
        for _ in range(2):
            await send(store, scope=scope, key="a")
    assert await store.queues.purge(one, WORK) == 2
    assert await counts(store, scope=SYSTEM) == Counts(ready=1, blocked=1)
    await send(store, scope=one, key="a")
    assert await counts(store, scope=SYSTEM) == Counts(ready=2, blocked=1)


async def test_a_cancelled_batch_frees_its_keys(store: Store) -> None:
    await make_queue(store)
    batch = await create_batch(store, news(3, key="a"))
    outside = await send(store, key="a")
    await store.batches.cancel(DEFAULT, batch.id)
    assert await ack_all(store) == [outside.id]


async def test_an_unblocked_message_keeps_its_delay(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, key="a")
    second = await send(store, key="a", delay_seconds=60)
    await settle(store, ack(await pull_one(store)))
    assert await counts(store) == Counts(delayed=1)
    clock.advance(seconds=59)
    assert await pull(store) == ()
    clock.advance(seconds=1)
    assert ids(await pull(store)) == [second.id]


async def test_an_unblocked_message_is_visible_from_then_on(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store, key="a")
    second = await send(store, key="a")
    message = await pull_one(store)
    clock.advance(seconds=10)
    await settle(store, ack(message))
    forward = await store.messages.get(DEFAULT, WORK, second.id)
    assert (forward.state, forward.visible_at) == (State.READY, clock.now())


async def test_one_settlement_can_ack_and_send_messages_of_one_key(store: Store) -> None:
    await make_queue(store)
    await send(store, key="a")
    behind = await send(store, key="a")
    following = sending(WORK, key="a")
    await settle(store, ack(await pull_one(store), following))
    assert await counts(store) == Counts(ready=1, blocked=1)
    assert await ack_all(store) == [behind.id, following.message.id]
    # If no message is blocked, a new one is not blocked either.
    await send(store, key="a")
    await settle(store, ack(await pull_one(store), following))
    assert ids(await pull(store)) == [following.message.id]


async def test_one_settlement_frees_many_keys(store: Store) -> None:
    await make_queue(store)
    sent = {key: [await send(store, key=key) for _ in range(3)] for key in "abcdef"}
    heads = await pull(store)
    assert ids(heads) == [sent[key][0].id for key in "abcdef"]
    a, b, c, d, *rest = heads
    endings = [ack(a), dead(b, reason="x"), retry(c), release(d), *map(ack, rest)]
    await settle(store, *endings)
    assert await counts(store) == Counts(ready=6, blocked=8, dead=1)
    forward = {message.key: message.id for message in await pull(store)}
    assert forward == {key: sent[key][0 if key in "cd" else 1].id for key in "abcdef"}
