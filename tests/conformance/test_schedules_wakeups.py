"""Wake-ups of leaders by changes to schedules, and of consumers by visible messages.

Between processes on SQLite only messages wake; leaders there poll.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.acts import make_queue
from tests.conformance.schedule_acts import (
    Leader,
    create,
    end_next,
    join_scheduler,
    lead,
    pause,
    plan_all,
    plan_now,
    resume,
    trigger,
)
from tests.conformance.test_wakeups import SOON_SECONDS, quiet
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store
from tickwork.store.ids import SCHEDULES_TOPIC

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def woken(listener: Store, topic: UUID, act: Callable[[], Awaitable[Any]]) -> bool:
    """Whether a watch on the topic is woken."""
    async with listener.wakeups.watch([topic]) as watch:
        await quiet(watch)
        waiting = asyncio.create_task(watch.wait(SOON_SECONDS))
        await asyncio.sleep(0)
        await act()
        return await waiting


async def test_a_new_schedule_wakes_the_leaders(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    assert await woken(store, SCHEDULES_TOPIC, lambda: create(store, clock, interval_seconds=10))


async def test_a_change_wakes_the_leaders(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await pause(store, await create(store, clock, interval_seconds=10))
    assert await woken(store, SCHEDULES_TOPIC, lambda: resume(store, made))


async def test_shards_given_up_wake_the_other_leaders(store: Store) -> None:
    first = await lead(store)
    assert await woken(store, SCHEDULES_TOPIC, lambda: store.shards.give_up(SYSTEM, first.node))
    await store.shards.come_back(SYSTEM, first.node)
    await store.shards.hold(SYSTEM, first.node)
    await join_scheduler(store)
    assert await woken(store, SCHEDULES_TOPIC, lambda: store.shards.hold(SYSTEM, first.node))


async def test_the_end_of_a_run_wakes_the_leaders_of_a_fixed_delay(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await create(store, clock, interval_seconds=10, interval_mode="fixed_delay")
    clock.advance(seconds=10)
    await plan_now(store, clock)
    assert await woken(store, SCHEDULES_TOPIC, lambda: end_next(store))


async def test_a_plan_wakes_the_consumers_of_what_is_due(store: Store, clock: VirtualClock) -> None:
    queue = await make_queue(store)
    made = await create(store, clock)
    clock.advance(seconds=60)
    leader: Leader = await lead(store)
    assert await woken(store, queue, lambda: plan_all(store, clock, leader))
    assert await woken(store, queue, lambda: trigger(store, made))
