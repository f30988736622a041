"""Subscriptions: a send copies its message to every queue that subscribes to its type."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    counts,
    ids,
    make_queue,
    make_tenants,
    new,
    pull,
    pull_one,
    retry,
    send,
    sending,
    settle,
)
from tests.conformance.test_sends import EVERYTHING
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import NewBatch
from tickwork.core.message.subscription import Subscription, copy_for
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    BatchWithItems,
    Counts,
    NewMessage,
    Send,
    SettleResult,
)
from tickwork.core.queue.stats import CounterName
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

AUDIT = "audit"


async def make_both(store: Store, types: str = "paid") -> None:
    await make_queue(store)
    await make_queue(store, AUDIT)
    await store.subscriptions.put(DEFAULT, types, AUDIT)


async def by_settling(store: Store, message: NewMessage) -> None:
    await make_queue(store, "before")
    await send(store, queue="before")
    held = await pull_one(store, queue="before")
    await settle(store, ack(held, Send(WORK, message)))


async def by_settling_a_batch(store: Store, message: NewMessage) -> None:
    await make_queue(store, "before")
    await send(store, queue="before")
    batch = BatchWithItems(id=new_id(), queue=WORK, items=(new(), message))
    await settle(
        store, structs.replace(ack(await pull_one(store, queue="before")), batches=(batch,))
    )


WAYS: dict[str, Callable[[Store, NewMessage], Awaitable[Any]]] = {
    "send": lambda store, message: store.messages.send(DEFAULT, WORK, message),
    "batch": lambda store, message: store.messages.send_batch(DEFAULT, WORK, [new(), message]),
    "bulk": lambda store, message: store.messages.send_bulk(DEFAULT, WORK, [new(), message]),
    "settlement": by_settling,
    "items": lambda store, message: store.batches.create(
        DEFAULT, NewBatch(id=new_id(), queue=WORK), [new(), message]
    ),
    "items of a settlement": by_settling_a_batch,
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_of_sending_copies_the_message(store: Store, way: str) -> None:
    await make_both(store)
    message = new(type="paid")
    await WAYS[way](store, message)
    assert message.id in ids(await pull(store))
    (copy,) = await pull(store, queue=AUDIT)
    assert (copy.body, copy.type, copy.tenant) == (message.body, "paid", "default")


async def test_a_copy_equals_the_message_except_for_its_id_and_slot(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    queue_id = await make_queue(store, AUDIT)
    await store.subscriptions.put(DEFAULT, "order.*", AUDIT)
    sent = await send(store, delay_seconds=5, **EVERYTHING)
    clock.advance(seconds=5)
    (copy,) = await store.messages.peek(DEFAULT, AUDIT, ALL)
    (message,) = await store.messages.peek(DEFAULT, WORK, ALL)
    assert copy == structs.replace(
        message,
        id=copy_for(sent, queue_id).id,
        queue_id=queue_id,
        schedule_id=None,
        slot=None,
        run=0,
        catch_up=False,
        idempotency_base=message.idempotency_key,
    )


@pytest.mark.parametrize(
    ("types", "copied", "not_copied"),
    [
        ("paid", ["paid"], ["paid.late", "pai", "Paid", None]),
        ("order.*", ["order.paid", "order."], ["order", "orders.paid", None]),
        ("*", ["paid", "order.paid", "ü"], [None]),
        ("a_b%", ["a_b%"], ["axb%", "a_bc"]),
        ("a_b%*", ["a_b%", "a_b%c"], ["axb%c", "a_b"]),
    ],
)
async def test_a_pattern_is_a_type_or_a_prefix(
    store: Store, types: str, copied: list[str], not_copied: list[str | None]
) -> None:
    await make_both(store, types)
    for type_ in [*copied, *not_copied]:
        await send(store, type=type_)
    found = await pull(store, queue=AUDIT)
    assert sorted(str(message.type) for message in found) == sorted(copied)


async def test_a_queue_gets_one_copy_however_many_patterns_match(store: Store) -> None:
    await make_both(store)
    await store.subscriptions.put(DEFAULT, "*", AUDIT)
    await store.subscriptions.put(DEFAULT, "pa*", AUDIT)
    await send(store, type="paid")
    assert await counts(store, AUDIT) == Counts(ready=1)


async def test_the_target_queue_gets_no_copy(store: Store) -> None:
    await make_both(store)
    await send(store, queue=AUDIT, type="paid")
    assert await counts(store, AUDIT) == Counts(ready=1)


async def test_copies_are_not_copied_again(store: Store) -> None:
    await make_both(store)
    await make_queue(store, "third")
    await store.subscriptions.put(DEFAULT, "paid", "third")
    await send(store, type="paid")
    assert await counts(store, AUDIT) == Counts(ready=1)
    assert await counts(store, "third") == Counts(ready=1)


async def test_a_copy_is_independent_of_its_message(store: Store) -> None:
    await make_both(store)
    await send(store, type="paid", event_id="paid-1")
    message, copy = await pull_one(store), await pull_one(store, queue=AUDIT)
    assert await settle(store, retry(message, delay_seconds=60)) == SettleResult()
    assert await settle(store, ack(copy)) == SettleResult()
    assert await counts(store) == Counts(delayed=1)


async def test_a_repeated_send_is_not_copied_again(store: Store) -> None:
    await make_both(store)
    message = await send(store, type="paid")
    await store.messages.send(DEFAULT, WORK, message)
    assert await counts(store, AUDIT) == Counts(ready=1)
    await ack_all(store, queue=AUDIT)
    await store.messages.send(DEFAULT, WORK, message)
    assert await counts(store, AUDIT) == Counts()


async def test_copies_keep_the_order_of_their_keys(store: Store) -> None:
    await make_both(store)
    sent = [new(type="paid", key="a", body=b"%d" % number) for number in range(10)][::-1]
    await store.messages.send_batch(DEFAULT, WORK, sent)
    bodies = []
    while found := await pull(store, queue=AUDIT):
        (message,) = found
        bodies.append(message.body)
        await settle(store, ack(message))
    assert bodies == [message.body for message in sent]


async def test_messages_sent_before_the_subscription_are_not_copied(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, AUDIT)
    await send(store, type="paid")
    await store.subscriptions.put(DEFAULT, "paid", AUDIT)
    assert await counts(store, AUDIT) == Counts()
    await send(store, type="paid")
    assert await counts(store, AUDIT) == Counts(ready=1)
    assert await store.subscriptions.delete(DEFAULT, "paid", AUDIT)
    await send(store, type="paid")
    assert await counts(store, AUDIT) == Counts(ready=1)


async def test_a_subscription_applies_to_other_processes_at_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_queue(store, AUDIT)
    other = await home.open(clock)
    try:
        await send(other, type="paid")
        await store.subscriptions.put(DEFAULT, "paid", AUDIT)
        await send(other, type="paid")
        assert await counts(store, AUDIT) == Counts(ready=1)
        await store.subscriptions.delete(DEFAULT, "paid", AUDIT)
        await send(other, type="paid")
        assert await counts(store, AUDIT) == Counts(ready=1)
    finally:
        await other.close()


async def test_a_refused_settlement_copies_nothing(store: Store) -> None:
    await make_both(store)
    await send(store)
    message = await pull_one(store)
    await settle(store, retry(message))
    ending = ack(message, sending(WORK, type="paid"))
    assert (await settle(store, ending)).refused == (message.current_claim,)
    assert await counts(store, AUDIT) == Counts()


async def test_a_system_subscription_matches_every_tenants_messages(store: Store) -> None:
    await make_queue(store, AUDIT, scope=SYSTEM)
    subscription = await store.subscriptions.put(SYSTEM, "paid", AUDIT)
    assert subscription.tenant is None
    for scope in await make_tenants(store, "one", "two"):
        await make_queue(store, scope=scope)
        await send(store, scope=scope, type="paid")
    found = await pull(store, queue=AUDIT, scope=SYSTEM)
    assert sorted(message.tenant for message in found) == ["one", "two"]


async def test_messages_of_two_tenants_with_one_id_are_both_copied(store: Store) -> None:
    scopes = await make_tenants(store, "one", "two", "three", "four")
    for queue in (WORK, AUDIT):
        await make_queue(store, queue, scope=SYSTEM)
    await store.subscriptions.put(SYSTEM, "paid", AUDIT)
    # While the first one is being stored, the others gather and are stored together.
    message = new(type="paid")
    await asyncio.gather(*(store.messages.send(scope, WORK, message) for scope in scopes))
    for queue in (WORK, AUDIT):
        assert await counts(store, queue, scope=SYSTEM) == Counts(ready=4)
        (kind,) = (await store.stats.queue(SYSTEM, queue)).kinds
        assert (kind.counter, kind.messages) == (CounterName.SENT, 4)


async def test_a_tenants_subscription_matches_only_its_own_messages(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, AUDIT, scope=one)
    await store.subscriptions.put(one, "paid", AUDIT)
    for scope in (one, two):
        await send(store, scope=scope, type="paid")
    assert [message.tenant for message in await pull(store, queue=AUDIT, scope=one)] == ["one"]
    assert await store.subscriptions.list(two) == ()
    assert not await store.subscriptions.delete(two, "paid", AUDIT)


async def test_a_tenant_can_subscribe_a_shared_queue_and_its_own_takes_precedence(
    store: Store,
) -> None:
    (one,) = await make_tenants(store, "one")
    await make_queue(store, scope=one)
    shared = await make_queue(store, AUDIT, scope=SYSTEM)
    assert (await store.subscriptions.put(one, "paid", AUDIT)).queue_id == shared
    await send(store, scope=one, type="paid")
    assert await counts(store, AUDIT, scope=SYSTEM) == Counts(ready=1)
    assert await store.subscriptions.delete(one, "paid", AUDIT)
    own = await make_queue(store, AUDIT, scope=one)
    assert (await store.subscriptions.put(one, "paid", AUDIT)).queue_id == own


async def test_the_system_can_subscribe_only_shared_queues(store: Store) -> None:
    await make_queue(store, AUDIT)
    with pytest.raises(NotFound):
        await store.subscriptions.put(SYSTEM, "paid", AUDIT)


async def test_subscriptions_are_listed_by_types_and_queue(store: Store) -> None:
    queue_ids = {name: await make_queue(store, name) for name in ("a", "b")}
    for types, queue in (("paid", "b"), ("paid", "a"), ("*", "b"), ("paid", "b")):
        answer = await store.subscriptions.put(DEFAULT, types, queue)
        assert answer == Subscription("default", types, queue_ids[queue], queue)
    assert await store.subscriptions.list(DEFAULT) == (
        Subscription("default", "*", queue_ids["b"], "b"),
        Subscription("default", "paid", queue_ids["a"], "a"),
        Subscription("default", "paid", queue_ids["b"], "b"),
    )
    assert await store.subscriptions.list(SYSTEM) == ()


async def test_a_subscription_is_deleted_once(store: Store) -> None:
    await make_both(store)
    assert not await store.subscriptions.delete(DEFAULT, "other", AUDIT)
    assert not await store.subscriptions.delete(DEFAULT, "paid", "nowhere")
    assert await store.subscriptions.delete(DEFAULT, "paid", AUDIT)
    assert not await store.subscriptions.delete(DEFAULT, "paid", AUDIT)


async def test_deleting_a_queue_deletes_its_subscriptions(store: Store) -> None:
    await make_both(store)
    await store.queues.delete(DEFAULT, AUDIT)
    assert await store.subscriptions.list(DEFAULT) == ()
    await make_queue(store, AUDIT)
    await send(store, type="paid")
    assert await counts(store, AUDIT) == Counts()


async def test_a_pattern_has_its_limits(store: Store) -> None:
    await make_queue(store)
    for types in ("", "x" * 121, "a*b", "**", "a\0b", "a\nb"):
        with pytest.raises(InvalidInput) as raised:
            await store.subscriptions.put(DEFAULT, types, WORK)
        assert [fault.field for fault in raised.value.errors] == ["types"]
    assert await store.subscriptions.list(DEFAULT) == ()
    await store.subscriptions.put(DEFAULT, "x" * 120, WORK)


async def test_a_batch_that_is_sent_again_is_copied_once_and_its_copies_are_no_items(
    store: Store,
) -> None:
    await make_both(store)
    batch, items = NewBatch(id=new_id(), queue=WORK), [new(type="paid") for _ in range(3)]
    for _ in range(2):
        made = await store.batches.create(DEFAULT, batch, items)
        assert made.total == 3
    copies = await pull(store, queue=AUDIT)
    assert {copy.body for copy in copies} == {item.body for item in items}
    assert len(copies) == len(items)
    assert {copy.batch_id for copy in copies} == {None}
