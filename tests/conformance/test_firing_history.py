"""Firings are listed in pages, found by slot, and outlive their schedule."""

from datetime import datetime
from uuid import UUID

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, make_queue, make_tenants, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    create,
    created_due,
    delete,
    end,
    end_next,
    lead,
    plan_all,
    planned,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.outcome import Failed, Permanent
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringRecord, FiringStatus
from tickwork.core.schedule.model import Schedule
from tickwork.core.schedule.plan import Skip
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def pages(
    store: Store, schedule_id: UUID, size: int, status: FiringStatus | None = None
) -> list[FiringRecord]:
    found: list[FiringRecord] = []
    before: tuple[datetime, UUID] | None = None
    for _ in range(ALL):
        page = await store.firings.list(DEFAULT, schedule_id, size, status=status, before=before)
        found += page
        if len(page) < size:
            break
        assert page[-1].finished_at is not None
        before = page[-1].finished_at, page[-1].id
    return found


async def history(store: Store, clock: VirtualClock) -> Schedule:
    """Six slots in three pairs that ended together: succeeded, failed first, dead."""
    made = await create(store, clock, interval_seconds=10)
    leader = await lead(store)
    for turn in range(3):
        clock.advance(seconds=20)
        await plan_all(store, clock, leader)
        for message in await pull(store, limit=2):
            await end(store, message, [None, Failed("x"), Permanent("y")][turn])
    return made


async def test_pages_are_newest_first_and_complete(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await history(store, clock)
    whole = await store.firings.list(DEFAULT, made.id, ALL)
    assert len(whole) == 6
    order = [(firing.finished_at, firing.id) for firing in whole]
    assert order == sorted(order, reverse=True)
    for size in (1, 2, 4, 5):
        assert await pages(store, made.id, size) == list(whole)


async def test_pages_can_be_filtered_by_status(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await history(store, clock)
    for status in (FiringStatus.SUCCEEDED, FiringStatus.FAILED, FiringStatus.DEAD):
        found = await pages(store, made.id, 1, status)
        assert [firing.status for firing in found] == [status] * 2
    assert await pages(store, made.id, 1, FiringStatus.SKIPPED) == []


async def test_a_slot_is_found_with_all_its_attempts(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    slot = clock.now()
    await end_next(store, Failed("x"))
    clock.advance(seconds=3_600)
    await end_next(store)
    found = await store.firings.of_slot(DEFAULT, made.id, slot)
    assert [firing.status for firing in found] == [FiringStatus.FAILED, FiringStatus.SUCCEEDED]
    assert await store.firings.of_slot(DEFAULT, made.id, slot + MINUTE) == ()
    (one,) = await make_tenants(store, "one")
    assert await store.firings.of_slot(one, made.id, slot) == ()


async def test_a_slot_is_found_inside_a_summarized_range(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await create(store, clock)
    clock.advance(seconds=30)
    leader = await lead(store)
    (decided,) = await planned(store, clock, leader)
    first = decided.next_slot
    run = Skip(first, first + 9 * MINUTE, 10, "skipped_missed")
    await write(store, leader, [structs.replace(decided, fires=(), skips=(run,))])
    for minutes, expected in ((0, 1), (5, 1), (9, 1), (10, 0), (-1, 0)):
        found = await store.firings.of_slot(DEFAULT, made.id, first + minutes * MINUTE)
        assert [firing.count for firing in found] == [10] * expected


async def test_succeeded_slots_are_returned(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    begin = clock.now()
    made = await history(store, clock)
    good = frozenset(begin + number * MINUTE / 6 for number in (1, 2))
    assert await store.firings.succeeded(DEFAULT, made.id, begin, clock.now()) == good
    assert await store.firings.succeeded(DEFAULT, made.id, min(good), min(good)) == {min(good)}
    later = max(good) + MINUTE / 6
    assert await store.firings.succeeded(DEFAULT, made.id, later, clock.now()) == frozenset()
    assert await store.firings.succeeded(Scope("one"), made.id, begin, clock.now()) == frozenset()


async def test_firings_outlive_their_schedule_but_not_their_retention(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await history(store, clock)
    await delete(store, made)
    kept = len(await store.firings.list(DEFAULT, made.id, ALL))
    assert kept >= 6
    clock.advance(seconds=FIRINGS_KEPT_SECONDS - 3_600)
    await store.pruner.prune(SYSTEM, ALL)
    assert len(await store.firings.list(DEFAULT, made.id, ALL)) == kept
    clock.advance(seconds=2 * 86_400)
    for _ in range(10):
        await store.pruner.prune(SYSTEM, ALL)
    assert await store.firings.list(DEFAULT, made.id, ALL) == ()
