"""Batch completion: one event when the last item has ended, and never another."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import msgspec
import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    counts,
    create_batch,
    dead,
    ids,
    kill_all,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    retry,
    send,
    sending,
    settle,
    whole,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.batch import (
    BATCH_COMPLETED,
    BATCH_RETENTION_SECONDS,
    Batch,
    BatchStatus,
    ItemStatus,
    completion_event,
)
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Ending, Fate, SettleResult
from tickwork.core.queue.stats import CounterName
from tickwork.errors import BacklogFull, InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

DONE = "done"
MANY = 6_000
"""More items than any store writes in one chunk."""

LIMIT = 128_000
FULL, BYTE = b"x" * LIMIT, b"x"


async def make_both(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, DONE)


async def assert_told(store: Store, batch_id: UUID, *, completed: int, failed: int) -> None:
    """Asserts that exactly one completion event was sent, with these counts."""
    (event,) = await store.messages.peek(DEFAULT, DONE, ALL)
    expected = completion_event(
        batch_id, total=completed + failed, completed=completed, failed=failed
    )
    assert (event.id, event.type, event.body) == (expected.id, BATCH_COMPLETED, expected.body)
    assert (event.source, event.correlation_id) == (public_id(Prefix.BATCH, batch_id),) * 2
    assert msgspec.json.decode(event.body) == {
        "batch_id": public_id(Prefix.BATCH, batch_id),
        "total": completed + failed,
        "completed": completed,
        "failed": failed,
    }


async def test_the_last_item_sends_the_completion_event(store: Store, clock: VirtualClock) -> None:
    await make_both(store)
    batch = await create_batch(store, news(3), completion_queue=DONE)
    for message in await pull(store):
        assert await counts(store, DONE) == Counts()
        await settle(store, ack(message))
    await assert_told(store, batch.id, completed=3, failed=0)
    done = await store.batches.get(DEFAULT, batch.id)
    assert (done.status, done.completed_at) == (BatchStatus.COMPLETED, clock.now())


async def test_an_empty_batch_sends_its_completion_event_at_once(
    store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    batch = await create_batch(store, [], completion_queue=DONE)
    assert (batch.status, batch.total) == (BatchStatus.COMPLETED, 0)
    assert batch.completed_at == clock.now()
    await assert_told(store, batch.id, completed=0, failed=0)
    again = await create_batch(store, [], batch_id=batch.id, completion_queue=DONE)
    assert again == batch
    assert await counts(store, DONE) == Counts(ready=1)


async def test_one_settlement_can_complete_a_batch(store: Store) -> None:
    await make_both(store)
    batch = await create_batch(store, news(50), completion_queue=DONE)
    await settle(store, *map(ack, await pull(store)))
    await assert_told(store, batch.id, completed=50, failed=0)


@pytest.mark.parametrize("way", ["dead", "purge", "delete", "expiry", "cancel", "lease"])
async def test_every_kind_of_ending_can_complete_a_batch(
    store: Store, clock: VirtualClock, way: str
) -> None:
    await make_queue(store, max_retries=0)
    await make_queue(store, DONE)
    items = news(2, expires_after_seconds=3_600)
    batch = await create_batch(store, items, completion_queue=DONE)
    (first,) = await pull(store, limit=1)
    await settle(store, ack(first))
    assert await counts(store, DONE) == Counts()
    if way == "dead":
        await kill_all(store)
    elif way == "purge":
        await store.queues.purge(DEFAULT, WORK)
    elif way == "delete":
        await store.messages.delete(DEFAULT, WORK, items[1].id)
    elif way == "cancel":
        await store.batches.cancel(DEFAULT, batch.id)
    else:
        if way == "lease":
            await pull_one(store, lease_seconds=1)
        clock.advance(seconds=1 if way == "lease" else 3_600)
        await store.reaper.reap(SYSTEM, ALL)
    await assert_told(store, batch.id, completed=1, failed=1)


async def test_the_completion_event_is_sent_once_whatever_happens_later(
    store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    items, batch_id = news(2), new_id()
    await create_batch(store, items, batch_id=batch_id, completion_queue=DONE)
    await settle(store, *map(ack, await pull(store)))
    await settle(store, ack(await pull_one(store, queue=DONE)))
    await create_batch(store, items, batch_id=batch_id, completion_queue=DONE)
    await store.batches.cancel(DEFAULT, batch_id)
    for _ in range(2):
        clock.advance(seconds=3_601)
        await store.reaper.reap(SYSTEM, ALL)
    assert await counts(store, DONE) == Counts()


async def test_last_items_settled_concurrently_send_one_completion_event(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    other = await home.open(clock)
    try:
        for number in range(1, 6):
            batch = await create_batch(store, news(20), completion_queue=DONE)
            messages = await pull(store)
            await asyncio.gather(
                *(settle((store, other)[n % 2], ack(message)) for n, message in enumerate(messages))
            )
            # The reaper sends the event that a crash or a race left out.
            await store.reaper.reap(SYSTEM, ALL)
            done = await store.batches.get(DEFAULT, batch.id)
            assert (done.status, done.completed) == (BatchStatus.COMPLETED, 20)
            assert await counts(store, DONE) == Counts(ready=number)
    finally:
        await other.close()


async def test_progress_adds_up_at_every_moment_under_concurrency(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    batch = await create_batch(store, news(200), completion_queue=DONE)
    other = await home.open(clock)

    async def work(own: Store, fate: Callable[..., Ending]) -> None:
        while found := await pull(own, limit=3):
            await settle(own, *(fate(message, reason="x") for message in found))

    async def watch(own: Store) -> None:
        ended, is_done = 0, False
        while not is_done:
            seen = await own.batches.get(DEFAULT, batch.id)
            parts = (seen.pending, seen.processing, seen.completed, seen.failed)
            assert min(parts) >= 0
            assert sum(parts) == seen.total == 200
            assert seen.completed + seen.failed >= ended
            ended = seen.completed + seen.failed
            is_done = seen.status is BatchStatus.COMPLETED
            assert not is_done or ended == 200
            await asyncio.sleep(0)

    try:
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(work(own, fate) for own in (store, other) for fate in (ack, dead)),
                *(watch(own) for own in (store, other)),
            )
        assert await counts(store, DONE) == Counts(ready=1)
    finally:
        await other.close()


async def test_subscribers_get_a_copy_of_the_completion_event(store: Store) -> None:
    await make_both(store)
    await make_queue(store, "audit")
    for queue in (DONE, "audit"):
        await store.subscriptions.put(DEFAULT, "batch.*", queue)
    await create_batch(store, news(1), completion_queue=DONE)
    await settle(store, ack(await pull_one(store)))
    assert await counts(store, DONE) == Counts(ready=1)
    (copy,) = await pull(store, queue="audit")
    assert copy.type == BATCH_COMPLETED
    await create_batch(store, [])
    assert await counts(store, DONE) == Counts(ready=2)
    assert await counts(store, "audit") == Counts(ready=1, claimed=1)


async def test_a_waiting_completion_event_is_not_sent_again(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_queue(store, "audit")
    batch = await create_batch(store, [], completion_queue=WORK)
    clock.advance(seconds=BATCH_RETENTION_SECONDS)
    await store.pruner.prune(SYSTEM, ALL)
    await store.subscriptions.put(DEFAULT, BATCH_COMPLETED, "audit")
    anew = await create_batch(store, [], batch_id=batch.id, completion_queue=WORK)
    assert (anew.status, anew.created_at) == (BatchStatus.COMPLETED, clock.now())
    stats = await store.stats.queue(DEFAULT, WORK)
    assert [(kind.counter, kind.messages) for kind in stats.kinds] == [(CounterName.SENT, 1)]
    assert await counts(store) == Counts(ready=1)
    assert await counts(store, "audit") == Counts()


async def test_a_batch_without_a_completion_queue_completes_too(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await make_queue(store)
    made = list[Batch]()
    for completion_queue in (None, "nowhere"):
        assert not caplog.messages
        batch = await create_batch(store, news(1), completion_queue=completion_queue)
        await settle(store, ack(await pull_one(store)))
        done = await store.batches.get(DEFAULT, batch.id)
        assert done.status is BatchStatus.COMPLETED
        made.append(done)
    (warned,) = caplog.messages
    shown = public_id(Prefix.BATCH, made[-1].id)
    assert f"batch {shown} completed, but its completion queue nowhere does not exist" in warned


async def test_a_completion_queue_can_be_created_later_and_a_tenants_own_takes_precedence(
    store: Store,
) -> None:
    await make_queue(store, scope=SYSTEM)
    (one,) = await make_tenants(store, "one")
    await create_batch(store, news(1), scope=one, completion_queue=DONE)
    shared = await create_batch(store, news(1), scope=DEFAULT, completion_queue=DONE)
    await make_queue(store, DONE, scope=SYSTEM)
    await make_queue(store, DONE, scope=one)
    await settle(store, *map(ack, await pull(store, scope=SYSTEM)), scope=SYSTEM)
    assert await counts(store, DONE, scope=one) == Counts(ready=1)
    (told,) = await store.messages.peek(SYSTEM, DONE, ALL)
    assert (told.tenant, told.source) == ("default", public_id(Prefix.BATCH, shared.id))


async def test_cancelling_a_batch_ends_its_unclaimed_items(
    store: Store, clock: VirtualClock
) -> None:
    await make_both(store)
    items = [new(), new(delay_seconds=60), new(key="a"), new(key="a"), new()]
    batch = await create_batch(store, items, completion_queue=DONE)
    outside = await send(store)
    (first,) = await pull(store, limit=1)
    clock.advance(seconds=5)
    cancelled = await store.batches.cancel(DEFAULT, batch.id)
    assert (cancelled.pending, cancelled.processing, cancelled.failed) == (0, 1, 4)
    assert cancelled.status is BatchStatus.RUNNING
    failed = await store.batches.items(DEFAULT, batch.id, ItemStatus.FAILED, ALL)
    assert {(item.reason, item.finished_at) for item in failed} == {("cancelled", clock.now())}
    assert await store.batches.cancel(DEFAULT, batch.id) == cancelled
    assert ids(await pull(store)) == [outside.id]
    assert await counts(store, DONE) == Counts()
    await settle(store, ack(first))
    await assert_told(store, batch.id, completed=1, failed=4)


async def test_a_claimed_item_of_a_cancelled_batch_can_be_retried(store: Store) -> None:
    """A claimed item is not cancelled, not even if it is retried."""
    await make_both(store)
    batch = await create_batch(store, news(1), completion_queue=DONE)
    message = await pull_one(store)
    await store.batches.cancel(DEFAULT, batch.id)
    await settle(store, retry(message))
    assert (await store.batches.get(DEFAULT, batch.id)).pending == 1
    await settle(store, ack(await pull_one(store)))
    await assert_told(store, batch.id, completed=1, failed=0)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_batch_cancelled_silently_sends_no_completion_event(
    store: Store, is_whole: bool
) -> None:
    await make_both(store)
    await store.subscriptions.put(DEFAULT, BATCH_COMPLETED, DONE)
    items, batch_id = news(MANY, body=b""), new_id()
    if is_whole:
        await create_batch(store, items, batch_id=batch_id, completion_queue=DONE)
    else:
        bad = [*items, new(priority=10)]
        with pytest.raises(InvalidInput):
            await create_batch(store, bad, batch_id=batch_id, completion_queue=DONE)
    first, second = await pull(store, limit=2)
    cancelled = await store.batches.cancel(DEFAULT, batch_id, publish_event=False)
    assert (cancelled.status, cancelled.total) == (BatchStatus.COMPLETED, cancelled.failed + 2)
    assert (cancelled.pending, cancelled.processing, cancelled.completed) == (0, 2, 0)
    assert await store.batches.list(DEFAULT, ALL) == (cancelled,)
    assert await store.batches.cancel(DEFAULT, batch_id) == cancelled
    await settle(store, ack(first))
    await settle(store, retry(second))
    assert (await store.batches.get(DEFAULT, batch_id)).pending == 1
    await settle(store, ack(await pull_one(store)))
    await store.reaper.reap(SYSTEM, ALL)
    done = await store.batches.get(DEFAULT, batch_id)
    assert (done.status, done.completed, done.failed) == (
        BatchStatus.COMPLETED,
        2,
        cancelled.failed,
    )
    assert await counts(store, DONE) == Counts()


async def test_cancelling_an_unknown_batch_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.batches.cancel(DEFAULT, new_id())


async def test_a_completion_event_is_sent_after_a_crash(home: Home, clock: VirtualClock) -> None:
    store = await home.open(clock)
    await make_both(store)
    batch = await create_batch(store, news(3), completion_queue=DONE)
    one, *_ = await pull(store, lease_seconds=60)
    await settle(store, ack(one))
    await home.crash(store)
    again = await home.open(clock)
    try:
        clock.advance(seconds=60)
        await again.reaper.reap(SYSTEM, ALL)
        before = await again.batches.get(DEFAULT, batch.id)
        assert (before.pending, before.completed) == (2, 1)
        await settle(again, *map(ack, await pull(again)))
        await assert_told(again, batch.id, completed=3, failed=0)
    finally:
        await again.close()


@pytest.mark.parametrize("fate", [Fate.ACK, Fate.DEAD])
async def test_a_completion_event_takes_no_bytes_from_sends_of_the_last_settlement(
    store: Store, fate: Fate
) -> None:
    """The event is stored last and exempt from the cap, so the queue may exceed it."""
    await make_queue(store)
    await make_queue(store, DONE, backlog_bytes_max=LIMIT)
    batch = await create_batch(store, news(1), completion_queue=DONE)
    last = await pull_one(store)
    ending = Ending(claim=last.current_claim, fate=fate, sends=(sending(DONE, body=FULL),))
    assert await settle(store, ending) == SettleResult()
    assert (await store.batches.get(DEFAULT, batch.id)).status is BatchStatus.COMPLETED
    assert await counts(store, DONE) == Counts(ready=2)
    with pytest.raises(BacklogFull):
        await send(store, queue=DONE, body=b"")


async def test_a_last_settlement_whose_send_does_not_fit_completes_nothing(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, DONE, backlog_bytes_max=LIMIT)
    batch = await create_batch(store, news(1), completion_queue=DONE)
    await send(store, queue=DONE, body=FULL)
    last = await pull_one(store)
    with pytest.raises(BacklogFull):
        await settle(store, ack(last, sending(DONE, body=BYTE)))
    running = await store.batches.get(DEFAULT, batch.id)
    assert (running.status, running.processing) == (BatchStatus.RUNNING, 1)
    assert await counts(store, DONE) == Counts(ready=1)
    await settle(store, ack(last))
    assert (await store.batches.get(DEFAULT, batch.id)).status is BatchStatus.COMPLETED
    assert await counts(store, DONE) == Counts(ready=2)


async def test_the_event_of_an_empty_batch_takes_no_bytes_from_a_batch_stored_with_it(
    store: Store,
) -> None:
    await make_queue(store)
    await make_queue(store, DONE, backlog_bytes_max=LIMIT)
    await send(store)
    empty = whole(queue=DONE, completion_queue=DONE)
    filling = whole([new(body=FULL)], queue=DONE)
    message = await pull_one(store)
    assert await settle(store, ack(message, batches=(empty, filling))) == SettleResult()
    assert (await store.batches.get(DEFAULT, empty.id)).status is BatchStatus.COMPLETED
    assert await counts(store, DONE) == Counts(ready=2)
