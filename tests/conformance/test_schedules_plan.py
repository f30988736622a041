"""Plans: each slot becomes one message or one record, and only under its leader's token."""

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, WORK, make_queue, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    firings,
    in_shard,
    lead,
    look,
    messages,
    one_plan,
    pause,
    planned,
    shard_of_schedule,
    update,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.model import DEFAULT, SYSTEM, ContentType, State
from tickwork.core.schedule.model import (
    FIRED_TYPE,
    OverlapPolicy,
    Schedule,
    ScheduleStatus,
    read_terms,
)
from tickwork.core.schedule.plan import DueSchedule, PlanResult, park
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def as_before(store: Store, schedule: Schedule) -> bool:
    """Whether the schedule is unchanged."""
    nothing = await messages(store, schedule) == [] and await firings(store, schedule) == []
    return nothing and await again(store, schedule) == schedule


async def test_a_schedule_is_due_from_its_look_at_time_on(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, calendar=None, overlap=OverlapPolicy.BUFFER_ALL)
    leader = await lead(store)
    assert await look(store, leader) == []
    assert await store.schedules.next_look_at(SYSTEM, leader.shards) == made.look_at
    clock.advance(seconds=29.999)
    assert await look(store, leader) == []
    clock.advance(seconds=0.001)
    assert await look(store, leader) == [
        DueSchedule(
            tenant="default",
            id=made.id,
            shard=shard_of_schedule(made),
            version=made.version,
            next_slot=clock.now() + MINUTE / 2,
            rule=made.definition.rule,
            overlap=OverlapPolicy.BUFFER_ALL,
            fired=0,
        )
    ]
    await pause(store, made)
    assert await look(store, leader) == []
    assert await store.schedules.next_look_at(SYSTEM, leader.shards) is None


async def test_due_schedules_are_of_the_given_shards_and_soonest_first(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = {}
    for shard, seconds in ((3, 300), (3, 100), (7, 200), (60, 50)):
        made[seconds] = await create(
            store, clock, schedule_id=in_shard(shard), interval_seconds=seconds
        )
    clock.advance(seconds=1_000)
    for shards, expected in (
        ([3, 7], [100, 200, 300]),
        ([7], [200]),
        ([60, 3], [50, 100, 300]),
        ([5], []),
        ([], []),
    ):
        due = await store.schedules.due(SYSTEM, shards, ALL)
        assert [schedule.id for schedule in due] == [made[seconds].id for seconds in expected]
        soonest = min((made[seconds].look_at for seconds in expected), default=None)  # type: ignore[type-var]
        assert await store.schedules.next_look_at(SYSTEM, shards) == soonest
    first = await store.schedules.due(SYSTEM, [3, 7, 60], 2)
    assert [schedule.id for schedule in first] == [made[50].id, made[100].id]


async def test_a_slot_becomes_a_message_with_all_fields_of_its_schedule(
    store: Store, clock: VirtualClock
) -> None:
    queue_id = await make_queue(store)
    made, leader, decided = await one_plan(
        store,
        clock,
        body="grüß dich".encode(),
        content_type=ContentType.TEXT,
        type="report.wanted",
        priority=7,
        missed={"policy": "skip", "grace_seconds": 5},
    )
    assert await write(store, leader, [decided]) == PlanResult(done=(0,))
    slot = clock.now() + MINUTE / 2
    (message,) = await messages(store, made)
    assert (message.tenant, message.queue_id, message.state) == ("default", queue_id, State.READY)
    assert (message.schedule_id, message.slot, message.run) == (made.id, slot, 0)
    assert (message.due_at, message.visible_at, message.sent_at) == (slot, slot, clock.now())
    assert (message.priority, message.catch_up, message.grace_seconds) == (7, False, 5)
    assert (message.type, message.source) == ("report.wanted", public_id(Prefix.SCHEDULE, made.id))
    assert (message.body, message.content_type) == ("grüß dich".encode(), ContentType.TEXT)
    assert read_terms(message.terms) == made.definition.terms
    assert (message.key, message.event_id, message.correlation_id) == (None, None, None)
    assert (message.attempts, message.lost, message.claim, message.hops) == (0, 0, 0, 0)
    stands = await again(store, made)
    assert stands == structs.replace(
        made, next_slot=decided.then_slot, due_at=decided.then_due_at,
        look_at=decided.look_at, last_slot=slot, fired=1,
    )  # fmt: skip
    assert await pull(store) == ()
    clock.advance(seconds=30)
    (claimed,) = await pull(store)
    assert (claimed.id, claimed.catch_up) == (message.id, False)


async def test_a_firing_without_a_message_type_has_the_default_type(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    assert [message.type for message in await messages(store, made)] == [FIRED_TYPE]


async def test_a_plan_is_carried_out_once(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    await write(store, leader, [decided])
    stands = await again(store, made)
    assert await write(store, leader, [decided]) == PlanResult(stale=(0,))
    assert await again(store, made) == stands
    assert len(await messages(store, made)) == 1


async def test_of_two_plans_for_one_schedule_one_counts(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    result = await write(store, leader, [decided, decided])
    assert (len(result.done), len(result.stale)) == (1, 1)
    assert len(await messages(store, made)) == 1
    assert (await again(store, made)).fired == 1


async def test_a_plan_of_an_older_version_changes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    changed = await update(store, made, priority=9)
    assert (changed.next_slot, changed.version) == (made.next_slot, made.version + 1)
    assert await write(store, leader, [decided]) == PlanResult(stale=(0,))
    assert await as_before(store, changed)


async def test_a_plan_from_another_slot_changes_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    other = structs.replace(decided, next_slot=decided.next_slot + MINUTE)
    assert await write(store, leader, [other]) == PlanResult(stale=(0,))
    assert await as_before(store, made)


async def test_a_plan_under_another_token_changes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    shard = shard_of_schedule(made)
    for wrong in (leader.mistaken(shard), leader.without(shard)):
        assert await write(store, wrong, [decided]) == PlanResult(lost=(0,))
        assert await as_before(store, made)
    assert await write(store, leader, [decided]) == PlanResult(done=(0,))


async def test_a_paused_or_deleted_schedule_is_not_planned(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    stands = await pause(store, made)
    now_right = structs.replace(decided, version=stands.version)
    assert await write(store, leader, [now_right]) == PlanResult(stale=(0,))
    assert await as_before(store, stands)


async def test_plans_of_one_call_are_accepted_individually(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = [
        await create(store, clock, schedule_id=in_shard(number)) for number in (1, 1, 2, 40, 63)
    ]
    clock.advance(seconds=30)
    leader = await lead(store)
    by_id = {plan.id: plan for plan in await planned(store, clock, leader)}
    plans = [by_id[schedule.id] for schedule in made]
    await update(store, made[1], priority=1)
    result = await write(store, leader.mistaken(40), plans)
    assert result == PlanResult(done=(0, 2, 4), stale=(1,), lost=(3,))
    assert [len(await messages(store, schedule)) for schedule in made] == [1, 0, 1, 0, 1]


async def test_a_plan_for_a_deleted_queue_changes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, _ = await one_plan(store, clock)
    await make_queue(store, "other")
    beside = await create(store, clock, queue="other", interval_seconds=31)
    clock.advance(seconds=1)
    await store.queues.delete(DEFAULT, WORK)
    by_id = {plan.id: plan for plan in await planned(store, clock, leader)}
    result = await write(store, leader, [by_id[made.id], by_id[beside.id]])
    assert result == PlanResult(done=(1,), no_queue=(0,))
    assert await as_before(store, made)
    (due,) = await look(store, leader)
    assert await write(store, leader, [park(due, "no queue")]) == PlanResult(done=(0,))
    assert (await again(store, made)).status is ScheduleStatus.PARKED


async def test_a_stale_plan_beside_buffered_slots_is_reported_as_stale(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    in_line = await create(store, clock, schedule_id=in_shard(3), overlap=OverlapPolicy.BUFFER_ALL)
    changed = await create(store, clock, schedule_id=in_shard(5))
    clock.advance(seconds=30)
    leader = await lead(store)
    plans = sorted(await planned(store, clock, leader), key=lambda plan: plan.id != in_line.id)
    await update(store, changed, priority=7)
    assert await write(store, leader, plans) == PlanResult(done=(0,), stale=(1,))
