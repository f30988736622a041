"""Queues: create, change, pause, purge, delete and count."""

import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim_one,
    counts,
    dead,
    ids,
    make_queue,
    make_tenants,
    new,
    pull,
    pull_one,
    retry,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import NewBatch
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    Counts,
    QueueSettings,
    Reaped,
    Scope,
    SettleResult,
    StoredQueue,
)
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

SETTINGS = QueueSettings(
    max_batch_size=100,
    max_batch_timeout=0.25,
    max_retries=0,
    dead_letter_queue="graveyard",
    retention_seconds=14 * 86_400,
    visibility_timeout_seconds=43_200,
    timeout_seconds=86_400,
)


async def test_a_queue_is_stored_as_created(store: Store) -> None:
    made = await store.queues.put(DEFAULT, WORK, SETTINGS)
    assert made == StoredQueue(id=made.id, tenant="default", name=WORK, settings=SETTINGS)
    assert await store.queues.get(DEFAULT, WORK) == made


async def test_a_queue_has_default_settings(store: Store) -> None:
    made = await store.queues.put(DEFAULT, WORK, QueueSettings())
    assert made.settings == QueueSettings(
        max_batch_size=10,
        max_batch_timeout=5,
        max_retries=3,
        dead_letter_queue=None,
        retention_seconds=4 * 86_400,
        visibility_timeout_seconds=30,
        timeout_seconds=900,
    )


async def test_putting_a_queue_again_replaces_only_its_settings(store: Store) -> None:
    made = await store.queues.put(DEFAULT, WORK, QueueSettings())
    await store.queues.pause(DEFAULT, WORK)
    await send(store)
    again = await store.queues.put(DEFAULT, WORK, SETTINGS)
    assert again == structs.replace(made, settings=SETTINGS, paused=True)
    assert await counts(store) == Counts(ready=1)


async def test_changed_settings_apply_at_once(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, retention_seconds=600)
    await send(store)
    clock.advance(seconds=300)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    await make_queue(store, retention_seconds=300)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)


async def test_queues_are_listed_by_name(store: Store) -> None:
    assert await store.queues.list(DEFAULT) == ()
    for name in ("b", "c", "a", "ä", "B"):
        await make_queue(store, name)
    assert [queue.name for queue in await store.queues.list(DEFAULT)] == ["B", "a", "b", "c", "ä"]


async def test_a_page_of_queues_goes_on_after_the_last_of_the_page_before(store: Store) -> None:
    (other,) = await make_tenants(store, "other")
    for name, scope in (
        *(("b", DEFAULT), ("b", SYSTEM), ("b", other), ("d", SYSTEM), ("d", DEFAULT)),
        *(("a", SYSTEM), ("a", other), ("c", DEFAULT), ("e", other)),
    ):
        await make_queue(store, name, scope=scope)
    for scope, expected in ((DEFAULT, 6), (other, 6), (SYSTEM, 9)):
        every = await store.queues.list(scope)
        assert [queue.position for queue in every] == sorted({queue.position for queue in every})
        assert len(every) == expected
        for limit in (1, 2, 5, expected, 100):
            found: list[StoredQueue] = []
            after = None
            while page := await store.queues.list(scope, limit=limit, after=after):
                assert len(page) == min(limit, expected - len(found))
                found += page
                after = page[-1].position
            assert tuple(found) == every
        with pytest.raises(InvalidInput):
            await store.queues.list(scope, limit=0)
    assert await store.queues.list(Scope("nobody"), limit=9) == await store.queues.list(
        Scope("nobody")
    )


async def test_a_pause_is_visible_and_can_be_repeated(store: Store) -> None:
    await make_queue(store)
    for _ in range(2):
        await store.queues.pause(DEFAULT, WORK)
        assert (await store.queues.get(DEFAULT, WORK)).paused
    for _ in range(2):
        await store.queues.resume(DEFAULT, WORK)
        assert not (await store.queues.get(DEFAULT, WORK)).paused


async def test_an_empty_queue_is_deleted(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    await store.queues.delete(DEFAULT, WORK)
    assert [queue.name for queue in await store.queues.list(DEFAULT)] == ["other"]
    with pytest.raises(NotFound, match=WORK):
        await send(store)


@pytest.mark.parametrize("state", ["ready", "delayed", "claimed"])
async def test_a_queue_with_messages_is_not_deleted(store: Store, state: str) -> None:
    await make_queue(store)
    sent = await send(store, delay_seconds=60 if state == "delayed" else 0)
    if state == "claimed":
        await claim_one(store)
    with pytest.raises(Conflict, match=WORK):
        await store.queues.delete(DEFAULT, WORK)
    assert (await store.messages.get(DEFAULT, WORK, sent.id)).id == sent.id


async def test_a_queue_with_dead_letters_is_not_deleted(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, dead(await pull_one(store), reason="permanent"))
    with pytest.raises(Conflict, match=WORK):
        await store.queues.delete(DEFAULT, WORK)
    assert await counts(store) == Counts(dead=1)


async def test_a_queue_is_deleted_once_its_messages_are_done(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, ack(await pull_one(store)))
    await store.queues.delete(DEFAULT, WORK)
    assert await store.queues.list(DEFAULT) == ()


async def test_a_recreated_queue_has_a_new_id(store: Store) -> None:
    first = await make_queue(store)
    await send(store, event_id="paid-1")
    await settle(store, ack(await pull_one(store)))
    await store.queues.delete(DEFAULT, WORK)
    assert await make_queue(store) != first
    await send(store, event_id="paid-1")
    assert await settle(store, ack(await pull_one(store))) == SettleResult()


async def test_an_unknown_queue_can_neither_be_read_nor_changed(store: Store) -> None:
    for act in (
        store.queues.get,
        store.queues.delete,
        store.queues.pause,
        store.queues.resume,
        store.queues.purge,
        store.queues.counts,
    ):
        with pytest.raises(NotFound, match="nowhere"):
            await act(DEFAULT, "nowhere")
    for look in (store.messages.peek, store.dead_letters.groups):
        with pytest.raises(NotFound, match="nowhere"):
            await look(DEFAULT, "nowhere", 10)
    for choose in (store.dead_letters.list, store.dead_letters.discard):
        with pytest.raises(NotFound, match="nowhere"):
            await choose(DEFAULT, "nowhere", Selection())
    with pytest.raises(NotFound, match="nowhere"):
        await store.dead_letters.replay(DEFAULT, "nowhere", Selection(), Pace())
    with pytest.raises(NotFound, match="nowhere"):
        await store.batches.create(DEFAULT, NewBatch(id=new_id(), queue="nowhere"), [])
    with pytest.raises(NotFound, match="nowhere"):
        await store.subscriptions.put(DEFAULT, "paid", "nowhere")
    with pytest.raises(NotFound, match="nowhere"):
        await store.stats.queue(DEFAULT, "nowhere")
    for act_on in (store.messages.get, store.messages.delete):
        with pytest.raises(NotFound, match="nowhere"):
            await act_on(DEFAULT, "nowhere", new_id())


async def test_changes_by_another_store_apply_here(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, ack(await pull_one(store)))
    other = await home.open(clock)
    try:
        await other.queues.pause(DEFAULT, WORK)
        await send(store)
        assert await pull(store) == ()
        assert await other.queues.purge(DEFAULT, WORK) == 1
        await other.queues.delete(DEFAULT, WORK)
        with pytest.raises(NotFound):
            await send(store)
        await make_queue(other)
        message = await send(store)
        assert ids(await pull(other)) == [message.id]
        await send(other)
        assert len(await pull(store)) == 1
    finally:
        await other.close()


async def test_a_queue_recreated_by_another_store_is_the_one_claimed_from(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    assert await pull(store) == ()
    other = await home.open(clock)
    try:
        await other.queues.delete(DEFAULT, WORK)
        await make_queue(other)
        sent = await send(other)
        assert ids(await pull(store)) == [sent.id]
        assert await counts(store) == Counts(claimed=1)
    finally:
        await other.close()


async def test_a_purge_deletes_unclaimed_messages(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    await send(store, queue="other")
    await send_many(store, 3)
    (held,) = await pull(store, limit=1)
    await send_many(store, 2, delay_seconds=60)
    assert await store.queues.purge(DEFAULT, WORK) == 4
    assert await counts(store) == Counts(claimed=1)
    assert await counts(store, "other") == Counts(ready=1)
    assert await store.queues.purge(DEFAULT, WORK) == 0
    await settle(store, retry(held))
    assert await store.queues.purge(DEFAULT, WORK) == 1
    clock.advance(seconds=60)
    assert await pull(store) == ()


async def test_a_purge_keeps_dead_letters(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, dead(await pull_one(store), reason="permanent"))
    assert await store.queues.purge(DEFAULT, WORK) == 0
    assert await counts(store) == Counts(dead=1)


async def test_an_unclaimed_message_can_be_deleted(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    ready, later = await send(store), await send(store, delay_seconds=60)
    assert not await store.messages.delete(DEFAULT, "other", ready.id)
    for message in (ready, later):
        assert await store.messages.delete(DEFAULT, WORK, message.id)
        assert not await store.messages.delete(DEFAULT, WORK, message.id)
        with pytest.raises(NotFound, match=message.id.hex):
            await store.messages.get(DEFAULT, WORK, message.id)
    assert await counts(store) == Counts()


async def test_a_claimed_message_cannot_be_deleted(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    assert not await store.messages.delete(DEFAULT, WORK, message.id)
    assert await settle(store, ack(message)) == SettleResult()


async def test_a_message_is_found_in_its_own_queue_only(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    sent = await send(store)
    with pytest.raises(NotFound, match=sent.id.hex):
        await store.messages.get(DEFAULT, "other", sent.id)


async def test_counts_are_per_state(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    assert await counts(store) == Counts()
    await send_many(store, 10)
    await send_many(store, 3, delay_seconds=60)
    first, second, third, *_ = await pull(store, limit=5, lease_seconds=600)
    await settle(store, ack(first), retry(second, delay_seconds=30), dead(third, reason="x"))
    assert await counts(store) == Counts(ready=5, delayed=4, claimed=2, dead=1)
    clock.advance(seconds=30)
    assert await counts(store) == Counts(ready=6, delayed=3, claimed=2, dead=1)
    clock.advance(seconds=30)
    assert await counts(store) == Counts(ready=9, claimed=2, dead=1)
    assert len(await store.messages.peek(DEFAULT, WORK, ALL)) == 9


async def test_a_deleted_message_can_be_sent_again(store: Store) -> None:
    await make_queue(store)
    message = new()
    for _ in range(2):
        await store.messages.send(DEFAULT, WORK, message)
        assert await store.messages.delete(DEFAULT, WORK, message.id)
