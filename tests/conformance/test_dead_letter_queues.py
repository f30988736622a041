"""Dead-letter queues: a dead message is recorded and moved there as an ordinary message."""

import pytest

from tests.conformance.acts import (
    ALL,
    TTL_SECONDS,
    WORK,
    ack,
    ack_all,
    claim,
    counts,
    create_batch,
    dead,
    ids,
    join,
    kill_all,
    kill_holders,
    letters,
    make_queue,
    make_tenants,
    new,
    pull,
    pull_one,
    send,
    sending,
    settle,
)
from tests.conformance.test_sends import EVERYTHING
from tests.stores.clock import VirtualClock
from tickwork.core.message.batch import ItemStatus
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import DEFAULT, LOST_CLAIMS_MAX, SYSTEM, Counts, Message, State
from tickwork.store.contract import Store

GRAVE = "grave"


async def make_both(store: Store) -> None:
    await make_queue(store, GRAVE)
    await make_queue(store, dead_letter_queue=GRAVE, max_retries=0, retention_seconds=600)


async def moved(store: Store) -> Message:
    (message,) = await store.messages.peek(DEFAULT, GRAVE, ALL)
    return message


async def test_a_dead_message_is_recorded_and_moved(store: Store, clock: VirtualClock) -> None:
    await make_both(store)
    sent = await send(store, **EVERYTHING)
    message = await pull_one(store)
    clock.advance(seconds=7)
    await settle(store, dead(message, reason="poison", error="boom"))
    (letter,) = await letters(store)
    assert (letter.message_id, letter.queue_id) == (sent.id, message.queue_id)
    assert await counts(store) == Counts(dead=1)
    assert await counts(store, GRAVE) == Counts(ready=1)
    there = await moved(store)
    for field in (
        "id",
        "body",
        "content_type",
        "key",
        "event_id",
        "type",
        "source",
        "correlation_id",
        "causation_id",
        "priority",
        "hops",
    ):
        assert getattr(there, field) == getattr(sent, field)
    assert (there.state, there.attempts, there.lost, there.claim) == (State.READY, 0, 0, 0)
    assert (there.visible_at, there.batch_id) == (clock.now(), None)
    assert (there.schedule_id, there.slot, there.run, there.catch_up) == (None, None, 0, False)


@pytest.mark.parametrize("way", ["handler", "lease", "lost", "expiry", "retention"])
async def test_every_way_of_dying_moves_the_message(
    store: Store, clock: VirtualClock, way: str
) -> None:
    await make_both(store)
    sent = await send(store, expires_after_seconds=30 if way == "expiry" else None)
    if way == "handler":
        await kill_all(store)
    elif way == "lease":
        await pull_one(store, lease_seconds=1)
        clock.advance(seconds=1)
    elif way == "lost":
        await kill_holders(store, clock, LOST_CLAIMS_MAX)
    else:
        clock.advance(seconds=30 if way == "expiry" else 600)
    await store.reaper.reap(SYSTEM, ALL)
    assert await counts(store) == Counts(dead=1)
    there = await moved(store)
    assert (there.id, there.lost, there.attempts) == (sent.id, 0, 0)
    # It has no expiry of its own any more.
    clock.advance(seconds=3_600)
    await store.reaper.reap(SYSTEM, ALL)
    assert ids(await pull(store, queue=GRAVE)) == [sent.id]


async def test_without_a_dead_letter_queue_a_dead_message_is_only_recorded(store: Store) -> None:
    await make_queue(store, dead_letter_queue=GRAVE)
    await send(store)
    assert len(await kill_all(store)) == 1
    await make_queue(store, GRAVE)
    assert await counts(store, GRAVE) == Counts()
    await send(store)
    await kill_all(store)
    assert await counts(store, GRAVE) == Counts(ready=1)


async def test_a_tenants_own_dead_letter_queue_takes_precedence(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, scope=SYSTEM, dead_letter_queue=GRAVE)
    for scope in (SYSTEM, one):
        await make_queue(store, GRAVE, scope=scope)
    for scope in (one, two):
        await send(store, scope=scope)
        await kill_all(store, scope=scope)
    own = await store.messages.peek(one, GRAVE, ALL)
    shared = await store.messages.peek(SYSTEM, GRAVE, ALL)
    assert [message.tenant for message in own] == ["one"]
    assert [message.tenant for message in shared] == ["two"]


async def test_a_moved_message_waits_behind_those_of_its_key(
    store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    first = await send(store, queue=GRAVE, key="a")
    sent = [await send(store, key="a") for _ in range(3)]
    for _ in sent:
        await kill_all(store)
        clock.advance(seconds=1)
    assert await counts(store, GRAVE) == Counts(ready=1, blocked=3)
    assert await ack_all(store, queue=GRAVE) == ids([first, *sent])


async def test_a_moved_message_is_not_copied_to_subscribers(store: Store) -> None:
    await make_both(store)
    await make_queue(store, "audit")
    await send(store, type="paid")
    await store.subscriptions.put(DEFAULT, "paid", "audit")
    await kill_all(store)
    assert await counts(store, "audit") == Counts()
    assert await counts(store, GRAVE) == Counts(ready=1)


async def test_a_moved_batch_item_has_failed_and_left_its_batch(store: Store) -> None:
    await make_both(store)
    item = new()
    batch = await create_batch(store, [item])
    await kill_all(store, reason="poison")
    (failed,) = await store.batches.items(DEFAULT, batch.id, ItemStatus.FAILED, ALL)
    assert (failed.id, failed.reason) == (item.id, "poison")
    await settle(store, ack(await pull_one(store, queue=GRAVE)))
    after = await store.batches.get(DEFAULT, batch.id)
    assert (after.failed, after.completed) == (1, 0)


async def test_a_moved_message_can_die_again_and_be_replayed_from_both_queues(store: Store) -> None:
    await make_both(store)
    sent = await send(store)
    await kill_all(store)
    await kill_all(store, queue=GRAVE)
    (first,), (second,) = await letters(store), await letters(store, GRAVE)
    assert first.message_id == second.message_id == sent.id
    for queue in (WORK, GRAVE):
        assert len(await store.dead_letters.replay(DEFAULT, queue, Selection(), Pace())) == 1
        assert await counts(store, queue) == Counts(ready=1)


async def test_two_queues_can_be_each_others_dead_letter_queue(store: Store) -> None:
    await make_queue(store, "one", dead_letter_queue="two")
    await make_queue(store, "two", dead_letter_queue="one")
    sent = await send(store, queue="one")
    for queue in ("one", "two", "one"):
        await kill_all(store, queue=queue)
    assert ids(await pull(store, queue="two")) == [sent.id]
    assert len(await letters(store, "one")) == 2


async def test_the_id_of_a_moved_message_is_in_use(store: Store) -> None:
    await make_both(store)
    sent = await send(store)
    await kill_all(store)
    await store.messages.send(DEFAULT, WORK, sent)
    assert await counts(store) == Counts(dead=1)
    await ack_all(store, queue=GRAVE)
    await store.messages.send(DEFAULT, WORK, sent)
    assert await counts(store) == Counts(ready=1, dead=1)


async def test_several_messages_die_and_move_in_one_settlement(
    store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    sent = [await send(store, key=key) for key in ("a", "b", None, None)]
    await claim(store, await join(store))
    clock.advance(seconds=TTL_SECONDS)
    await store.reaper.reap(SYSTEM, ALL)
    await kill_all(store)
    assert sorted(ids(await pull(store, queue=GRAVE))) == sorted(ids(sent))
    assert await counts(store) == Counts(dead=4)


async def test_messages_that_die_together_keep_the_order_of_their_key(
    store: Store, clock: VirtualClock
) -> None:
    """By retention or by its own expiry, in either order."""
    await make_both(store)
    sent = [
        await send(store, key="a", expires_after_seconds=expiry) for expiry in (None, 30, 20, 10)
    ]
    clock.advance(seconds=600)
    await store.reaper.reap(SYSTEM, ALL)
    assert await counts(store) == Counts(dead=4)
    assert await ack_all(store, queue=GRAVE) == ids(sent)


async def test_a_send_of_a_dead_messages_settlement_is_ordered_behind_it(store: Store) -> None:
    await make_both(store)
    sent = await send(store, key="a")
    following = sending(GRAVE, key="a")
    await settle(store, dead(await pull_one(store), sends=(following,)))
    assert await ack_all(store, queue=GRAVE) == [sent.id, following.message.id]
