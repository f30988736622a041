"""A change withdraws planned slots that have not started: no slot is lost, none fires twice."""

from collections.abc import Sequence
from datetime import datetime

import pytest

from tests.conformance.acts import ALL, ack, counts, make_queue, pull, settle
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    change,
    create,
    created_due,
    delete,
    end_next,
    lead,
    look,
    messages,
    new_schedule,
    pause,
    plan_all,
    plan_now,
    records,
    resume,
    rule_of,
    slots,
    trigger,
    update,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, Counts, State
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.change import Change
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.model import OverlapPolicy, Schedule, ScheduleStatus, ordering_key
from tickwork.core.schedule.plan import park
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.errors import Conflict, NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


class Asked:
    """A decision that records its arguments and delegates to another one."""

    def __init__(self, decide: changing.Decision) -> None:
        self._decide = decide
        self.slots: list[datetime] = []
        self.now: datetime | None = None

    def __call__(
        self, schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime
    ) -> Change | None:
        self.slots, self.now = sorted(withdrawal.slot for withdrawal in withdrawn), now
        return self._decide(schedule, withdrawn, now)


async def fast(store: Store, clock: VirtualClock) -> Schedule:
    """A schedule that fires every ten seconds: after half a minute six slots are planned, three of
    them due, the first of which is claimed and never settled."""
    made = await create(store, clock, interval_seconds=10)
    clock.advance(seconds=10)
    await plan_now(store, clock)
    (first,) = await pull(store, lease_seconds=3_600)
    assert first.slot == clock.now()
    clock.advance(seconds=20)
    await plan_now(store, clock)
    assert len(await slots(store, made)) == 6
    return await again(store, made)


async def test_a_change_withdraws_what_it_asks_for_and_never_a_claimed_slot(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    begin = clock.now()
    made = await fast(store, clock)
    at = [begin + number * MINUTE / 6 for number in range(1, 7)]
    for withdraw, expected in (
        (WithdrawScope.NOTHING, []),
        (WithdrawScope.NOT_DUE, at[3:]),
        (WithdrawScope.UNCLAIMED, at[1:]),
    ):
        asked = Asked(lambda *_: None)
        assert await change(store, made, withdraw, asked) == made
        assert (asked.slots, asked.now) == (expected, clock.now())
        # Nothing was decided: all slots are still planned.
        assert await slots(store, made) == at


async def test_a_pause_withdraws_unstarted_slots_and_rewinds_the_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    begin = clock.now()
    made = await fast(store, clock)
    paused = await pause(store, made)
    assert await again(store, made) == paused
    second = begin + MINUTE / 3
    assert (paused.status, paused.next_slot, paused.look_at) == (
        ScheduleStatus.PAUSED,
        second,
        None,
    )
    assert (paused.fired, paused.version, paused.changed_at) == (1, made.version + 1, clock.now())
    (left,) = await messages(store, made)
    assert (left.slot, left.state) == (begin + MINUTE / 6, State.CLAIMED)
    assert await counts(store) == Counts(claimed=1)
    assert (await settle(store, ack(left))).refused == ()


async def test_a_resume_continues_and_records_the_slots_of_the_pause(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await fast(store, clock)
    paused = await pause(store, made)
    clock.advance(seconds=60)
    resumed = await resume(store, paused)
    assert resumed.status is ScheduleStatus.ACTIVE
    assert resumed.next_slot == clock.now() + MINUTE / 6
    assert resumed.version == paused.version + 1
    # The second to the ninth slot: two due, three planned, three that passed during the pause.
    assert await records(store, made) == [("skipped", "paused", 8)]
    await plan_now(store, clock)
    assert (await again(store, made)).fired == 1 + 3


async def test_a_short_pause_before_a_slot_loses_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=40)
    (slot,) = await slots(store, made)
    resumed = await resume(store, await pause(store, made))
    assert (resumed.next_slot, resumed.fired) == (slot, 0)
    await plan_now(store, clock)
    assert await slots(store, made) == [slot]
    assert await records(store, made) == []


async def test_an_update_keeps_due_slots_and_withdraws_future_ones(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    begin = clock.now()
    made = await fast(store, clock)
    other = rule_of(clock, made.id, interval_seconds=25)
    updated = await update(store, made, other)
    assert await again(store, made) == updated
    assert updated.definition.rule == other
    assert updated.next_slot == clock.now() + MINUTE * 25 / 60
    assert (updated.fired, updated.version) == (3, made.version + 1)
    assert (updated.updated_at, updated.changed_at) == (clock.now(), made.changed_at)
    due = [begin + number * MINUTE / 6 for number in (1, 2, 3)]
    assert await slots(store, made) == due
    assert await records(store, made) == []


async def test_an_update_with_the_same_timing_plans_the_same_slots_again(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await fast(store, clock)
    before = await slots(store, made)
    updated = await update(store, made, body=b'{"n":2}')
    assert (updated.next_slot, updated.fired) == (before[3], 3)
    await plan_now(store, clock)
    assert await slots(store, made) == before
    bodies = [message.body for message in await messages(store, made)]
    assert bodies == [b'{"n":1}'] * 3 + [b'{"n":2}'] * 3
    assert (await again(store, made)).fired == 6


async def test_an_update_at_the_time_of_a_slot_fires_it_once(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    at = clock.now()
    other = rule_of(clock, made.id, cron_expr="*/5 * * * *")
    await update(store, made, other)
    await plan_now(store, clock)
    assert await slots(store, made) == [at]


async def test_a_due_slot_that_was_not_planned_fires_by_the_old_rule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, body=b'{"n":1}')
    first = made.next_slot
    assert first is not None
    clock.advance(seconds=90)
    other = rule_of(clock, made.id, interval_seconds=3_600)
    updated = await update(store, made, other, body=b'{"n":2}')
    assert updated.fired == 1
    (owed,) = await messages(store, made)
    assert (owed.slot, owed.body) == (first, b'{"n":1}')
    assert (owed.due_at, owed.catch_up, owed.priority) == (first, False, 4)


async def test_a_deleted_schedule_keeps_only_started_messages(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await fast(store, clock)
    gone = await delete(store, made)
    assert (gone.status, gone.next_slot, gone.look_at) == (ScheduleStatus.DELETED, None, None)
    assert gone.changed_at == clock.now()
    (left,) = await messages(store, made)
    assert left.state is State.CLAIMED
    # The two due slots are recorded; the three future ones are withdrawn.
    assert await records(store, made) == [("skipped", "deleted", 2)]
    for withdraw in WithdrawScope:
        with pytest.raises(NotFound):
            await change(store, made, withdraw, changing.pause)


async def test_a_trigger_is_a_separate_run(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock)
    assert (await trigger(store, made)).runs == 1
    triggered = await trigger(store, made)
    assert triggered.runs == 2
    assert (triggered.next_slot, triggered.fired) == (made.next_slot, 0)
    found = await messages(store, made)
    assert [(message.slot, message.run) for message in found] == [
        (clock.now(), 1),
        (clock.now(), 2),
    ]
    assert [message.visible_at for message in found] == [clock.now()] * 2
    assert len(await pull(store)) == 2


async def test_an_update_never_withdraws_an_extra_run(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock)
    await trigger(store, made)
    asked = Asked(changing.pause)
    await change(store, made, WithdrawScope.UNCLAIMED, asked)
    assert asked.slots == []
    assert [message.run for message in await messages(store, made)] == [1]


async def test_a_backfill_fires_past_slots_in_one_run(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock)
    past = [clock.now() - number * MINUTE for number in (3, 2, 1)]
    filled = await change(store, made, WithdrawScope.NOTHING, changing.backfill(past))
    assert (filled.runs, filled.fired, filled.next_slot) == (1, 0, made.next_slot)
    found = await messages(store, made)
    assert [(message.slot, message.run, message.catch_up) for message in found] == [
        (slot, 1, True) for slot in past
    ]
    assert [message.grace_seconds for message in found] == [None] * 3
    assert await change(store, made, WithdrawScope.NOTHING, changing.backfill([])) == filled


async def test_a_pause_withdraws_all_slots_of_a_buffered_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(
        store, clock, after_seconds=35, interval_seconds=10, overlap=OverlapPolicy.BUFFER_ALL
    )
    assert len(await slots(store, made)) == 6
    paused = await pause(store, made)
    assert await messages(store, made) == []
    assert await counts(store) == Counts()
    resumed = await resume(store, paused)
    await plan_now(store, clock)
    found = await messages(store, resumed)
    assert [message.state for message in found] == [State.READY] + [State.BLOCKED] * (
        len(found) - 1
    )
    assert {message.key for message in found} == {ordering_key(made.id)}
    clock.advance(seconds=30)
    await end_next(store)
    (following,) = await pull(store)
    assert following.slot == found[1].slot


async def test_withdrawing_in_the_middle_of_a_key_leaves_no_message_stuck(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(
        store, clock, after_seconds=35, interval_seconds=10, overlap=OverlapPolicy.BUFFER_ALL
    )
    begun, *_ = await pull(store, lease_seconds=3_600)
    asked = Asked(changing.pause)
    await change(store, made, WithdrawScope.UNCLAIMED, asked)
    assert len(asked.slots) == 5
    await settle(store, ack(begun))
    await trigger(store, await resume(store, await again(store, made)))
    (message,) = await pull(store)
    assert message.run == 1


async def test_a_name_can_change_but_not_to_one_in_use(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await create(store, clock, name="taken")
    made = await create(store, clock, name="mine")

    def named(name: str) -> changing.Decision:
        old = made.definition
        return changing.update(old, name, old.rule, old.rule)

    with pytest.raises(Conflict):
        await change(store, made, WithdrawScope.NOT_DUE, named("taken"))
    assert await again(store, made) == made
    assert (await change(store, made, WithdrawScope.NOT_DUE, named("new"))).name == "new"
    found = await store.schedules.find(DEFAULT, "new")
    assert found is not None
    assert found.id == made.id


async def test_a_change_to_an_unknown_queue_is_refused(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    other = await make_queue(store, "other")
    made = await create(store, clock)
    with pytest.raises(NotFound):
        await update(store, made, queue="elsewhere")
    assert await again(store, made) == made
    moved = await update(store, made, queue="other")
    assert moved.definition.queue == "other"
    clock.advance(seconds=60)
    await plan_now(store, clock)
    assert [message.queue_id for message in await messages(store, made)] == [other]


async def test_an_update_stores_every_field(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock)
    like = new_schedule(
        clock,
        schedule_id=made.id,
        cron_expr="0 9 * * *",
        timezone="Asia/Tokyo",
        overlap=OverlapPolicy.BUFFER_ONE,
        body=b"x",
        type="other",
        priority=1,
        expires_after_seconds=5.0,
        metadata=b'{"a":1}',
        missed={"policy": "skip", "grace_seconds": 7},
    ).definition
    decided = changing.update(like, "name", made.definition.rule, like.rule)
    updated = await change(store, made, WithdrawScope.NOT_DUE, decided)
    assert (updated.definition, updated.name) == (like, "name")
    assert await again(store, made) == updated


async def test_a_resumed_parked_schedule_continues_after_its_recorded_slot(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock)
    clock.advance(seconds=60)
    leader = await lead(store)
    (due,) = await look(store, leader)
    await write(store, leader, [park(due, "bad")])
    resumed = await resume(store, await again(store, made))
    assert (resumed.status, resumed.last_error) == (ScheduleStatus.ACTIVE, None)
    assert made.next_slot is not None
    assert resumed.next_slot == made.next_slot + MINUTE
    await plan_all(store, clock, leader)
    assert await slots(store, made) == []
    found = await store.firings.list(DEFAULT, made.id, ALL)
    assert [firing.status for firing in found] == [FiringStatus.SKIPPED]
