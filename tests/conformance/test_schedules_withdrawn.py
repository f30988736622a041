"""What is taken back by a pause or a deletion fires no more, and is on record: all that nobody has
begun with, also where a later slot is done already."""

from datetime import datetime, timedelta

import pytest

from tests.conformance.acts import counts, make_queue, pull
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
    resume,
    slots,
    trigger,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core import changing
from tickwork.core.changing import Withdraw
from tickwork.core.model import Counts, Message
from tickwork.core.outcome import Permanent
from tickwork.core.schedule import OnDead, OverlapPolicy, Schedule, ScheduleStatus
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

STEP = timedelta(seconds=10)
PATIENT = {"grace_seconds": 3_600}

Record = tuple[datetime, datetime | None, int, int, str | None]


async def skips(store: Store, schedule: Schedule) -> list[Record]:
    """What is on record without an attempt: from when, to when, how many, of which run, why."""
    found = [each for each in await firings(store, schedule) if not each.attempt]
    return sorted((each.slot, each.last_slot, each.count, each.run, each.reason) for each in found)


async def overlapped(store: Store, clock: VirtualClock) -> Schedule:
    """One whose first slot waits, and whose next two were left out since it does."""
    await make_queue(store)
    fields = {**ONE_AT_A_TIME, "interval_seconds": 10, "missed": PATIENT}
    made = await created_due(store, clock, after_seconds=35, **fields)
    assert len(await slots(store, made)) == 1
    return made


async def test_a_deleted_one_fires_no_slot_before_one_that_is_on_record(
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
    """One whose third slot was claimed, while the first two, which are late, still wait; and that
    third one's message."""
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=185, missed={"grace_seconds": 10})
    assert [each.catch_up for each in await messages(store, made)] == [True, True, False]
    (begun,) = await pull(store, limit=1, lease_seconds=3_600)
    assert begun.slot == made.last_slot
    return made, begun


async def test_a_deleted_one_fires_no_slot_before_one_that_has_begun(
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


async def test_a_deleted_one_fires_no_extra_run_that_has_not_begun(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock)
    past = [clock.now() - each * MINUTE for each in (3, 2, 1)]
    await change(store, made, Withdraw.NOTHING, changing.backfill(past))
    await trigger(store, made)
    (begun,) = await pull(store, limit=1, lease_seconds=3_600)
    left = [each for each in await messages(store, made) if each.id != begun.id]
    await delete(store, made)
    assert [each.id for each in await messages(store, made)] == [begun.id]
    assert await skips(store, made) == [(each.slot, None, 1, each.run, "deleted") for each in left]
    assert len(left) == 3


async def test_extra_runs_that_stand_in_line_are_deleted_too(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, overlap=OverlapPolicy.BUFFER_ALL)
    await trigger(store, made)
    await trigger(store, made)
    assert len(await messages(store, made)) == 3
    await delete(store, made)
    assert await messages(store, made) == []
    assert await counts(store) == Counts()
    assert [each[3:] for each in await skips(store, made)] == [(run, "deleted") for run in range(3)]


async def test_a_paused_one_fires_no_slot_before_one_that_is_on_record(
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
    # What is on record is not gone back over.
    assert (paused.next_slot, paused.last_slot, paused.fired) == (begin + 4 * STEP, None, 0)
    resumed = await resume(store, paused)
    assert resumed.next_slot == begin + 4 * STEP
    assert await skips(store, made) == known


async def test_a_paused_one_fires_no_slot_before_one_that_has_begun(
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
