"""Policies for slots that are missed, overlap or fail, through the whole system."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.service.schedule_life import QUEUE, living, unaccounted
from tickwork.core import when
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.facade.app import Tickwork

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

LATE: list[tuple[dict[str, Any], list[int]]] = [
    ({"policy": "fire_late"}, [1, 2, 3, 4, 5, 6]),
    ({"policy": "fire_late", "cap": 2}, [3, 4, 5, 6]),
    ({"policy": "fire_most_recent"}, [5, 6]),
    ({"policy": "skip"}, [5, 6]),
    ({"policy": "skip", "grace_seconds": 600}, [1, 2, 3, 4, 5, 6]),
]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("at_once", [1, 50])
async def test_workers_that_were_away_handle_what_the_policy_says(
    app: Tickwork, database: str | None, at_once: int
) -> None:
    """The slots were planned in time, and nobody was there to claim them for six minutes; then
    they are claimed one by one, or all at once."""
    async with living(app, database, START, max_concurrency=at_once) as life:
        made = [await life.create(interval_seconds=60, missed=missed) for missed, _ in LATE]
        await life.store.queues.pause(DEFAULT, QUEUE)
        await life.h.advance(seconds=6 * 60)
        assert life.fired == []
        await life.store.queues.resume(DEFAULT, QUEUE)
        await life.h.drain()
        slots = [START + number * MINUTE for number in range(1, 7)]
        for schedule, (missed, expected) in zip(made, LATE, strict=True):
            given = life.slots(schedule)
            assert sorted(round((slot - START) / MINUTE) for slot in given) == expected, missed
            assert unaccounted(slots, given, await life.records(schedule)) == []
            grace = timedelta(seconds=missed.get("grace_seconds", 60))
            late = {firing.slot: firing.catch_up for firing in life.fired_of(schedule)}
            assert late == {slot: life.h.now - slot > grace for slot in given}


async def test_what_was_late_counts_for_its_schedule_as_any_end_does(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        once = (START + MINUTE).isoformat()
        made = await life.create(once_at=once, missed={"policy": "skip"})
        await life.store.queues.pause(DEFAULT, QUEUE)
        await life.h.advance(minutes=10)
        await life.store.queues.resume(DEFAULT, QUEUE)
        await life.h.drain()
        assert life.fired == []
        assert (await life.now(made)).status is ScheduleStatus.COMPLETED
        assert await life.reasons(made) == [("skipped_missed", 1)]


async def test_a_triggered_run_is_never_too_late(app: Tickwork, database: str | None) -> None:
    async with living(app, database, START) as life:
        made = await life.create(interval_seconds=86_400, missed={"policy": "skip"})
        await life.schedules.trigger(made.id)
        await life.store.queues.pause(DEFAULT, QUEUE)
        await life.h.advance(minutes=10)
        await life.store.queues.resume(DEFAULT, QUEUE)
        await life.h.drain()
        assert len(life.fired) == 1


OVERLAPS = {
    "allow": [1, 2, 3, 4],
    "skip": [1, 4],
    "buffer_one": [1, 2, 4],
    "buffer_all": [1, 2, 3, 4],
}


async def test_a_firing_that_waits_for_its_retry_is_unfinished(
    app: Tickwork, database: str | None
) -> None:
    """The first firing fails, and comes back after two and a half minutes."""
    retry = {"max_attempts": 3, "backoff": {"kind": "fixed", "seconds": 150}}
    async with living(app, database, START) as life:
        made = {
            overlap: await life.create(
                interval_seconds=60, overlap=overlap, retry=retry, payload={"fails": 1}
            )
            for overlap in OVERLAPS
        }
        await life.h.advance(seconds=65)
        for schedule in made.values():
            await life.schedules.update(schedule.id, payload={"fails": 0})
        await life.h.advance(seconds=175)
        slots = [START + number * MINUTE for number in range(1, 5)]
        for overlap, expected in OVERLAPS.items():
            fired = life.fired_of(made[overlap])
            done = [firing for firing in fired if firing.slot != slots[0] or firing.attempt == 2]
            given = [firing.slot for firing in done]
            assert sorted(given) == [START + number * MINUTE for number in expected], overlap
            assert unaccounted(slots, given, await life.records(made[overlap])) == []
            if overlap.startswith("buffer"):  # In line: the retry went before those behind it.
                assert given == sorted(given)


async def test_a_fixed_delay_counts_from_the_end_of_the_run_before(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        retry = {"max_attempts": 2, "backoff": {"kind": "fixed", "seconds": 30}}
        made = await life.create(
            interval_seconds=120,
            interval_mode="fixed_delay",
            payload={"fails": 1},
            retry=retry,
        )
        await life.h.advance(seconds=10 * 60)
        ends = [firing.at for firing in life.fired if firing.attempt == 2]
        begins = [firing.at for firing in life.fired if firing.attempt == 1]
        assert begins[0] == START + 2 * MINUTE
        assert [begin - end for end, begin in zip(ends, begins[1:], strict=False)] == [
            2 * MINUTE
        ] * 3
        assert (await life.now(made)).error_count in (0, 1)


async def test_a_fixed_delay_stops_after_its_last_firing(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        made = await life.create(interval_seconds=60, interval_mode="fixed_delay", max_firings=3)
        await life.h.advance(minutes=30)
        assert len(life.slots(made)) == 3
        assert (await life.now(made)).status is ScheduleStatus.COMPLETED


async def test_a_schedule_ends_with_its_last_firing(app: Tickwork, database: str | None) -> None:
    async with living(app, database, START) as life:
        counted = await life.create(interval_seconds=60, max_firings=3)
        bounded = await life.create(interval_seconds=60, end_at=(START + 2.5 * MINUTE).isoformat())
        once = await life.create(once_at=(START + MINUTE).isoformat())
        past = await life.create(once_at=(START - MINUTE).isoformat())
        await life.h.advance(minutes=10)
        for made, number in ((counted, 3), (bounded, 2), (once, 1), (past, 1)):
            assert len(life.slots(made)) == number
            now = await life.now(made)
            assert (now.status, now.next_slot) == (ScheduleStatus.COMPLETED, None)
        assert await life.reasons(bounded) == []


async def test_a_dead_firing_pauses_its_schedule_where_that_is_wanted(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        bad = {"payload": {"fails": 9}, "retry": {"max_attempts": 1}}
        goes_on = await life.create(interval_seconds=60, **bad)
        pauses = await life.create(interval_seconds=60, on_dead="pause", **bad)
        parks = await life.create(once_at=(START + MINUTE).isoformat(), **bad)
        await life.h.advance(minutes=5)
        assert [len(life.slots(schedule)) for schedule in (goes_on, pauses, parks)] == [5, 1, 1]
        found = [(await life.now(schedule)).status for schedule in (goes_on, pauses, parks)]
        active, paused, parked = (
            ScheduleStatus.ACTIVE,
            ScheduleStatus.PAUSED,
            ScheduleStatus.PARKED,
        )
        assert found == [active, paused, parked]
        assert (await life.now(pauses)).last_error == "ValueError: it fails"


async def test_days_off_are_left_out_and_on_record(app: Tickwork, database: str | None) -> None:
    async with living(app, database, START) as life:
        await life.store.calendars.put(DEFAULT, "feasts", [date(2026, 1, 7), date(2026, 1, 8)])
        made = await life.create(daily_time={"hour": 12, "minute": 0}, calendar="feasts")
        rolled = await life.create(
            daily_time={"hour": 12, "minute": 0}, exclude=["2026-01-07"], roll="next_day"
        )
        await life.h.advance(days=6)
        noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
        assert life.slots(made) == [noon + timedelta(days=number) for number in (0, 1, 4, 5)]
        assert await life.reasons(made) == [("excluded", 1)] * 2
        assert life.slots(rolled) == [noon + timedelta(days=number) for number in (0, 1, 3, 4, 5)]


async def test_jitter_and_windows_make_firings_late_and_never_early(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        jittered = await life.create(interval_seconds=3_600, jitter_seconds=600)
        spread = await life.create(interval_seconds=3_600, fire_window_seconds=3_000)
        await life.h.advance(hours=6)
        for made in (jittered, spread):
            rule = made.definition.rule
            fired = life.fired_of(made)
            assert len(fired) >= 5
            for firing in fired:
                assert firing.at == when.due_at(rule, firing.slot)
                assert not firing.catch_up
        assert len({firing.at - firing.slot for firing in life.fired}) > 4


async def test_a_leader_that_was_away_catches_up_and_says_what_it_left_out(
    app: Tickwork, database: str | None
) -> None:
    """Nobody looked for three hours."""
    async with living(app, database, START) as life:
        made = await life.create(interval_seconds=60, missed={"cap": 5})
        skips = await life.create(interval_seconds=60, missed={"policy": "skip"})
        now = START + timedelta(hours=3)
        life.h._clock.move_to(now)
        await life.h.drain()
        await life.h.advance(seconds=1)
        slots = [START + index * MINUTE for index in range(1, 181)]
        for schedule, number in ((made, 7), (skips, 2)):
            assert len(life.slots(schedule)) == number
            assert unaccounted(slots, life.slots(schedule), await life.records(schedule)) == []
        assert await life.reasons(made) == [("skipped_missed", 173)]
        catch_ups = [firing for firing in life.fired if firing.catch_up]
        assert [firing.slot for firing in catch_ups] == slots[-7:-2]
        # One after the other, a thousandth of a second apart, behind what is on time.
        assert [firing.at - now for firing in catch_ups] == [
            timedelta(milliseconds=index) for index in range(5)
        ]
        on_time = [firing.at for firing in life.fired if not firing.catch_up]
        assert set(on_time) == {now}


async def test_firings_say_which_attempt_ended_how(app: Tickwork, database: str | None) -> None:
    async with living(app, database, START) as life:
        retry = {"max_attempts": 3, "backoff": {"kind": "fixed", "seconds": 10}}
        made = await life.create(interval_seconds=3_600, payload={"fails": 2}, retry=retry)
        await life.h.advance(hours=1, minutes=5)
        records = await life.records(made)
        assert [(record.attempt, record.status) for record in records] == [
            (1, FiringStatus.FAILED),
            (2, FiringStatus.FAILED),
            (3, FiringStatus.SUCCEEDED),
        ]
        assert {record.slot for record in records} == {START + 60 * MINUTE}
        now = await life.now(made)
        assert (now.error_count, now.last_error, now.last_status) == (0, None, "succeeded")
