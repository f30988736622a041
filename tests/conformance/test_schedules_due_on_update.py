"""Slots that are due and not yet planned when a schedule is updated follow its old rule."""

import pytest

from tests.conformance.acts import make_queue, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    create,
    created_due,
    end,
    end_next,
    firings,
    plan_now,
    records,
    rule_of,
    slots,
    trigger,
    update,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.schedule.model import OverlapPolicy
from tickwork.core.schedule.plan import SKIPPED_OVERLAP
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

WITHOUT_OVERLAP = [OverlapPolicy.SKIP, OverlapPolicy.BUFFER_ONE]


@pytest.mark.parametrize("overlap", WITHOUT_OVERLAP)
async def test_a_due_slot_fires_if_no_other_is_unfinished(
    store: Store, clock: VirtualClock, overlap: OverlapPolicy
) -> None:
    await make_queue(store)
    made = await create(store, clock, overlap=overlap)
    clock.advance(seconds=62)
    updated = await update(store, made, rule_of(clock, made.id, interval_seconds=3_600))
    assert (await slots(store, made), updated.fired) == ([made.next_slot], 1)
    assert await records(store, made) == []
    await end_next(store)
    assert await records(store, made) == [("succeeded", None, 1)]


@pytest.mark.parametrize("is_extra", [False, True])
async def test_a_due_slot_is_skipped_if_another_is_unfinished(
    store: Store, clock: VirtualClock, is_extra: bool
) -> None:
    await make_queue(store)
    if is_extra:
        made = await create(store, clock, overlap=OverlapPolicy.SKIP)
        await trigger(store, made)
    else:
        made = await created_due(store, clock, overlap=OverlapPolicy.SKIP)
    (running,) = await pull(store, lease_seconds=3_600)
    clock.advance(seconds=62)
    updated = await update(store, made, rule_of(clock, made.id, interval_seconds=3_600))
    assert (await slots(store, made), updated.fired) == ([running.slot], made.fired)
    assert await records(store, made) == [("skipped", SKIPPED_OVERLAP, 1)]


async def test_one_due_slot_is_buffered_behind_an_unfinished_one(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, overlap=OverlapPolicy.BUFFER_ONE)
    (running,) = await pull(store, lease_seconds=3_600)
    next_slot = made.next_slot
    clock.advance(seconds=122)
    await update(store, made, rule_of(clock, made.id, interval_seconds=3_600))
    assert await slots(store, made) == [running.slot, next_slot]
    assert await records(store, made) == [("skipped", SKIPPED_OVERLAP, 1)]
    assert await pull(store) == ()
    await end(store, running)
    assert (await end_next(store)).slot == next_slot


@pytest.mark.parametrize("overlap", WITHOUT_OVERLAP)
async def test_a_slot_of_both_rules_does_not_leave_the_other_due_slots_to_the_new_rule(
    store: Store, clock: VirtualClock, overlap: OverlapPolicy
) -> None:
    await make_queue(store)
    begin = clock.now().replace(minute=59, second=0, microsecond=0)
    clock.advance(seconds=(begin - clock.now()).total_seconds())
    late = {"grace_seconds": 86_400}
    made = await create(store, clock, overlap=overlap, missed=late, cron_expr="0,20,40 * * * *")
    clock.advance(seconds=50 * 60)
    other = rule_of(clock, made.id, cron_expr="0,30 * * * *", missed=late)
    updated = await update(store, made, other)
    await plan_now(store, clock)
    full = begin + MINUTE
    room = 1 if overlap is OverlapPolicy.SKIP else 2
    due = [full, full + 20 * MINUTE, full + 40 * MINUTE]
    assert await slots(store, made) == due[:room]
    assert [
        (firing.slot, firing.last_slot, firing.count) for firing in await firings(store, made)
    ] == [(due[room], due[2] if room == 1 else None, 3 - room)]
    assert updated.next_slot == full + 60 * MINUTE


async def test_due_slots_that_may_not_fire_are_recorded(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock, overlap=OverlapPolicy.SKIP, max_firings=3)
    clock.advance(seconds=10 * 60)
    updated = await update(store, made, rule_of(clock, made.id, interval_seconds=3_600))
    assert (await slots(store, made), updated.fired) == ([made.next_slot], 1)
    found = await firings(store, made)
    assert {firing.reason for firing in found} == {SKIPPED_OVERLAP}
    assert sum(firing.count for firing in found) == 9
    assert max(firing.last_slot or firing.slot for firing in found) == clock.now()


async def test_more_due_slots_than_one_plan_holds_all_fire(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    late = {"grace_seconds": 86_400}
    made = await create(store, clock, interval_seconds=1, missed=late)
    clock.advance(seconds=10_500)
    updated = await update(store, made, rule_of(clock, made.id, interval_seconds=3_600))
    assert (updated.fired, updated.last_slot) == (10_500, clock.now())
    assert await records(store, made) == []
