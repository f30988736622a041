"""The outcome of a firing is recorded and changes its schedule as the contract's table says."""

from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    counts,
    kill_holders,
    make_queue,
    pull,
)
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    delete,
    end,
    end_next,
    firings,
    messages,
    pause,
    plan_now,
    records,
    rule_of,
    slots,
    trigger,
    update,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed, Permanent, Snoozed, Succeeded
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_MAX,
    SYSTEM,
    Counts,
    Ending,
    Fate,
    QueueSettings,
    Settlement,
)
from tickwork.core.schedule import slot_outcome as slot_end
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.core.schedule.model import OnDead, Schedule, ScheduleStatus
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

ACTIVE, COMPLETED, PARKED, PAUSED = (
    ScheduleStatus.ACTIVE,
    ScheduleStatus.COMPLETED,
    ScheduleStatus.PARKED,
    ScheduleStatus.PAUSED,
)


def stands(schedule: Schedule) -> tuple[object, ...]:
    return schedule.status, schedule.error_count, schedule.last_error, schedule.last_status


def in_a_minute(clock: VirtualClock) -> dict[str, Any]:
    return {"once_at": (clock.now() + MINUTE).isoformat()}


async def test_a_success_is_recorded_and_the_next_slot_follows(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    slot = clock.now()
    clock.advance(seconds=5)
    message = await end_next(store)
    (firing,) = await firings(store, made)
    assert (firing.slot, firing.due_at, firing.run) == (slot, slot, 0)
    assert (firing.attempt, firing.status, firing.reason) == (1, FiringStatus.SUCCEEDED, None)
    assert (firing.started_at, firing.finished_at) == (clock.now(), clock.now())
    assert (firing.catch_up, firing.count, firing.last_slot) == (message.catch_up, 1, None)
    now = await again(store, made)
    assert stands(now) == (ACTIVE, 0, None, "succeeded")
    assert (now.next_slot, now.version, now.fired) == (made.next_slot, made.version, made.fired)


async def test_failures_are_counted_until_a_success(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, interval_seconds=86_400, after_seconds=86_400)
    for failures in (1, 2):
        await end_next(store, Failed("Traceback (most recent call last):\nValueError: no"))
        now = await again(store, made)
        assert stands(now) == (ACTIVE, failures, "ValueError: no", "failed")
        clock.advance(seconds=3_600)
    await end_next(store)
    assert stands(await again(store, made)) == (ACTIVE, 0, None, "succeeded")
    found = await firings(store, made)
    assert [(firing.attempt, firing.status) for firing in found] == [
        (1, FiringStatus.FAILED),
        (2, FiringStatus.FAILED),
        (3, FiringStatus.SUCCEEDED),
    ]
    assert len({firing.slot for firing in found}) == 1


async def test_a_release_records_no_attempt(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    await end_next(store, Snoozed(10))
    assert await firings(store, made) == []
    assert stands(await again(store, made)) == (ACTIVE, 0, None, None)


async def test_a_dead_firing_of_a_recurring_schedule_is_recorded_and_the_schedule_continues(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    await end_next(store, Permanent("no such address"))
    now = await again(store, made)
    assert stands(now)[:3] == (ACTIVE, 0, "no such address")
    assert (now.last_status, now.next_slot) == ("dead", made.next_slot)
    assert await records(store, made) == [("dead", "permanent", 1)]
    clock.advance(seconds=60)
    await plan_now(store, clock)
    await end_next(store)
    assert stands(await again(store, made)) == (ACTIVE, 0, None, "succeeded")


async def test_a_dead_firing_keeps_the_count_of_failures(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    await end_next(store, Failed("first"), max_retries=1)
    clock.advance(seconds=3_600)
    (message,) = await pull(store)
    await end(store, message, Failed("second"), max_retries=1)
    now = await again(store, made)
    assert stands(now) == (ACTIVE, 1, "second", "dead")
    assert await records(store, made) == [("failed", None, 1), ("dead", "max_retries", 1)]


async def test_a_single_slot_that_succeeds_completes_its_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    assert (made.status, made.next_slot) == (ACTIVE, None)
    await end_next(store)
    now = await again(store, made)
    assert stands(now) == (COMPLETED, 0, None, "succeeded")
    assert (now.changed_at, now.version) == (clock.now(), made.version + 1)


async def test_a_single_slot_that_dies_parks_its_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    await end_next(store, Failed("once"))
    assert stands(await again(store, made)) == (ACTIVE, 1, "once", "failed")
    clock.advance(seconds=3_600)
    await end_next(store, Permanent("twice"))
    now = await again(store, made)
    assert stands(now) == (PARKED, 1, "twice", "dead")
    assert (now.look_at, now.changed_at) == (None, clock.now())


@pytest.mark.parametrize("outcome", [None, Permanent("x")])
async def test_the_last_slot_completes_its_schedule_however_it_ends(
    store: Store, clock: VirtualClock, outcome: Permanent | None
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, max_firings=1)
    await end_next(store, outcome)
    assert (await again(store, made)).status is COMPLETED


async def test_a_dead_firing_pauses_the_schedule_if_configured_and_withdraws_planned_slots(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(
        store, clock, interval_seconds=10, after_seconds=10, on_dead=OnDead.PAUSE
    )
    planned = await slots(store, made)
    assert len(planned) == 4
    await end_next(store, Permanent("no"))
    now = await again(store, made)
    assert stands(now) == (PAUSED, 0, "no", "dead")
    assert (now.next_slot, now.look_at, now.fired) == (planned[1], None, 1)
    assert (now.changed_at, now.version) == (clock.now(), made.version + 1)
    assert await messages(store, made) == []
    assert await counts(store) == Counts(dead=1)


async def test_a_dead_firing_does_not_change_a_paused_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, on_dead=OnDead.PAUSE)
    (message,) = await pull(store)
    paused = await pause(store, made)
    await end(store, message, Permanent("no"))
    now = await again(store, made)
    assert (now.status, now.next_slot, now.last_error) == (PAUSED, paused.next_slot, "no")


async def test_a_firing_of_a_deleted_schedule_is_recorded_and_the_schedule_stays_deleted(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    (message,) = await pull(store)
    await delete(store, made)
    await end(store, message)
    assert (await again(store, made)).status is ScheduleStatus.DELETED
    assert await records(store, made) == [("succeeded", None, 1)]


async def test_an_extra_run_does_not_change_the_state_of_its_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, **in_a_minute(clock))
    triggered = await trigger(store, made)
    await end_next(store)
    now = await again(store, made)
    assert (now.status, now.next_slot, now.version) == (ACTIVE, made.next_slot, triggered.version)
    (firing,) = await firings(store, made)
    assert (firing.run, firing.status) == (1, FiringStatus.SUCCEEDED)
    await trigger(store, made)
    await end_next(store, Permanent("no"))
    assert stands(await again(store, made))[:3] == (ACTIVE, 0, "no")


async def test_firings_of_one_schedule_settled_together_count_in_slot_order(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, interval_seconds=10, after_seconds=40)
    found = await pull(store)
    first, second, third, fourth = sorted(found, key=lambda message: str(message.slot))
    failed = [
        Ending(
            claim=message.current_claim,
            fate=Fate.RETRY,
            delay_seconds=600,
            effects=(FiringResult(status=FiringStatus.FAILED, error=text),),
        )
        for message, text in ((first, "first"), (third, "third"))
    ]
    fine = ack(second, effects=(FiringResult(status=FiringStatus.SUCCEEDED),))
    await store.messages.settle(SYSTEM, Settlement((failed[1], fine, failed[0])))
    assert stands(await again(store, made)) == (ACTIVE, 1, "third", "failed")
    await end(store, fourth)
    assert stands(await again(store, made)) == (ACTIVE, 0, None, "succeeded")


async def test_a_refused_firing_changes_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    (message,) = await pull(store, lease_seconds=1)
    clock.advance(seconds=2)
    await store.reaper.reap(SYSTEM, ALL)
    before = await again(store, made)
    result = await end(store, message)
    assert len(result.refused) == 1
    assert await again(store, made) == before


async def test_a_fixed_delay_counts_from_the_end_of_the_run(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    delay = {"interval_seconds": 120, "interval_mode": "fixed_delay"}
    made = await created_due(store, clock, after_seconds=120, **delay)
    assert made.next_slot is None
    clock.advance(seconds=37)
    await end_next(store, Failed("once"))
    assert (await again(store, made)).next_slot is None
    clock.advance(seconds=60)
    await end_next(store)
    now = await again(store, made)
    slot = clock.now() + 2 * MINUTE
    assert (now.next_slot, now.due_at, now.look_at) == (slot, slot, slot - MINUTE / 2)
    assert (now.status, now.version) == (ACTIVE, made.version + 1)
    clock.advance(seconds=120)
    await plan_now(store, clock)
    assert await slots(store, made) == [slot]


@pytest.mark.parametrize("on_dead", [*OnDead])
async def test_a_fixed_delay_continues_after_a_dead_run_or_waits_for_a_resume(
    store: Store, clock: VirtualClock, on_dead: OnDead
) -> None:
    await make_queue(store)
    delay = {"interval_seconds": 120, "interval_mode": "fixed_delay"}
    made = await created_due(store, clock, after_seconds=120, on_dead=on_dead, **delay)
    await end_next(store, Permanent("no"))
    now = await again(store, made)
    slot = clock.now() + 2 * MINUTE
    assert now.next_slot == slot
    assert now.version == made.version + 1
    if on_dead is OnDead.PAUSE:
        assert (now.status, now.look_at) == (PAUSED, None)
    else:
        assert (now.status, now.look_at) == (ACTIVE, slot - MINUTE / 2)


async def test_a_fixed_delay_updated_meanwhile_keeps_its_slot(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    delay = {"interval_seconds": 120, "interval_mode": "fixed_delay"}
    made = await created_due(store, clock, after_seconds=120, **delay)
    (message,) = await pull(store)
    updated = await update(store, made, rule_of(clock, made.id, interval_seconds=600))
    assert updated.next_slot is not None
    await end(store, message)
    assert (await again(store, made)).next_slot == updated.next_slot


@pytest.mark.parametrize("together", [False, True])
async def test_a_fixed_delay_with_several_runs_continues_from_the_last_one(
    store: Store, clock: VirtualClock, together: bool
) -> None:
    await make_queue(store)
    delay = {"interval_seconds": 120, "interval_mode": "fixed_delay"}
    made = await created_due(store, clock, after_seconds=120, max_firings=1, **delay)
    (first,) = await pull(store)
    await update(store, made, rule_of(clock, made.id, max_firings=3, **delay))
    clock.advance(seconds=120)
    await plan_now(store, clock)
    (second,) = await pull(store)
    if together:
        settings = QueueSettings()
        ends = [decide.settle(message, Succeeded(), settings) for message in (first, second)]
        await store.messages.settle(SYSTEM, Settlement(tuple(ends)))
    else:
        await end(store, first)
        now = await again(store, made)
        assert (now.status, now.next_slot) == (ACTIVE, None)
        await end(store, second)
    now = await again(store, made)
    assert (now.status, now.next_slot) == (ACTIVE, clock.now() + 2 * MINUTE)


async def test_a_run_that_kills_its_workers_is_recorded_as_dead(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    await kill_holders(store, clock, LOST_CLAIMS_MAX)
    now = await again(store, made)
    assert (now.status, now.last_status) == (PARKED, "dead")
    assert await records(store, made) == [("dead", "worker_lost", 1)]


async def test_a_missed_slot_is_recorded_as_skipped(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    (message,) = await pull(store)
    await store.messages.settle(SYSTEM, Settlement((slot_end.missed_ending(message),)))
    now = await again(store, made)
    assert (now.status, now.error_count, now.last_error) == (COMPLETED, 0, None)
    assert await records(store, made) == [("skipped", "skipped_missed", 1)]


async def test_a_joint_settlement_records_its_firing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **in_a_minute(clock))
    (message,) = await pull(store)
    record = slot_end.with_firing_result(message, ack(message))
    await store.messages.settle_jointly(DEFAULT, Settlement((record,)), lambda _: None)
    assert (await again(store, made)).status is COMPLETED
    assert await records(store, made) == [("succeeded", None, 1)]


async def test_a_purged_firing_leaves_no_record(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    assert await store.queues.purge(DEFAULT, "work") == 1
    assert await records(store, made) == []
    assert stands(await again(store, made)) == (ACTIVE, 0, None, None)
