"""Slots withdrawn by a pause or a deletion do not fire and are recorded.

This holds for every slot that no worker has started, also if a later slot is done already.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.acts import ALL, counts, make_queue, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    ONE_AT_A_TIME,
    again,
    change,
    create,
    created_due,
    delete,
    end,
    firings,
    messages,
    pause,
    plan_now,
    resume,
    rule_of,
    slots,
    trigger,
    update,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.outcome import Permanent
from tickwork.core.model import SYSTEM, Counts, Message
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.model import OnDead, OverlapPolicy, Schedule, ScheduleStatus
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

STEP = timedelta(seconds=10)
PATIENT = {"grace_seconds": 3_600}

Record = tuple[datetime, datetime | None, int, int, str | None]


async def skips(store: Store, schedule: Schedule) -> list[Record]:
    """The records without an attempt: first slot, last slot, count, run, reason."""
    found = [firing for firing in await firings(store, schedule) if not firing.attempt]
    return sorted(
        (firing.slot, firing.last_slot, firing.count, firing.run, firing.reason) for firing in found
    )


async def overlapped(store: Store, clock: VirtualClock) -> Schedule:
    """A schedule whose first slot waits and whose next two were skipped because of it."""
    await make_queue(store)
    fields = {**ONE_AT_A_TIME, "interval_seconds": 10, "missed": PATIENT}
    made = await created_due(store, clock, after_seconds=35, **fields)
    assert len(await slots(store, made)) == 1
    return made


async def test_a_deleted_schedule_fires_no_slot_before_a_recorded_one(
    store: Store, clock: VirtualClock
) -> None:
    begin = clock.now()
    made = await overlapped(store, clock)
    await delete(store, made)
    assert await messages(store, made) == []
    assert await skips(store, made) == [
        (begin + STEP, None, 1, 0, "deleted"),
        (begin + 2 * STEP, begin + 3 * STEP, 2, 0, "skipped_overlap"),
    ]


async def overtaken(store: Store, clock: VirtualClock) -> tuple[Schedule, Message]:
    """A schedule whose third slot was claimed while the first two, which are late, still wait; and
    the message of the third."""
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=185, missed={"grace_seconds": 10})
    assert [message.catch_up for message in await messages(store, made)] == [True, True, False]
    (begun,) = await pull(store, limit=1, lease_seconds=3_600)
    assert begun.slot == made.last_slot
    return made, begun


async def test_a_deleted_schedule_fires_no_slot_before_a_started_one(
    store: Store, clock: VirtualClock
) -> None:
    begin = clock.now()
    made, begun = await overtaken(store, clock)
    await delete(store, made)
    assert await slots(store, made) == [begun.slot]
    assert await skips(store, made) == [
        (begin + number * MINUTE, None, 1, 0, "deleted") for number in (1, 2)
    ]
    assert (await end(store, begun)).refused == ()


async def test_a_deleted_schedule_fires_no_unstarted_extra_run(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock)
    past = [clock.now() - number * MINUTE for number in (3, 2, 1)]
    await change(store, made, WithdrawScope.NOTHING, changing.backfill(past))
    await trigger(store, made)
    (begun,) = await pull(store, limit=1, lease_seconds=3_600)
    left = [message for message in await messages(store, made) if message.id != begun.id]
    await delete(store, made)
    assert [message.id for message in await messages(store, made)] == [begun.id]
    assert await skips(store, made) == [
        (message.slot, None, 1, message.run, "deleted") for message in left
    ]
    assert len(left) == 3


async def test_buffered_extra_runs_are_deleted_too(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, overlap=OverlapPolicy.BUFFER_ALL)
    await trigger(store, made)
    await trigger(store, made)
    assert len(await messages(store, made)) == 3
    await delete(store, made)
    assert await messages(store, made) == []
    assert await counts(store) == Counts()
    assert [skip[3:] for skip in await skips(store, made)] == [(run, "deleted") for run in range(3)]


async def test_a_paused_schedule_fires_no_slot_before_a_recorded_one(
    store: Store, clock: VirtualClock
) -> None:
    begin = clock.now()
    made = await overlapped(store, clock)
    paused = await pause(store, made)
    assert await messages(store, made) == []
    known = [
        (begin + STEP, None, 1, 0, "paused"),
        (begin + 2 * STEP, begin + 3 * STEP, 2, 0, "skipped_overlap"),
    ]
    assert await skips(store, made) == known
    # Recorded slots are not recorded again.
    assert (paused.next_slot, paused.last_slot, paused.fired) == (begin + 4 * STEP, None, 0)
    resumed = await resume(store, paused)
    assert resumed.next_slot == begin + 4 * STEP
    assert await skips(store, made) == known


async def test_a_paused_schedule_fires_no_slot_before_a_started_one(
    store: Store, clock: VirtualClock
) -> None:
    begin = clock.now()
    made, begun = await overtaken(store, clock)
    paused = await pause(store, made)
    assert await slots(store, made) == [begun.slot]
    assert await skips(store, made) == [
        (begin + number * MINUTE, None, 1, 0, "paused") for number in (1, 2)
    ]
    assert (paused.next_slot, paused.last_slot) == (begin + 4 * MINUTE, begun.slot)
    assert paused.fired == 1
    assert (await end(store, begun)).refused == ()


async def test_a_dead_firing_that_pauses_leaves_no_slot_before_it(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    begin = clock.now()
    fields = {"on_dead": OnDead.PAUSE, "missed": {"grace_seconds": 10}}
    made = await created_due(store, clock, after_seconds=185, **fields)
    (begun,) = await pull(store, limit=1)
    await end(store, begun, Permanent("x"))
    paused = await again(store, made)
    assert paused.status is ScheduleStatus.PAUSED
    assert await messages(store, made) == []
    assert await skips(store, made) == [
        (begin + number * MINUTE, None, 1, 0, "paused") for number in (1, 2)
    ]
    assert (paused.next_slot, paused.last_slot) == (begin + 4 * MINUTE, begun.slot)
    assert paused.fired == 1


async def waiting(store: Store, clock: VirtualClock, **fields: Any) -> Schedule:
    """A schedule with three due slots, a minute apart, that no worker has claimed."""
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=185, missed=PATIENT, **fields)
    assert len(await slots(store, made)) == 3
    return made


@pytest.mark.parametrize(
    "timing",
    [
        {"cron_expr": "45 12 * * *"},
        {"interval_seconds": 3_600},
        {"interval_seconds": 3_600, "interval_mode": "fixed_delay"},
        {"once_at": "2030-01-01T00:00:00Z"},
    ],
)
async def test_slots_of_the_old_rule_are_recorded_when_a_schedule_is_paused(
    store: Store, clock: VirtualClock, timing: dict[str, Any]
) -> None:
    begin = clock.now()
    made = await waiting(store, clock)
    updated = await update(store, made, rule_of(clock, made.id, **timing))
    paused = await pause(store, updated)
    assert await messages(store, made) == []
    assert (paused.next_slot, paused.fired) == (updated.next_slot, 0)
    known: list[Record] = [(begin + number * MINUTE, None, 1, 0, "paused") for number in (1, 2, 3)]
    assert await skips(store, made) == known
    resumed = await resume(store, paused)
    assert (resumed.status, resumed.next_slot) == (ScheduleStatus.ACTIVE, updated.next_slot)
    assert await skips(store, made) == known


async def test_slots_of_the_old_rule_are_recorded_when_a_dead_firing_pauses(
    store: Store, clock: VirtualClock
) -> None:
    begin = clock.now()
    made = await waiting(store, clock, on_dead=OnDead.PAUSE)
    updated = await update(store, made, rule_of(clock, made.id, cron_expr="45 12 * * *"))
    (begun,) = await pull(store, limit=1)
    assert begun.slot == begin + MINUTE
    await end(store, begun, Permanent("x"))
    paused = await again(store, made)
    assert (paused.status, paused.fired) == (ScheduleStatus.PAUSED, 1)
    assert (paused.next_slot, paused.last_slot) == (updated.next_slot, begun.slot)
    assert await messages(store, made) == []
    assert await skips(store, made) == [
        (begin + number * MINUTE, None, 1, 0, "paused") for number in (2, 3)
    ]


async def test_a_slot_of_both_rules_records_no_slot_that_was_never_due(
    store: Store, clock: VirtualClock
) -> None:
    """Slots of the new rule between those of the old one did not exist when their time came."""
    begin = clock.now()
    made = await waiting(store, clock)
    other = rule_of(clock, made.id, interval_seconds=30, start_at=begin.isoformat())
    paused = await pause(store, await update(store, made, other))
    await resume(store, paused)
    known = await skips(store, made)
    assert sum(count for _, _, count, _, _ in known) == 3
    assert {slot for slot, _, _, _, _ in known} == {begin + number * MINUTE for number in (1, 2, 3)}


async def test_a_pause_under_the_same_rule_rewinds_to_the_due_slots(
    store: Store, clock: VirtualClock
) -> None:
    begin = clock.now()
    made = await waiting(store, clock, on_dead=OnDead.PAUSE)
    await update(store, made, body=b"2")
    (begun,) = await pull(store, limit=1)
    await end(store, begun, Permanent("x"))
    paused = await again(store, made)
    assert (paused.next_slot, await skips(store, made)) == (begin + 2 * MINUTE, [])
    await resume(store, paused)
    assert await skips(store, made) == [(begin + 2 * MINUTE, begin + 3 * MINUTE, 2, 0, "paused")]


async def test_a_slot_that_expired_in_the_queue_is_recorded_once(
    store: Store, clock: VirtualClock
) -> None:
    """Also if an earlier slot still waits that had no such limit when it was planned."""
    await make_queue(store)
    begin = clock.now()
    made = await created_due(store, clock, missed=PATIENT)
    await update(store, made, expires_after_seconds=30.0)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    clock.advance(seconds=40)
    await store.reaper.reap(SYSTEM, ALL)
    assert await slots(store, made) == [begin + MINUTE]
    paused = await pause(store, await again(store, made))
    assert paused.next_slot == begin + 3 * MINUTE
    clock.advance(seconds=30)
    await resume(store, paused)
    assert await skips(store, made) == [
        (begin + MINUTE, None, 1, 0, "paused"),
        (begin + 2 * MINUTE, None, 1, 0, "expired"),
        (begin + 3 * MINUTE, None, 1, 0, "paused"),
    ]
