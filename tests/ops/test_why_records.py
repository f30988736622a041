"""`why` answers from the record of the slot and of no other one, on both stores."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    kill,
    letters,
    make_queue,
    pull_one,
    retry,
    send,
    settle,
)
from tests.conformance.schedule_acts import end_next, lead, look, plan_now, write
from tests.kit.contexts import acting
from tests.stores.clock import VirtualClock
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.answers.schedule import Why
from tickwork.core.delivery.target import DELIVERIES_QUEUE, DELIVERIES_SETTINGS
from tickwork.core.message.outcome import Failed, Permanent
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.core.schedule.model import Schedule
from tickwork.core.schedule.plan import park
from tickwork.core.when import Limits, iso
from tickwork.ops.context import Context
from tickwork.ops.schedules import change, create
from tickwork.ops.schedules.why import why
from tickwork.ops.why import why_message, why_waits
from tickwork.store.contract import Store

HOUR = timedelta(hours=1)


@pytest.fixture
async def nine(store: Store, clock: VirtualClock) -> datetime:
    """Nine o'clock; it is half past eight."""
    await make_queue(store)
    now = clock.now()
    nine = now.replace(hour=9, minute=0, second=0, microsecond=0) + 24 * HOUR
    clock.advance(seconds=(nine - now).total_seconds() - 1_800)
    return nine


async def make(store: Store, **fields: Any) -> Schedule:
    body = {"cron_expr": "0 * * * *", "target": {"queue": WORK}, **fields}
    return await create.create(acting(store, DEFAULT, limits=Limits()), body)


async def plan_at(store: Store, clock: VirtualClock, at: datetime) -> None:
    clock.advance(seconds=(at - clock.now()).total_seconds())
    await plan_now(store, clock)


async def ask(store: Store, schedule: Schedule, at: datetime) -> Why:
    return await why(Context(store, DEFAULT), schedule.id, at)


async def test_every_slot_shows_its_own_error(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store)
    for hours, error in enumerate(("boom 1", "boom 2")):
        await plan_at(store, clock, nine + hours * HOUR)
        await end_next(store, Permanent(error))
    await plan_at(store, clock, nine + 2 * HOUR)
    await end_next(store, Failed("boom 3"))
    said = [(await ask(store, made, nine + hours * HOUR)).answer for hours in range(3)]
    assert said == [
        "It fired, and died after 1 attempt (permanent): boom 1; see its dead letter.",
        "It fired, and died after 1 attempt (permanent): boom 2; see its dead letter.",
        "It fired, and failed once: boom 3; it is not finished yet.",
    ]


async def test_a_running_slot_tells_since_when(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store)
    await plan_at(store, clock, nine)
    clock.advance(seconds=7)
    first = await pull_one(store)
    clock.advance(seconds=5)
    found = await ask(store, made, nine)
    since = iso(nine + timedelta(seconds=7))
    assert (found.code, found.answer) == (
        "running",
        f"It is running: attempt 1 started at {since}.",
    )
    await settle(store, retry(first, effects=(FiringResult(status=FiringStatus.FAILED),)))
    clock.advance(seconds=5)
    await pull_one(store)
    found = await ask(store, made, nine)
    since = iso(nine + timedelta(seconds=17))
    assert found.answer == f"It fired, and failed once; attempt 2 started at {since}."


async def test_a_slot_without_an_error_shows_none_of_another_slot(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store, expires_after_seconds=3_000)
    await plan_at(store, clock, nine)
    await plan_at(store, clock, nine + HOUR)
    await store.reaper.reap(SYSTEM, ALL)
    await end_next(store, Failed("boom"))
    clock.advance(seconds=3_000)
    await store.reaper.reap(SYSTEM, ALL)
    first, second = [await ask(store, made, nine + hours * HOUR) for hours in range(2)]
    assert (first.code, first.fired) == ("expired", False)
    assert first.answer.startswith("It did not fire: no worker started it before it expired; rec")
    assert (second.code, second.fired) == ("expired", True)
    assert second.answer == (
        "It fired, and failed once; it expired before the next attempt; see its dead letter."
    )


async def test_a_slot_that_could_not_be_planned_keeps_its_error(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store)
    clock.advance(seconds=1_800)
    leader = await lead(store)
    (due,) = await look(store, leader)
    await write(store, leader, [park(due, "no such zone")])
    await store.nodes.leave(SYSTEM, leader.node)
    recorded = iso(clock.now())
    clock.advance(seconds=1)
    await change.resume(Context(store, DEFAULT), made.id)
    await plan_at(store, clock, nine + HOUR)
    await end_next(store, Permanent("later"))
    assert (await ask(store, made, nine)).answer == (
        f"It did not fire: the slot could not be planned: no such zone; recorded at {recorded}."
    )


async def test_the_rule_identifies_the_slots_that_a_record_covers(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store, missed={"policy": "skip"})
    await plan_at(store, clock, nine + 4 * HOUR - timedelta(minutes=30))
    run = f"one of 4 slots from {iso(nine)} to {iso(nine + 3 * HOUR)}"
    for hours in range(4):
        found = await ask(store, made, nine + hours * HOUR)
        assert (found.code, found.is_slot, found.fired) == ("skipped_missed", True, False)
        assert run in found.answer
    found = await ask(store, made, nine + timedelta(minutes=77))
    assert (found.code, found.is_slot, found.firings) == ("no_slot", False, ())
    assert found.answer == (
        f"This is not one of its slots: the previous one is {iso(nine + HOUR)} "
        f"and the next one is {iso(nine + 2 * HOUR)}."
    )


async def test_after_a_change_of_rule_only_the_first_and_last_slot_are_known(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store, missed={"policy": "skip"})
    await plan_at(store, clock, nine + 4 * HOUR - timedelta(minutes=30))
    patch = {"cron_expr": "*/15 * * * *"}
    await change.update(acting(store, DEFAULT, limits=Limits()), made.id, patch)
    for hours in (0, 3):
        assert (await ask(store, made, nine + hours * HOUR)).code == "skipped_missed"
    for minutes, is_slot in ((60, True), (75, True), (77, False)):
        found = await ask(store, made, nine + timedelta(minutes=minutes))
        assert (found.code, found.fired, found.is_slot) == ("unknown", False, is_slot)
        assert found.answer == (
            "It did not fire; whether it was a slot is unknown: one record covers "
            f"4 slots from {iso(nine)} to {iso(nine + 3 * HOUR)} (it was later than its grace "
            "allows, and its missed policy skips such slots), and the rule has changed since."
        )


async def test_the_rule_identifies_days_off_that_a_record_covers(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    day = (nine + 24 * HOUR).date().isoformat()
    made = await make(store, cron_expr="0 9,10,11 * * *", exclude=[day])
    await plan_at(store, clock, nine + 27 * HOUR)
    off = await ask(store, made, nine + 25 * HOUR)
    assert (off.code, off.is_slot, len(off.firings)) == ("excluded", True, 1)
    assert off.firings[0].count == 3
    between = await ask(store, made, nine + 25 * HOUR + timedelta(minutes=1))
    assert (between.code, between.is_slot) == ("no_slot", False)


async def test_a_waiting_slot_is_found_among_many(
    store: Store, clock: VirtualClock, nine: datetime
) -> None:
    made = await make(store, cron_expr="* * * * *")
    filled = await change.backfill(
        Context(store, DEFAULT), made.id, since=nine - 24 * HOUR, until=clock.now()
    )
    assert len(filled) > 1_000
    await plan_at(store, clock, nine)
    for at in (filled[0], filled[-1], nine):
        found = await why(Context(store, DEFAULT), made.id, at)
        assert (found.code, found.at) == ("waiting", at)


@pytest.mark.parametrize(
    ("delivery", "then"),
    [
        ("at_most_once", "becomes a dead letter"),
        ("at_least_once", "is retried, up to 4 more times"),
    ],
)
async def test_a_delivery_that_is_sent_once_is_not_said_to_be_retried(
    store: Store, delivery: str, then: str
) -> None:
    await store.queues.put(SYSTEM, DELIVERIES_QUEUE, DELIVERIES_SETTINGS)
    target = {"type": "webhook", "url": "https://example.com/hook"}
    body = msgspec.json.encode({"target": target, "delivery": delivery})
    await send(store, body=body, queue=DELIVERIES_QUEUE)
    running = await pull_one(store, scope=SYSTEM, queue=DELIVERIES_QUEUE)
    found = await why_message(Context(store, SYSTEM), running.id)
    assert found.next == f"It is acked; if it fails it {then}."


async def test_a_message_of_a_dead_letter_queue_tells_how_it_died(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, "graves")
    await make_queue(store, dead_letter_queue="graves")
    sent = await send(store)
    await settle(store, retry(await pull_one(store), error="boom 1"))
    clock.advance(seconds=5)
    error = "Traceback (most recent call last):\nValueError: boom 2"
    await kill(store, await pull_one(store), reason="max_retries", error=error)
    died_at = iso(clock.now())
    (letter,) = await letters(store)
    clock.advance(seconds=60)
    found = await why_waits(Context(store, DEFAULT), public_id(Prefix.MESSAGE, sent.id))
    died = f"The message died in queue {WORK} at {died_at} after 2 attempts (max_retries)"
    assert (found.kind, found.code) == ("message", "ready")
    assert found.answer.startswith(f"{died}; in queue graves it is ready and waits for ")
    assert "its error: ValueError: boom 2" in found.details
    named = public_id(Prefix.DEAD_LETTER, letter.id)
    assert f"its dead letter is {named}: `tickwork dead show {named}`" in found.details
    await pull_one(store, queue="graves")
    found = await why_waits(Context(store, DEFAULT), public_id(Prefix.MESSAGE, sent.id))
    assert found.answer.startswith(f"{died}; in queue graves it is being handled by ")


async def test_a_message_that_died_twice_tells_both(store: Store) -> None:
    await make_queue(store, "graves")
    await make_queue(store, dead_letter_queue="graves")
    sent = await send(store)
    await kill(store, await pull_one(store), reason="max_retries", error="boom 1")
    await kill(store, await pull_one(store, queue="graves"), reason="permanent", error="boom 2")
    found = await why_waits(Context(store, DEFAULT), public_id(Prefix.MESSAGE, sent.id))
    assert (found.kind, found.answer) == (
        "dead_letter",
        "The message died in queue graves (permanent).",
    )
    first, second = found.details
    assert first == "its error: boom 2"
    assert second.startswith(f"before, it died in queue {WORK} at ")
    assert second.endswith(" after 1 attempt (max_retries): boom 1")
