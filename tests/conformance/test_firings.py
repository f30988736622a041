"""Firings: one row for each counted attempt at a slot."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    counts,
    dead,
    make_queue,
    make_tenants,
    pull_one,
    release,
    retry,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Message
from tickwork.core.schedule.firing import ChannelOutcome, FiringRecord, FiringResult, FiringStatus
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

EVERYTHING = FiringResult(
    status=FiringStatus.PARTIAL,
    reason="half",
    took_seconds=1.5,
    result_code=503,
    excerpt="Service Unavailable ü",
    channels=(
        ChannelOutcome("email", "sent"),
        ChannelOutcome("webhook", "failed", "no route to host"),
    ),
)
SUCCEEDED = FiringResult(status=FiringStatus.SUCCEEDED)


async def slot_message(
    store: Store, clock: VirtualClock, schedule_id: UUID, **fields: Any
) -> Message:
    """A claimed message of a slot."""
    await send(store, schedule_id=schedule_id, slot=clock.now(), **fields)
    return await pull_one(store)


async def test_an_ending_records_a_firing_for_its_slot(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    schedule_id, slot = new_id(), clock.now()
    message = await slot_message(store, clock, schedule_id, run=2, catch_up=True)
    clock.advance(seconds=10)
    await settle(store, ack(message, effects=(EVERYTHING,)))
    (firing,) = await store.firings.list(DEFAULT, schedule_id, ALL)
    assert firing == FiringRecord(
        id=firing.id,
        tenant="default",
        schedule_id=schedule_id,
        slot=slot,
        run=2,
        attempt=1,
        status=FiringStatus.PARTIAL,
        reason="half",
        due_at=slot,
        started_at=clock.now() - timedelta(seconds=1.5),
        finished_at=clock.now(),
        result_code=503,
        excerpt="Service Unavailable ü",
        channels=EVERYTHING.channels,
        catch_up=True,
        count=1,
        last_slot=None,
    )


async def test_each_attempt_is_a_separate_row(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    schedule_id, begin = new_id(), clock.now()
    failed = FiringResult(status=FiringStatus.FAILED)
    message = await slot_message(store, clock, schedule_id)
    await settle(store, retry(message, delay_seconds=60, effects=(failed,)))
    clock.advance(seconds=60)
    await settle(store, release(await pull_one(store), delay_seconds=60, effects=(failed,)))
    clock.advance(seconds=60)
    ended = FiringResult(status=FiringStatus.DEAD, reason="max_retries")
    await settle(store, dead(await pull_one(store), reason="max_retries", effects=(ended,)))
    newest_first = await store.firings.list(DEFAULT, schedule_id, ALL)
    assert [(firing.attempt, firing.status) for firing in newest_first] == [
        (2, FiringStatus.DEAD),
        (2, FiringStatus.FAILED),
        (1, FiringStatus.FAILED),
    ]
    due = [(firing.due_at - begin).total_seconds() for firing in newest_first]
    assert due == [120, 60, 0]
    assert await store.firings.list(DEFAULT, schedule_id, 2) == newest_first[:2]


async def test_an_expired_pull_lease_is_recorded_as_an_attempt(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, max_retries=1)
    schedule_id = new_id()
    await send(store, schedule_id=schedule_id, slot=clock.now())
    for _ in range(2):
        await pull_one(store, lease_seconds=30)
        clock.advance(seconds=30)
        await store.reaper.reap(SYSTEM, ALL)
    newest_first = await store.firings.list(DEFAULT, schedule_id, ALL)
    assert [(firing.attempt, firing.status, firing.reason) for firing in newest_first] == [
        (2, FiringStatus.DEAD, "max_retries"),
        (1, FiringStatus.FAILED, None),
    ]


async def test_a_refused_ending_records_no_firing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    schedule_id = new_id()
    message = await slot_message(store, clock, schedule_id)
    await settle(store, release(message))
    result = await settle(store, ack(message, effects=(SUCCEEDED,)))
    assert result.refused == (message.current_claim,)
    assert await store.firings.list(DEFAULT, schedule_id, ALL) == ()


async def test_a_message_without_a_slot_has_no_firings(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, ack(await pull_one(store), effects=(SUCCEEDED,)))
    assert await counts(store) == Counts()


async def test_firings_are_listed_per_schedule_and_tenant(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    schedule_id = new_id()
    one, two = await make_tenants(store, "one", "two")
    slot: datetime = clock.now()
    for schedule in (schedule_id, new_id()):
        await send(store, scope=one, schedule_id=schedule, slot=slot)
        message = await pull_one(store, scope=one)
        await settle(store, ack(message, effects=(SUCCEEDED,)), scope=one)
    (firing,) = await store.firings.list(one, schedule_id, ALL)
    assert (firing.tenant, firing.schedule_id) == ("one", schedule_id)
    assert await store.firings.list(two, schedule_id, ALL) == ()


async def test_an_invalid_firing_refuses_its_settlement(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    schedule_id = new_id()
    message = await slot_message(store, clock, schedule_id)
    bad: dict[str, Any] = {
        "took_seconds": -1,
        "reason": "a\0b",
        "excerpt": "x" * 2_001,
        "channels": (ChannelOutcome("email", "a\0b"),),
    }
    for field, value in bad.items():
        firing = FiringResult(status=FiringStatus.FAILED, **{field: value})
        with pytest.raises(InvalidInput) as raised:
            await settle(store, ack(message, effects=(firing,)))
        (fault,) = raised.value.errors
        assert fault.field.startswith(f"endings[0].firing.{field}")
    assert await counts(store) == Counts(claimed=1)
    assert await store.firings.list(DEFAULT, schedule_id, ALL) == ()
