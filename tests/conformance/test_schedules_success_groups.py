"""Slots that succeed in one settlement are recorded as if each were settled alone."""

from datetime import timedelta

import pytest
from msgspec import structs

from tests.conformance.acts import WORK, claim, join, make_queue, pull, send
from tests.conformance.schedule_acts import (
    again,
    create,
    created_due,
    delete,
    end,
    firings,
    pause,
    plan_now,
    rule_of,
    update,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed, Succeeded
from tickwork.core.model import DEFAULT, SYSTEM, Ending, Message, QueueSettings, Settlement
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.store.contract import Store
from tickwork.store.shared.counters import AN_ID

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


def succeeded(message: Message, took_seconds: float) -> Ending:
    return decide.settle(message, Succeeded(), QueueSettings(), took_seconds=took_seconds)


async def three_late(store: Store, clock: VirtualClock) -> tuple[list[Schedule], list[Message]]:
    """Schedules whose slot failed once and is claimed again long after it was due, each with its
    message."""
    await make_queue(store)
    made = [await create(store, clock, interval_seconds=3_600) for _ in range(3)]
    clock.advance(seconds=3_600)
    await plan_now(store, clock)
    for message in await pull(store, limit=3):
        await end(store, message, Failed("no"))
    clock.advance(seconds=1_800)
    found = {
        late_message.schedule_id: late_message
        for late_message in await claim(store, await join(store))
    }
    return made, [found[schedule.id] for schedule in made]


async def test_each_slot_settled_in_a_group_has_its_own_record(
    store: Store, clock: VirtualClock
) -> None:
    made, found = await three_late(store, clock)
    slots = [message.slot for message in found]
    ends = [succeeded(message, took) for took, message in enumerate(found, 1)]
    result = await store.messages.settle(SYSTEM, Settlement(tuple(ends)))
    assert not result.refused
    for took, (schedule, slot) in enumerate(zip(made, slots, strict=True), 1):
        _, firing = await firings(store, schedule)
        assert (firing.slot, firing.due_at, firing.run, firing.count) == (slot, slot, 0, 1)
        assert (firing.attempt, firing.status, firing.reason) == (2, FiringStatus.SUCCEEDED, None)
        assert firing.started_at == clock.now() - timedelta(seconds=took)
        assert (firing.finished_at, firing.catch_up) == (clock.now(), found[took - 1].catch_up)
        now = await again(store, schedule)
        assert (now.error_count, now.last_error, now.last_status) == (0, None, "succeeded")


async def test_a_late_slot_is_recorded_as_late(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    late = await created_due(store, clock)
    clock.advance(seconds=120)
    (message,) = await claim(store, await join(store))
    assert message.catch_up
    await store.messages.settle(SYSTEM, Settlement((succeeded(message, 1),)))
    (firing,) = await firings(store, late)
    assert firing.catch_up


async def test_a_schedule_deleted_meanwhile_keeps_its_last_status(
    store: Store, clock: VirtualClock
) -> None:
    made, found = await three_late(store, clock)
    await delete(store, made[1])
    before = await again(store, made[1])
    ends = tuple(succeeded(message, 1) for message in found)
    await store.messages.settle(SYSTEM, Settlement(ends))
    assert await again(store, made[1]) == before
    assert [(await again(store, schedule)).last_status for schedule in (made[0], made[2])] == [
        "succeeded",
        "succeeded",
    ]


async def test_a_result_code_in_the_group_is_recorded(store: Store, clock: VirtualClock) -> None:
    made, found = await three_late(store, clock)
    ends = [succeeded(message, 1) for message in found]
    firing = ends[1].effect(FiringResult)
    assert firing is not None
    ends[1] = structs.replace(ends[1], effects=(structs.replace(firing, result_code=204),))
    await store.messages.settle(SYSTEM, Settlement(tuple(ends)))
    last = [(await firings(store, schedule))[-1] for schedule in made]
    assert [firing.result_code for firing in last] == [None, 204, None]
    assert [firing.status for firing in last] == [FiringStatus.SUCCEEDED] * 3


async def test_a_slot_beside_an_ordinary_message_is_recorded(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)  # It is older and comes first.
    made = await created_due(store, clock)
    found = await claim(store, await join(store))
    ends = tuple(succeeded(message, took_seconds=1) for message in found)
    assert not (await store.messages.settle(SYSTEM, Settlement(ends))).refused
    (firing,) = await firings(store, made)
    assert firing.started_at == clock.now() - timedelta(seconds=1)
    assert len(found) == 2


async def test_slots_of_many_schedules_are_counted_under_one_source(
    store: Store, clock: VirtualClock
) -> None:
    _, found = await three_late(store, clock)
    ends = tuple(succeeded(message, 1) for message in found)
    await store.messages.settle(SYSTEM, Settlement(ends))
    kinds = (await store.stats.queue(DEFAULT, WORK)).kinds
    done = [(kind.source, kind.messages) for kind in kinds if kind.counter is CounterName.DONE]
    assert done == [(AN_ID, 3)]


async def test_a_group_completes_the_schedules_that_are_over_and_no_others(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    once = (clock.now() + timedelta(minutes=1)).isoformat()
    over, paused, moved, planned = [await create(store, clock, once_at=once) for _ in range(4)]
    last, going_on = await create(store, clock, max_firings=1), await create(store, clock)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    found = await claim(store, await join(store))
    assert len(found) == 6
    await pause(store, paused)
    for schedule, minutes in ((moved, 60), (planned, 1)):
        later = (clock.now() + timedelta(minutes=minutes)).isoformat()
        await update(
            store, await again(store, schedule), rule_of(clock, schedule.id, once_at=later)
        )
    clock.advance(seconds=60)
    await plan_now(store, clock)
    before = await again(store, over)
    ends = tuple(succeeded(message, 0.5) for message in found)
    assert not (await store.messages.settle(SYSTEM, Settlement(ends))).refused
    for schedule in (over, paused, last):
        assert (await again(store, schedule)).status is ScheduleStatus.COMPLETED
        assert [record.status for record in await firings(store, schedule)] == ["succeeded"]
    assert (await again(store, over)).version == before.version + 1
    for schedule in (moved, planned, going_on):
        assert (await again(store, schedule)).status is ScheduleStatus.ACTIVE
