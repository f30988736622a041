"""The record of a slot never becomes false, and a schedule keeps its promises about its slots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.service.schedule_life import QUEUE, living
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.facade.app import Tickwork

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def minutes(slots: list[datetime]) -> list[int]:
    return [(slot - START) // MINUTE for slot in slots]


async def test_nobody_begins_with_a_slot_that_has_expired(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        made = await life.create(interval_seconds=3_600, expires_after_seconds=5_400)
        await life.h.outage(hours=4, minutes=10)
        await life.h.advance(minutes=10)
        assert life.slots(made) == [START + 3 * HOUR, START + 4 * HOUR]
        assert await life.reasons(made) == [("expired", 2)]
        why = await life.schedules.why(made.id, START + 2 * HOUR)
        assert (why.code, why.fired) == ("expired", False)


async def test_a_slot_past_the_end_comes_if_the_end_is_moved_before_its_time(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        made = await life.create(
            interval_seconds=3_600, end_at=(START + 1.5 * HOUR).isoformat(), name="bounded"
        )
        await life.h.advance(minutes=70)
        assert (await life.now(made)).status is ScheduleStatus.COMPLETED
        assert await life.reasons(made) == []
        await life.schedules.update(made.id, end_at=(START + 9 * HOUR).isoformat())
        await life.h.advance(minutes=60)
        assert life.slots(made) == [START + HOUR, START + 2 * HOUR]
        assert await life.reasons(made) == []


async def test_a_slot_that_could_not_be_planned_is_on_record_and_does_not_come(
    app: Tickwork, database: str | None
) -> None:
    """A single time comes again, as a slot of its own."""
    async with living(app, database, START) as life:
        gone = {"target": {"type": "queue", "queue": "gone"}}
        queue = await life.store.queues.get(DEFAULT, QUEUE)
        await life.store.queues.put(DEFAULT, "gone", queue.settings)
        often = await life.create(interval_seconds=3_600, **gone)
        once = await life.create(once_at=(START + HOUR).isoformat(), **gone)
        await life.store.queues.delete(DEFAULT, "gone")
        await life.h.advance(minutes=70)
        target: dict[str, Any] = {"target": {"type": "queue", "queue": QUEUE}}
        await life.schedules.update(often.id, **target, missed={"grace_seconds": 120})
        await life.schedules.update(once.id, **target)
        assert (await life.now(once)).status is ScheduleStatus.PARKED
        await life.schedules.resume(once.id)
        await life.h.advance(minutes=60)
        assert minutes(life.slots(often)) == [120]
        assert minutes(life.slots(once)) == [70]
        for made in (often, once):
            assert await life.reasons(made) == [("plan_error", 1)]
        assert (await life.now(once)).status is ScheduleStatus.COMPLETED


@pytest.mark.one_store("sqlite")
async def test_what_stands_in_line_behind_a_long_run_runs(
    app: Tickwork, database: str | None
) -> None:
    """Its first attempts fail for ten minutes: that is unfinished. The policy for missed slots
    makes no difference."""
    policies: list[Any] = [{}, {"policy": "skip"}, {"policy": "fire_most_recent"}]
    async with living(app, database, START) as life:
        retry = {"max_attempts": 30, "backoff": {"kind": "fixed", "seconds": 60}}
        schedules = [
            await life.create(
                interval_seconds=60,
                overlap="buffer_all",
                missed=missed,
                payload={"fails": 10},
                retry=retry,
                max_firings=6,
            )
            for missed in policies
        ]
        await life.h.advance(minutes=7)
        for made in schedules:
            await life.schedules.update(made.id, payload={"fails": 0})
        await life.h.advance(minutes=100)
        for made in schedules:
            begun = [firing.slot for firing in life.fired_of(made) if firing.attempt == 1]
            assert minutes(begun) == [*range(1, 7)]
            assert not any(firing.catch_up for firing in life.fired_of(made))
            assert await life.reasons(made) == []


@pytest.mark.one_store("sqlite")
async def test_a_line_that_nobody_served_is_judged_by_the_policy(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        made = [
            await life.create(interval_seconds=60, overlap="buffer_all", missed=missed)
            for missed in ({"policy": "fire_late", "cap": 3}, {"policy": "skip"})
        ]
        await life.store.queues.pause(DEFAULT, QUEUE)
        await life.h.advance(minutes=20)
        await life.store.queues.resume(DEFAULT, QUEUE)
        await life.h.advance(seconds=1)
        late, skipped = (minutes(life.slots(schedule)) for schedule in made)
        assert late == [16, 17, 18, 19, 20]
        assert skipped == [19, 20]


async def failing_delay(life: Any, *, fails: int, again_seconds: int, **fields: Any) -> Any:
    """A delay of ten minutes whose first run fails so often, and is tried again so much later."""
    retry = {"max_attempts": 9, "backoff": {"kind": "fixed", "seconds": again_seconds}}
    delay = {"interval_seconds": 600, "interval_mode": "fixed_delay"}
    return await life.create(**delay, payload={"fails": fails}, retry=retry, **fields)


async def test_another_delay_waits_for_the_run_that_is_under_way(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        made = await failing_delay(life, fails=4, again_seconds=300)
        await life.h.advance(minutes=11)
        timing = {"interval_seconds": 120, "interval_mode": "fixed_delay"}
        changed = await life.schedules.update(made.id, **timing, payload=None)
        assert (changed.status, changed.next_slot) == (ScheduleStatus.ACTIVE, None)
        await life.h.advance(minutes=23)
        # It ended at 30, and the delay is the new one.
        begun = [firing.slot for firing in life.fired_of(made) if firing.attempt == 1]
        assert minutes(begun) == [10, 32, 34]


@pytest.mark.parametrize("timing", [{}, {"interval_seconds": 300, "interval_mode": "fixed_delay"}])
async def test_a_delay_that_is_given_more_runs_during_its_last_one_goes_on(
    app: Tickwork, database: str | None, timing: dict[str, Any]
) -> None:
    async with living(app, database, START) as life:
        made = await failing_delay(life, fails=2, again_seconds=60, max_firings=1)
        await life.h.advance(seconds=630)
        await life.schedules.update(made.id, **timing, max_firings=3, payload=None)
        await life.h.advance(minutes=60)
        begun = [firing.slot for firing in life.fired_of(made) if firing.attempt == 1]
        assert len(begun) == 3
        assert (await life.now(made)).status is ScheduleStatus.COMPLETED


async def test_a_delay_whose_run_ended_while_it_was_paused_goes_on_when_it_is_resumed(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        made = await failing_delay(life, fails=1, again_seconds=300)
        await life.h.advance(minutes=11)
        await life.schedules.pause(made.id)
        await life.h.advance(minutes=10)
        resumed = await life.schedules.resume(made.id)
        assert resumed.next_slot == START + 25 * MINUTE
        await life.schedules.pause(made.id)
        await life.h.advance(minutes=60)
        resumed = await life.schedules.resume(made.id)
        assert resumed.next_slot == life.h.now + 10 * MINUTE
        assert await life.reasons(made) == [("paused", 1)]
