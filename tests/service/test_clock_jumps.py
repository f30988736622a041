"""When the database's clock is set, intervals keep their spacing, wall-clock rules follow the new
time, and no slot fires twice."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple, cast
from uuid import UUID

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, make_queue, pull
from tests.conformance.schedule_acts import (
    again,
    create,
    in_shard,
    lead,
    messages,
    rule_of,
    shard_of_schedule,
    update,
)
from tests.kit.contexts import acting
from tests.stores.clock import START, VirtualClock
from tests.stores.home import Home
from tickwork.core import when
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.message import decide
from tickwork.core.message.outcome import Succeeded
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings, Settlement
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.clock_change import NUDGE_MICROSECONDS, ClockJump, ClockReading
from tickwork.core.schedule.model import SHARDS, Schedule
from tickwork.core.schedule.next_slot import AHEAD_SECONDS
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.errors import NodeExpired, StoreUnavailable
from tickwork.ops.schedules import change as schedules
from tickwork.service.observe.schedule_metrics import ScheduleMetrics
from tickwork.service.scheduler import leadership as leadership_module
from tickwork.service.scheduler.database_clock import DatabaseClock
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.testing.checkers import WatchedSchedule, find_violations
from tickwork.testing.recorder import read_history, record

TTL_SECONDS = 15.0
STEP_SECONDS = 5
EVERY = timedelta(seconds=20)
MINUTE = timedelta(minutes=1)
TRIFLE = timedelta(microseconds=NUDGE_MICROSECONDS)
TWENTY: dict[str, Any] = {"interval_seconds": 20}
MINUTELY: dict[str, Any] = {"cron_expr": "* * * * *"}


def on_sqlite(*values: int) -> Any:
    """A case that differs from another one by numbers only."""
    return pytest.param(*values, marks=pytest.mark.one_store("sqlite"))


class Noted(ScheduleMetrics):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.still: list[float] = []

    def clock_jump_dismissed(self, seconds: float) -> None:
        self.still.append(seconds)

    def error_occurred(self, activity: str, error: Exception) -> None:
        raise AssertionError(activity) from error


class Node:
    """A process that leads, on a machine with a clock of its own that nobody can set."""

    def __init__(self, store: Store) -> None:
        self.store, self.id, self.noted = store, new_id(), Noted()
        self.boot_seconds = 0.0
        self.scheduler = Scheduler(
            store,
            Leadership(store, lambda: self.id, is_trusted=lambda: True),
            self.noted,
            monotonic=lambda: self.boot_seconds,
            ttl_seconds=TTL_SECONDS,
        )

    async def join(self) -> None:
        await self.store.nodes.join(
            SYSTEM, self.id, name="node", roles=["scheduler"], ttl_seconds=TTL_SECONDS
        )

    async def step(self) -> None:
        """A turn of its loops. Work is under way when the heartbeat finds that the lease is over:
        nothing may be planned under a clock that was set, even if the shards are still ours."""
        await self.scheduler.plan_due()
        try:
            await self.store.nodes.heartbeat(SYSTEM, self.id, TTL_SECONDS)
        except NodeExpired:
            self.scheduler.forget_node(self.id)
            self.id = new_id()
            await self.join()
        await self.scheduler.hold()
        while await self.scheduler.plan_due():
            pass


class Handled(NamedTuple):
    """A slot that a worker was given; `elapsed` since the beginning, by a clock nobody sets."""

    slot: datetime
    elapsed_seconds: float
    catch_up: bool


class World:
    """One database whose clock may be set, its nodes, and a worker that handles all there is."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store, self.clock = store, clock
        self.elapsed_seconds = 0.0
        self.handled: dict[UUID, list[Handled]] = {}

    async def node(self) -> Node:
        made = Node(self.store)
        await made.join()
        return made

    async def run(self, *nodes: Node, seconds: float) -> None:
        for _ in range(int(seconds // STEP_SECONDS)):
            for node in nodes:
                await node.step()
            await self.handle()
            self.clock.advance(seconds=STEP_SECONDS)
            self.elapsed_seconds += STEP_SECONDS
            for node in nodes:
                node.boot_seconds += STEP_SECONDS

    async def handle(self) -> None:
        found = await pull(self.store, limit=ALL)
        for message in found:
            assert message.schedule_id is not None
            assert message.slot is not None
            given = Handled(message.slot, self.elapsed_seconds, message.catch_up)
            self.handled.setdefault(message.schedule_id, []).append(given)
        endings = [
            decide.settle(message, Succeeded(), QueueSettings(), took_seconds=0.0)
            for message in found
        ]
        if endings:
            await self.store.messages.settle(SYSTEM, Settlement(tuple(endings)))

    def of(self, schedule: Schedule) -> list[Handled]:
        return self.handled.get(schedule.id, [])

    def check_spacing(self, *schedules: Schedule) -> None:
        """They were handed out on time and each slot once, as if no clock had been set."""
        for schedule in schedules:
            given = self.of(schedule)
            assert [one.catch_up for one in given] == [False] * len(given)
            due = [20.0 * (n + 1) for n in range(len(given))]
            late = [one.elapsed_seconds - at for one, at in zip(given, due, strict=True)]
            assert all(0 <= seconds <= STEP_SECONDS for seconds in late), late
            assert 20.0 * (len(given) + 1) > self.elapsed_seconds - 2 * STEP_SECONDS
            assert len({one.slot for one in given}) == len(given)


@pytest.fixture
async def world(store: Store, clock: VirtualClock) -> World:
    await make_queue(store)
    return World(store, clock)


async def anchors(store: Store, *schedules: Schedule) -> set[timedelta]:
    """By how much they count from another instant than at first."""
    now = [await again(store, schedule) for schedule in schedules]
    return {
        schedule.definition.rule.anchor - made.definition.rule.anchor
        for schedule, made in zip(now, schedules, strict=True)
    }


@pytest.mark.parametrize(
    "seconds",
    [
        3_605,
        on_sqlite(-45),
        *(
            pytest.param(jump_seconds, marks=pytest.mark.soak)
            for jump_seconds in (3_600, 41, -3_600, -3_605)
        ),
    ],
)
async def test_intervals_keep_their_spacing_and_the_others_follow_the_clock(
    world: World, home: Home, seconds: int
) -> None:
    await record(home.url)
    store, clock = world.store, world.clock
    made = [await create(store, clock, **TWENTY) for _ in range(6)]
    late: dict[str, Any] = {"missed": {"policy": "fire_late", "cap": 3}}
    cron = await create(store, clock, **MINUTELY, **late)
    node = await world.node()
    await world.run(node, seconds=130)
    jumped_at = clock.now()
    fired = [world.of(schedule)[-1].slot for schedule in made]
    clock.set_by(seconds=seconds)
    await world.run(node, seconds=130)
    world.check_spacing(*made)
    by = timedelta(seconds=seconds) + TRIFLE
    assert await anchors(store, *made) == {by}
    assert node.noted.moved_by_clock == len(made)
    assert len({firing.slot for firing in world.of(cron)}) == len(world.of(cron))
    if seconds < -1_000:
        # What fired does not come again; it goes on when the clock is there once more.
        assert len(world.of(cron)) == 2
    if seconds > 1_000:
        assert sum(firing.catch_up for firing in world.of(cron)) == 3

    until = max(jumped_at, clock.now())
    watched = [WatchedSchedule(id=cron.id, rule=cron.definition.rule, since=START, until=until)]
    for schedule, last in zip(made, fired, strict=True):
        old = schedule.definition.rule
        new = structs.replace(old, anchor=old.anchor + by)
        watched += [
            WatchedSchedule(id=schedule.id, rule=old, since=START, until=last),
            WatchedSchedule(id=schedule.id, rule=new, since=last + by, until=clock.now()),
        ]
    history = await read_history(store, home.url, watched)
    assert find_violations(history) == ()


@pytest.mark.parametrize("first", [-3_600, on_sqlite(3_600)])
async def test_to_and_fro_no_slot_is_met_again_and_none_is_lost(world: World, first: int) -> None:
    made = [await create(world.store, world.clock, **TWENTY) for _ in range(3)]
    node = await world.node()
    await world.run(node, seconds=65)
    for n in range(4):
        world.clock.set_by(seconds=first if n % 2 == 0 else -first)
        await world.run(node, seconds=45 + 10 * n)
    world.check_spacing(*made)
    assert await anchors(world.store, *made) == {4 * TRIFLE}


@pytest.mark.parametrize("seconds", [on_sqlite(3_600), -3_600])
async def test_two_nodes_that_saw_a_jump_move_each_interval_once(
    world: World, seconds: int
) -> None:
    made = [
        await create(world.store, world.clock, schedule_id=in_shard(shard), **TWENTY)
        for shard in range(0, SHARDS, 3)
    ]
    first, second = await world.node(), await world.node()
    await world.run(first, second, seconds=60)
    assert (first.scheduler.leadership.shard_count, second.scheduler.leadership.shard_count) == (
        32,
        32,
    )
    world.clock.set_by(seconds=seconds)
    await world.run(first, second, seconds=60)
    by = timedelta(seconds=seconds) + TRIFLE
    assert await anchors(world.store, *made) == {by}
    assert first.noted.moved_by_clock + second.noted.moved_by_clock == len(made)
    assert (await world.store.shards.clock(SYSTEM)).clock == seconds * 1_000_000
    world.check_spacing(*made)


@pytest.mark.parametrize("seconds", [3_600, on_sqlite(-3_600)])
async def test_of_two_nodes_that_are_about_to_tell_of_a_jump_one_does(
    world: World, seconds: int
) -> None:
    made = await create(world.store, world.clock, **TWENTY)
    first, second = await world.node(), await world.node()
    await world.run(first, second, seconds=60)
    world.clock.set_by(seconds=seconds)

    class Slow:
        """Another one is first."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.store.shards, name)

        async def set_clock(self, *args: Any) -> bool:
            await second.scheduler.hold()
            return await world.store.shards.set_clock(*args)

    class Through:
        shards = Slow()

        def __getattr__(self, name: str) -> Any:
            return getattr(world.store, name)

    first.scheduler._store = cast(Store, Through())
    await first.scheduler.hold()
    first.scheduler._store = world.store
    assert (await world.store.shards.clock(SYSTEM)).clock == seconds * 1_000_000
    assert first.noted.still == second.noted.still == []
    await world.run(first, second, seconds=60)
    by = timedelta(seconds=seconds) + TRIFLE
    assert await anchors(world.store, made) == {by}
    world.check_spacing(made)


@pytest.mark.one_store("sqlite")
async def test_a_machine_that_stood_still_while_others_went_on_moves_nothing(
    world: World,
) -> None:
    made = [
        await create(world.store, world.clock, schedule_id=in_shard(shard), **TWENTY)
        for shard in range(0, SHARDS, 3)
    ]
    awake, paused = await world.node(), await world.node()
    await world.run(awake, paused, seconds=60)
    await world.run(awake, seconds=90)
    await world.run(awake, paused, seconds=60)
    assert paused.noted.still == [90.0]
    assert (paused.noted.moved_by_clock, awake.noted.moved_by_clock, awake.noted.clock_jumps) == (
        0,
        0,
        0,
    )
    assert await anchors(world.store, *made) == {timedelta()}
    assert (await world.store.shards.clock(SYSTEM)).clock == 0
    for schedule in made:
        assert len({one.slot for one in world.of(schedule)}) == len(world.of(schedule)) == 10


async def test_a_step_that_leases_live_through_moves_nothing(world: World) -> None:
    """It cannot be told from a machine that stood still, and a grace is longer."""
    made = await create(world.store, world.clock, **TWENTY)
    node = await world.node()
    await world.run(node, seconds=60)
    world.clock.set_by(seconds=12)
    await world.run(node, seconds=60)
    assert (node.noted.clock_jumps, node.noted.moved_by_clock) == (1, 0)
    assert await anchors(world.store, made) == {timedelta()}
    slots = [firing.slot for firing in world.of(made)]
    assert slots == [START + n * EVERY for n in range(1, len(slots) + 1)]


@pytest.mark.one_store("sqlite")
async def test_who_came_after_a_jump_and_knew_nothing_of_it_is_not_moved_again(
    world: World,
) -> None:
    """The shards that it took have gone on in the new time; the others follow."""
    store, clock = world.store, world.clock
    made = [
        await create(store, clock, schedule_id=in_shard(shard), **TWENTY)
        for shard in range(0, SHARDS, 3)
    ]
    old = await world.node()
    await world.run(old, seconds=60)
    clock.set_by(seconds=3_600)
    new = await world.node()
    await new.step()
    unaware = {grant.shard for grant in new.scheduler.leadership.grants}
    assert len(unaware) == SHARDS
    await world.run(old, new, seconds=120)
    assert (await store.shards.clock(SYSTEM)).clock == 3_600_000_000
    assert await anchors(store, *made) == {timedelta()}
    assert old.noted.moved_by_clock + new.noted.moved_by_clock == 0
    for schedule in made:
        given = world.of(schedule)
        assert len({one.slot for one in given}) == len(given)
        assert [one for one in given if one.elapsed_seconds > 100 and not one.catch_up]


async def test_a_fixed_delay_is_counted_on(world: World) -> None:
    made = await create(world.store, world.clock, interval_mode="fixed_delay", **TWENTY)
    node = await world.node()
    for seconds in (3_600, -3_600):
        await world.run(node, seconds=65)
        world.clock.set_by(seconds=seconds)
    await world.run(node, seconds=65)
    given = [firing.elapsed_seconds for firing in world.of(made)]
    gaps = [after - earlier for earlier, after in pairwise(given)]
    assert all(20 <= gap <= 20 + STEP_SECONDS for gap in gaps), gaps
    assert len(given) >= 7
    assert not any(firing.catch_up for firing in world.of(made))


async def test_bounds_are_times_on_the_wall(world: World) -> None:
    store, clock = world.store, world.clock
    start, end = clock.now() + timedelta(hours=2), clock.now() + timedelta(minutes=61)
    later = await create(store, clock, start_at=start.isoformat(), **TWENTY)
    ending = await create(store, clock, end_at=end.isoformat(), **TWENTY)
    node = await world.node()
    await world.run(node, seconds=60)
    clock.set_by(seconds=3_600)
    await world.run(node, seconds=60)
    assert await again(store, later) == later
    # What was planned already still fires.
    assert [firing.slot for firing in world.of(ending)][-1] <= end + timedelta(
        seconds=AHEAD_SECONDS
    )
    assert (await again(store, ending)).status == "completed"


@pytest.mark.parametrize("seconds", [3_600, -3_600])
async def test_what_is_planned_becomes_due_when_it_would_have_been(
    world: World, seconds: int
) -> None:
    store, clock = world.store, world.clock
    made = await create(store, clock, interval_seconds=60, expires_after_seconds=100)
    node = await world.node()
    clock.advance(seconds=40)
    node.boot_seconds += 40
    await node.step()
    (planned,) = await messages(store, made)
    clock.set_by(seconds=seconds)
    await node.step()
    (now,) = await messages(store, made)
    by = timedelta(seconds=seconds) + TRIFLE
    assert planned.slot == planned.visible_at
    assert now.slot == now.visible_at == planned.visible_at + by
    assert now.due_at == now.visible_at
    assert await pull(store) == ()
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 0


@pytest.mark.parametrize("seconds", [3_600, -3_600])
async def test_what_began_after_a_jump_is_not_moved_by_it(world: World, seconds: int) -> None:
    """The leader is late: before it follows the clock there are new schedules, and a run ends."""
    store, clock = world.store, world.clock
    delayed = await create(store, clock, interval_seconds=300, interval_mode="fixed_delay")
    node = await world.node()
    await world.run(node, seconds=295)
    clock.set_by(seconds=seconds)
    new = await create(store, clock, interval_seconds=600)
    if seconds > 0:
        await world.handle()
    ended = await again(store, delayed)
    await node.step()
    assert node.noted.clock_jumps == 1
    assert await again(store, new) == new
    if seconds > 0:
        assert ended.next_slot == clock.now() + timedelta(seconds=300)
        assert await again(store, delayed) == ended


async def test_a_change_writes_down_from_when_an_interval_counts(world: World) -> None:
    store, clock = world.store, world.clock
    made = await create(store, clock, **TWENTY)
    node = await world.node()
    await world.run(node, seconds=30)
    clock.set_by(seconds=-3_600)
    await world.run(node, seconds=30)
    moved = await again(store, made)
    changed = await update(store, moved, body=b"{}")
    assert changed.definition.rule == moved.definition.rule
    assert changed.next_slot == moved.next_slot
    assert await again(store, made) == changed
    await world.run(node, seconds=60)
    world.check_spacing(made)
    other = rule_of(clock, made.id, interval_seconds=40)
    anew = await update(store, await again(store, made), other)
    assert (await again(store, made)).definition.rule == other == anew.definition.rule


@pytest.mark.parametrize(
    ("seconds", "later"),
    [
        (3_600, 5),
        (-3_610, 30),
        *map(on_sqlite, (3_600, -3_600, -3_600, -3_610), (30, 5, 30, 5)),
    ],
)
async def test_a_change_soon_after_a_jump_loses_no_slot_and_makes_none_up(
    world: World, seconds: int, later: int
) -> None:
    """What was planned before the jump is on the grid that it is compared with."""
    store, clock = world.store, world.clock
    made = [await create(store, clock, **TWENTY) for _ in range(2)]
    changed, paused = made
    node = await world.node()
    await world.run(node, seconds=30)
    clock.set_by(seconds=seconds)
    await world.run(node, seconds=later)
    await update(store, await again(store, changed), body=b"{}")
    await store.schedules.change(DEFAULT, paused.id, WithdrawScope.UNCLAIMED, changing.pause)
    resume = changing.resume((await again(store, paused)).definition.rule)
    await store.schedules.change(DEFAULT, paused.id, WithdrawScope.NOTHING, resume)
    await world.run(node, seconds=90)
    world.check_spacing(*made)
    for schedule in made:
        found = await store.firings.list(DEFAULT, schedule.id, LIST_LIMIT_MAX)
        assert [one.reason for one in found if one.reason] == []
        assert (await again(store, schedule)).fired - len(found) == len(
            await messages(store, schedule)
        )


@pytest.mark.parametrize("later", [0, on_sqlite(400)])
async def test_a_change_that_did_not_set_the_next_slot_anew_keeps_nothing_back(
    world: World, later: int
) -> None:
    """Changed just after the jump, or before it at a time that comes again until it is followed."""
    store, clock = world.store, world.clock
    made = await create(store, clock, **TWENTY)
    node = await world.node()
    await world.run(node, seconds=30)
    clock.advance(seconds=600)
    node.boot_seconds += 600
    await world.run(node, seconds=30)
    await update(store, await again(store, made), body=b"1")
    await world.run(node, seconds=200)
    clock.set_by(seconds=-500)
    if later:
        await node.scheduler._read_clock()
        clock.advance(seconds=later)
        node.boot_seconds += later
    else:
        await update(store, await again(store, made), body=b"2")
    await world.run(node, seconds=30)
    assert await anchors(store, made) == {timedelta(seconds=-500) + TRIFLE}
    moved = (await again(store, made)).next_slot
    assert moved is not None
    assert moved < clock.now() + 3 * EVERY


async def wait_unclaimed(world: World, node: Node, seconds: int) -> None:
    """Time passes, and no worker is there."""
    for _ in range(seconds // STEP_SECONDS):
        await node.step()
        world.clock.advance(seconds=STEP_SECONDS)
        node.boot_seconds += STEP_SECONDS


@pytest.mark.parametrize("seconds", [on_sqlite(60), -60])
async def test_what_waits_for_longer_than_a_jump_follows_it(world: World, seconds: int) -> None:
    """Each of its slots is moved to where another one was."""
    store, clock = world.store, world.clock
    made = await create(store, clock, **TWENTY)
    node = await world.node()
    await wait_unclaimed(world, node, 200)
    planned = [message.slot for message in await messages(store, made)]
    assert len(planned) >= 10
    clock.set_by(seconds=seconds)
    await node.step()
    by = timedelta(seconds=seconds) + TRIFLE
    now = [message.slot for message in await messages(store, made)]
    assert now[: len(planned)] == [slot + by for slot in planned if slot is not None]


async def test_a_slot_that_is_taken_is_not_taken_again(world: World) -> None:
    """An interval that counts from a round time again meets what an earlier jump left."""
    store, clock = world.store, world.clock
    made = await create(store, clock, **TWENTY)
    node = await world.node()
    await wait_unclaimed(world, node, 80)
    clock.set_by(seconds=-60)
    await node.step()
    start = (START - timedelta(minutes=1)).isoformat()
    other = rule_of(clock, made.id, start_at=start, **TWENTY)
    await update(store, await again(store, made), other)
    await wait_unclaimed(world, node, 80)
    begun = [message.slot for message in await pull(store, limit=2)]
    waiting = [message.slot for message in await messages(store, made) if message.slot not in begun]
    clock.set_by(seconds=-60)
    await wait_unclaimed(world, node, STEP_SECONDS)
    now = {message.slot: message.visible_at for message in await messages(store, made)}
    by = TRIFLE - MINUTE
    kept = [slot for slot in waiting if slot is not None and slot + by in begun]
    assert [now[slot] - slot for slot in kept] == [by]
    assert {*begun, *kept} <= now.keys()
    assert (await again(store, made)).definition.rule.anchor == other.anchor - MINUTE + TRIFLE


@pytest.mark.parametrize("is_paused", [False, True])
async def test_an_interval_that_is_made_another_after_a_jump_back_goes_on_at_once(
    world: World, is_paused: bool
) -> None:
    store, clock = world.store, world.clock
    made = await create(store, clock, **TWENTY)
    bounded = await create(store, clock, **TWENTY)
    node = await world.node()
    await world.run(node, seconds=30)
    if is_paused:
        for schedule in (made, bounded):
            await store.schedules.change(
                DEFAULT, schedule.id, WithdrawScope.UNCLAIMED, changing.pause
            )
    clock.set_by(seconds=-3_600)
    await world.run(node, seconds=30)
    other = rule_of(clock, made.id, interval_seconds=40)
    anew = await update(store, await again(store, made), other)
    assert anew.next_slot == clock.now() + timedelta(seconds=40)
    if is_paused:
        return
    now = await again(store, bounded)
    ends = structs.replace(now.definition.rule, end_at=START + timedelta(days=1))
    assert (await update(store, now, ends)).next_slot == now.next_slot
    await world.run(node, seconds=60)
    world.check_spacing(bounded)


async def test_an_interval_with_a_start_stays_off_the_slots_of_before(world: World) -> None:
    """They come again after a jump back; the start is a time on the wall, and stays."""
    store, clock = world.store, world.clock
    start = (START - timedelta(hours=2)).isoformat()
    made = await create(store, clock, start_at=start, **TWENTY)
    node = await world.node()
    await world.run(node, seconds=65)
    clock.set_by(seconds=-30)
    await world.run(node, seconds=STEP_SECONDS)
    moved = (await again(store, made)).definition.rule
    assert moved.anchor == made.definition.rule.anchor - timedelta(seconds=30) + TRIFLE
    patches: list[tuple[dict[str, Any], timedelta]] = [
        ({"priority": 3}, moved.anchor - made.definition.rule.anchor),
        ({"interval_seconds": 10}, TRIFLE),
        ({"start_at": (START - timedelta(hours=1)).isoformat()}, TRIFLE),
    ]
    for patch, by in patches:
        now = await schedules.update(acting(store, DEFAULT, limits=when.Limits(1)), made.id, patch)
        rule = now.definition.rule
        assert rule.start_at is not None
        assert rule.anchor == rule.start_at + by
        assert now.next_slot is not None
        assert now.next_slot - clock.now() <= 2 * EVERY, "one is planned already"
    await world.run(node, seconds=60)
    slots = [firing.slot for firing in world.of(made)]
    assert len({*slots}) == len(slots) >= 8


@pytest.mark.parametrize("seconds", [-16, -3_600, *map(on_sqlite, (-20, -29, -31))])
async def test_a_lease_that_was_renewed_after_a_jump_back_is_not_shortened(
    world: World, seconds: int
) -> None:
    node, other = await world.node(), await world.node()
    await world.run(node, other, seconds=30)
    world.clock.set_by(seconds=seconds)
    await world.store.nodes.heartbeat(SYSTEM, other.id, TTL_SECONDS)
    world.clock.advance(seconds=0.5)
    node.boot_seconds += 0.5
    await node.scheduler.hold()
    assert node.noted.clock_jumps == 1
    world.clock.advance(seconds=TTL_SECONDS - 1)
    await world.store.nodes.heartbeat(SYSTEM, other.id, TTL_SECONDS)


async def test_catch_ups_do_not_wait_for_the_time_before_a_jump_back(world: World) -> None:
    store, clock = world.store, world.clock
    made = await create(store, clock, interval_seconds=300)
    node = await world.node()
    for seconds in (0, -3_600):
        clock.set_by(seconds=seconds)
        await world.run(node, seconds=30)
        clock.advance(seconds=900)
        node.boot_seconds += 900
        given = len(world.of(made))
        await world.run(node, seconds=30)
        assert sum(firing.catch_up for firing in world.of(made)[given:]) >= 2


async def test_a_node_that_stops_half_way_leaves_the_rest_to_the_next(world: World) -> None:
    store, clock = world.store, world.clock
    made = [
        await create(store, clock, schedule_id=in_shard(shard), **TWENTY) for shard in range(20)
    ]
    node = await world.node()
    await world.run(node, seconds=60)

    class Dying:
        """The database is away after some shards."""

        left = 7

        def __getattr__(self, name: str) -> Any:
            return getattr(store.shards, name)

        async def follow_clock(self, *args: Any) -> Any:
            if not self.left:
                raise StoreUnavailable("gone")
            self.left -= 1
            return await store.shards.follow_clock(*args)

    class Through:
        shards = Dying()

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    clock.set_by(seconds=-3_600)
    node.scheduler.leadership._store = cast(Store, Through())
    with pytest.raises(StoreUnavailable):
        await node.step()
    before_end = Counter([*await anchors_of(store, made)])
    assert before_end == {timedelta(): 13, timedelta(hours=-1) + TRIFLE: 7}
    node.scheduler.leadership._store = store
    await world.run(node, seconds=60)
    assert await anchors(store, *made) == {timedelta(hours=-1) + TRIFLE}
    world.check_spacing(*made)


async def test_very_many_follow_in_pieces_and_nothing_is_planned_before_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_module, "MOVE_BATCH_MAX", 3)
    store, clock = world.store, world.clock
    made = [
        await create(store, clock, schedule_id=in_shard(shard), **TWENTY) for shard in range(12)
    ]
    node = await world.node()
    await world.run(node, seconds=60)
    clock.set_by(seconds=3_600)
    held = []
    for _ in range(5):
        await node.step()
        held.append(node.scheduler.leadership.shard_count)
    assert held == sorted(held)
    assert held[0] < held[-1] == SHARDS
    await world.run(node, seconds=60)
    assert await anchors(store, *made) == {timedelta(hours=1) + TRIFLE}
    world.check_spacing(*made)


async def anchors_of(store: Store, schedules: list[Schedule]) -> list[timedelta]:
    return [delta for schedule in schedules for delta in await anchors(store, schedule)]


async def test_who_lost_the_shard_moves_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock, **TWENTY)
    first = await lead(store)
    jump = ClockJump(clock.now(), -3_600_000_000, 0)
    clock.set_by(seconds=-3_600)
    assert await store.shards.set_clock(SYSTEM, jump, TTL_SECONDS)
    assert not await store.shards.set_clock(SYSTEM, jump, TTL_SECONDS), "it is known already"
    (grant,) = [
        candidate for candidate in first.grants if candidate.shard == shard_of_schedule(made)
    ]
    await store.nodes.leave(SYSTEM, first.node)
    second = await lead(store)
    assert await store.shards.follow_clock(SYSTEM, grant) is None
    assert await again(store, made) == made
    (newer,) = [
        candidate for candidate in second.grants if candidate.shard == shard_of_schedule(made)
    ]
    for moved in (1, 0):
        followed = await store.shards.follow_clock(SYSTEM, newer)
        assert followed is not None
        assert (followed.clock, followed.moved) == (-3_600_000_000, moved)
        assert (await again(store, made)).version == made.version + 1


class Told:
    """A database that says what it is told to."""

    def __init__(self) -> None:
        self.now, self.clock_sum = START, 0
        self.boot_seconds = 0.0
        self.slow_seconds = list[float]()

    @property
    def shards(self) -> Told:
        return self

    async def clock(self, _: Any) -> ClockReading:
        if self.slow_seconds:
            self.boot_seconds += self.slow_seconds[0]
            self.now += timedelta(seconds=self.slow_seconds.pop(0))
        return ClockReading(self.now, self.clock_sum)


@pytest.mark.parametrize(
    ("moved", "passed", "expected"),
    [(10, 10, []), (14, 10, []), (16, 10, [6]), (3_610, 10, [3_600]), (-3_590, 10, [-3_600])],
)
async def test_a_clock_that_is_set_is_noticed(
    moved: float, passed: float, expected: list[float]
) -> None:
    told, seen = Told(), list[float]()
    clock = DatabaseClock(cast(Store, told), seen.append, lambda: told.boot_seconds)
    assert await clock.now() == START
    told.now, told.boot_seconds = START + timedelta(seconds=moved), passed
    assert await clock.now() == told.now
    assert seen == expected
    jump = None if not expected else ClockJump(START, round(expected[0] * 1_000_000), 0)
    assert clock.jump == jump
    await clock.now()
    assert clock.jump == jump, "as long as nobody knows of it"
    told.clock_sum = 0 if jump is None else jump.microseconds
    await clock.now()
    assert clock.jump is None
    assert seen == expected


async def test_of_a_jump_that_is_known_in_part_the_rest_is_left() -> None:
    """Two jumps while we were asleep, of which another node told the first."""
    told = Told()
    clock = DatabaseClock(cast(Store, told), lambda _: None, lambda: told.boot_seconds)
    await clock.now()
    told.now, told.clock_sum = START + timedelta(seconds=3_700), 3_600_000_000
    await clock.now()
    assert [clock.jump] == [ClockJump(START, 100_000_000, 3_600_000_000)]
    clock.dismiss()
    assert [clock.jump] == [None]
    await clock.now()
    assert [clock.jump] == [None]


async def test_a_slow_answer_is_no_jump() -> None:
    told, seen = Told(), list[float]()
    told.slow_seconds = [0, 60, 0, 60, 60]
    clock = DatabaseClock(cast(Store, told), seen.append, lambda: told.boot_seconds)
    while told.slow_seconds:
        await clock.now()
    assert seen == []


async def test_a_node_that_died_before_a_jump_back_stays_dead(world: World) -> None:
    """By the clock its lease would be good for another hour."""
    made = [
        await create(world.store, world.clock, schedule_id=in_shard(shard), **TWENTY)
        for shard in range(0, SHARDS, 3)
    ]
    alive, dead = await world.node(), await world.node()
    await world.run(alive, dead, seconds=60)
    await world.run(alive, seconds=STEP_SECONDS)
    world.clock.set_by(seconds=-3_600)
    await world.run(alive, seconds=TTL_SECONDS + STEP_SECONDS)
    assert alive.scheduler.leadership.shard_count == SHARDS
    assert await anchors(world.store, *made) == {timedelta(hours=-1) + TRIFLE}
