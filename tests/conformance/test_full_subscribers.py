"""A full subscriber never refuses a sender: copies that do not fit become dead letters there."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    WORK,
    ack,
    ack_all,
    counts,
    create_batch,
    ids,
    letters,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    send,
    sending,
    settle,
    whole,
)
from tests.conformance.ledger import ledger_at
from tests.stores.home import Home
from tickwork.core.message.batch import NewBatch
from tickwork.core.message.dead_letter import Pace, Selection, read_death
from tickwork.core.message.subscription import copy_id
from tickwork.core.message.system_events import MESSAGE_DEAD
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Message, Settlement, SettleResult
from tickwork.core.queue.stats import CounterName
from tickwork.errors import BacklogFull
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

LIMIT = 128_000
QUARTER = b"x" * (LIMIT // 4)
BYTE = b"x"
EVENTS, PAID = "events", "paid"


async def subscribe(store: Store, *, quarters: int = 4, **settings: Any) -> None:
    """`work` subscribes to `paid`, and has this many quarters of its limit in use."""
    await make_queue(store, backlog_bytes_max=LIMIT, **settings)
    await make_queue(store, EVENTS)
    await store.subscriptions.put(DEFAULT, PAID, WORK)
    for message in news(quarters, body=QUARTER):
        await store.messages.send(DEFAULT, WORK, message)


async def begin(store: Store) -> Message:
    """A claimed message of another queue, for a settlement that sends."""
    await make_queue(store, "before")
    await send(store, queue="before")
    return await pull_one(store, queue="before")


async def test_a_copy_for_a_full_subscriber_becomes_a_dead_letter_there(store: Store) -> None:
    await subscribe(store)
    sent = await send(store, queue=EVENTS, type=PAID, key="a", source="till", body=BYTE)
    assert ids(await pull(store, queue=EVENTS)) == [sent.id]
    assert await counts(store) == Counts(ready=4, dead=1)
    (letter,) = await letters(store)
    assert letter.message_id == copy_id(sent.id, letter.queue_id)
    assert (letter.reason, letter.attempts, letter.batch_id) == ("backlog_full", 0, None)
    assert letter.error == str(BacklogFull(WORK, LIMIT))
    assert (letter.type, letter.key, letter.source, letter.body) == (PAID, "a", "till", BYTE)


async def settle_with_send(store: Store) -> None:
    message = await begin(store)
    assert await settle(store, ack(message, sending(EVENTS, type=PAID))) == SettleResult()


async def settle_with_batch(store: Store) -> None:
    message, batch = await begin(store), whole(news(1, type=PAID), queue=EVENTS)
    assert await settle(store, ack(message, batches=(batch,))) == SettleResult()


async def add_to_open_batch(store: Store) -> None:
    batch = NewBatch(id=new_id(), queue=EVENTS)
    await store.batches.open(DEFAULT, batch)
    await store.batches.add(DEFAULT, batch, news(1, type=PAID))


WAYS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "send": lambda store: store.messages.send(DEFAULT, EVENTS, new(type=PAID)),
    "send_batch": lambda store: store.messages.send_batch(DEFAULT, EVENTS, news(1, type=PAID)),
    "send_bulk": lambda store: store.messages.send_bulk(DEFAULT, EVENTS, news(1, type=PAID)),
    "batch": lambda store: create_batch(store, news(1, type=PAID), queue=EVENTS),
    "open batch": add_to_open_batch,
    "settlement": settle_with_send,
    "batch of a settlement": settle_with_batch,
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_full_subscriber_never_refuses_the_sender(store: Store, way: str) -> None:
    await subscribe(store)
    await WAYS[way](store)
    assert await counts(store, EVENTS) == Counts(ready=1)
    assert await counts(store) == Counts(ready=4, dead=1)
    with pytest.raises(BacklogFull):
        await send(store, body=BYTE)
    await ack_all(store)
    await WAYS[way](store)
    assert await counts(store) == Counts(ready=1, dead=1)


async def test_a_full_subscriber_never_refuses_a_joint_settlement(home: Home, store: Store) -> None:
    await subscribe(store)
    ledger = ledger_at(home)
    await ledger.create()
    ending = ack(await begin(store), sending(EVENTS, type=PAID))
    await store.messages.settle_jointly(DEFAULT, Settlement((ending,)), ledger.writing("once"))
    assert await ledger.entries() == ["once"]
    assert await counts(store) == Counts(ready=4, dead=1)


@pytest.mark.parametrize("way", ["send_batch", "send_bulk", "batch"])
async def test_of_several_copies_each_that_still_fits_is_stored(store: Store, way: str) -> None:
    await subscribe(store, quarters=2)
    sizes = [LIMIT // 4, LIMIT // 2, LIMIT // 4 - 1, 2, 1, 1, 0]
    messages = [new(type=PAID, body=b"x" * size) for size in sizes]
    if way == "batch":
        await create_batch(store, messages, queue=EVENTS)
    else:
        await getattr(store.messages, way)(DEFAULT, EVENTS, messages)
    assert await counts(store, EVENTS) == Counts(ready=7)
    assert sorted(len(letter.body) for letter in await letters(store)) == [1, 2, LIMIT // 2]
    copies = [len(message.body) for message in await pull(store) if message.type]
    assert sorted(copies) == [0, 1, LIMIT // 4 - 1, LIMIT // 4]


async def test_a_subscriber_over_its_cap_takes_not_even_an_empty_copy(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, EVENTS)
    await store.subscriptions.put(DEFAULT, PAID, WORK)
    await store.messages.send_batch(DEFAULT, WORK, news(5, body=QUARTER))
    await make_queue(store, backlog_bytes_max=LIMIT)
    await send(store, queue=EVENTS, type=PAID, body=b"")
    assert await counts(store) == Counts(ready=5, dead=1)


async def test_a_full_subscriber_takes_nothing_from_another(store: Store) -> None:
    await subscribe(store)
    await make_queue(store, "free")
    await make_queue(store, "roomy", backlog_bytes_max=LIMIT)
    for queue in ("free", "roomy"):
        await store.subscriptions.put(DEFAULT, "*", queue)
    await store.messages.send_batch(DEFAULT, EVENTS, news(2, type=PAID))
    assert await counts(store) == Counts(ready=4, dead=2)
    # Each of them also has the two events of the dead letters.
    assert await counts(store, "free") == await counts(store, "roomy") == Counts(ready=4)


async def test_a_shared_subscriber_keeps_each_dead_copy_with_its_tenant(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, "shared", scope=SYSTEM, backlog_bytes_max=LIMIT)
    await store.subscriptions.put(SYSTEM, PAID, "shared")
    for scope in (one, two):
        await make_queue(store, EVENTS, scope=scope)
    await store.messages.send_batch(one, EVENTS, news(4, type=PAID, body=QUARTER))
    message = new(type=PAID, body=BYTE)
    for scope in (one, two):
        await store.messages.send(scope, EVENTS, message)
        (letter,) = await letters(store, "shared", scope=scope)
        assert letter.tenant == scope.tenant


async def test_a_send_to_the_full_queue_itself_is_refused_and_copied_nowhere(store: Store) -> None:
    await make_queue(store, EVENTS, backlog_bytes_max=LIMIT)
    await make_queue(store)
    await store.subscriptions.put(DEFAULT, PAID, WORK)
    await store.messages.send_batch(DEFAULT, EVENTS, news(4, body=QUARTER))
    with pytest.raises(BacklogFull, match=EVENTS):
        await send(store, queue=EVENTS, type=PAID, body=BYTE)
    assert await counts(store) == Counts()


async def test_a_dead_copy_does_not_block_its_key(store: Store) -> None:
    await subscribe(store, quarters=3)
    bodies = (QUARTER + BYTE, b"first", b"second")
    messages = [new(type=PAID, key="a", body=body) for body in bodies]
    await store.messages.send_batch(DEFAULT, EVENTS, messages)
    assert await counts(store) == Counts(ready=4, blocked=1, dead=1)
    taken = await pull(store)
    assert [message.body for message in taken if message.key] == [b"first"]
    await settle(store, *map(ack, taken))
    assert (await pull_one(store)).body == b"second"
    await send(store, queue=EVENTS, type=PAID, key="b", body=b"x" * LIMIT)
    await send(store, key="b", body=BYTE)
    assert (await pull_one(store)).key == "b"


async def test_a_repeated_send_makes_no_second_dead_letter(store: Store) -> None:
    await subscribe(store)
    sent = await send(store, queue=EVENTS, type=PAID)
    await store.messages.send(DEFAULT, EVENTS, sent)
    assert await counts(store) == Counts(ready=4, dead=1)


async def test_a_dead_copy_is_replayed_when_there_is_room(store: Store) -> None:
    await subscribe(store)
    await send(store, queue=EVENTS, type=PAID, body=BYTE)
    with pytest.raises(BacklogFull):
        await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    await ack_all(store)
    assert len(await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())) == 1
    assert (await pull_one(store)).body == BYTE


async def test_a_dead_copy_is_published_and_goes_to_the_dead_letter_queue(store: Store) -> None:
    await make_queue(store, "dead")
    await make_queue(store, "alerts")
    await store.subscriptions.put(DEFAULT, MESSAGE_DEAD, "alerts")
    await subscribe(store, dead_letter_queue="dead")
    await send(store, queue=EVENTS, type=PAID, body=BYTE)
    moved = await pull_one(store, queue="dead")
    assert moved.body == BYTE
    died = read_death(moved.death)
    assert died is not None
    assert (died.reason, died.queue, died.attempts) == ("backlog_full", WORK, 0)
    assert (await pull_one(store, queue="alerts")).type == MESSAGE_DEAD


async def test_a_dead_letter_queue_of_a_subscriber_never_refuses_the_sender(store: Store) -> None:
    """The dead copies fill the queue that the sender itself sends to."""
    await subscribe(store, dead_letter_queue=EVENTS)
    await make_queue(store, EVENTS, backlog_bytes_max=LIMIT)
    await store.messages.send_batch(DEFAULT, EVENTS, news(4, body=QUARTER, type=PAID))
    assert await counts(store, EVENTS) == Counts(ready=8)
    with pytest.raises(BacklogFull, match=EVENTS):
        await send(store, queue=EVENTS, type=PAID, body=BYTE)
    assert await counts(store) == Counts(ready=4, dead=4)


async def test_an_ack_frees_bytes_for_the_copies_of_its_settlement(store: Store) -> None:
    await subscribe(store)
    first, *_ = await pull(store)
    copied = sending(EVENTS, type=PAID, body=QUARTER)
    assert await settle(store, ack(first, copied)) == SettleResult()
    assert await counts(store) == Counts(ready=1, claimed=3)


@pytest.mark.parametrize("has_batch", [False, True])
async def test_copies_take_no_room_from_the_messages_of_their_own_settlement(
    store: Store, *, has_batch: bool
) -> None:
    await subscribe(store, quarters=3)
    copied, own = sending(EVENTS, type=PAID, body=QUARTER), sending(WORK, body=QUARTER)
    if has_batch:
        ending = ack(await begin(store), copied, batches=(whole([own.message]),))
    else:
        ending = ack(await begin(store), copied, own)
    assert await settle(store, ending) == SettleResult()
    assert await counts(store) == Counts(ready=4, dead=1)
    assert own.message.id in ids(await pull(store))


async def test_a_dead_copy_is_counted_as_sent_and_as_dead(store: Store) -> None:
    await subscribe(store)
    await store.messages.send_batch(DEFAULT, EVENTS, news(3, type=PAID))
    kinds = (await store.stats.queue(DEFAULT, WORK)).kinds
    counted = {kind.counter: kind.messages for kind in kinds if kind.type == PAID}
    assert counted == {CounterName.SENT: 3, CounterName.DEAD: 3}
