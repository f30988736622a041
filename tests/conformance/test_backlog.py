"""Backlog caps: a queue accepts at most its maximum of bytes, whichever way messages arrive."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim_one,
    counts,
    create_batch,
    dead,
    ids,
    kill_all,
    letters,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tests.conformance.ledger import ledger_at
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import BatchStatus
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import DEFAULT, SYSTEM, Counts, NewMessage, Settlement, SettleResult
from tickwork.errors import BacklogFull
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

LIMIT = 128_000
QUARTER = b"x" * (LIMIT // 4)
BYTE = b"x"


async def make_full(store: Store, **fields: Any) -> list[Any]:
    """A queue that cannot accept another byte."""
    await make_queue(store, backlog_bytes_max=LIMIT)
    messages = news(4, body=QUARTER, **fields)
    for message in messages:
        await store.messages.send(DEFAULT, WORK, message)
    return messages


async def assert_full(store: Store, *, queue: str = WORK) -> None:
    before = await counts(store, queue)
    with pytest.raises(BacklogFull):
        await send(store, queue=queue, body=BYTE)
    assert await counts(store, queue) == before


async def assert_room(store: Store, body: bytes = QUARTER, *, quarters: int = 1) -> None:
    """A queue with exactly this many bytes free."""
    for _ in range(quarters - 1):
        await send(store, body=QUARTER)
    with pytest.raises(BacklogFull):
        await send(store, body=body + BYTE)
    await send(store, body=body)
    await assert_full(store)


async def test_a_queue_can_be_filled_to_its_last_byte(store: Store) -> None:
    await make_full(store)
    with pytest.raises(BacklogFull, match=WORK) as raised:
        await send(store, body=BYTE)
    assert (raised.value.queue, raised.value.bytes_max) == (WORK, LIMIT)
    assert await counts(store) == Counts(ready=4)


WAYS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "send": lambda store: store.messages.send(DEFAULT, WORK, new(body=QUARTER)),
    "batch": lambda store: store.messages.send_batch(DEFAULT, WORK, news(2, body=QUARTER[1:])),
    "bulk": lambda store: store.messages.send_bulk(DEFAULT, WORK, news(3, body=QUARTER[1:])),
    "items": lambda store: create_batch(store, news(2, body=QUARTER)),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_batch_that_does_not_fit_is_refused_as_a_whole(store: Store, way: str) -> None:
    await make_queue(store, backlog_bytes_max=LIMIT)
    for _ in range(3):
        await send(store, body=QUARTER)
    await send(store, body=BYTE)
    with pytest.raises(BacklogFull):
        await WAYS[way](store)
    assert await counts(store) == Counts(ready=4)
    await assert_room(store, QUARTER[1:])


async def test_a_bulk_send_stores_the_chunks_that_fit(store: Store) -> None:
    await make_queue(store, backlog_bytes_max=LIMIT)
    with pytest.raises(BacklogFull):
        await store.messages.send_bulk(DEFAULT, WORK, news(6_000, body=b"x" * 40))
    stored = (await counts(store)).ready
    assert stored * 40 <= LIMIT
    await send(store, body=BYTE)
    await assert_room(store, b"x" * (LIMIT - stored * 40 - 1))


@pytest.mark.parametrize("fields", [{"delay_seconds": 60}, {"key": "a"}, {"priority": 0}])
async def test_messages_in_every_state_count_towards_the_backlog(
    store: Store, fields: dict[str, Any]
) -> None:
    await make_full(store, **fields)
    await assert_full(store)


async def test_messages_of_every_tenant_count_towards_the_backlog(store: Store) -> None:
    await make_queue(store, scope=SYSTEM, backlog_bytes_max=LIMIT)
    for scope in await make_tenants(store, "a", "b", "c", "d"):
        await send(store, scope=scope, body=QUARTER)
    for scope in await make_tenants(store, "a", "e"):
        with pytest.raises(BacklogFull):
            await send(store, scope=scope, body=BYTE)


async def test_claimed_and_retried_messages_still_count(store: Store) -> None:
    await make_full(store)
    messages = await pull(store)
    await assert_full(store)
    await settle(store, *map(retry, messages))
    await assert_full(store)


async def test_an_ack_frees_its_bytes(store: Store) -> None:
    await make_full(store)
    await settle(store, ack(await claim_one(store, limit=1)))
    await assert_room(store)


async def test_a_duplicate_acked_without_running_frees_its_bytes(store: Store) -> None:
    await make_queue(store, backlog_bytes_max=LIMIT)
    await send(store, event_id="paid-1", body=b"")
    await settle(store, ack(await pull_one(store)))
    await make_full(store, event_id="paid-1")
    await assert_full(store)
    assert await pull(store) == ()
    await assert_room(store, quarters=4)


async def test_a_dead_letter_frees_its_bytes(store: Store) -> None:
    await make_full(store)
    await settle(store, dead(await claim_one(store, limit=1), reason="x"))
    assert len(await letters(store)) == 1
    await assert_room(store)


async def test_a_purge_and_a_delete_free_their_bytes(store: Store) -> None:
    first, *_ = await make_full(store)
    assert await store.messages.delete(DEFAULT, WORK, first.id)
    await assert_room(store)
    assert await store.queues.purge(DEFAULT, WORK) == 4
    await assert_room(store, quarters=4)


async def test_an_expiry_frees_its_bytes(store: Store, clock: VirtualClock) -> None:
    await make_full(store, expires_after_seconds=60)
    clock.advance(seconds=60)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 4
    await assert_room(store, quarters=4)


async def test_a_cancelled_batch_frees_its_bytes(store: Store) -> None:
    await make_queue(store, backlog_bytes_max=LIMIT)
    batch = await create_batch(store, news(4, body=QUARTER))
    await assert_full(store)
    await store.batches.cancel(DEFAULT, batch.id)
    await assert_room(store, quarters=4)


async def test_a_repeated_send_takes_no_bytes(store: Store) -> None:
    first, *_ = await make_full(store)
    await store.messages.send(DEFAULT, WORK, first)
    assert await counts(store) == Counts(ready=4)
    await settle(store, ack(await claim_one(store, limit=1)))
    await assert_room(store)


async def test_a_repeated_copy_takes_no_bytes(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "first")
    await store.subscriptions.put(DEFAULT, "paid", WORK)
    message = await send(store, queue="first", type="paid")
    await send_many(store, 5, body=QUARTER)
    await make_queue(store, backlog_bytes_max=LIMIT)
    await store.queues.purge(DEFAULT, "first")
    await store.messages.send(DEFAULT, "first", message)
    assert await counts(store, "first") == Counts(ready=1)
    assert await counts(store) == Counts(ready=6)


async def test_a_settlement_whose_send_does_not_fit_is_rolled_back(
    home: Home, store: Store
) -> None:
    await make_full(store)
    await make_queue(store, "before")
    await send(store, queue="before")
    message = await pull_one(store, queue="before")
    ending = ack(message, sending(WORK, body=BYTE))
    ledger = ledger_at(home)
    await ledger.create()
    with pytest.raises(BacklogFull):
        await settle(store, ending)
    with pytest.raises(BacklogFull):
        await store.messages.settle_jointly(DEFAULT, Settlement((ending,)), ledger.writing("never"))
    assert await ledger.entries() == []
    assert await counts(store, "before") == Counts(claimed=1)
    assert await counts(store) == Counts(ready=4)
    assert await settle(store, ack(message)) == SettleResult()


async def test_an_ack_frees_bytes_for_the_sends_of_its_settlement(store: Store) -> None:
    """Otherwise a full queue whose messages send into it could never make progress again."""
    await make_full(store)
    first, second, *_ = await pull(store)
    following = sending(WORK, body=QUARTER)
    with pytest.raises(BacklogFull):
        await settle(store, ack(first, sending(WORK, body=QUARTER + BYTE)))
    assert await settle(store, ack(first, following)) == SettleResult()
    ending = dead(second, reason="x", sends=(sending(WORK, body=QUARTER),))
    assert await settle(store, ending) == SettleResult()
    await assert_full(store)


async def test_a_settlement_that_does_not_fit_does_not_fail_others_in_its_group(
    store: Store,
) -> None:
    await make_full(store)
    await make_queue(store, "before")
    await store.messages.send_batch(DEFAULT, "before", news(20))
    messages = await pull(store, queue="before")
    answers = await asyncio.gather(
        *(
            settle(store, ack(message, *([sending(WORK, body=BYTE)] if number == 7 else [])))
            for number, message in enumerate(messages)
        ),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers].count(SettleResult) == 19
    assert isinstance(answers[7], BacklogFull)
    assert await counts(store, "before") == Counts(claimed=1)


async def test_a_send_that_does_not_fit_does_not_fail_others_in_its_group(store: Store) -> None:
    await make_full(store)
    await make_queue(store, "other")
    answers = await asyncio.gather(
        *(send(store, queue=WORK if number == 7 else "other", body=BYTE) for number in range(20)),
        return_exceptions=True,
    )
    assert [n for n, answer in enumerate(answers) if isinstance(answer, Exception)] == [7]
    assert isinstance(answers[7], BacklogFull)
    assert await counts(store, "other") == Counts(ready=19)


async def test_a_replay_that_does_not_fit_replays_none(store: Store) -> None:
    await make_full(store)
    await kill_all(store)
    await send(store, body=QUARTER + BYTE)
    with pytest.raises(BacklogFull):
        await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    assert await counts(store) == Counts(ready=1, dead=4)
    canary = await store.dead_letters.replay(DEFAULT, WORK, Selection(limit=2), Pace())
    assert len(canary) == 2
    assert await counts(store) == Counts(ready=3, dead=2)


async def test_filling_a_batch_continues_when_bytes_are_free_again(store: Store) -> None:
    await make_full(store)
    batch_id, items = new_id(), news(2, body=QUARTER)
    with pytest.raises(BacklogFull):
        await create_batch(store, items, batch_id=batch_id)
    filling = await store.batches.get(DEFAULT, batch_id)
    assert (filling.status, filling.total) == (BatchStatus.FILLING, 0)
    await settle(store, *map(ack, await pull(store, limit=2)))
    whole = await create_batch(store, items, batch_id=batch_id)
    assert (whole.status, whole.total) == (BatchStatus.RUNNING, 2)
    await assert_full(store)


async def test_a_dead_letter_queue_accepts_messages_beyond_its_cap(store: Store) -> None:
    await make_full(store)
    await make_queue(store, "source", dead_letter_queue=WORK)
    moved = await send(store, queue="source", body=QUARTER)
    await settle(store, dead(await pull_one(store, queue="source"), reason="x"))
    assert await counts(store) == Counts(ready=5)
    await settle(store, ack(await claim_one(store, limit=1)))
    await assert_full(store)
    await settle(store, ack(await claim_one(store, limit=1)))
    await assert_room(store)
    assert moved.id in ids(await pull(store))


async def test_messages_exempt_from_the_cap_free_no_bytes_for_sends_beside_them(
    store: Store,
) -> None:
    await make_full(store)
    await make_queue(store, "dying", dead_letter_queue=WORK)
    await send(store, queue="dying")
    message = await pull_one(store, queue="dying")
    with pytest.raises(BacklogFull):
        await settle(store, dead(message, sends=(sending(WORK, body=BYTE),)))
    assert await counts(store, "dying") == Counts(claimed=1)
    await settle(store, dead(message))
    assert await counts(store) == Counts(ready=5)


async def test_a_queue_over_its_cap_refuses_a_send_of_a_settlement(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 6, body=QUARTER)
    await make_queue(store, backlog_bytes_max=LIMIT)
    first, second, third, *_ = await pull(store)
    for body in (b"", BYTE, QUARTER):
        with pytest.raises(BacklogFull):
            await settle(store, ack(first, sending(WORK, body=body)))
    await settle(store, ack(first), ack(second))
    await settle(store, ack(third, sending(WORK, body=QUARTER)))
    assert await counts(store) == Counts(ready=1, claimed=3)


async def test_a_full_queue_accepts_a_completion_event(store: Store) -> None:
    await make_full(store)
    await make_queue(store, "items")
    batch = await create_batch(store, [], queue="items", completion_queue=WORK)
    assert batch.status is BatchStatus.COMPLETED
    assert await counts(store) == Counts(ready=5)


async def test_a_cap_set_later_counts_the_messages_already_stored(store: Store) -> None:
    await make_queue(store)
    for _ in range(5):
        await send(store, body=QUARTER)
    await make_queue(store, backlog_bytes_max=LIMIT)
    await assert_full(store)
    await settle(store, *map(ack, await pull(store, limit=2)))
    await assert_room(store)
    await make_queue(store)
    for _ in range(3):
        await send(store, body=QUARTER)
    await make_queue(store, backlog_bytes_max=LIMIT * 2)
    await assert_room(store)


async def test_concurrent_sends_never_exceed_the_cap(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """Concurrent sends may exceed the cap together; later ones may not."""
    await make_queue(store, backlog_bytes_max=LIMIT)
    other = await home.open(clock)
    try:
        answers = await asyncio.gather(
            *(send((store, other)[number % 2], body=QUARTER) for number in range(12)),
            return_exceptions=True,
        )
        assert all(isinstance(answer, NewMessage | BacklogFull) for answer in answers)
        stored = sum(isinstance(answer, NewMessage) for answer in answers)
        assert stored >= 4
        assert await counts(store) == Counts(ready=stored)
        for own in (store, other):
            await assert_full(own)
    finally:
        await other.close()
