"""Grace periods of slots that wait for an earlier run of their schedule.

The grace period of such a slot counts from when it is unblocked, if the earlier run ran. If the
earlier slot was skipped as late itself, no worker was running, and the slot is late.
"""

from typing import Any

import pytest

from tests.conformance.acts import ALL, make_queue, pull_one, settle
from tests.conformance.schedule_acts import create, end, plan_now, records
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.outcome import Outcome, Permanent, Succeeded
from tickwork.core.model import SYSTEM
from tickwork.core.schedule import slot_outcome as slot_end
from tickwork.core.schedule.model import OverlapPolicy, Schedule
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

HOUR = 3_600.0


async def line_of(store: Store, clock: VirtualClock, minutes: int, **fields: Any) -> Schedule:
    """A schedule with this many buffered slots, each planned in time, oldest first."""
    await make_queue(store)
    made = await create(store, clock, overlap=OverlapPolicy.BUFFER_ALL, **fields)
    for _ in range(minutes):
        clock.advance(seconds=60)
        await plan_now(store, clock)
    return made


@pytest.mark.parametrize("outcome", [Succeeded(), Permanent("no")])
async def test_a_slot_that_waited_for_a_run_is_not_late(
    store: Store, clock: VirtualClock, outcome: Outcome
) -> None:
    await line_of(store, clock, 1)
    first = await pull_one(store, lease_seconds=HOUR)
    for _ in range(20):
        clock.advance(seconds=60)
        await plan_now(store, clock)
    for _ in range(2):
        await end(store, first, outcome)
        clock.advance(seconds=59)
        second = await pull_one(store, lease_seconds=HOUR)
        assert (second.catch_up, second.is_late) == (False, False)
        first = second


async def test_the_grace_period_counts_from_when_a_slot_is_unblocked(
    store: Store, clock: VirtualClock
) -> None:
    await line_of(store, clock, 20, missed={"grace_seconds": 1_500})
    await end(store, await pull_one(store, lease_seconds=HOUR))
    clock.advance(seconds=1_502)
    late = await pull_one(store, lease_seconds=HOUR)
    assert (late.catch_up, late.is_late) == (True, True)


async def test_a_slot_that_waited_for_a_late_one_is_late(store: Store, clock: VirtualClock) -> None:
    made = await line_of(store, clock, 20)
    first = await pull_one(store, lease_seconds=HOUR)
    assert first.is_late
    await settle(store, slot_end.missed_ending(first))
    second = await pull_one(store, lease_seconds=HOUR)
    assert second.is_late
    assert await records(store, made) == [("skipped", "skipped_missed", 1)]
    # It runs, although late: the slots behind it waited for that.
    await end(store, second)
    assert not (await pull_one(store, lease_seconds=HOUR)).is_late


async def test_a_slot_that_waited_for_an_expired_one_is_late(
    store: Store, clock: VirtualClock
) -> None:
    made = await line_of(store, clock, 20, expires_after_seconds=1_130.0)
    await store.reaper.reap(SYSTEM, ALL)
    assert await records(store, made) == [("expired", "expired", 1)]
    assert (await pull_one(store, lease_seconds=HOUR)).is_late
