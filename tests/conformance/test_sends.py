"""Sends: stored once, completely, durably, and unchanged."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim,
    claim_one,
    counts,
    ids,
    join,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import (
    DEFAULT,
    FORMAT_VERSION,
    SYSTEM,
    ContentType,
    Counts,
    Message,
    NewMessage,
    State,
)
from tickwork.core.options import names_of
from tickwork.core.options.message import SendOptions
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

EVERYTHING: dict[str, Any] = {
    "body": b"\x00\xff{}",
    "content_type": ContentType.BYTES,
    "priority": 7,
    "key": "order-12",
    "event_id": "evt-1",
    "type": "order.paid",
    "source": "shop / übersee",
    "correlation_id": "cor-1",
    "causation_id": "cau-1",
    "hops": 2,
    "schedule_id": UUID(int=2),
    "slot": datetime(2026, 1, 5, 8, 59, 59, 123456, tzinfo=UTC),
    "run": 3,
    "catch_up": True,
    "idempotency_base": "invoice 12",
    "death": '{"queue":"late"}',
}


def as_sent(message: Message, sent: NewMessage) -> bool:
    """Asserts that a stored message has the fields of the sent one."""
    common = set(Message.__struct_fields__) & set(NewMessage.__struct_fields__)
    return all(getattr(message, field) == getattr(sent, field) for field in common)


async def test_a_message_is_stored_as_it_was_sent(store: Store, clock: VirtualClock) -> None:
    queue_id = await make_queue(store)
    assert names_of(SendOptions) <= {*EVERYTHING, "delay_seconds", "expires_after_seconds"}
    sent = await send(store, delay_seconds=0.5, **EVERYTHING)
    stored = await store.messages.get(DEFAULT, WORK, sent.id)
    assert as_sent(stored, sent)
    assert stored.tenant == "default"
    assert stored.queue_id == queue_id
    assert stored.sent_at == clock.now()
    assert stored.visible_at == clock.now() + timedelta(seconds=0.5)
    assert stored.format == FORMAT_VERSION


async def test_a_new_message_is_ready_and_unclaimed(store: Store) -> None:
    await make_queue(store)
    sent = await send(store)
    stored = await store.messages.get(DEFAULT, WORK, sent.id)
    assert stored.state is State.READY
    assert (stored.claim, stored.attempts, stored.lost) == (0, 0, 0)
    assert stored.holder is None
    assert stored.last_error is None


@pytest.mark.parametrize("way", ["batch", "bulk"])
async def test_every_way_of_sending_stores_the_same_message(
    store: Store, clock: VirtualClock, way: str
) -> None:
    await make_queue(store)
    sent = new(delay_seconds=2, expires_after_seconds=60, **EVERYTHING)
    if way == "batch":
        await store.messages.send_batch(DEFAULT, WORK, [sent])
    else:
        assert await store.messages.send_bulk(DEFAULT, WORK, [sent]) == 1
    stored = await store.messages.get(DEFAULT, WORK, sent.id)
    assert as_sent(stored, sent)
    assert stored.visible_at == clock.now() + timedelta(seconds=2)
    clock.advance(seconds=61)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 0
    clock.advance(seconds=1)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 1


async def test_a_repeated_send_is_one_message(store: Store) -> None:
    await make_queue(store)
    message = new()
    for _ in range(3):
        await store.messages.send(DEFAULT, WORK, message)
    assert await counts(store) == Counts(ready=1)


async def test_concurrent_sends_of_one_id_are_one_message(store: Store) -> None:
    await make_queue(store)
    message = new()
    await asyncio.gather(*(store.messages.send(DEFAULT, WORK, message) for _ in range(20)))
    assert await counts(store) == Counts(ready=1)


async def test_the_first_send_of_an_id_counts(store: Store) -> None:
    await make_queue(store)
    first = await send(store, body=b"first")
    await send(store, id=first.id, body=b"second", priority=9)
    stored = await store.messages.get(DEFAULT, WORK, first.id)
    assert (stored.body, stored.priority) == (b"first", 4)


async def test_a_repeat_does_not_affect_a_claimed_message(store: Store) -> None:
    await make_queue(store)
    sent = await send(store)
    held = await claim_one(store)
    await store.messages.send(DEFAULT, WORK, sent)
    assert await counts(store) == Counts(claimed=1)
    assert not (await settle(store, ack(held))).refused


async def test_the_id_of_a_done_message_can_be_used_again(store: Store) -> None:
    """A sender that may repeat so late passes an event id: then the repeat is a duplicate."""
    await make_queue(store)
    for event_id in (None, "paid-1"):
        sent = await send(store, event_id=event_id)
        await settle(store, ack(await claim_one(store)))
        await store.messages.send(DEFAULT, WORK, sent)
        assert await counts(store) == Counts(ready=1)
        again = await claim(store, await join(store))
        assert [(message.id, message.claim) for message in again] == (
            [] if event_id else [(sent.id, 1)]
        )
        await settle(store, *map(ack, again))


async def test_two_tenants_may_use_one_id(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, other = await make_tenants(store, "one", "other")
    message = new()
    await store.messages.send(one, WORK, message)
    await store.messages.send(other, WORK, message)
    assert await counts(store, scope=SYSTEM) == Counts(ready=2)


async def test_a_batch_is_stored_whole(store: Store) -> None:
    await make_queue(store)
    messages = news(2_500)
    await store.messages.send_batch(DEFAULT, WORK, messages)
    assert ids(await store.messages.peek(DEFAULT, WORK, 2_500)) == ids(messages)


async def test_a_batch_with_one_invalid_message_stores_none(store: Store) -> None:
    await make_queue(store)
    with pytest.raises(InvalidInput, match=r"messages\[1\]\.priority"):
        await store.messages.send_batch(DEFAULT, WORK, [new(), new(priority=10), new()])
    assert await counts(store) == Counts()


async def test_an_empty_batch_stores_nothing(store: Store) -> None:
    await make_queue(store)
    await store.messages.send_batch(DEFAULT, WORK, [])
    assert await store.messages.send_bulk(DEFAULT, WORK, []) == 0
    assert await counts(store) == Counts()


@pytest.mark.parametrize("way", ["batch", "bulk"])
async def test_a_batch_with_repeats_stores_only_the_new_messages(store: Store, way: str) -> None:
    await make_queue(store)
    known = await send(store, body=b"first")
    messages = [new(), new(id=known.id, body=b"second"), *news(1_200)]
    messages.append(messages[0])
    if way == "batch":
        await store.messages.send_batch(DEFAULT, WORK, messages)
    else:
        await store.messages.send_bulk(DEFAULT, WORK, messages)
    assert await counts(store) == Counts(ready=1_202)
    assert (await store.messages.get(DEFAULT, WORK, known.id)).body == b"first"


async def test_a_bulk_send_stores_any_number_of_messages(store: Store) -> None:
    await make_queue(store)
    assert await store.messages.send_bulk(DEFAULT, WORK, iter(news(5_500))) == 5_500
    assert await counts(store) == Counts(ready=5_500)


async def test_an_invalid_message_stores_nothing_of_its_bulk_chunk(store: Store) -> None:
    await make_queue(store)
    with pytest.raises(InvalidInput, match="hops"):
        await store.messages.send_bulk(DEFAULT, WORK, [*news(10), new(hops=-1)])
    assert await counts(store) == Counts()


async def test_a_slot_is_one_message(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    slot: dict[str, Any] = {"schedule_id": new_id(), "slot": clock.now()}
    first = await send(store, **slot)
    await send(store, **slot)
    await send(store, run=1, **slot)
    await send(store, schedule_id=slot["schedule_id"], slot=clock.now() + timedelta(seconds=1))
    await send(store, schedule_id=new_id(), slot=clock.now())
    assert await counts(store) == Counts(ready=4)
    assert first.id in ids(await store.messages.peek(DEFAULT, WORK, ALL))


async def test_a_delayed_message_becomes_visible_after_its_delay(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store, delay_seconds=10)
    assert await counts(store) == Counts(delayed=1)
    clock.advance(seconds=9.999)
    assert await pull(store) == ()
    clock.advance(seconds=0.001)
    assert await counts(store) == Counts(ready=1)
    assert len(await pull(store)) == 1


async def test_a_message_can_be_delayed_by_a_year(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, delay_seconds=365 * 86_400)
    clock.advance(seconds=364 * 86_400)
    await store.reaper.reap(SYSTEM, ALL)
    assert await counts(store) == Counts(delayed=1)
    clock.advance(seconds=86_400)
    assert len(await pull(store)) == 1


async def test_concurrent_sends_are_all_stored(store: Store) -> None:
    await make_queue(store)
    messages = news(100)
    await asyncio.gather(*(store.messages.send(DEFAULT, WORK, message) for message in messages))
    assert sorted(ids(await claim(store, await join(store)))) == sorted(ids(messages))


async def test_a_failing_send_does_not_fail_others_in_its_group(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "gone")
    await send(store, queue="gone")
    assert await store.queues.purge(DEFAULT, "gone") == 1
    await store.queues.delete(DEFAULT, "gone")
    answers = await asyncio.gather(
        *(
            store.messages.send(DEFAULT, "gone" if number == 7 else WORK, new())
            for number in range(20)
        ),
        return_exceptions=True,
    )
    assert [number for number, answer in enumerate(answers) if answer is not None] == [7]
    assert isinstance(answers[7], NotFound)
    assert await counts(store) == Counts(ready=19)


@pytest.mark.parametrize("way", ["send", "batch", "bulk"])
async def test_a_send_to_an_unknown_queue_is_refused(store: Store, way: str) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        if way == "send":
            await store.messages.send(DEFAULT, "nowhere", new())
        elif way == "batch":
            await store.messages.send_batch(DEFAULT, "nowhere", news(2))
        else:
            await store.messages.send_bulk(DEFAULT, "nowhere", news(2))


async def test_the_systems_messages_belong_to_the_default_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    await send(store, scope=SYSTEM)
    (message,) = await store.messages.peek(SYSTEM, WORK, ALL)
    assert message.tenant == DEFAULT.tenant


async def test_a_paused_queue_accepts_sends(store: Store) -> None:
    await make_queue(store)
    await store.queues.pause(DEFAULT, WORK)
    await send_many(store, 3)
    assert await counts(store) == Counts(ready=3)
