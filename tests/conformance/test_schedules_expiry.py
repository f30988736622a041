"""No attempt at a slot starts after the slot expired, however late it became a message."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, make_queue
from tests.conformance.schedule_acts import (
    again,
    change,
    create,
    lead,
    messages,
    plan_now,
    planned,
    records,
    trigger,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import SYSTEM
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.model import OverlapPolicy, Schedule, ScheduleStatus
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

EVERY_TEN_MINUTES: dict[str, Any] = {"interval_seconds": 600, "expires_after_seconds": 900.0}


async def left_after(store: Store, clock: VirtualClock, made: Schedule, seconds: float) -> int:
    """Number of its messages after expired ones were reaped."""
    clock.advance(seconds=seconds)
    await store.reaper.reap(SYSTEM, ALL)
    return len(await messages(store, made))


@pytest.mark.parametrize("overlap", [OverlapPolicy.ALLOW, OverlapPolicy.BUFFER_ALL])
async def test_a_catch_up_expires_with_its_slot(
    store: Store, clock: VirtualClock, overlap: OverlapPolicy
) -> None:
    await make_queue(store)
    made = await create(store, clock, **EVERY_TEN_MINUTES, overlap=overlap)
    clock.advance(seconds=600 + 300)
    leader = await lead(store)
    (decided,) = await planned(store, clock, leader)
    # A leader spreads late slots over time.
    paced = [structs.replace(fire, visible_at=clock.now()) for fire in decided.fires]
    await write(store, leader, [structs.replace(decided, fires=tuple(paced))])
    (message,) = await messages(store, made)
    assert (message.catch_up, message.visible_at) == (True, clock.now())
    assert await left_after(store, clock, made, 599) == 1
    assert await left_after(store, clock, made, 1) == 0
    assert await records(store, made) == [("expired", "expired", 1)]


async def test_a_due_slot_fired_by_an_update_expires_with_its_slot(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, **EVERY_TEN_MINUTES)
    clock.advance(seconds=600 + 300)
    decide = changing.update(made.definition, None, made.definition.rule, made.definition.rule)

    def paced(*known: Any) -> Any:
        decided = decide(*known)
        assert decided is not None
        fires = [structs.replace(fire, visible_at=clock.now()) for fire in decided.fires]
        return structs.replace(decided, fires=tuple(fires))

    await change(store, made, WithdrawScope.NOT_DUE, paced)
    assert await left_after(store, clock, made, 599) == 1
    assert await left_after(store, clock, made, 1) == 0


async def test_a_slot_already_expired_when_planned_is_recorded_and_not_sent(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    often = await create(store, clock, **EVERY_TEN_MINUTES)
    at = (clock.now() + timedelta(seconds=600)).isoformat()
    once = await create(store, clock, once_at=at, expires_after_seconds=900.0)
    clock.advance(seconds=600 * 4)
    await plan_now(store, clock)
    assert await records(store, often) == [("skipped", "expired", 2)]
    assert len(await messages(store, often)) == 2
    assert await records(store, once) == [("skipped", "expired", 1)]
    assert await messages(store, once) == []
    ended = await again(store, once)
    assert (ended.status, ended.next_slot, ended.last_error) == (
        ScheduleStatus.PARKED,
        None,
        "expired",
    )


async def test_an_extra_runs_expiry_counts_from_its_creation(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, **EVERY_TEN_MINUTES)
    await trigger(store, made)
    past = clock.now() - timedelta(days=1)
    await change(store, made, WithdrawScope.NOTHING, changing.backfill([past]))
    assert await left_after(store, clock, made, 899) == 2
    assert await left_after(store, clock, made, 1) == 0
