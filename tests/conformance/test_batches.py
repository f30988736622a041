"""Batches: stored completely however often the call is repeated, and counted exactly."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim,
    counts,
    create_batch,
    dead,
    die,
    ids,
    join,
    kill_all,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    release,
    retry,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import (
    BATCH_FILLING_SECONDS_MAX,
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    NewBatch,
)
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import DEFAULT, SYSTEM, Counts, NewMessage, Scope
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

MANY = 6_000
"""More items than any store writes in one chunk."""


class Interrupted(Exception):
    """Raised by the caller's own items."""


async def progress(store: Store, batch: Batch, *, scope: Scope = DEFAULT) -> Batch:
    """The progress of a batch, checked against its items."""
    seen = await store.batches.get(scope, batch.id)
    of_status = {}
    for status in ItemStatus:
        found = await store.batches.items(scope, batch.id, status, 10_000)
        assert [item.id for item in found] == sorted(item.id for item in found)
        assert all(item.status is status for item in found)
        of_status[status] = len(found)
    assert of_status == {
        ItemStatus.PENDING: seen.pending,
        ItemStatus.PROCESSING: seen.processing,
        ItemStatus.COMPLETED: seen.completed,
        ItemStatus.FAILED: seen.failed,
    }
    assert seen.total == sum(of_status.values())
    return seen


def numbers(batch: Batch) -> tuple[int, int, int, int]:
    return batch.pending, batch.processing, batch.completed, batch.failed


def breaking(items: list[NewMessage], at: int) -> Iterator[NewMessage]:
    """Items whose iterator fails in the middle."""
    yield from items[:at]
    raise Interrupted


async def test_a_batch_counts_its_items(store: Store, clock: VirtualClock) -> None:
    queue_id = await make_queue(store)
    items = news(3)
    batch = await create_batch(store, items)
    assert batch == Batch(
        id=batch.id,
        tenant="default",
        queue_id=queue_id,
        status=BatchStatus.RUNNING,
        total=3,
        pending=3,
        processing=0,
        completed=0,
        failed=0,
        created_at=clock.now(),
        completed_at=None,
    )
    assert await progress(store, batch) == batch
    found = await pull(store)
    assert ids(found) == ids(items)
    assert {message.batch_id for message in found} == {batch.id}


async def test_progress_equals_the_item_states_at_every_step(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    batch = await create_batch(store, news(8))
    node = await join(store)
    a, b, c, d = await claim(store, node, limit=4)
    assert numbers(await progress(store, batch)) == (4, 4, 0, 0)
    await settle(store, ack(a))
    assert numbers(await progress(store, batch)) == (4, 3, 1, 0)
    await settle(store, retry(b), release(c, delay_seconds=60))
    assert numbers(await progress(store, batch)) == (6, 1, 1, 0)
    await settle(store, dead(d, reason="poison"))
    assert numbers(await progress(store, batch)) == (6, 0, 1, 1)
    assert len(await claim(store, node, limit=2)) == 2
    assert numbers(await progress(store, batch)) == (4, 2, 1, 1)
    await die(store, clock)
    assert numbers(await progress(store, batch)) == (6, 0, 1, 1)
    clock.advance(seconds=60)
    for message in await pull(store):
        await settle(store, ack(message))
        await progress(store, batch)
    done = await progress(store, batch)
    assert numbers(done) == (0, 0, 7, 1)
    assert (done.status, done.completed_at) == (BatchStatus.COMPLETED, clock.now())


async def test_an_item_shows_its_status_and_reason(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, retention_seconds=600)
    fine, poison, purged, deleted, old = items = news(5)
    batch = await create_batch(store, items)
    one, two = await pull(store, limit=2)
    clock.advance(seconds=1)
    await settle(store, ack(one), dead(two, reason="poison", error="no such user"))
    assert await store.messages.delete(DEFAULT, WORK, deleted.id)
    _, late = await pull(store)
    await settle(store, release(late))
    (done,) = await store.batches.items(DEFAULT, batch.id, ItemStatus.COMPLETED, ALL)
    began = clock.now() - timedelta(seconds=1)
    assert done == BatchItem(
        id=fine.id,
        status=ItemStatus.COMPLETED,
        attempts=1,
        started_at=began,
        finished_at=clock.now(),
        reason=None,
        error=None,
    )
    failed = await store.batches.items(DEFAULT, batch.id, ItemStatus.FAILED, ALL)
    assert {
        item.id: (item.reason, item.attempts, item.error, item.started_at) for item in failed
    } == {
        poison.id: ("poison", 1, "no such user", began),
        deleted.id: ("deleted", None, None, None),
    }
    pending = await store.batches.items(DEFAULT, batch.id, ItemStatus.PENDING, ALL)
    assert [(item.id, item.status, item.attempts, item.started_at) for item in pending] == [
        (old.id, ItemStatus.PENDING, 0, None)
    ]
    running = await store.batches.items(DEFAULT, batch.id, ItemStatus.PROCESSING, ALL)
    assert [(item.id, item.status, item.attempts, item.started_at) for item in running] == [
        (purged.id, ItemStatus.PROCESSING, 0, clock.now())
    ]


async def test_an_item_that_waits_for_its_retry_shows_its_attempts_and_error(store: Store) -> None:
    await make_queue(store)
    batch = await create_batch(store, news(1))
    await settle(store, retry(await pull_one(store), error="the mail server is down"))
    (item,) = await store.batches.items(DEFAULT, batch.id, ItemStatus.PENDING, ALL)
    assert (item.attempts, item.error) == (1, "the mail server is down")


async def test_a_completed_item_shows_when_its_last_attempt_started(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    batch = await create_batch(store, news(1))
    await settle(store, retry(await pull_one(store)))
    clock.advance(seconds=5)
    last = clock.now()
    message = await pull_one(store)
    clock.advance(seconds=2)
    await settle(store, ack(message))
    (item,) = await store.batches.items(DEFAULT, batch.id, ItemStatus.COMPLETED, ALL)
    assert (item.attempts, item.started_at, item.finished_at) == (2, last, clock.now())


async def test_an_item_whose_event_was_done_before_never_started(store: Store) -> None:
    await make_queue(store)
    first, in_flight, late = news(3, event_id="order-7")
    batch = await create_batch(store, [first, in_flight])
    one, two = await pull(store, limit=2)
    await settle(store, ack(one), ack(two))
    again = await create_batch(store, [late])
    assert await pull(store) == ()
    items = await store.batches.items(DEFAULT, batch.id, ItemStatus.COMPLETED, ALL)
    items += await store.batches.items(DEFAULT, again.id, ItemStatus.COMPLETED, ALL)
    started = [(item.attempts, item.started_at is not None) for item in items]
    assert started == [(1, True), (0, False), (0, False)]


async def test_purged_deleted_and_expired_items_count_as_failed(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    for way in ("purged", "deleted", "expired"):
        items = news(2, expires_after_seconds=60)
        batch = await create_batch(store, items)
        if way == "purged":
            assert await store.queues.purge(DEFAULT, WORK) == 2
        elif way == "deleted":
            for item in items:
                assert await store.messages.delete(DEFAULT, WORK, item.id)
        else:
            clock.advance(seconds=60)
            assert (await store.reaper.reap(SYSTEM, ALL)).dead == 2
        after = await progress(store, batch)
        assert numbers(after) == (0, 0, 0, 2)
        assert after.status is BatchStatus.COMPLETED
        failed = await store.batches.items(DEFAULT, batch.id, ItemStatus.FAILED, ALL)
        assert [item.reason for item in failed] == [way, way]


async def test_a_replayed_item_is_not_counted_again(store: Store) -> None:
    await make_queue(store)
    batch = await create_batch(store, news(1))
    await kill_all(store)
    await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    (message,) = await pull(store)
    assert message.batch_id is None
    await settle(store, ack(message))
    assert numbers(await progress(store, batch)) == (0, 0, 0, 1)


async def test_items_are_listed_page_by_page(store: Store) -> None:
    await make_queue(store)
    items = news(10)
    batch = await create_batch(store, items[::-1])
    found: list[BatchItem] = []
    for _ in range(4):
        after = found[-1].id if found else None
        found += await store.batches.items(DEFAULT, batch.id, ItemStatus.PENDING, 3, after=after)
    assert [item.id for item in found] == sorted(ids(items))


async def test_a_batch_accepts_any_iterable_of_messages(store: Store) -> None:
    await make_queue(store)
    batch = await create_batch(store, (new() for _ in range(5)))
    assert (batch.total, batch.status) == (5, BatchStatus.RUNNING)


async def test_many_items_are_stored_in_chunks(store: Store) -> None:
    await make_queue(store)
    batch = await create_batch(store, (new() for _ in range(MANY)))
    assert numbers(batch) == (MANY, 0, 0, 0)
    assert await counts(store) == Counts(ready=MANY)


async def test_a_repeated_create_continues_an_interrupted_batch(store: Store) -> None:
    await make_queue(store)
    items, batch_id = news(MANY), new_id()
    with pytest.raises(Interrupted):
        await create_batch(store, breaking(items, MANY - 1), batch_id=batch_id)
    filling = await store.batches.get(DEFAULT, batch_id)
    assert filling.status is BatchStatus.FILLING
    assert 0 < filling.total < MANY
    # The stored items run already.
    found = await pull(store, limit=10)
    assert ids(found) == ids(items[:10])
    await settle(store, *map(ack, found))
    assert (await progress(store, filling)).status is BatchStatus.FILLING
    whole = await create_batch(store, items, batch_id=batch_id)
    assert (whole.status, whole.total) == (BatchStatus.RUNNING, MANY)
    assert numbers(whole) == (MANY - 10, 0, 10, 0)


async def test_a_batch_whose_items_ended_while_filling_completes_when_sealed(
    store: Store,
) -> None:
    await make_queue(store)
    batch_id, items = new_id(), news(MANY, body=b"")
    with pytest.raises(Interrupted):
        await create_batch(store, breaking(items, MANY - 1), batch_id=batch_id)
    filling = await store.batches.get(DEFAULT, batch_id)
    assert await store.queues.purge(DEFAULT, WORK) == filling.total
    ended = await store.batches.get(DEFAULT, batch_id)
    assert (ended.status, ended.failed) == (BatchStatus.FILLING, filling.total)
    whole = await create_batch(store, items[: filling.total], batch_id=batch_id)
    assert (whole.status, whole.total) == (BatchStatus.COMPLETED, filling.total)


async def test_repeating_a_complete_create_changes_nothing(store: Store) -> None:
    await make_queue(store)
    items, batch_id = news(3), new_id()
    await create_batch(store, items, batch_id=batch_id)
    await settle(store, *map(ack, await pull(store, limit=2)))
    again = await create_batch(store, items, batch_id=batch_id)
    assert numbers(again) == (1, 0, 2, 0)
    assert await counts(store) == Counts(ready=1)
    for other in (items[:2], [*items, new()]):
        with pytest.raises(Conflict):
            await create_batch(store, other, batch_id=batch_id)


async def test_a_batch_id_belongs_to_one_queue(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    batch = await create_batch(store, news(1))
    with pytest.raises(Conflict):
        await create_batch(store, news(1), batch_id=batch.id, queue="other")
    assert await counts(store, "other") == Counts()


@pytest.mark.parametrize("twice", ["in the queue", "in the batch", "in another queue"])
async def test_an_item_whose_id_is_in_use_is_a_conflict(store: Store, twice: str) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    items, batch_id = news(3), new_id()
    if twice == "in the batch":
        taken = items[0]
    else:
        queue = WORK if twice == "in the queue" else "other"
        taken = await send(store, queue=queue)
    before = await counts(store)
    with pytest.raises(Conflict):
        await create_batch(store, [*items, new(id=taken.id)], batch_id=batch_id)
    assert await counts(store) == before
    filling = await store.batches.get(DEFAULT, batch_id)
    assert (filling.status, filling.total) == (BatchStatus.FILLING, 0)
    whole = await create_batch(store, items, batch_id=batch_id)
    assert (whole.status, whole.total) == (BatchStatus.RUNNING, 3)


async def test_an_invalid_item_is_refused_by_its_index_and_the_batch_can_continue(
    store: Store,
) -> None:
    await make_queue(store)
    items, batch_id = news(4), new_id()
    with pytest.raises(InvalidInput) as raised:
        await create_batch(store, [*items[:2], new(priority=10, hops=-1)], batch_id=batch_id)
    assert {fault.field for fault in raised.value.errors} == {"items[2].priority", "items[2].hops"}
    assert await counts(store) == Counts()
    whole = await create_batch(store, items, batch_id=batch_id)
    assert (whole.status, whole.total) == (BatchStatus.RUNNING, 4)


async def test_a_batch_whose_first_chunk_is_refused_stores_nothing(store: Store) -> None:
    await make_queue(store)
    batch_id = new_id()
    for items in ([new(priority=10)], breaking(news(3), 2)):
        with pytest.raises((InvalidInput, Interrupted)):
            await create_batch(store, items, batch_id=batch_id)
    assert await store.batches.list(DEFAULT, 10) == ()


async def test_a_batch_has_a_maximum_number_of_items(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.core.limits.BATCH_ITEMS_MAX", 10)
    await make_queue(store)
    with pytest.raises(InvalidInput) as raised:
        await create_batch(store, (new() for _ in range(11)))
    assert [fault.field for fault in raised.value.errors] == ["items"]
    batch = await create_batch(store, (new() for _ in range(10)))
    assert batch.total == 10


async def test_an_abandoned_batch_is_sealed(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    batch_id, items = new_id(), news(MANY, body=b"")
    with pytest.raises(Interrupted):
        await create_batch(store, breaking(items, MANY - 1), batch_id=batch_id)
    clock.advance(seconds=BATCH_FILLING_SECONDS_MAX - 1)
    await store.reaper.reap(SYSTEM, ALL)
    filling = await store.batches.get(DEFAULT, batch_id)
    assert filling.status is BatchStatus.FILLING
    clock.advance(seconds=2)
    await store.reaper.reap(SYSTEM, ALL)
    closed = await store.batches.get(DEFAULT, batch_id)
    assert (closed.status, closed.total) == (BatchStatus.RUNNING, filling.total)
    with pytest.raises(Conflict):
        await create_batch(store, items, batch_id=batch_id)


async def test_batches_are_listed_latest_first(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = []
    for size in (1, 0, 2):
        made.append(await create_batch(store, news(size)))
        clock.advance(seconds=1)
    assert [batch.id for batch in await store.batches.list(DEFAULT, ALL)] == [
        batch.id for batch in made[::-1]
    ]
    assert await store.batches.list(DEFAULT, 2) == (made[2], made[1])


async def test_a_tenant_sees_only_its_own_batches(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    owner, stranger = await make_tenants(store, "owner", "stranger")
    batch = await create_batch(store, news(2), scope=owner)
    assert await store.batches.list(stranger, ALL) == ()
    for act in (
        store.batches.get(stranger, batch.id),
        store.batches.items(stranger, batch.id, ItemStatus.PENDING, ALL),
        store.batches.cancel(stranger, batch.id),
    ):
        with pytest.raises(NotFound):
            await act
    # Each tenant has its own batch of this id.
    other = await create_batch(store, news(1), scope=stranger, batch_id=batch.id)
    assert (other.total, other.tenant) == (1, "stranger")
    await settle(store, *map(ack, await pull(store, scope=stranger)), scope=stranger)
    assert numbers(await progress(store, batch, scope=owner)) == (2, 0, 0, 0)
    assert numbers(await progress(store, batch, scope=stranger)) == (0, 0, 1, 0)


async def test_the_systems_batches_belong_to_the_default_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    batch = await create_batch(store, news(1), scope=SYSTEM)
    assert batch.tenant == DEFAULT.tenant
    assert await store.batches.get(DEFAULT, batch.id) == batch


async def test_a_batch_created_twice_concurrently_is_created_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    other = await home.open(clock)
    items, new_batch = news(500), NewBatch(id=new_id(), queue=WORK)
    try:
        answers = await asyncio.gather(
            *(own.batches.create(DEFAULT, new_batch, items) for own in (store, other)),
            return_exceptions=True,
        )
        # The slower of the two may get a conflict; then it is repeated.
        assert all(isinstance(answer, Batch | Conflict) for answer in answers)
        again = await store.batches.create(DEFAULT, new_batch, items)
        assert (again.status, again.total) == (BatchStatus.RUNNING, 500)
        assert await counts(store) == Counts(ready=500)
    finally:
        await other.close()
