"""Filling a batch on SQLite: a chunk is stored only at the position its filler expects."""

from collections.abc import Iterator

import pytest

from tests.store.acts import WORK, acked, new, pull, write
from tickwork.core.message.batch import BatchStatus, NewBatch
from tickwork.core.model import DEFAULT, NewMessage, QueueSettings
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.messages import batch_fill
from tickwork.store.sqlite.messages.batch_fill import _Piece


class Interrupted(Exception):
    """The filler stopped."""


def interrupted(*items: NewMessage) -> Iterator[NewMessage]:
    yield from items
    raise Interrupted


@pytest.fixture
async def filling(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> NewBatch:
    """An unsealed batch with two items."""
    monkeypatch.setattr(batch_fill, "PIECE_ITEMS", 2)
    batch = NewBatch(id=new_id(), queue=WORK)
    with pytest.raises(Interrupted):
        await store.batches.create(DEFAULT, batch, interrupted(new(), new()))
    found = await store.batches.get(DEFAULT, batch.id)
    assert (found.status, found.total) == (BatchStatus.FILLING, 2)
    return batch


async def fill(store: SqliteStore, batch: NewBatch, *items: NewMessage, stored: int) -> None:
    await write(store, _Piece(DEFAULT, batch, items, stored).store)


@pytest.mark.parametrize("stored", [0, 1, 3])
async def test_a_chunk_at_the_wrong_position_is_refused(
    store: SqliteStore, filling: NewBatch, stored: int
) -> None:
    with pytest.raises(Conflict):
        await fill(store, filling, new(), stored=stored)
    assert len(await pull(store)) == 2


async def test_a_sealed_batch_is_not_filled(store: SqliteStore, filling: NewBatch) -> None:
    await store.batches.cancel(DEFAULT, filling.id)
    with pytest.raises(Conflict):
        await fill(store, filling, new(), stored=2)
    assert await pull(store) == ()


async def test_another_queue_of_the_same_name_is_not_filled(
    store: SqliteStore, filling: NewBatch
) -> None:
    await store.queues.purge(DEFAULT, WORK)
    await store.queues.delete(DEFAULT, WORK)
    with pytest.raises(NotFound):
        await fill(store, filling, new(), stored=2)
    await store.queues.put(DEFAULT, WORK, QueueSettings())
    with pytest.raises(Conflict):
        await fill(store, filling, new(), stored=2)
    assert await pull(store) == ()


async def test_an_item_is_not_stored_again_after_it_ended(
    store: SqliteStore, filling: NewBatch
) -> None:
    first, second = await pull(store)
    await store.messages.settle(DEFAULT, acked(first, second))
    with pytest.raises(Conflict):
        await fill(store, filling, new(), new(id=second.id), stored=2)
    done = await store.batches.cancel(DEFAULT, filling.id)
    assert (done.status, done.total, done.completed) == (BatchStatus.COMPLETED, 2, 2)


async def test_two_concurrent_fillers_do_not_mix(store: SqliteStore, filling: NewBatch) -> None:
    await fill(store, filling, new(), new(), stored=2)
    with pytest.raises(Conflict):
        await fill(store, filling, new(), new(), stored=2)
    found = await store.batches.get(DEFAULT, filling.id)
    assert (found.total, found.pending) == (4, 4)


async def test_a_refused_chunk_leaves_nothing(store: SqliteStore, filling: NewBatch) -> None:
    known, *_ = await pull(store, limit=1)
    with pytest.raises(Conflict):
        await fill(store, filling, new(), new(id=known.id), stored=2)
    found = await store.batches.get(DEFAULT, filling.id)
    assert (found.total, found.pending, found.processing) == (2, 1, 1)
