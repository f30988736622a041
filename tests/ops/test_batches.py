"""Batches are created from plain bodies."""

from __future__ import annotations

import pytest

from tests.conformance.acts import WORK, ack, counts, make_queue, pull, settle
from tests.stores.home import KINDS
from tickwork.core.message.batch import BatchStatus, ItemStatus
from tickwork.core.model import DEFAULT, ContentType
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.batches import create_batch
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", ["model", *KINDS], indirect=True)


async def test_each_body_is_an_item(store: Store) -> None:
    await make_queue(store)
    batch = await create_batch(
        Context(store, DEFAULT), WORK, ({"n": n} for n in range(3)), priority=7
    )
    assert (batch.status, batch.total, batch.pending) == (BatchStatus.RUNNING, 3, 3)
    messages = await pull(store)
    assert sorted(message.body for message in messages) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    assert {(message.batch_id, message.priority) for message in messages} == {(batch.id, 7)}
    items = await store.batches.items(DEFAULT, batch.id, ItemStatus.PROCESSING, 10)
    assert {item.id for item in items} == {message.id for message in messages}


async def test_a_batch_of_nothing_is_completed_at_once(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "done")
    batch = await create_batch(Context(store, DEFAULT), WORK, [], completion_queue="done")
    assert (batch.status, batch.total) == (BatchStatus.COMPLETED, 0)
    assert (await counts(store, "done")).ready == 1


async def test_progress_is_reported_at_intervals_and_at_the_end(store: Store) -> None:
    await make_queue(store)
    told: list[int] = []
    await create_batch(Context(store, DEFAULT), WORK, range(2_500), on_progress=told.append)
    assert told == [1_000, 2_000, 2_500]


async def test_a_bad_body_is_reported_and_a_repeat_continues(store: Store) -> None:
    await make_queue(store)
    batch_id = new_id()
    bodies: list[object] = [1, 2, object()]
    with pytest.raises(InvalidInput) as refused:
        await create_batch(Context(store, DEFAULT), WORK, bodies, batch_id=batch_id)
    assert [error.field for error in refused.value.errors] == ["items[2].body"]
    batch = await create_batch(Context(store, DEFAULT), WORK, [1, 2, 3], batch_id=batch_id)
    assert (batch.id, batch.total) == (batch_id, 3)
    for message in await pull(store):
        await settle(store, ack(message))
    batch = await store.batches.get(DEFAULT, batch_id)
    assert (batch.status, batch.completed) == (BatchStatus.COMPLETED, 3)


async def test_bodies_may_be_texts(store: Store) -> None:
    await make_queue(store)
    await create_batch(Context(store, DEFAULT), WORK, ["a"], content_type=ContentType.TEXT)
    (message,) = await pull(store)
    assert (message.body, message.content_type) == (b"a", ContentType.TEXT)


async def test_a_missing_queue_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await create_batch(Context(store, DEFAULT), WORK, [1])
