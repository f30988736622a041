"""The scheduler: every due slot is planned once, and a bad schedule does not affect others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, counts, make_queue
from tests.conformance.schedule_acts import (
    again,
    create,
    end_next,
    in_shard,
    join_scheduler,
    messages,
    new_schedule,
    pause,
    records,
    resume,
    shard_of_schedule,
    slots,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.schedule.model import SHARDS, ScheduleStatus
from tickwork.core.schedule.plan import DueSchedule, Plan, plan
from tickwork.core.schedule.shards import Grant
from tickwork.errors import StoreBroken
from tickwork.ops.cluster import reshard
from tickwork.ops.schedules.views import next_fire_in_row
from tickwork.service.observe.schedule_metrics import ScheduleMetrics
from tickwork.service.scheduler import scheduler as schedulers
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import NO_QUEUE, Scheduler
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


class Noted(ScheduleMetrics):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Any, ...]] = []

    def shard_stalled(self, shard: int, overdue_seconds: float) -> None:
        self.told.append(("stalled", shard, overdue_seconds))

    def schedule_parked(self, tenant: str, schedule_id: UUID, error: str) -> None:
        self.told.append(("parked", tenant, schedule_id, error))

    def error_occurred(self, activity: str, error: Exception) -> None:
        raise AssertionError(activity) from error


class Post:
    """A scheduler on a store under a virtual clock, whose loops are not running."""

    def __init__(self, store: Store, clock: VirtualClock, node: UUID) -> None:
        self.node, self.is_trusted, self.noted = node, True, Noted()
        start = clock.now()
        leadership = Leadership(store, lambda: self.node, is_trusted=lambda: self.is_trusted)
        self.scheduler = Scheduler(
            store,
            leadership,
            self.noted,
            monotonic=lambda: (clock.now() - start).total_seconds(),
        )

    async def run(self) -> int:
        """One turn of its loop: how many schedules moved on."""
        await self.scheduler.hold()
        return await self.scheduler.plan_due()


@pytest.fixture
async def post(store: Store, clock: VirtualClock) -> Post:
    await make_queue(store)
    return Post(store, clock, await join_scheduler(store))


async def test_what_is_due_is_planned_and_nothing_else(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    made = [await create(store, clock, interval_seconds=number) for number in (60, 3_600)]
    clock.advance(seconds=30)
    assert await post.run() == 1
    assert [len(await slots(store, schedule)) for schedule in made] == [1, 0]
    assert await post.run() == 0
    assert dict(post.noted.slots) == {}  # What becomes of it is not known yet.
    assert (post.noted.shards_owned, post.noted.shards_lost) == (SHARDS, 0)


async def test_many_more_than_fit_in_one_look_are_planned_each_once(
    store: Store, clock: VirtualClock, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedulers, "DUE_BATCH_MAX", 50)
    await store.schedules.create_bulk(DEFAULT, [new_schedule(clock) for _ in range(700)])
    clock.advance(seconds=60)
    assert await post.run() == 700
    assert (await counts(store)).ready == 700


async def test_a_schedule_that_cannot_be_planned_is_parked_and_its_shard_goes_on(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    good, bad = (new_schedule(clock, schedule_id=in_shard(5), cron_expr="* * * * *") for _ in "12")
    rule = structs.replace(bad.definition.rule, timezone="Mars/Olympus_Mons")
    bad = structs.replace(bad, definition=structs.replace(bad.definition, rule=rule))
    made = await store.schedules.create(DEFAULT, [good, bad])
    clock.advance(seconds=60)
    await post.run()
    fine, parked = [await again(store, schedule) for schedule in made]
    assert (fine.status, fine.fired) == (ScheduleStatus.ACTIVE, 1)
    assert (parked.status, parked.fired) == (ScheduleStatus.PARKED, 0)
    assert parked.last_error is not None
    assert "Mars/Olympus_Mons" in parked.last_error
    assert await records(store, parked) == [("skipped", "plan_error", 1)]
    assert post.noted.told == [("parked", "default", parked.id, parked.last_error)]
    assert post.noted.slots["plan_error"] == 1


async def test_a_schedule_whose_queue_is_gone_is_parked_and_says_so(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    await make_queue(store, "other")
    lost, fine = await create(store, clock, queue="other"), await create(store, clock)
    await store.queues.delete(DEFAULT, "other")
    clock.advance(seconds=60)
    await post.run()
    parked = await again(store, lost)
    assert (parked.status, parked.last_error) == (ScheduleStatus.PARKED, NO_QUEUE)
    assert (await again(store, fine)).fired == 1


class Picky:
    """A store that will not have the plans of some schedules, as if a value of theirs could not be
    stored; all else is the store's own."""

    def __init__(self, store: Store) -> None:
        self._store, self.refused = store, set[UUID]()
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return self if name == "schedules" else getattr(self._store, name)

    async def due(self, *args: Any) -> Any:
        return await self._store.schedules.due(*args)

    async def plan(self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]) -> Any:
        self.calls += 1
        if any(new_plan.id in self.refused and new_plan.error is None for new_plan in plans):
            raise StoreBroken("the value is out of range")
        return await self._store.schedules.plan(scope, grants, plans)


async def test_a_plan_that_the_database_refuses_is_found_and_parked(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    picky = Picky(store)
    post = Post(cast(Store, picky), clock, await join_scheduler(store))
    made = [await create(store, clock) for _ in range(40)]
    bad = made[17]
    picky.refused.add(bad.id)
    clock.advance(seconds=60)
    assert await post.run() == 40
    parked = await again(store, bad)
    assert parked.status is ScheduleStatus.PARKED
    assert parked.last_error == "StoreBroken: the value is out of range"
    assert (await counts(store)).ready == 39
    assert picky.calls < 20


async def test_a_database_that_takes_nothing_parks_nobody(
    store: Store, clock: VirtualClock
) -> None:
    class Broken(Picky):
        async def plan(self, *_: Any) -> Any:
            raise StoreBroken("the disk is full")

    await make_queue(store)
    post = Post(cast(Store, Broken(store)), clock, await join_scheduler(store))
    made = await create(store, clock)
    clock.advance(seconds=60)
    with pytest.raises(StoreBroken, match="the disk is full"):
        await post.run()
    assert await again(store, made) == made


async def test_without_trust_nothing_is_planned(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    made = await create(store, clock)
    clock.advance(seconds=60)
    await post.scheduler.hold()
    post.is_trusted = False
    assert await post.scheduler.plan_due() == 0
    assert await slots(store, made) == []
    post.is_trusted = True
    assert await post.scheduler.plan_due() == 1


async def test_trust_that_runs_out_while_deciding_is_noticed(
    store: Store, clock: VirtualClock, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await create(store, clock)
    clock.advance(seconds=60)
    await post.scheduler.hold()

    def slow(due: DueSchedule, now: datetime) -> Plan:
        post.is_trusted = False
        return plan(due, now)

    monkeypatch.setattr(schedulers, "plan", slow)
    assert await post.scheduler.plan_due() == 0
    assert await slots(store, made) == []


async def test_a_leader_that_was_taken_over_finds_out_and_doubles_nothing(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    await store.nodes.leave(SYSTEM, post.node)
    post.node = await join_scheduler(store, ttl_seconds=15)
    await post.scheduler.hold()
    made = await create(store, clock)
    clock.advance(seconds=40)  # It was frozen, and its lease is over.
    heir = Post(store, clock, await join_scheduler(store))
    assert await heir.run() == 1
    (first,) = await messages(store, made)
    clock.advance(seconds=60)
    assert await post.scheduler.plan_due() == 0
    shard = shard_of_schedule(made)
    assert shard not in {grant.shard for grant in post.scheduler.leadership.grants}
    assert post.scheduler.leadership.lost == 1
    assert [message.id for message in await messages(store, made)] == [first.id]
    assert await heir.run() == 1
    assert len(await messages(store, made)) == 2


async def test_two_leaders_share_the_work_and_double_nothing(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    other = Post(store, clock, await join_scheduler(store))
    await store.schedules.create_bulk(DEFAULT, [new_schedule(clock) for _ in range(300)])
    for leader in (post, other, post, other):
        await leader.scheduler.hold()
    clock.advance(seconds=60)
    numbers = [await leader.scheduler.plan_due() for leader in (post, other)]
    assert sum(numbers) == 300
    assert min(numbers) > 75
    assert (await counts(store)).ready == 300


async def test_each_slot_fires_once_while_the_number_of_shards_changes(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    other = Post(store, clock, await join_scheduler(store))
    made = [await create(store, clock) for _ in range(20)]
    for count in (8, 8, 256, 1, 64):
        await reshard(store, count, wait_seconds=0)
        for runs in (post, other, post):  # One of them notices the change later than the other.
            clock.advance(seconds=20)
            await runs.run()
    clock.advance(seconds=60)
    for runs in (post, other, post, other):
        await runs.run()
    expected = [made[0].created_at + timedelta(seconds=60 * number) for number in range(1, 7)]
    for schedule in made:
        found = await slots(store, schedule)
        assert [*found[:6]] == expected
        assert len({*found}) == len(found)
    assert [*await store.shards.behind(SYSTEM, clock.now())] == []
    assert post.scheduler.leadership.shard_count == SHARDS // 2


async def test_catch_ups_are_paced_over_all_schedules(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    made = [await create(store, clock, missed={"cap": 3}) for _ in range(4)]
    clock.advance(seconds=3_600)
    await post.run()
    late = [
        message
        for schedule in made
        for message in await messages(store, schedule)
        if message.catch_up
    ]
    assert len(late) == 12
    behind = sorted(message.visible_at - clock.now() for message in late)
    assert behind == [timedelta(milliseconds=number) for number in range(12)]
    assert dict(post.noted.slots) == {"skipped_missed": 4 * (60 - 3 - 2)}


async def test_a_shard_with_work_that_nobody_does_is_told(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    made = await create(store, clock)
    await create(store, clock, interval_seconds=100_000)
    await make_queue(store, "alerts")
    await store.subscriptions.put(DEFAULT, "shard.*", "alerts")
    await post.scheduler.hold()
    clock.advance(seconds=60 + 30)
    await post.scheduler._check_stalls()
    assert post.noted.told == []
    for overdue in (31.0, 32.0):
        clock.advance(seconds=1)
        await post.scheduler._check_stalls()
        assert post.noted.told.pop() == ("stalled", shard_of_schedule(made), overdue)
    (event,) = await store.messages.peek(DEFAULT, "alerts", 10)
    assert event.type == "shard.stalled"


async def test_a_slot_that_became_known_just_now_is_neither_a_stall_nor_a_lag(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    """A fixed delay's next slot is known only when a run ends, perhaps seconds before it is due."""
    made = await create(store, clock, interval_seconds=5, interval_mode="fixed_delay")
    clock.advance(seconds=5)
    await post.run()
    clock.advance(seconds=600)
    await end_next(store)
    clock.advance(seconds=2)
    await post.scheduler._idle_seconds()
    assert post.noted.oldest_overdue_seconds == 2
    for seconds in (4, 29):
        clock.advance(seconds=seconds)
        await post.scheduler._check_stalls()
        assert post.noted.told == [], "it is 30 seconds late at most"
    clock.advance(seconds=1)
    await post.scheduler._check_stalls()
    assert post.noted.told == [("stalled", shard_of_schedule(made), 31.0)]


async def test_a_resumed_schedule_is_no_stall(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    made = await create(store, clock, interval_seconds=10)
    await pause(store, made)
    clock.advance(seconds=600)
    await resume(store, await again(store, made))
    await post.scheduler.hold()
    clock.advance(seconds=40)
    await post.scheduler._check_stalls()
    assert post.noted.told == [], "its next slot is 30 seconds late at most"


async def test_a_shard_of_another_that_stands_still_is_told_once(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    """By all who see it, as one; also by who leads nothing, and of a shard that nobody leads."""
    made = await create(store, clock)
    await make_queue(store, "alerts")
    await store.subscriptions.put(DEFAULT, "shard.*", "alerts")
    await post.scheduler.hold()
    others = [Post(store, clock, new_id()) for _ in range(2)]
    clock.advance(seconds=60 + 31)
    for other in others:
        await other.scheduler._sweep_and_check()
        assert other.noted.told == [], "it may be moving"
    clock.advance(seconds=5)
    await store.nodes.leave(SYSTEM, post.node)
    for other in (*others, *others):
        await other.scheduler._sweep_and_check()
    for other in others:
        assert other.noted.told == [("stalled", shard_of_schedule(made), 36.0)]
    assert len(await store.messages.peek(DEFAULT, "alerts", 10)) == 1


async def test_a_backlog_that_is_worked_off_is_for_its_leader_to_tell(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    for seconds in (3_600, 3_610, 3_620):
        await create(store, clock, interval_seconds=seconds, schedule_id=in_shard(3))
    other = Post(store, clock, new_id())
    await post.scheduler.hold()
    clock.advance(seconds=4_000)
    await post.scheduler.hold()
    for _ in range(3):
        await other.scheduler._check_stalls()
        (oldest,) = await store.schedules.due(SYSTEM, [3], 1)
        await store.schedules.plan(
            SYSTEM, post.scheduler.leadership.grants, [plan(oldest, clock.now())]
        )
    assert other.noted.told == []


async def test_a_stall_is_one_event_while_a_backlog_is_worked_off(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    """The oldest that waits is another one each time; after all is done the next stall is told."""
    for seconds in (3_600, 3_610, 3_620):
        await create(store, clock, interval_seconds=seconds, schedule_id=in_shard(3))
    await make_queue(store, "alerts")
    await store.subscriptions.put(DEFAULT, "shard.*", "alerts")
    await post.scheduler.hold()
    for stalls in (1, 2):
        clock.advance(seconds=4_000)
        await post.scheduler.hold()
        for _ in range(3):
            await post.scheduler._check_stalls()
            (oldest,) = await store.schedules.due(SYSTEM, [3], 1)
            await store.schedules.plan(
                SYSTEM, post.scheduler.leadership.grants, [plan(oldest, clock.now())]
            )
        await post.scheduler._check_stalls()
        assert len(await store.messages.peek(DEFAULT, "alerts", 10)) == stalls
    assert len([note for note in post.noted.told if note[0] == "stalled"]) == 6


async def test_it_says_how_far_behind_it_is(store: Store, clock: VirtualClock, post: Post) -> None:
    await create(store, clock)
    await post.run()
    assert await post.scheduler._idle_seconds() == schedulers.LOOK_SECONDS_MAX
    clock.advance(seconds=29)
    assert await post.scheduler._idle_seconds() == 1.0
    clock.advance(seconds=6)
    assert await post.scheduler._idle_seconds() == 0.0
    assert post.noted.oldest_overdue_seconds == 5.0
    await post.run()
    await post.scheduler._idle_seconds()
    assert (post.noted.planning_lag_seconds, post.noted.oldest_overdue_seconds) == (5.0, 0.0)


async def test_schedules_that_wait_for_nothing_are_swept(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    made = await create(store, clock, interval_seconds=60, interval_mode="fixed_delay")
    clock.advance(seconds=60)
    await post.run()
    await store.queues.purge(DEFAULT, "work")
    await post.scheduler._sweep_and_check()
    assert (await again(store, made)).next_slot == clock.now() + timedelta(seconds=60)


async def test_the_days_of_a_calendar_are_read_anew_with_each_version(
    store: Store, clock: VirtualClock, post: Post
) -> None:
    today = clock.now().date()
    await store.calendars.put(DEFAULT, "feasts", [])
    made = await create(store, clock, cron_expr="* * * * *", calendar="feasts")
    clock.advance(seconds=60)
    await post.run()
    assert len(await slots(store, made)) == 1
    await store.calendars.put(DEFAULT, "feasts", [today])
    clock.advance(seconds=60)
    await post.run()
    fires = next_fire_in_row(await again(store, made))
    assert fires is not None
    assert fires.date() == today + timedelta(days=1)
    assert len(await store.schedules.messages(DEFAULT, made.id, ALL)) == 1


async def test_an_unknown_node_leads_nothing(store: Store, clock: VirtualClock) -> None:
    post = Post(store, clock, new_id())
    assert await post.run() == 0
    assert post.scheduler.leadership.shard_count == 0
