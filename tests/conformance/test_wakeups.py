"""Wake-ups: a send wakes those who wait soon; a send between two waits wakes the next at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conformance.acts import (
    ack,
    create_batch,
    kill_all,
    make_queue,
    news,
    pull_one,
    send,
    sending,
    settle,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import DEFAULT, Settlement
from tickwork.store.cluster_contract import Watch
from tickwork.store.contract import Store

SOON_SECONDS = 60.0
"""An upper bound: a wake-up takes milliseconds."""

QUIET_SECONDS = 0.05


@pytest.fixture
async def other(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """Another store on the same database, as another process has it."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


async def quiet(watch: Watch) -> None:
    """Waits until no wake-up is pending: a watch may be woken once too often."""

    async def is_quiet() -> bool:
        return not await watch.wait(QUIET_SECONDS)

    await eventually(is_quiet)


async def test_a_wait_without_a_send_times_out(store: Store) -> None:
    queue_id = await make_queue(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        assert not await watch.wait(0)


async def test_a_send_wakes_a_waiter(store: Store) -> None:
    queue_id = await make_queue(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
        await send(store)
        assert await waiting


async def test_a_send_between_two_waits_is_not_lost(store: Store) -> None:
    queue_id = await make_queue(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        await send(store)
        assert await watch.wait(SOON_SECONDS)


async def test_a_send_by_another_store_wakes_a_waiter(store: Store, other: Store) -> None:
    queue_id = await make_queue(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        for _ in range(3):
            waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
            await send(other)
            assert await waiting
            await quiet(watch)


async def test_a_send_by_another_store_between_two_waits_is_not_lost(
    store: Store, other: Store
) -> None:
    queue_id = await make_queue(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        await send(other)
        assert await watch.wait(SOON_SECONDS)


@pytest.mark.parametrize("way", ["batch", "bulk", "settlement", "joint"])
async def test_every_way_of_sending_wakes_a_waiter(store: Store, other: Store, way: str) -> None:
    await make_queue(store)
    queue_id = await make_queue(store, "next")
    await send(store)
    held = await pull_one(store)
    async with (
        store.wakeups.watch([queue_id]) as watch,
        other.wakeups.watch([queue_id]) as far,
    ):
        await quiet(watch)
        await quiet(far)
        if way == "batch":
            await store.messages.send_batch(DEFAULT, "next", news(2))
        elif way == "bulk":
            await store.messages.send_bulk(DEFAULT, "next", news(2))
        elif way == "settlement":
            await settle(store, ack(held, sending("next")))
        else:
            settlement = Settlement((ack(held, sending("next")),))
            await store.messages.settle_jointly(DEFAULT, settlement, lambda _: None)
        assert await watch.wait(SOON_SECONDS)
        assert await far.wait(SOON_SECONDS)


async def test_only_watched_queues_wake_a_waiter(store: Store) -> None:
    watched = [await make_queue(store, name) for name in ("one", "two")]
    await make_queue(store, "other")
    async with store.wakeups.watch(watched) as watch:

        async def other_does_not_wake() -> bool:
            await send(store, queue="other")
            return not await watch.wait(QUIET_SECONDS)

        # The listener wakes everybody once when it has connected, which may take a while.
        await eventually(other_does_not_wake, what="a send that does not wake")
        for name in ("one", "two"):
            await send(store, queue=name)
            assert await watch.wait(SOON_SECONDS)
            await quiet(watch)


async def test_every_waiter_is_woken(store: Store) -> None:
    queue_id = await make_queue(store)
    async with (
        store.wakeups.watch([queue_id]) as one,
        store.wakeups.watch([queue_id]) as two,
    ):
        await quiet(one)
        await quiet(two)
        await send(store)
        assert all(await asyncio.gather(one.wait(SOON_SECONDS), two.wait(SOON_SECONDS)))


async def test_an_unblocked_message_wakes_a_waiter(store: Store) -> None:
    queue_id = await make_queue(store)
    for message in news(2, key="a"):
        await store.messages.send(DEFAULT, "work", message)
    head = await pull_one(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
        await settle(store, ack(head))
        assert await waiting


async def test_a_replay_a_batch_and_a_copy_wake_a_waiter(store: Store) -> None:
    queue_id = await make_queue(store)
    await make_queue(store, "events")
    await store.subscriptions.put(DEFAULT, "paid", "work")
    await send(store)
    await kill_all(store)
    async with store.wakeups.watch([queue_id]) as watch:
        for act in (
            lambda: store.dead_letters.replay(DEFAULT, "work", Selection(), Pace()),
            lambda: create_batch(store, news(1)),
            lambda: send(store, queue="events", type="paid"),
        ):
            await quiet(watch)
            waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
            await act()
            assert await waiting
