"""Wake-ups by everything that makes a message ready again, not only by sends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.acts import (
    ALL,
    TTL_SECONDS,
    WORK,
    ack,
    claim_one,
    counts,
    dead,
    join,
    make_queue,
    news,
    pull,
    pull_one,
    release,
    retry,
    send,
    settle,
)
from tests.conformance.test_wakeups import QUIET_SECONDS, SOON_SECONDS, quiet
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.store.cluster_contract import Watch
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def assert_woken(watch: Watch, act: Callable[[], Awaitable[Any]]) -> None:
    """Asserts that a waiter is woken by what happens inside."""
    await quiet(watch)
    waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
    await act()
    assert await waiting


async def test_resuming_a_queue_wakes_its_waiters(store: Store) -> None:
    queue_id = await make_queue(store)
    await store.queues.pause(DEFAULT, WORK)
    await send(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: store.queues.resume(DEFAULT, WORK))
        assert len(await pull(store)) == 1


@pytest.mark.parametrize("end", [release, retry])
async def test_a_retry_without_delay_wakes_waiters(store: Store, end: Callable[..., Any]) -> None:
    queue_id = await make_queue(store)
    await send(store)
    held = await pull_one(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: settle(store, end(held)))
        assert len(await pull(store)) == 1


@pytest.mark.parametrize("end", [release, retry])
async def test_a_delayed_retry_does_not_wake_waiters(store: Store, end: Callable[..., Any]) -> None:
    queue_id = await make_queue(store)
    await store.messages.send_batch(DEFAULT, WORK, news(20))
    held = [*await pull(store, limit=20)]
    async with store.wakeups.watch([queue_id]) as watch:

        async def does_not_wake() -> bool:
            await quiet(watch)
            await settle(store, end(held.pop(), delay_seconds=60))
            return not await watch.wait(QUIET_SECONDS)

        # The listener wakes everybody once when it has connected, which may take a while.
        await eventually(does_not_wake, what="a delayed retry that does not wake")


ENDS: dict[str, Callable[[Store, UUID], Awaitable[Any]]] = {
    "deleted": lambda store, head: store.messages.delete(DEFAULT, WORK, head),
    "expired": lambda store, _: store.reaper.reap(SYSTEM, ALL),
}


@pytest.mark.parametrize("way", ["acked", "dead", *ENDS])
async def test_an_unblocked_message_wakes_waiters(
    store: Store, clock: VirtualClock, way: str
) -> None:
    queue_id = await make_queue(store)
    head = await send(store, key="a", expires_after_seconds=10)
    for message in news(2, key="a"):
        await store.messages.send(DEFAULT, WORK, message)

    async def act() -> None:
        if way in ENDS:
            clock.advance(seconds=10)
            await ENDS[way](store, head.id)
        else:
            held = await pull_one(store)
            await settle(store, ack(held) if way == "acked" else dead(held, reason="x"))

    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, act)
        assert len(await pull(store)) == 1


async def test_a_duplicate_that_frees_its_key_wakes_waiters(store: Store) -> None:
    """A claim acks it without running and asks for nothing more."""
    queue_id = await make_queue(store)
    await send(store, event_id="paid-1")
    await settle(store, ack(await pull_one(store)))
    await send(store, event_id="paid-1", key="a")
    await send(store, key="a")
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: pull(store))
        assert (await counts(store)).claimed == 1


async def test_reaping_a_node_wakes_waiters(store: Store, clock: VirtualClock) -> None:
    queue_id = await make_queue(store)
    await send(store)
    await claim_one(store)
    clock.advance(seconds=TTL_SECONDS)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: store.reaper.reap(SYSTEM, ALL))
        assert len(await pull(store)) == 1


async def test_reaping_an_expired_lease_wakes_waiters(store: Store, clock: VirtualClock) -> None:
    queue_id = await make_queue(store)
    await send(store)
    await pull_one(store, lease_seconds=5)
    clock.advance(seconds=5)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: store.reaper.reap(SYSTEM, ALL))
        assert len(await pull(store)) == 1


@pytest.mark.parametrize("way", ["leave", "unknown"])
async def test_releasing_claims_wakes_waiters(store: Store, way: str) -> None:
    queue_id = await make_queue(store)
    await send(store)
    node = await join(store)
    await claim_one(store, node)

    async def act() -> None:
        if way == "leave":
            await store.nodes.leave(SYSTEM, node)
        else:
            await store.nodes.give_back_unknown(SYSTEM, node, [])

    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, act)
        assert len(await pull(store)) == 1
