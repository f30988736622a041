"""What slots become: ordered or independent messages, catch-ups, records, a completed schedule."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, ack, counts, letters, make_queue, pull, settle
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    fire_at,
    firings,
    lead,
    look,
    messages,
    new_schedule,
    one_plan,
    plan_all,
    plan_now,
    planned,
    records,
    shard_of_schedule,
    slots,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM, ContentType, Counts, State
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.model import OverlapPolicy, ScheduleStatus, ordering_key, read_terms
from tickwork.core.schedule.plan import PlanResult, Skip, park
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def test_consecutive_skipped_slots_are_one_record(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    first = decided.next_slot
    skips = (
        Skip(first, first + 9 * MINUTE, 10, "skipped_missed"),
        Skip(first + 10 * MINUTE, first + 10 * MINUTE, 1, "skipped_overlap"),
    )
    later = structs.replace(decided, fires=(), skips=skips)
    assert await write(store, leader, [later]) == PlanResult(done=(0,))
    run, single = sorted(await firings(store, made), key=lambda firing: firing.slot)
    assert (run.status, run.reason, run.count) == (FiringStatus.SKIPPED, "skipped_missed", 10)
    assert (run.slot, run.last_slot, run.due_at) == (first, first + 9 * MINUTE, first)
    assert (run.started_at, run.finished_at) == (clock.now(), clock.now())
    assert (run.run, run.attempt, run.catch_up) == (0, 0, False)
    assert (single.reason, single.count, single.last_slot) == ("skipped_overlap", 1, None)
    assert (await again(store, made)).fired == 0


async def test_catch_ups_after_an_outage_have_lower_priority_and_no_grace_period(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, priority=4, missed={"cap": 2})
    least = await create(store, clock, priority=0, missed={"cap": 1})
    begin = clock.now()
    clock.advance(seconds=10 * 60)
    await plan_now(store, clock)
    found = await messages(store, made)
    assert [_minutes(message.slot, begin) for message in found] == [7, 8, 9, 10]
    assert [message.catch_up for message in found] == [True, True, False, False]
    assert [message.priority for message in found] == [3, 3, 4, 4]
    assert [message.grace_seconds for message in found] == [None, None, 60, 60]
    assert await records(store, made) == [("skipped", "skipped_missed", 6)]
    late = next(message for message in await messages(store, least) if message.catch_up)
    assert late.priority == 0
    assert (await again(store, made)).fired == 4


def _minutes(slot: datetime | None, begin: datetime) -> int:
    assert slot is not None
    return round((slot - begin) / MINUTE)


async def test_the_last_slot_is_marked_and_the_schedule_waits_for_its_outcome(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, max_firings=2, interval_seconds=10)
    clock.advance(seconds=10)
    await plan_now(store, clock)
    found = await messages(store, made)
    assert [read_terms(message.terms).is_last for message in found] == [False, True]
    stands = await again(store, made)
    assert (stands.status, stands.next_slot, stands.look_at) == (ScheduleStatus.ACTIVE, None, None)
    assert stands.fired == 2


async def test_a_schedule_without_a_slot_left_is_completed(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    once = (clock.now() + MINUTE).isoformat()
    made = await create(store, clock, once_at=once, missed={"policy": "skip"})
    clock.advance(seconds=3_600)
    await plan_now(store, clock)
    stands = await again(store, made)
    assert (stands.status, stands.next_slot) == (ScheduleStatus.COMPLETED, None)
    assert stands.changed_at == clock.now()
    assert await records(store, made) == [("skipped", "skipped_missed", 1)]


async def test_a_schedule_that_cannot_be_planned_is_parked_with_its_error(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, _ = await one_plan(store, clock)
    (due,) = await look(store, leader)
    assert await write(store, leader, [park(due, "no such zone")]) == PlanResult(done=(0,))
    stands = await again(store, made)
    assert (stands.status, stands.last_error) == (ScheduleStatus.PARKED, "no such zone")
    assert (stands.next_slot, stands.look_at) == (made.next_slot, None)
    assert await records(store, made) == [("skipped", "plan_error", 1)]
    assert await look(store, leader) == []


async def test_buffered_firings_run_in_order(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(
        store, clock, after_seconds=35, interval_seconds=10, overlap=OverlapPolicy.BUFFER_ALL
    )
    found = await messages(store, made)
    assert {slot_message.key for slot_message in found} == {ordering_key(made.id)}
    assert [slot_message.state for slot_message in found] == [State.READY] + [State.BLOCKED] * (
        len(found) - 1
    )
    clock.advance(seconds=60)
    done = []
    while claimed := await pull(store):
        (message,) = claimed
        done.append(message.slot)
        await settle(store, ack(message))
    assert done == [slot_message.slot for slot_message in found]


async def test_unfinished_firings_are_counted_if_the_overlap_policy_needs_it(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = {
        policy: await create(store, clock, overlap=policy, interval_seconds=40)
        for policy in OverlapPolicy
    }
    leader = await lead(store)
    clock.advance(seconds=40)
    await plan_all(store, clock, leader)
    clock.advance(seconds=41)
    seen = {schedule.overlap: schedule.unfinished for schedule in await look(store, leader)}
    assert (seen[OverlapPolicy.SKIP], seen[OverlapPolicy.BUFFER_ONE]) == (1, 1)
    await plan_all(store, clock, leader)
    clock.advance(seconds=40)
    await plan_all(store, clock, leader)
    skip, one = made[OverlapPolicy.SKIP], made[OverlapPolicy.BUFFER_ONE]
    assert [len(await slots(store, schedule)) for schedule in (skip, one)] == [1, 2]
    overlapped = ("skipped", "skipped_overlap", 1)
    assert await records(store, skip) == [overlapped, overlapped]
    assert await records(store, one) == [overlapped]


async def test_a_claimed_or_waiting_firing_is_unfinished(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, overlap=OverlapPolicy.SKIP)
    await pull(store, lease_seconds=3_600)
    clock.advance(seconds=60)
    (due,) = await store.schedules.due(SYSTEM, [shard_of_schedule(made)], ALL)
    assert due.unfinished == 1


async def test_a_firing_expires_after_its_schedules_expiry(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, expires_after_seconds=90)
    clock.advance(seconds=89)
    await store.reaper.reap(SYSTEM, ALL)
    assert len(await messages(store, made)) == 1
    clock.advance(seconds=2)
    await store.reaper.reap(SYSTEM, ALL)
    assert await messages(store, made) == []
    (letter,) = await letters(store)
    assert letter.reason == "expired"
    assert await records(store, made) == [("expired", "expired", 1)]


async def test_messages_are_identified_by_slot_and_run(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    at = decided.next_slot
    fires = tuple(fire_at(at + number * MINUTE) for number in range(3))
    assert (await write(store, leader, [structs.replace(decided, fires=fires)])).done == (0,)
    assert await slots(store, made) == [at, at + MINUTE, at + 2 * MINUTE]
    two = await store.schedules.messages(DEFAULT, made.id, 2)
    assert [message.slot for message in two] == [at, at + MINUTE]
    later = await store.schedules.messages(DEFAULT, made.id, 1, since=at + MINUTE)
    assert [message.slot for message in later] == [at + MINUTE]
    assert await store.schedules.messages(DEFAULT, made.id, 1, since=at + 3 * MINUTE) == ()
    assert (await again(store, made)).last_slot == at + 2 * MINUTE


async def test_planned_messages_count_towards_the_backlog_even_beyond_its_cap(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, backlog_bytes_max=128_000)
    for _ in range(3):
        await create(store, clock, body=b"x" * 100_000, content_type=ContentType.BYTES)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    assert await counts(store) == Counts(ready=3)


async def test_many_schedules_are_planned_in_one_call(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    new = [new_schedule(clock) for _ in range(500)]
    await store.schedules.create_bulk(DEFAULT, new)
    clock.advance(seconds=timedelta(minutes=1).total_seconds())
    leader = await lead(store)
    plans = await planned(store, clock, leader)
    assert len((await write(store, leader, plans)).done) == 500
    assert (await counts(store)).ready == 500
    assert await look(store, leader) == []
