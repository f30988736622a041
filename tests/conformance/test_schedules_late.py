"""Late claims are marked as late, and a schedule does not wait for a deleted run."""

from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    claim,
    die,
    join,
    make_queue,
    pull,
    retry,
    send,
    settle,
)
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    delete,
    end,
    end_next,
    lead,
    messages,
    pause,
    plan_now,
    records,
    slots,
    trigger,
    write,
)
from tests.conformance.schedule_acts import planned as planned_by
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.message.outcome import Failed, Outcome, Permanent, Succeeded
from tickwork.core.model import DEFAULT, SYSTEM, Settlement
from tickwork.core.schedule import slot_outcome as slot_end
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

DELAY: dict[str, Any] = {"interval_seconds": 120, "interval_mode": "fixed_delay"}


async def test_a_claim_after_the_grace_is_late_and_one_within_it_is_not(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await create(store, clock, missed={"grace_seconds": 30}, interval_seconds=600)
    await create(store, clock, missed={"grace_seconds": 31}, interval_seconds=600)
    clock.advance(seconds=600)
    await plan_now(store, clock)
    clock.advance(seconds=30.5)
    found = {message.grace_seconds: message for message in await pull(store)}
    assert (found[30].catch_up, found[30].is_late) == (True, True)
    assert (found[31].catch_up, found[31].is_late) == (False, False)


async def test_a_retry_is_not_late_however_long_it_waited(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await created_due(store, clock, interval_seconds=3_600, after_seconds=3_600)
    (message,) = await pull(store)
    await settle(store, retry(message, delay_seconds=600))
    clock.advance(seconds=600)
    (again_,) = await pull(store)
    assert (again_.catch_up, again_.is_late) == (False, False)


async def test_a_message_whose_worker_died_is_not_late(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await created_due(store, clock, interval_seconds=3_600, after_seconds=3_600)
    await claim(store, await join(store))
    await die(store, clock)
    clock.advance(seconds=600)
    (again_,) = await pull(store)
    assert (again_.catch_up, again_.is_late) == (False, False)


async def test_an_ordinary_message_is_never_late(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    clock.advance(seconds=3_600)
    (message,) = await pull(store)
    assert (message.catch_up, message.is_late) == (False, False)


async def test_newer_slots_that_are_due_are_counted_claimed_or_not(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, interval_seconds=10, after_seconds=40)
    other = await create(store, clock)
    at = [slot for slot in await slots(store, made) if slot is not None]
    due = [slot for slot in at if slot <= clock.now()]
    assert (len(due), len(at)) == (4, 7)
    asked = [("default", made.id, slot) for slot in (*due, at[-1])]
    asked += [
        ("default", other.id, due[0]),
        ("one", made.id, due[0]),
        ("default", new_id(), due[0]),
    ]
    newer = tuple(LaterSlots(due=number) for number in (3, 2, 1, 0, 0, 0, 0, 0))
    assert await store.schedules.newer_due(SYSTEM, asked) == newer
    taken = await pull(store, limit=2)
    assert [message.slot for message in taken] == due[:2]
    assert await store.schedules.newer_due(SYSTEM, asked) == newer
    await settle(store, ack(taken[1]))
    assert await store.schedules.newer_due(SYSTEM, asked[:2]) == (
        LaterSlots(due=2),
        LaterSlots(due=2),
    )
    await trigger(store, made)
    assert await store.schedules.newer_due(SYSTEM, asked[:1]) == (LaterSlots(due=2),)
    assert await store.schedules.newer_due(SYSTEM, []) == ()


async def test_newer_slots_count_as_missed_only_if_late_at_their_first_claim(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    missed = {"grace_seconds": 30}
    made = await created_due(store, clock, interval_seconds=10, after_seconds=40, missed=missed)
    asked = [("default", made.id, made.created_at)]
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=4, missed=0),)
    clock.advance(seconds=1)
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=4, missed=1),)
    first, second = await pull(store, limit=2)
    assert (first.is_late, second.is_late) == (True, False)
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=4, missed=1),)
    # Claimed in time or tried already: it was not missed, however long it takes.
    await settle(store, retry(second, delay_seconds=0))
    clock.advance(seconds=19)
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=6, missed=1),)
    clock.advance(seconds=0.000_001)
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=6, missed=2),)
    # A catch-up stays a catch-up.
    await settle(store, retry(first, delay_seconds=0))
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=6, missed=2),)


async def test_planned_catch_ups_count_as_missed(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=600, missed={"cap": 3})
    asked = [("default", made.id, made.created_at)]
    # Three of the missed slots, and the two within the grace period.
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=5, missed=3),)


@pytest.mark.parametrize("cap", [1, 2, 3, 10])
async def test_a_catch_up_cap_counts_the_same_slots_at_planning_and_at_a_claim(
    store: Store, clock: VirtualClock, cap: int
) -> None:
    await make_queue(store)
    rule: dict[str, Any] = {"interval_seconds": 10, "missed": {"cap": cap, "grace_seconds": 20}}
    planned = await create(store, clock, **rule)
    claimed = await create(store, clock, **rule)
    clock.advance(seconds=10)
    for _ in range(5):
        leader = await lead(store)
        own = [plan for plan in await planned_by(store, clock, leader) if plan.id == claimed.id]
        await write(store, leader, own)
        await store.nodes.leave(SYSTEM, leader.node)
        clock.advance(seconds=10)
    clock.advance(seconds=0.000_001)
    await plan_now(store, clock)
    late = [message for message in await pull(store, limit=ALL) if message.is_late]
    asked = [("default", claimed.id, message.slot) for message in late if message.slot is not None]
    newer = await store.schedules.newer_due(SYSTEM, asked)
    kept = {
        message.slot
        for message, later in zip(late, newer, strict=True)
        if not slot_end.is_too_late(message, later)
    }
    found = [message for message in await messages(store, planned) if message.catch_up]
    assert kept == {message.slot for message in found}
    assert len(kept) == min(cap, 4)


async def test_of_late_slots_claimed_by_two_nodes_one_is_the_most_recent(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, missed={"policy": "fire_most_recent"})
    clock.advance(seconds=60)
    await plan_now(store, clock)
    clock.advance(seconds=61)
    taken = [message for _ in range(2) for message in await pull(store, limit=1)]
    assert [message.is_late for message in taken] == [True, True]
    asked = [("default", made.id, message.slot) for message in taken if message.slot is not None]
    newer = await store.schedules.newer_due(SYSTEM, asked)
    judged = [slot_end.is_too_late(*pair) for pair in zip(taken, newer, strict=True)]
    assert judged == [True, False]


@pytest.mark.parametrize("outcome", [Succeeded(), Failed("no"), Permanent("never")])
async def test_a_handled_newer_slot_replaces_the_older_ones(
    store: Store, clock: VirtualClock, outcome: Outcome
) -> None:
    await make_queue(store)
    policy = {"policy": "fire_most_recent", "grace_seconds": 30}
    made = await created_due(store, clock, interval_seconds=10, after_seconds=20, missed=policy)
    clock.advance(seconds=31)
    older, newest = [message for message in await pull(store) if message.is_late]
    await end(store, newest, outcome)
    asked = [
        ("default", made.id, message.slot)
        for message in (older, newest)
        if message.slot is not None
    ]
    newer = await store.schedules.newer_due(SYSTEM, asked)
    on_time = newer[1].due
    assert newer == (LaterSlots(due=on_time + 1, missed=1), LaterSlots(due=on_time, missed=0))
    assert slot_end.is_too_late(older, newer[0])


async def test_a_skipped_newer_slot_replaces_none(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, missed={"policy": "fire_most_recent"})
    clock.advance(seconds=60)
    await plan_now(store, clock)
    clock.advance(seconds=61)
    older, newest = await pull(store)
    await store.messages.settle(SYSTEM, Settlement((slot_end.missed_ending(newest),)))
    asked = [("default", made.id, message.slot) for message in (older,) if message.slot is not None]
    assert await store.schedules.newer_due(SYSTEM, asked) == (LaterSlots(due=0, missed=0),)


async def test_a_fixed_delay_does_not_wait_for_a_purged_run(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=120, **DELAY)
    assert await store.schedules.sweep(SYSTEM, ALL) == 0
    assert (await again(store, made)).next_slot is None
    await store.queues.purge(DEFAULT, "work")
    clock.advance(seconds=10)
    assert await store.schedules.sweep(SYSTEM, ALL) == 1
    now = await again(store, made)
    assert (now.status, now.next_slot) == (ScheduleStatus.ACTIVE, clock.now() + 2 * MINUTE)
    assert now.look_at == clock.now() + 2 * MINUTE - MINUTE / 2
    assert now.version == made.version + 1
    assert await store.schedules.sweep(SYSTEM, ALL) == 0
    clock.advance(seconds=120)
    await plan_now(store, clock)
    assert await slots(store, made) == [now.next_slot]


async def test_a_schedule_whose_last_run_was_deleted_is_completed(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    last = await create(store, clock, max_firings=1)
    once = await create(store, clock, once_at=(clock.now() + MINUTE).isoformat())
    clock.advance(seconds=60)
    await plan_now(store, clock)
    assert await store.schedules.sweep(SYSTEM, ALL) == 0
    for schedule in (last, once):
        (message,) = await messages(store, schedule)
        assert await store.messages.delete(DEFAULT, "work", message.id)
    assert await store.schedules.sweep(SYSTEM, ALL) == 2
    for schedule in (last, once):
        now = await again(store, schedule)
        assert (now.status, now.next_slot) == (ScheduleStatus.COMPLETED, None)
        assert now.changed_at == clock.now()


async def test_a_sweep_is_bounded_and_the_next_one_continues(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    for _ in range(5):
        await create(store, clock, max_firings=1)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    await store.queues.purge(DEFAULT, "work")
    swept = [await store.schedules.sweep(SYSTEM, 2) for _ in range(4)]
    assert swept == [2, 2, 1, 0]


async def test_a_sweep_skips_paused_deleted_and_running_schedules(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = [await create(store, clock, **DELAY) for _ in range(3)]
    clock.advance(seconds=120)
    await plan_now(store, clock)
    await pull(store, limit=ALL)
    await pause(store, made[0])
    await delete(store, made[1])
    before = [await again(store, schedule) for schedule in made]
    assert await store.schedules.sweep(SYSTEM, ALL) == 0
    assert [await again(store, schedule) for schedule in made] == before


async def test_a_schedule_waits_for_a_run_that_will_be_retried(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=120, **DELAY)
    (message,) = await pull(store)
    await settle(store, retry(message, delay_seconds=600))
    assert await store.schedules.sweep(SYSTEM, ALL) == 0
    assert (await again(store, made)).next_slot is None


async def test_only_the_system_plans_and_sweeps(store: Store) -> None:
    await make_queue(store)
    for asked in (
        store.schedules.due(DEFAULT, [1], 1),
        store.schedules.next_look_at(DEFAULT, [1]),
        store.schedules.plan(DEFAULT, [], []),
        store.schedules.newer_due(DEFAULT, []),
        store.schedules.sweep(DEFAULT, 1),
        store.shards.list(DEFAULT),
    ):
        with pytest.raises(InvalidInput):
            await asked


async def test_a_replayed_dead_letter_of_a_slot_is_an_extra_run_of_it(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, once_at=(clock.now() + MINUTE).isoformat())
    died = await end_next(store, Permanent("no"))
    before = await again(store, made)
    assert (before.status, before.last_status) == (ScheduleStatus.PARKED, "dead")
    await store.dead_letters.replay(DEFAULT, "work", Selection(limit=ALL), Pace())
    replayed = await end_next(store)
    assert (replayed.schedule_id, replayed.slot, replayed.run) == (made.id, died.slot, 1)
    assert (replayed.body, replayed.type, replayed.source) == (died.body, died.type, died.source)
    after = await again(store, made)
    assert (after.status, after.last_status) == (ScheduleStatus.COMPLETED, "succeeded")
    assert await records(store, made) == [("dead", "permanent", 1), ("succeeded", None, 1)]
