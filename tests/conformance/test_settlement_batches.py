"""Batches in a settlement: stored completely together with the ending, or not at all."""

from typing import Any
from uuid import UUID

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    claim_one,
    counts,
    create_batch,
    dead,
    die,
    ids,
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
    whole,
)
from tests.conformance.ledger import LedgerBroken, ledger_at
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import ENDING_ITEMS_MAX
from tickwork.core.message.batch import BATCH_COMPLETED, Batch, BatchStatus
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Message, Settlement, SettleResult
from tickwork.errors import BacklogFull, ClaimLost, Conflict, InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

ITEMS, DONE = "items", "done"


async def make_queues(store: Store, **settings: Any) -> None:
    for name in (WORK, DONE):
        await make_queue(store, name)
    await make_queue(store, ITEMS, **settings)


async def held(store: Store, **fields: Any) -> Message:
    """A message whose ending can create a batch."""
    await send(store, **fields)
    return await pull_one(store)


def numbers(batch: Batch) -> tuple[BatchStatus, int, int, int]:
    return batch.status, batch.total, batch.completed, batch.failed


async def get(store: Store, batch_id: UUID) -> Batch:
    return await store.batches.get(DEFAULT, batch_id)


async def test_a_settlement_stores_a_batch_with_all_its_items(
    store: Store, clock: VirtualClock
) -> None:
    await make_queues(store)
    message = await held(store)
    made = whole(news(3, key="a"), queue=ITEMS, completion_queue=DONE)
    assert await settle(store, ack(message, batches=(made,))) == SettleResult()
    batch = await get(store, made.id)
    assert numbers(batch) == (BatchStatus.RUNNING, 3, 0, 0)
    assert batch.created_at == clock.now()
    assert await counts(store, ITEMS) == Counts(ready=1, blocked=2)
    assert await ack_all(store, queue=ITEMS) == ids(made.items)
    assert numbers(await get(store, made.id)) == (BatchStatus.COMPLETED, 3, 3, 0)
    (event,) = await store.messages.peek(DEFAULT, DONE, ALL)
    assert (event.type, event.source) == (BATCH_COMPLETED, public_id(Prefix.BATCH, made.id))


async def test_an_empty_batch_completes_at_once(store: Store) -> None:
    await make_queues(store)
    made = whole(queue=ITEMS, completion_queue=DONE)
    await settle(store, ack(await held(store), batches=(made,)))
    assert numbers(await get(store, made.id)) == (BatchStatus.COMPLETED, 0, 0, 0)
    assert await counts(store, DONE) == Counts(ready=1)


@pytest.mark.parametrize("ending", [ack, retry, release, dead])
async def test_every_kind_of_ending_stores_its_batch(store: Store, ending: type) -> None:
    await make_queues(store)
    made = whole(news(2), queue=ITEMS)
    await settle(store, ending((await held(store)), batches=(made,)))
    assert numbers(await get(store, made.id)) == (BatchStatus.RUNNING, 2, 0, 0)


async def test_a_refused_or_duplicate_ending_stores_no_batch(
    store: Store, clock: VirtualClock
) -> None:
    await make_queues(store)
    await send(store, event_id="paid-1")
    lost = await claim_one(store)
    await die(store, clock)
    first = await claim_one(store)
    double = await held(store, event_id="paid-1")
    made = [whole(news(2), queue=ITEMS, completion_queue=DONE) for _ in range(3)]
    result = await settle(
        store,
        *(
            ack(message, batches=(one,))
            for message, one in zip([lost, first], made[:2], strict=True)
        ),
    )
    assert result == SettleResult(refused=(lost.current_claim,))
    assert await settle(store, ack(double, batches=(made[2],))) == SettleResult(
        duplicates=(double.current_claim,)
    )
    assert numbers(await get(store, made[1].id)) == (BatchStatus.RUNNING, 2, 0, 0)
    for batch in (made[0], made[2]):
        with pytest.raises(NotFound):
            await get(store, batch.id)
    assert await counts(store, ITEMS) == Counts(ready=2)
    assert await counts(store, DONE) == Counts()


@pytest.mark.parametrize("fault", ["item", "twice", "batch", "nowhere", "full"])
async def test_a_batch_that_cannot_be_stored_rolls_back_the_settlement(
    store: Store, fault: str
) -> None:
    await make_queues(store, backlog_bytes_max=128_000)
    message = await held(store)
    taken = await send(store, queue=DONE)
    other = await create_batch(store, news(1), queue=DONE)
    items = news(2)
    refused: dict[str, tuple[type[Exception], object]] = {
        "item": (Conflict, whole([*items, new(id=taken.id)], queue=ITEMS)),
        "twice": (Conflict, whole([*items, new(id=items[0].id)], queue=ITEMS)),
        "batch": (Conflict, whole(items, queue=ITEMS, batch_id=other.id)),
        "nowhere": (NotFound, whole(items, queue="nowhere")),
        "full": (BacklogFull, whole(news(2, body=b"x" * 70_000), queue=ITEMS)),
    }
    error, made = refused[fault]
    good = whole(news(1), queue=ITEMS)
    with pytest.raises(error):
        await settle(store, ack(message, sending(DONE), batches=(good, made)))
    with pytest.raises(NotFound):
        await get(store, good.id)
    assert await counts(store, ITEMS) == Counts()
    assert await counts(store, DONE) == Counts(ready=2)
    assert await settle(store, ack(message)) == SettleResult()


async def test_a_failing_settlement_does_not_fail_others_in_its_group(store: Store) -> None:
    """Also if they share a commit."""
    await make_queues(store)
    await send_many(store, 3)
    first, second, third = await pull(store)
    made = whole(news(2), queue=ITEMS)
    assert await settle(store, ack(first, batches=(made,))) == SettleResult()
    with pytest.raises(Conflict):
        await settle(store, ack(second, batches=(whole(made.items, queue=ITEMS),)))
    assert await settle(store, ack(third), ack(second)) == SettleResult()
    assert await counts(store, ITEMS) == Counts(ready=2)


async def test_repeating_a_stored_batch_stores_nothing_new(store: Store) -> None:
    """A handler that chooses the batch id creates the batch once, however often it runs."""
    await make_queues(store)
    await send_many(store, 3)
    made = whole(news(2), queue=ITEMS, completion_queue=DONE)
    first, second, third = await pull(store)
    await settle(store, ack(first, batches=(made,)))
    again = whole(news(2), queue=ITEMS, batch_id=made.id)
    assert await settle(store, ack(second, batches=(again, again))) == SettleResult()
    assert await counts(store, ITEMS) == Counts(ready=2)
    await ack_all(store, queue=ITEMS)
    assert await settle(store, ack(third, batches=(again,))) == SettleResult()
    assert numbers(await get(store, made.id)) == (BatchStatus.COMPLETED, 2, 2, 0)
    assert await counts(store, ITEMS) == Counts()
    assert await counts(store, DONE) == Counts(ready=1)


async def test_a_batch_belongs_to_the_tenant_of_its_message(store: Store) -> None:
    one, _ = await make_tenants(store, "one", "two")
    for name in (WORK, ITEMS, DONE):
        await make_queue(store, name, scope=SYSTEM)
    await send(store, scope=one)
    message = await pull_one(store, scope=one)
    made = whole(news(1), queue=ITEMS, completion_queue=DONE)
    await settle(store, ack(message, batches=(made,)), scope=SYSTEM)
    assert (await store.batches.get(one, made.id)).tenant == "one"
    with pytest.raises(NotFound):
        await get(store, made.id)
    await ack_all(store, queue=ITEMS, scope=one)
    (event,) = await store.messages.peek(one, DONE, ALL)
    assert event.tenant == "one"


async def test_too_many_or_invalid_items_are_refused_by_field(store: Store) -> None:
    await make_queues(store)
    message = await held(store)
    with pytest.raises(InvalidInput, match=r"batches\[1\].items\[1\].priority"):
        wrong = whole([new(), new(priority=10)], queue=ITEMS)
        await settle(store, ack(message, batches=(whole(queue=ITEMS), wrong)))
    with pytest.raises(InvalidInput, match=rf"batches: .*{ENDING_ITEMS_MAX}"):
        half = whole([new()] * (ENDING_ITEMS_MAX // 2 + 1), queue=ITEMS)
        await settle(store, ack(message, batches=(half, half)))
    assert await settle(store, ack(message)) == SettleResult()


async def test_a_settlement_stores_a_batch_of_the_maximum_size(store: Store) -> None:
    await make_queues(store)
    message = await held(store)
    made = whole(news(ENDING_ITEMS_MAX), queue=ITEMS)
    await settle(store, ack(message, batches=(made,)))
    assert numbers(await get(store, made.id)) == (BatchStatus.RUNNING, ENDING_ITEMS_MAX, 0, 0)
    assert (await counts(store, ITEMS)).ready == ENDING_ITEMS_MAX


async def test_an_item_of_one_batch_can_create_the_next_batch(store: Store) -> None:
    """One settlement ends the last item of one batch and creates the next batch."""
    await make_queues(store)
    batch = await create_batch(store, news(1, key="a"), completion_queue=DONE)
    made = whole(news(2, key="a"), completion_queue=DONE)
    await settle(store, ack(await pull_one(store), batches=(made,)))
    assert numbers(await get(store, batch.id)) == (BatchStatus.COMPLETED, 1, 1, 0)
    assert numbers(await get(store, made.id)) == (BatchStatus.RUNNING, 2, 0, 0)
    assert await ack_all(store) == ids(made.items)
    assert await counts(store, DONE) == Counts(ready=2)


async def test_a_batch_and_the_callers_rows_commit_together_or_not_at_all(
    store: Store, home: Home, clock: VirtualClock
) -> None:
    await make_queues(store)
    ledger = ledger_at(home)
    await ledger.create()
    made = whole(news(2), queue=ITEMS, batch_id=new_id())

    async def booking(message: Message, *, fails: bool = False) -> None:
        settlement = Settlement((ack(message, batches=(made,)),))
        await store.messages.settle_jointly(DEFAULT, settlement, ledger.writing("x", fails=fails))

    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    message = await claim_one(store)
    with pytest.raises(ClaimLost):
        await booking(lost)
    with pytest.raises(LedgerBroken):
        await booking(message, fails=True)
    with pytest.raises(NotFound):
        await get(store, made.id)
    await booking(message)
    assert numbers(await get(store, made.id)) == (BatchStatus.RUNNING, 2, 0, 0)
    assert await ledger.entries() == ["x"]
