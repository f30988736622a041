"""Deduplication: duplicates of a done event are acked at their claim, without being returned."""

import asyncio

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
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
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import BatchStatus, ItemStatus
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import (
    DEFAULT,
    EVENT_RETENTION_SECONDS,
    LOST_CLAIMS_SEPARATE,
    SYSTEM,
    Counts,
    Scope,
    SettleResult,
)
from tickwork.store.contract import Store

PAID = "paid-1"


async def do_event(store: Store, event_id: str = PAID, *, scope: Scope = DEFAULT) -> None:
    await send(store, scope=scope, event_id=event_id)
    await settle(store, ack(await pull_one(store, scope=scope)), scope=scope)


async def test_a_duplicate_of_a_done_event_is_acked_without_running(store: Store) -> None:
    await make_queue(store)
    await do_event(store)
    await send(store, event_id=PAID)
    assert await counts(store) == Counts(ready=1)
    assert await pull(store) == ()
    assert await counts(store) == Counts()


async def test_a_claim_skips_duplicates_and_returns_the_next_message(store: Store) -> None:
    await make_queue(store)
    await do_event(store)
    for _ in range(50):
        await send(store, event_id=PAID, priority=9)
    sent = await send_many(store, 5)
    assert ids(await pull(store, limit=5)) == ids(sent)
    assert await counts(store) == Counts(claimed=5)


async def test_a_claim_is_full_despite_duplicates_if_enough_messages_wait(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await do_event(store)
    expected = []
    for number in range(60):
        message = await send(store, event_id=PAID if number % 3 else None)
        expected += [] if number % 3 else [message.id]
        clock.advance(seconds=1)
    node = await join(store)
    assert ids(await claim(store, node, limit=7)) == expected[:7]
    assert ids(await claim(store, node, limit=7)) == expected[7:14]
    assert ids(await claim(store, node)) == expected[14:]


async def test_a_system_claim_skips_duplicates_too(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    expected = []
    for scope in await make_tenants(store, "a", "b", "c"):
        await do_event(store, scope=scope)
        for _ in range(10):
            await send(store, scope=scope, event_id=PAID)
        expected += ids(await send_many(store, 4, scope=scope))
    assert sorted(ids(await pull(store, scope=SYSTEM, limit=12))) == sorted(expected)


async def test_a_duplicate_suspect_is_acked_without_running_too(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = [await send(store, event_id=event_id) for event_id in (PAID, None)]
    for _ in range(2):
        await claim(store, await join(store))
        await die(store, clock)
    await do_event(store)
    found = await claim(store, await join(store), separate=True)
    assert ids(found) == [sent[1].id]
    assert await counts(store) == Counts(claimed=1)


async def test_a_suspect_that_must_run_alone_does_not_fill_the_gap_of_a_duplicate(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    deadlier, _, other = [await send(store, event_id=event_id) for event_id in (None, PAID, None)]
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    await claim(store, await join(store), separate=True, limit=1)
    await die(store, clock)
    await do_event(store)
    node = await join(store)
    found = [await claim(store, node, separate=True) for _ in range(2)]
    assert [ids(messages) for messages in found] == [[other.id], [deadlier.id]]


async def test_a_delayed_duplicate_is_acked_when_it_becomes_visible(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await do_event(store)
    await send(store, event_id=PAID, delay_seconds=60)
    assert await pull(store) == ()
    assert await counts(store) == Counts(delayed=1)
    clock.advance(seconds=60)
    assert await pull(store) == ()
    assert await counts(store) == Counts()


async def test_a_duplicate_in_a_paused_queue_is_not_acked(store: Store) -> None:
    """A claim on a paused queue acks no duplicates either."""
    await make_queue(store)
    await do_event(store)
    await send(store, event_id=PAID)
    await store.queues.pause(DEFAULT, "work")
    assert await pull(store) == ()
    assert await counts(store) == Counts(ready=1)


async def test_a_duplicate_frees_its_key_and_the_same_claim_returns_the_next_message(
    store: Store,
) -> None:
    await make_queue(store)
    await do_event(store)
    for _ in range(3):
        await send(store, event_id=PAID, key="a")
    last = await send(store, key="a")
    assert await counts(store) == Counts(ready=1, blocked=3)
    assert ids(await pull(store)) == [last.id]
    assert await counts(store) == Counts(claimed=1)


async def test_a_duplicate_in_a_batch_is_a_completed_item(store: Store) -> None:
    await make_queue(store)
    await do_event(store)
    item = new(event_id=PAID)
    batch = await create_batch(store, [item])
    assert await pull(store) == ()
    done = await store.batches.get(DEFAULT, batch.id)
    assert (done.status, done.completed, done.failed) == (BatchStatus.COMPLETED, 1, 0)
    (ended,) = await store.batches.items(DEFAULT, batch.id, ItemStatus.COMPLETED, ALL)
    assert (ended.id, ended.reason) == (item.id, None)


async def test_duplicates_are_detected_per_queue_and_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    await make_queue(store, "other", scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    await do_event(store, scope=one)
    for scope in (one, two):
        for queue in ("work", "other"):
            await send(store, queue=queue, scope=scope, event_id=PAID)
    assert [message.tenant for message in await pull(store, scope=SYSTEM)] == ["two"]
    other = await pull(store, queue="other", scope=SYSTEM)
    assert sorted(message.tenant for message in other) == ["one", "two"]


async def test_of_two_duplicates_in_flight_one_wins_and_a_third_is_not_claimed(
    store: Store,
) -> None:
    await make_queue(store)
    for _ in range(2):
        await send(store, event_id=PAID)
    one, two = await pull(store)
    await send(store, event_id=PAID)
    assert await settle(store, ack(one)) == SettleResult()
    assert await pull(store) == ()
    assert await settle(store, ack(two)) == SettleResult(duplicates=(two.current_claim,))
    assert await counts(store) == Counts()


async def test_concurrent_claims_return_no_duplicate(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await do_event(store)
    for _ in range(30):
        await send(store, event_id=PAID)
    sent = await send_many(store, 30)
    other = await home.open(clock)
    try:
        answers = await asyncio.gather(
            *(pull((store, other)[number % 2], limit=5) for number in range(20))
        )
        found = ids(message for answer in answers for message in answer)
        found += ids(await pull(store))
        assert sorted(found) == sorted(ids(sent))
        assert await counts(store) == Counts(claimed=30)
    finally:
        await other.close()


async def test_an_event_can_run_again_after_fifteen_days(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await do_event(store)
    clock.advance(seconds=EVENT_RETENTION_SECONDS - 1)
    assert (await store.pruner.prune(SYSTEM, ALL)).events == 0
    await send(store, event_id=PAID)
    assert await pull(store) == ()
    clock.advance(seconds=2)
    assert (await store.pruner.prune(SYSTEM, ALL)).events == 1
    again = await send(store, event_id=PAID)
    assert ids(await pull(store)) == [again.id]


async def test_a_replay_is_a_new_event(store: Store) -> None:
    """Otherwise it would count as a duplicate of the event that was done meanwhile."""
    await make_queue(store)
    await send(store, event_id=PAID)
    await kill_all(store)
    await do_event(store)
    (replayed,) = await store.dead_letters.replay(DEFAULT, "work", Selection(), Pace())
    message = await pull_one(store)
    assert message.id == replayed.message_id
    assert message.event_id not in (None, PAID)
    assert await settle(store, ack(message)) == SettleResult()


@pytest.mark.parametrize("event_id", ["Paid-1", "paid-1 ", "päid"])
async def test_different_events_are_not_duplicates(store: Store, event_id: str) -> None:
    await make_queue(store)
    await do_event(store)
    await send(store, event_id=event_id)
    assert (await claim_one(store)).event_id == event_id
