"""Wake-ups by everything that makes a message ready again, not only by what is sent."""

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
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.store.contract import Store, Watch

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def assert_woken(watch: Watch, act: Callable[[], Awaitable[Any]]) -> None:
    """Whoever waits when it happens is woken by it."""
    await quiet(watch)
    waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
    await act()
    assert await waiting


async def test_a_resumed_queue_wakes(store: Store) -> None:
    queue_id = await make_queue(store)
    await store.queues.pause(DEFAULT, WORK)
    await send(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: store.queues.resume(DEFAULT, WORK))
        assert len(await pull(store)) == 1


@pytest.mark.parametrize("end", [release, retry])
async def test_what_comes_back_at_once_wakes(store: Store, end: Callable[..., Any]) -> None:
    queue_id = await make_queue(store)
    await send(store)
    held = await pull_one(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: settle(store, end(held)))
        assert len(await pull(store)) == 1


@pytest.mark.parametrize("end", [release, retry])
async def test_what_comes_back_later_does_not_wake_before(
    store: Store, end: Callable[..., Any]
) -> None:
    queue_id = await make_queue(store)
    await send(store)
    held = await pull_one(store)
    async with store.wakeups.watch([queue_id]) as watch:
        await quiet(watch)
        await settle(store, end(held, delay_seconds=60))
        assert not await watch.wait(QUIET_SECONDS)


ENDS: dict[str, Callable[[Store, UUID], Awaitable[Any]]] = {
    "deleted": lambda store, head: store.messages.delete(DEFAULT, WORK, head),
    "expired": lambda store, _: store.reaper.reap(SYSTEM, ALL),
}


@pytest.mark.parametrize("way", ["acked", "dead", *ENDS])
async def test_whoever_comes_forward_in_its_key_wakes(
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


async def test_a_double_that_frees_its_key_wakes_for_the_next(store: Store) -> None:
    """It is acked unseen by a claim that asked for no more."""
    queue_id = await make_queue(store)
    await send(store, event_id="paid-1")
    await settle(store, ack(await pull_one(store)))
    await send(store, event_id="paid-1", key="a")
    await send(store, key="a")
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: pull(store))
        assert (await counts(store)).claimed == 1


async def test_what_a_dead_node_held_wakes(store: Store, clock: VirtualClock) -> None:
    queue_id = await make_queue(store)
    await send(store)
    await claim_one(store)
    clock.advance(seconds=TTL_SECONDS)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: store.reaper.reap(SYSTEM, ALL))
        assert len(await pull(store)) == 1


async def test_a_lease_that_ran_out_wakes(store: Store, clock: VirtualClock) -> None:
    queue_id = await make_queue(store)
    await send(store)
    await pull_one(store, lease_seconds=5)
    clock.advance(seconds=5)
    async with store.wakeups.watch([queue_id]) as watch:
        await assert_woken(watch, lambda: store.reaper.reap(SYSTEM, ALL))
        assert len(await pull(store)) == 1


@pytest.mark.parametrize("way", ["leave", "unknown"])
async def test_what_a_node_gives_back_wakes(store: Store, way: str) -> None:
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
