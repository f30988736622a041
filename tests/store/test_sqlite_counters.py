"""Counters on SQLite match the commits: failed items add nothing, failed flushes lose nothing."""

import pytest

from tests.store.acts import WORK, acked, new, pull, send, together, write
from tickwork.core.message.batch import BatchStatus, NewBatch
from tickwork.core.model import DEFAULT, SYSTEM, Ending, Fate, QueueSettings, Send, Settlement
from tickwork.core.queue.stats import CounterName
from tickwork.errors import BacklogFull, NotFound, StoreError
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import removal as leaving

FULL = QueueSettings(backlog_bytes_max=128_000)


def break_commit(transaction: Transaction) -> None:
    """Leaves a row that makes COMMIT fail."""
    transaction.execute("PRAGMA defer_foreign_keys = ON")
    transaction.execute("UPDATE tickwork_queues SET tenant = 'nobody'")


async def passed(store: SqliteStore, queue: str = WORK) -> dict[CounterName, int]:
    found = await store.stats.queue(DEFAULT, queue)
    return {kind.counter: kind.messages for kind in found.kinds}


async def backlog(store: SqliteStore) -> int | None:
    """The counted bytes of the queue, and the actual ones."""
    believed, real = await write(
        store,
        lambda transaction: transaction.execute(
            "SELECT backlog_bytes, (SELECT coalesce(sum(length(body)), 0) FROM tickwork_messages) "
            "FROM tickwork_queues"
        ).fetchone(),
    )
    assert believed in (None, real)
    return None if believed is None else int(believed)


async def test_a_failed_item_of_a_group_is_not_counted(store: SqliteStore) -> None:
    await send(store)
    (message,) = await pull(store)
    ending = Ending(
        claim=message.current_claim,
        fate=Fate.ACK,
        sends=(Send(WORK, new()), Send("nowhere", new())),
    )
    answers = await together(
        store, send(store), store.messages.settle(DEFAULT, Settlement((ending,))), send(store)
    )
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [NotFound]
    assert await passed(store) == {CounterName.SENT: 3}


async def test_an_item_refused_after_its_writes_is_not_counted(store: SqliteStore) -> None:
    await store.queues.put(DEFAULT, WORK, FULL)
    answers = await together(
        store, *(send(store, body=bytes(60_000)) for _ in range(3)), send(store, body=b"1")
    )
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [BacklogFull]
    assert await passed(store) == {CounterName.SENT: 3}
    assert await backlog(store) == 120_001


async def test_items_of_a_failed_commit_are_not_counted(store: SqliteStore) -> None:
    answers = await together(store, send(store), write(store, break_commit))
    assert all(isinstance(answer, StoreError) for answer in answers)
    assert await passed(store) == {}


async def test_counts_that_could_not_be_stored_are_stored_later(store: SqliteStore) -> None:
    await send(store)
    answers = await together(store, store.stats.flush(SYSTEM), write(store, break_commit))
    assert all(isinstance(answer, StoreError) for answer in answers)
    assert await passed(store) == {CounterName.SENT: 1}


async def test_the_backlog_is_exact_after_every_operation(store: SqliteStore) -> None:
    await send(store, body=b"123")
    assert await backlog(store) is None
    await store.queues.put(DEFAULT, WORK, FULL)
    assert await backlog(store) == 3
    for key in (None, "a", "a", "a"):
        await send(store, key=key, body=b"12345")
    repeated = new(body=b"12345678")
    await store.messages.send_batch(DEFAULT, WORK, [repeated, repeated, new(body=b"1")])
    assert await backlog(store) == 32
    await store.messages.delete(DEFAULT, WORK, repeated.id)
    assert await backlog(store) == 24
    first, second, *_ = await pull(store)
    await store.messages.settle(DEFAULT, acked(first))
    dead = Ending(claim=second.current_claim, fate=Fate.DEAD)
    await store.messages.settle(DEFAULT, Settlement((dead,)))
    await backlog(store)
    await store.queues.purge(DEFAULT, WORK)
    await backlog(store)
    await store.queues.put(DEFAULT, WORK, QueueSettings())
    assert await backlog(store) is None


async def test_a_purge_in_chunks_keeps_the_completion_event_it_causes(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "REMOVAL_CHUNK_MESSAGES", 3)
    batch = NewBatch(id=new_id(), queue=WORK, completion_queue=WORK)
    await store.batches.create(DEFAULT, batch, [new(key="a") for _ in range(8)])
    await store.messages.send_bulk(DEFAULT, WORK, [new() for _ in range(7)])
    assert await store.queues.purge(DEFAULT, WORK) == 15
    (event,) = await pull(store)
    assert event.type == "batch.completed"
    ended = await store.batches.get(DEFAULT, batch.id)
    assert (ended.status, ended.failed) == (BatchStatus.COMPLETED, 8)


async def test_a_cancelled_batch_is_deleted_in_chunks_except_claimed_items(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.store.sqlite.messages.batches.REMOVAL_CHUNK_MESSAGES", 2)
    batch = NewBatch(id=new_id(), queue=WORK)
    await store.batches.create(DEFAULT, batch, [new() for _ in range(9)])
    held = await pull(store, limit=3)
    left = await store.batches.cancel(DEFAULT, batch.id)
    assert (left.status, left.processing, left.failed) == (BatchStatus.RUNNING, 3, 6)
    await store.messages.settle(DEFAULT, acked(*held))
    done = await store.batches.cancel(DEFAULT, batch.id)
    assert (done.status, done.completed, done.failed) == (BatchStatus.COMPLETED, 3, 6)
