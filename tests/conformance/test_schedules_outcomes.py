"""What a schedule shows after partial, simultaneous and lease-expired outcomes."""

from collections.abc import Sequence

import pytest

from tests.conformance.acts import ALL, ack, dead, letters, make_queue, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    end_next,
    firings,
    records,
    trigger,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.outcome import Failed
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Settlement
from tickwork.core.schedule.firing import FiringResult, FiringStatus, FollowUp
from tickwork.core.schedule.model import OnDead, Retry, Schedule, ScheduleStatus
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

GOOD, PART, BAD, OVER, UNSEEN, PAST = (
    FiringStatus.SUCCEEDED,
    FiringStatus.PARTIAL,
    FiringStatus.FAILED,
    FiringStatus.DEAD,
    FiringStatus.SKIPPED,
    FiringStatus.EXPIRED,
)
LEASE = "the pull lease ran out"
DAY = {"interval_seconds": 86_400, "after_seconds": 86_400}

COUNTED: list[tuple[Sequence[FiringStatus], int, str | None]] = [
    ((GOOD, BAD, BAD), 2, "2"),
    ((BAD, GOOD), 0, None),
    ((BAD, PART), 1, "1"),
    ((PART, GOOD), 0, None),
    ((GOOD, PART), 0, "1"),
    ((BAD, BAD, OVER), 2, "2"),
    ((BAD, OVER, BAD), 1, "2"),
    ((BAD, PAST, PART), 0, "2"),
    ((BAD, BAD, PAST, OVER), 0, "3"),
    ((BAD, UNSEEN), 1, "0"),
    ((UNSEEN, UNSEEN), 0, None),
    ((OVER, UNSEEN, BAD), 1, "2"),
]
"""Outcomes of one schedule by slot, the resulting error count, and the number of the last error."""


def stands(schedule: Schedule) -> tuple[object, ...]:
    return schedule.error_count, schedule.last_error, schedule.last_status


def ending(message: Message, status: FiringStatus, error: str) -> Ending:
    record = FiringResult(status=status, error=error)
    if status in (GOOD, PART, UNSEEN):
        return ack(message, effects=(record,))
    if status is BAD:
        return Ending(
            claim=message.current_claim, fate=Fate.RETRY, delay_seconds=600, effects=(record,)
        )
    return dead(message, effects=(record,))


async def endings(store: Store, statuses: Sequence[FiringStatus]) -> list[Ending]:
    """Ends the first waiting slots with these outcomes, by slot."""
    found = sorted(await pull(store), key=lambda message: str(message.slot))
    return [
        ending(message, status, str(number))
        for number, (message, status) in enumerate(zip(found, statuses, strict=False))
    ]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("statuses", "count", "error"), COUNTED)
async def test_outcomes_count_in_slot_order_however_they_are_settled(
    store: Store,
    clock: VirtualClock,
    statuses: Sequence[FiringStatus],
    count: int,
    error: str | None,
    together: bool,
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, interval_seconds=10, after_seconds=40)
    ended = await endings(store, statuses)
    if together:
        await store.messages.settle(SYSTEM, Settlement(tuple(reversed(ended))))
    else:
        for message_ending in ended:
            await store.messages.settle(SYSTEM, Settlement((message_ending,)))
    seen = [outcome for outcome in statuses if outcome is not UNSEEN]
    status = str(seen[-1]) if seen else None
    assert stands(await again(store, made)) == (count, error, status)
    assert sorted(firing.status for firing in await firings(store, made)) == sorted(statuses)


async def test_a_partial_success_shows_its_error_and_keeps_the_error_count(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    once = (clock.now() + MINUTE).isoformat()
    made = await created_due(store, clock, once_at=once)
    await end_next(store, Failed("first"))
    clock.advance(seconds=3_600)
    (message,) = await pull(store)
    record = FiringResult(status=PART, error="partial: webhook", follow_up=FollowUp.COMPLETE)
    await store.messages.settle(SYSTEM, Settlement((ack(message, effects=(record,)),)))
    now = await again(store, made)
    assert stands(now) == (1, "partial: webhook", "partial")
    assert (now.status, now.version) == (ScheduleStatus.COMPLETED, made.version + 1)


async def test_of_a_pause_and_a_completion_in_one_settlement_the_later_slot_counts(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(
        store,
        clock,
        interval_seconds=10,
        after_seconds=20,
        max_firings=2,
        on_dead=OnDead.PAUSE,
    )
    first, last = sorted(await pull(store), key=lambda message: str(message.slot))
    paused = dead(first, effects=(FiringResult(status=OVER, error="no", follow_up=FollowUp.PAUSE),))
    over = ack(last, effects=(FiringResult(status=GOOD, follow_up=FollowUp.COMPLETE),))
    await store.messages.settle(SYSTEM, Settlement((over, paused)))
    now = await again(store, made)
    assert (now.status, now.version) == (ScheduleStatus.COMPLETED, made.version + 1)
    assert stands(now) == (0, None, "succeeded")


async def lose_a_lease(store: Store, clock: VirtualClock) -> None:
    assert len(await pull(store, lease_seconds=1)) == 1
    clock.advance(seconds=1)
    await store.reaper.reap(SYSTEM, ALL)


async def test_an_expired_pull_lease_is_recorded_as_a_failed_attempt(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, **DAY)
    slot = made.last_slot
    await lose_a_lease(store, clock)
    now = await again(store, made)
    assert (now.status, stands(now)) == (ScheduleStatus.ACTIVE, (1, LEASE, "failed"))
    assert now.version == made.version
    (firing,) = await firings(store, made)
    assert (firing.slot, firing.attempt, firing.status) == (slot, 1, BAD)
    assert (firing.reason, firing.started_at, firing.finished_at) == (
        None,
        clock.now(),
        clock.now(),
    )
    await end_next(store)
    assert stands(await again(store, made)) == (0, None, "succeeded")
    assert [record.attempt for record in await firings(store, made)] == [1, 2]


@pytest.mark.parametrize("tries", [None, 1, 2, 6])
async def test_expired_leases_use_the_retry_limit_of_the_schedule_or_else_of_its_queue(
    store: Store, clock: VirtualClock, tries: int | None
) -> None:
    await make_queue(store, max_retries=3)
    retry = None if tries is None else Retry(max_attempts=tries, backoff=Fixed(5))
    made = await created_due(store, clock, retry=retry, **DAY)
    most = tries or 4
    for _ in range(most):
        await lose_a_lease(store, clock)
    assert await pull(store) == ()
    failed = [("failed", None, 1)] * (most - 1)
    assert await records(store, made) == [*failed, ("dead", "max_retries", 1)]
    assert [firing.attempt for firing in await firings(store, made)] == [*range(1, most + 1)]
    assert stands(await again(store, made)) == (most - 1, LEASE, "dead")
    assert [letter.attempts for letter in await letters(store)] == [most]


async def test_an_expired_lease_on_the_last_attempt_ends_its_schedule_like_any_dead_firing(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    one_try = Retry(max_attempts=1)
    once = (clock.now() + MINUTE).isoformat()
    made = await created_due(store, clock, once_at=once, retry=one_try)
    await lose_a_lease(store, clock)
    now = await again(store, made)
    assert (now.status, now.version) == (ScheduleStatus.PARKED, made.version + 1)
    other = await created_due(store, clock, on_dead=OnDead.PAUSE, retry=one_try, **DAY)
    await lose_a_lease(store, clock)
    assert (await again(store, other)).status is ScheduleStatus.PAUSED


async def test_an_expired_lease_of_an_extra_run_does_not_change_the_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, on_dead=OnDead.PAUSE, retry=Retry(max_attempts=1))
    triggered = await trigger(store, made)
    await lose_a_lease(store, clock)
    now = await again(store, made)
    assert (now.status, now.version) == (ScheduleStatus.ACTIVE, triggered.version)
    assert stands(now) == (0, LEASE, "dead")
    (firing,) = await firings(store, made)
    assert (firing.run, firing.status, firing.reason) == (1, OVER, "max_retries")
