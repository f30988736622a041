"""Batches that are opened, filled in pieces, and closed."""

import asyncio

import pytest

from tests.conformance.acts import make_queue, new, news
from tickwork.core.message.batch import BatchStatus, NewBatch
from tickwork.core.model import DEFAULT
from tickwork.errors import Conflict, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def opened(store: Store) -> NewBatch:
    await make_queue(store, "open")
    batch = NewBatch(id=new_id(), queue="open")
    assert (await store.batches.open(DEFAULT, batch)).status is BatchStatus.FILLING
    return batch


async def test_an_open_batch_takes_items_until_it_is_closed(store: Store) -> None:
    batch = await opened(store)
    for number in (1, 2):
        added = await store.batches.add(DEFAULT, batch, news(3))
        assert (added.total, added.pending) == (3 * number, 3 * number)
    assert (await store.batches.open(DEFAULT, batch)).total == 6
    for _ in range(2):
        closed = await store.batches.close(DEFAULT, batch.id)
        assert (closed.status, closed.total) == (BatchStatus.RUNNING, 6)
    with pytest.raises(Conflict):
        await store.batches.add(DEFAULT, batch, news(1))
    assert (await store.batches.get(DEFAULT, batch.id)).total == 6


async def test_an_empty_batch_completes_when_it_is_closed(store: Store) -> None:
    batch = await opened(store)
    assert (await store.batches.close(DEFAULT, batch.id)).status is BatchStatus.COMPLETED


async def test_items_are_added_whole_or_not_at_all(store: Store) -> None:
    batch, known = await opened(store), new()
    await store.batches.add(DEFAULT, batch, [known])
    with pytest.raises(Conflict):
        await store.batches.add(DEFAULT, batch, [new(), known])
    assert (await store.batches.get(DEFAULT, batch.id)).total == 1


async def test_items_that_are_added_at_the_same_time_are_all_counted_or_refused(
    store: Store,
) -> None:
    batch = await opened(store)
    results = await asyncio.gather(
        *(store.batches.add(DEFAULT, batch, news(2)) for _ in range(8)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, Conflict) for error in refused)
    shown = await store.batches.get(DEFAULT, batch.id)
    assert shown.total == shown.pending == 2 * (8 - len(refused))


async def test_an_unknown_batch_is_not_found(store: Store) -> None:
    batch = NewBatch(id=new_id(), queue="open")
    await make_queue(store, "open")
    with pytest.raises(NotFound):
        await store.batches.add(DEFAULT, batch, news(1))
    with pytest.raises(NotFound):
        await store.batches.close(DEFAULT, batch.id)
