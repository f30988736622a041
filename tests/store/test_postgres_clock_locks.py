"""Clock and tzdata changes on PostgreSQL wait for concurrent plans and see what they wrote."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.conformance.acts import make_queue
from tests.conformance.barriers import SEND, barrier, rival
from tests.conformance.schedule_acts import (
    again,
    messages,
    one_plan,
    shard_of_schedule,
    write,
)
from tests.kit.waiting import eventually
from tests.store.test_postgres_schedule_locks import TAKE_SHARD
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.clock_change import ClockJump
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

BACK = timedelta(hours=-1)
MOVE = "UPDATE ON tickwork_schedules FOR EACH ROW WHEN (NEW.shift <> OLD.shift)"


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """A store on the database, in virtual time."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


async def set_back(store: Store, clock: VirtualClock) -> None:
    """Sets the clock and records the jump."""
    jump = ClockJump(clock.now(), round(BACK.total_seconds() * 1_000_000), 0)
    clock.set_by(seconds=BACK.total_seconds())
    assert await store.shards.set_clock(SYSTEM, jump, 15.0)


async def test_messages_of_a_concurrent_plan_follow_the_clock_change(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    (grant,) = [
        candidate for candidate in leader.grants if candidate.shard == shard_of_schedule(made)
    ]
    await set_back(store, clock)
    async with barrier(home.url, before=SEND) as stop:
        planning = asyncio.create_task(write(store, leader, [decided]))
        await stop.reached()
        following = asyncio.create_task(store.shards.follow_clock(SYSTEM, grant))
        assert not await stop.is_passed_by(following)
        await stop.opens()
        assert (await planning).done == (0,)
        followed = await following
    assert followed is not None
    assert followed.moved == 1
    (message,) = await messages(store, made)
    assert message.slot == message.visible_at == (await again(store, made)).last_slot
    assert message.visible_at < decided.next_slot + BACK + timedelta(seconds=1)
    assert decided.then_slot is not None
    moved = (await again(store, made)).next_slot
    assert moved is not None
    assert moved - decided.then_slot - BACK < timedelta(seconds=1)


async def test_a_plan_that_waited_for_a_clock_change_is_stale(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    (grant,) = [
        candidate for candidate in leader.grants if candidate.shard == shard_of_schedule(made)
    ]
    await set_back(store, clock)
    async with barrier(home.url, before=MOVE) as stop:
        following = asyncio.create_task(store.shards.follow_clock(SYSTEM, grant))
        await stop.reached()
        planning = asyncio.create_task(write(store, leader, [decided]))
        assert not await stop.is_passed_by(planning)
        await stop.opens()
        await following
        result = await planning
    assert (result.done, result.stale) == ((), (0,))
    assert await messages(store, made) == []


async def test_a_leaders_change_that_waited_for_a_new_leader_changes_nothing(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, _ = await one_plan(store, clock)
    (grant,) = [
        candidate for candidate in leader.grants if candidate.shard == shard_of_schedule(made)
    ]
    async with rival(home.url) as taker:
        await taker.does(TAKE_SHARD, grant.shard)
        change = store.schedules.change(
            DEFAULT, made.id, WithdrawScope.NOT_DUE, changing.pause, under=grant
        )
        changing_ = asyncio.create_task(change)
        await eventually(taker.is_waited_for, what="the change waits for the taker")
        await taker.commits()
        assert await changing_ == made
    assert await again(store, made) == made
