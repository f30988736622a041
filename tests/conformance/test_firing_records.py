"""A slot's record has its own error and its own number of attempts."""

import pytest

from tests.conformance.acts import ALL, make_queue, pull, settle
from tests.conformance.schedule_acts import (
    create,
    created_due,
    end_next,
    firings,
    look,
    one_plan,
    plan_now,
    trigger,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed, Outcome, Permanent, Succeeded
from tickwork.core.model import SYSTEM, QueueSettings
from tickwork.core.schedule.plan import PlanResult, park
from tickwork.core.schedule.slot_outcome import LEASE_RAN_OUT, missed_ending
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def test_each_attempt_records_its_own_error(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    trace = "Traceback (most recent call last):\n  somewhere\nValueError: first\nsee elsewhere"
    await end_next(store, Failed(trace))
    clock.advance(seconds=30)
    await end_next(store, Permanent("second"))
    clock.advance(seconds=30)
    await plan_now(store, clock)
    await end_next(store)
    assert [
        (firing.attempt, firing.status, firing.excerpt) for firing in await firings(store, made)
    ] == [
        (1, "failed", "ValueError: first"),
        (2, "dead", "second"),
        (1, "succeeded", None),
    ]


async def test_several_attempts_settled_together_record_their_own_errors(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = [await create(store, clock) for _ in range(3)]
    clock.advance(seconds=60)
    await plan_now(store, clock)
    found = {message.schedule_id: message for message in await pull(store)}
    said: list[Outcome] = [Succeeded(), Permanent("one"), Permanent("other")]
    endings = [
        decide.settle(found[schedule.id], outcome, QueueSettings())
        for schedule, outcome in zip(made, said, strict=True)
    ]
    await settle(store, *endings)
    kept = [[firing.excerpt for firing in await firings(store, schedule)] for schedule in made]
    assert kept == [[None], ["one"], ["other"]]


async def test_an_expired_pull_lease_records_its_reason(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, max_retries=1)
    made = await created_due(store, clock)
    for _ in range(2):
        await pull(store, lease_seconds=30)
        clock.advance(seconds=31)
        await store.reaper.reap(SYSTEM, ALL)
    assert [
        (firing.attempt, firing.status, firing.excerpt) for firing in await firings(store, made)
    ] == [
        (1, "failed", LEASE_RAN_OUT),
        (2, "dead", LEASE_RAN_OUT),
    ]


async def test_a_slot_that_could_not_be_planned_records_the_error(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, _ = await one_plan(store, clock)
    (due,) = await look(store, leader)
    long = "no such zone; " + "x" * 3_000
    assert await write(store, leader, [park(due, long)]) == PlanResult(done=(0,))
    (record,) = await firings(store, made)
    assert (record.reason, record.excerpt) == ("plan_error", long[:2_000])


async def test_a_missed_slot_records_no_error(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=600, missed={"policy": "skip"})
    assert [(firing.status, firing.excerpt) for firing in await firings(store, made)] == [
        ("skipped", None)
    ]


async def test_a_slot_skipped_at_its_claim_records_no_attempt(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, after_seconds=30, missed={"policy": "skip"})
    clock.advance(seconds=600)
    (message,) = await pull(store)
    assert message.is_late
    await settle(store, missed_ending(message))
    (record,) = await firings(store, made)
    assert (record.status, record.reason, record.attempt) == ("skipped", "skipped_missed", 0)
    assert record.catch_up


async def test_an_expired_slot_records_its_attempts_and_unstarted_ones_are_counted(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, max_retries=5)
    made = await created_due(store, clock, interval_seconds=600, after_seconds=600,
                             expires_after_seconds=60)  # fmt: skip
    await end_next(store, Failed("no"))
    clock.advance(seconds=61)
    assert (await store.reaper.reap(SYSTEM, ALL)).expired_slots == 0
    await trigger(store, made)
    clock.advance(seconds=61)
    reaped = await store.reaper.reap(SYSTEM, ALL)
    assert (reaped.dead, reaped.expired_slots) == (1, 0)  # An extra run is not a slot.
    clock.advance(seconds=600 - 2 * 61)
    await plan_now(store, clock)
    clock.advance(seconds=61)
    reaped = await store.reaper.reap(SYSTEM, ALL)
    assert (reaped.dead, reaped.expired_slots) == (1, 1)
    found = [(firing.run, firing.attempt, firing.status) for firing in await firings(store, made)]
    assert found == [(0, 1, "failed"), (0, 1, "expired"), (1, 0, "expired"), (0, 0, "expired")]
