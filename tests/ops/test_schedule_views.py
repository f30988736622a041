"""Schedules are shown with their last and next fires, on both stores."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import make_queue, make_tenants
from tests.conformance.schedule_acts import again, create, end_next, pause, plan_now, resume
from tests.stores.clock import VirtualClock
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.answers.schedule import Fires
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.when import iso
from tickwork.errors import InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.schedules import next_fires
from tickwork.ops.schedules.change import trigger
from tickwork.ops.schedules.next_fires import next_slots, upcoming
from tickwork.ops.schedules.public import show_schedule, show_stored
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


@pytest.fixture(autouse=True)
async def queue(store: Store) -> None:
    await make_queue(store)


async def shown(store: Store, schedule: Schedule) -> tuple[Any, Any]:
    found = await again(store, schedule)
    (with_records,) = await show_stored(Context(store, DEFAULT), [found])
    return with_records.last_fire_at, with_records.next_fire_at


async def shown_by_its_row(store: Store, schedule: Schedule) -> Any:
    found = await again(store, schedule)
    return show_schedule(found, await store.now()).last_fire_at


@pytest.mark.parametrize("seconds", [60, 5])
async def test_the_last_fire_is_the_last_slot_that_was_due(
    store: Store, clock: VirtualClock, seconds: int
) -> None:
    made = await create(store, clock, interval_seconds=seconds)
    first, step = made.next_slot, timedelta(seconds=seconds)
    assert first is not None
    clock.advance(seconds=seconds - 1)
    await plan_now(store, clock)
    assert await shown(store, made) == (None, (first))
    for number in range(3):
        clock.advance(seconds=1)
        await plan_now(store, clock)
        slot = first + number * step
        assert await shown(store, made) == ((slot), (slot + step))
        clock.advance(seconds=seconds - 1)
        await plan_now(store, clock)
        planned = (await again(store, made)).last_slot
        assert planned is not None
        assert planned > clock.now(), "nothing is planned ahead"
        assert await shown_by_its_row(store, made) == (slot)
        assert await shown(store, made) == ((slot), (slot + step))


async def test_a_slot_that_is_not_due_in_its_window_is_not_the_last_fire(
    store: Store, clock: VirtualClock
) -> None:
    made = await create(store, clock, interval_seconds=60, fire_window_seconds=55)
    first, due = made.next_slot, made.due_at
    assert first is not None
    assert due is not None
    clock.advance(seconds=(due - clock.now()).total_seconds() - 0.5)
    await plan_now(store, clock)
    assert (await again(store, made)).last_slot is not None
    assert (await shown(store, made))[0] is None
    assert await shown_by_its_row(store, made) is None
    clock.advance(seconds=0.5)
    assert (await shown(store, made))[0] == (first)
    assert await shown_by_its_row(store, made) == (first)


async def test_slots_during_a_pause_are_not_fires(store: Store, clock: VirtualClock) -> None:
    made = await create(store, clock, interval_seconds=60)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    await end_next(store)
    await pause(store, made)
    clock.advance(seconds=220)
    await resume(store, made)
    clock.advance(seconds=10)
    await plan_now(store, clock)
    assert made.next_slot is not None
    assert (await shown(store, made))[0] == (made.next_slot)
    assert await shown_by_its_row(store, made) is None


async def test_the_last_fire_of_a_fixed_delay_is_on_record(
    store: Store, clock: VirtualClock
) -> None:
    made = await create(store, clock, interval_seconds=60, interval_mode="fixed_delay")
    clock.advance(seconds=60)
    await plan_now(store, clock)
    assert made.next_slot is not None
    assert (await shown(store, made))[0] == (made.next_slot)
    clock.advance(seconds=7)
    await end_next(store)
    clock.advance(seconds=45)
    await plan_now(store, clock)
    found = await again(store, made)
    assert found.last_slot == made.next_slot + timedelta(seconds=67)
    assert (await shown(store, made))[0] == (made.next_slot)


@pytest.mark.parametrize("status", [status for status in ScheduleStatus if status != "active"])
async def test_an_inactive_schedule_with_an_unknown_zone_is_shown(
    store: Store, clock: VirtualClock, status: ScheduleStatus
) -> None:
    fields: dict[str, Any] = {"cron_expr": "* * * * *", "jitter_seconds": 20}
    made, other = [await create(store, clock, **fields) for _ in range(2)]
    clock.advance(seconds=60)
    await plan_now(store, clock)
    clock.advance(seconds=40)
    found, now = await again(store, made), await store.now()
    rule = structs.replace(found.definition.rule, timezone="Nowhere/Gone")
    definition = structs.replace(found.definition, rule=rule)
    lost = structs.replace(found, status=status, definition=definition)
    fired, _ = await show_stored(Context(store, DEFAULT), [lost, await again(store, other)])
    assert (fired.status, fired.next_fire_at) == (status, None)
    assert fired.last_fire_at == (made.next_slot or now)
    ahead = structs.replace(lost, id=new_id(), last_slot=now + timedelta(seconds=1))
    (unknown,) = await show_stored(Context(store, DEFAULT), [ahead])
    assert unknown.last_fire_at is None


async def test_extra_runs_and_other_tenants_do_not_count_as_fires(
    store: Store, clock: VirtualClock
) -> None:
    made = await create(store, clock, interval_seconds=60)
    await trigger(Context(store, DEFAULT), made.id)
    clock.advance(seconds=59)
    await plan_now(store, clock)
    assert (await shown(store, made))[0] is None
    assert await store.firings.last_due(DEFAULT, [made], clock.now()) == {}
    clock.advance(seconds=1)
    due = {made.id: made.next_slot}
    assert await store.firings.last_due(DEFAULT, [made], clock.now()) == due
    assert await store.firings.last_due(SYSTEM, [made], clock.now()) == due
    assert await store.firings.last_due(Scope("other"), [made], clock.now()) == {}


async def test_upcoming_respects_max_firings(store: Store, clock: VirtualClock) -> None:
    made = await create(store, clock, interval_seconds=60, max_firings=3)
    assert made.next_slot is not None
    slots = tuple(made.next_slot + number * timedelta(seconds=60) for number in range(3))
    assert await coming(store, made) == slots
    clock.advance(seconds=59)
    await plan_now(store, clock)
    assert (await again(store, made)).fired == 1
    assert await coming(store, made) == slots
    clock.advance(seconds=1)
    assert await coming(store, made) == slots[1:]
    for _ in range(2):
        clock.advance(seconds=60)
        await plan_now(store, clock)
    assert await coming(store, made) == ()


async def test_a_fixed_delay_has_an_upcoming_fire_only_after_a_run_finished(
    store: Store, clock: VirtualClock
) -> None:
    made = await create(store, clock, interval_seconds=60, interval_mode="fixed_delay")
    assert await coming(store, made) == (made.next_slot,)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    assert await coming(store, made) == ()
    clock.advance(seconds=7)
    await end_next(store)
    assert await coming(store, made) == (clock.now() + timedelta(seconds=60),)


async def test_a_fixed_delay_has_no_next_fire_after_its_end(
    store: Store, clock: VirtualClock
) -> None:
    end_at = iso(clock.now() + timedelta(seconds=90))
    delay: dict[str, Any] = {"interval_seconds": 60, "interval_mode": "fixed_delay"}
    made = await create(store, clock, **delay, end_at=end_at)
    assert (await shown(store, made))[1] == (made.next_slot or clock.now())
    clock.advance(seconds=60)
    await plan_now(store, clock)
    await end_next(store)
    assert (await shown(store, made))[1] is None
    assert await coming(store, made) == ()


async def coming(store: Store, schedule: Schedule) -> tuple[datetime, ...]:
    return tuple(
        fire.fire_at for fire in (await upcoming(Context(store, DEFAULT), schedule.id)).fires
    )


async def test_upcoming_computes_each_schedule_once_however_many_are_overdue(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    overdue = [await create(store, clock, interval_seconds=3_600) for _ in range(12)]
    clock.advance(seconds=18_000)  # Nobody has planned them.
    computed = Counter[object]()

    def count(schedule: Schedule, *rest: Any, **more: Any) -> Any:
        computed[schedule.id] += 1
        return next_slots(schedule, *rest, **more)

    monkeypatch.setattr(next_fires, "next_slots", count)
    fires = (await upcoming(Context(store, DEFAULT), limit=2)).fires
    assert len(fires) == 2
    assert set(computed) == {schedule.id for schedule in overdue}
    assert sum(computed.values()) <= 2 * len(overdue)


async def test_upcoming_reads_few_of_very_many_overdue_schedules_and_says_so(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(12):
        await create(store, clock, interval_seconds=3_600)
    clock.advance(seconds=7_300)  # Nobody has planned them.
    soon = await create(store, clock, interval_seconds=10)
    computed = Counter[object]()

    def count(schedule: Schedule, *rest: Any, **more: Any) -> Any:
        computed[schedule.id] += 1
        return next_slots(schedule, *rest, **more)

    monkeypatch.setattr(next_fires, "next_slots", count)
    whole = await upcoming(Context(store, DEFAULT), limit=2)
    assert (len(computed), whole.truncated) == (13, False)
    computed.clear()
    monkeypatch.setattr(next_fires, "EARLIER_SCHEDULES_MAX", 3)
    part = await upcoming(Context(store, DEFAULT), limit=2)
    assert (len(computed) <= 3 + 4 + 1, part.truncated) == (True, True)
    assert part.fires == whole.fires
    assert all(fire.schedule_id == soon.id for fire in part.fires)


async def test_upcoming_fires_of_all_schedules_are_sorted(
    store: Store, clock: VirtualClock
) -> None:
    often = await create(store, clock, interval_seconds=20)
    rarely = await create(store, clock, interval_seconds=45)
    stopped = await create(store, clock, interval_seconds=10)
    await pause(store, stopped)
    fires = (await upcoming(Context(store, DEFAULT), limit=6)).fires
    start = clock.now()
    seconds = [((fire.fire_at - start).total_seconds(), fire.schedule_id.uuid) for fire in fires]
    expected = sorted(
        [(20.0 * number, often.id) for number in range(1, 5)]
        + [(45.0 * number, rarely.id) for number in range(1, 3)],
        key=lambda pair: pair[0],
    )
    assert seconds == expected
    assert all(fire.due_at == fire.fire_at for fire in fires)
    assert await upcoming(Context(store, SYSTEM), limit=6) == Fires(fires)
    assert await upcoming(Context(store, DEFAULT), often.id, limit=1) == Fires(fires[:1])


@pytest.mark.parametrize("limit", [0, 1_001])
async def test_a_limit_of_upcoming_fires_out_of_range_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit: must be a whole number from 1 to 1000"):
        await upcoming(Context(store, DEFAULT), limit=limit)


async def test_upcoming_fires_are_bounded_by_time_and_owner(
    store: Store, clock: VirtualClock
) -> None:
    first = await create(store, clock, interval_seconds=60, owner="ada")
    for _ in range(5):
        await create(store, clock, interval_seconds=100, owner="bob")
    start = clock.now()

    def at(seconds: float) -> datetime:
        return start + timedelta(seconds=seconds)

    own = (await upcoming(Context(store, DEFAULT), owner="ada", until=at(200))).fires
    assert [fire.fire_at for fire in own] == [at(60), at(120), at(180)]
    later = (await upcoming(Context(store, DEFAULT), since=at(500), until=at(700), limit=100)).fires
    expected = sorted([at(540), at(600), at(660), *[at(600)] * 5])
    assert [fire.fire_at for fire in later] == expected
    # Fewer than there are schedules: those that are due first, whichever page they are on.
    (soonest,) = (await upcoming(Context(store, DEFAULT), since=at(530), limit=1)).fires
    assert (soonest.schedule_id.uuid, soonest.fire_at) == (first.id, at(540))
    with pytest.raises(InvalidInput, match="since: must have an offset"):
        await upcoming(Context(store, DEFAULT), since=at(0).replace(tzinfo=None))


async def test_a_planned_slot_is_upcoming_until_it_is_due(
    store: Store, clock: VirtualClock
) -> None:
    once_at = clock.now() + timedelta(seconds=20)
    once = await create(store, clock, once_at=iso(once_at))
    await create(store, clock, interval_seconds=3_600)
    await plan_now(store, clock)
    assert (await again(store, once)).next_slot is None, "it is not planned ahead"
    assert await coming(store, once) == (once_at,)
    assert (await upcoming(Context(store, DEFAULT), limit=1)).fires[0].schedule_id == once.id
    clock.advance(seconds=20)
    assert await coming(store, once) == ()


async def test_a_planned_slot_is_upcoming_before_the_next_slots_of_many_others(
    store: Store, clock: VirtualClock
) -> None:
    daily = await create(store, clock, interval_seconds=86_400)
    clock.advance(seconds=86_400 - 20)
    for _ in range(5):
        await create(store, clock, interval_seconds=3_600)
    await plan_now(store, clock)
    (first,) = (await upcoming(Context(store, DEFAULT), limit=1)).fires
    assert (first.schedule_id, first.fire_at) == (
        public_id(Prefix.SCHEDULE, daily.id),
        daily.next_slot,
    )


async def test_fired_counts_the_slots_that_came_due(store: Store, clock: VirtualClock) -> None:
    made = await create(store, clock, interval_seconds=10)
    await plan_now(store, clock)
    assert (await again(store, made)).fired >= 2, "nothing is planned ahead"
    for number in range(4):
        (shown_now,) = await show_stored(Context(store, DEFAULT), [await again(store, made)])
        assert shown_now.fired == number
        clock.advance(seconds=10)
        await plan_now(store, clock)


@pytest.mark.parametrize("spread", ["jitter_seconds", "fire_window_seconds"])
async def test_the_next_fire_stays_while_its_slot_waits_for_its_window(
    store: Store, clock: VirtualClock, spread: str
) -> None:
    fields: dict[str, Any] = {"interval_seconds": 7_200, spread: 3_600}
    made = await create(store, clock, **fields)
    first, due = made.next_slot, made.due_at
    assert first is not None
    assert due is not None
    clock.advance(seconds=7_180)
    while clock.now() < due:
        await plan_now(store, clock)
        (shown_now,) = await show_stored(Context(store, DEFAULT), [await again(store, made)])
        assert (shown_now.next_fire_at, shown_now.next_due_at) == ((first), (due))
        assert (shown_now.fired, shown_now.last_fire_at) == (0, None)
        assert (await upcoming(Context(store, DEFAULT), made.id, limit=1)).fires[0].fire_at == first
        clock.advance(seconds=300)


async def test_the_system_sees_the_next_fires_of_all_tenants(
    store: Store, clock: VirtualClock
) -> None:
    (acme,) = await make_tenants(store, "acme")
    await make_queue(store, scope=acme)
    own = await create(store, clock, interval_seconds=60)
    theirs = await create(store, clock, once_at=iso(clock.now() + timedelta(seconds=5)), scope=acme)
    await plan_now(store, clock)
    fires = (await upcoming(Context(store, SYSTEM), limit=2)).fires
    assert [(fire.tenant, fire.schedule_id) for fire in fires] == [
        ("acme", public_id(Prefix.SCHEDULE, theirs.id)),
        ("default", public_id(Prefix.SCHEDULE, own.id)),
    ]
    assert [fire.tenant for fire in (await upcoming(Context(store, DEFAULT), limit=2)).fires] == [
        "default",
        "default",
    ]
