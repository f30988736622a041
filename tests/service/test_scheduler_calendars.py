"""Days off: each slot on one is recorded once with that reason, whenever the schedule or its
calendar changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import product, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec import structs

from tests.service.schedule_life import Life, living
from tickwork.core import when
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.schedules.calendars import put_calendar
from tickwork.ops.schedules.public import show_schedule
from tickwork.ops.schedules.views import next_fire_in_row
from tickwork.service.scheduler import calendars

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""A Monday."""

DAY = timedelta(days=1)
NOON = START.replace(hour=12)
DAILY = {"daily_time": {"hour": 12, "minute": 0}}


def noons(*days: int) -> list[datetime]:
    return [NOON + day * DAY for day in days]


async def told(life: Life, schedule: Schedule) -> dict[str, list[datetime]]:
    """The slots that did not fire, by reason: each in one record, in the order of the records."""
    bare = structs.replace(schedule.definition.rule, exclude=(), max_firings=None, end_at=None)
    found: dict[str, list[datetime]] = {}
    for record in await life.records(schedule):
        if record.status is FiringStatus.SKIPPED:
            assert record.finished_at is not None
            assert record.finished_at >= record.slot - timedelta(seconds=30)
            last = record.last_slot or record.slot
            walked = when.iterate_slots(bare, record.slot - timedelta.resolution)
            slots = [*takewhile(lambda slot, last=last: slot <= last, walked)]  # type: ignore[misc]
            assert len(slots) == record.count
            found.setdefault(record.reason or "", []).extend(slots)
    return found


async def closed(life: Life, *days: int) -> None:
    """The calendar closes on these days, and schedules that use it are computed anew."""
    dates = [(START + day * DAY).date() for day in days]
    await put_calendar(Context(life.store, DEFAULT), "feasts", dates)


async def test_a_day_off_before_the_first_slot_is_on_record(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        off = [(START + number * DAY).date().isoformat() for number in (0, 1)]
        made = await life.create(**DAILY, exclude=off)
        many = (await life.schedules.create_many([_body(off)]))[0]
        assert await life.schedules.create_bulk([_body(off)]) == 1
        bulk = (await life.schedules.list())[-1]
        assert show_schedule(made, life.h.now).next_fire_at == NOON + 2 * DAY
        await life.until(NOON)
        assert [await told(life, schedule) for schedule in (made, many, bulk)] == [
            {"excluded": noons(0)}
        ] * 3
        await life.until(NOON + 2 * DAY)
        for schedule in (made, many, bulk):
            assert await told(life, schedule) == {"excluded": noons(0, 1)}
            assert life.slots(schedule) == noons(2)


def _body(off: Sequence[str]) -> dict[str, object]:
    return {**DAILY, "exclude": off, "target": {"type": "queue", "queue": "work"}}


async def test_a_day_that_is_made_a_day_off_later_is_on_record(
    app: Tickwork, database: str | None
) -> None:
    """Tomorrow was the next slot, and then it is not; in the end the day after is one again."""
    async with living(app, database, START) as life:
        await closed(life, 20)
        made = await life.create(**DAILY, calendar="feasts")
        await life.until(NOON + timedelta(hours=1))
        await closed(life, 1, 2, 3)
        assert next_fire_in_row(await life.now(made)) == NOON + 4 * DAY
        await life.until(NOON + DAY + timedelta(hours=1))
        assert await told(life, made) == {"excluded": noons(1)}
        await closed(life, 1, 3)
        assert next_fire_in_row(await life.now(made)) == NOON + 2 * DAY
        await life.until(NOON + 4 * DAY)
        assert life.slots(made) == noons(0, 2, 4)
        assert await told(life, made) == {"excluded": noons(1, 3)}


async def test_a_calendar_changed_behind_everybodys_back_loses_nothing(
    app: Tickwork, database: str | None
) -> None:
    """The days are changed, and the process dies before schedules are computed anew."""
    async with living(app, database, START) as life:
        await closed(life, 20)
        made = await life.create(**DAILY, calendar="feasts")
        await life.until(NOON + timedelta(hours=1))
        days = [(START + number * DAY).date() for number in (1, 2)]
        await life.store.calendars.put(DEFAULT, "feasts", days)
        await life.until(NOON + 3 * DAY)
        assert life.slots(made) == noons(0, 3)
        assert await told(life, made) == {"excluded": noons(1, 2)}


@pytest.mark.parametrize("operation", ["update", "pause", "delete"])
async def test_days_off_around_a_change_are_on_record_once(
    app: Tickwork, database: str | None, operation: str
) -> None:
    async with living(app, database, START) as life:
        off = [(START + number * DAY).date().isoformat() for number in (1, 2, 3)]
        made = await life.create(**DAILY, exclude=off)
        await life.until(NOON + DAY + timedelta(hours=1))
        match operation:
            case "update":
                await life.schedules.update(made.id, payload={"new": True})
                await life.schedules.update(made.id, exclude=[*off, "2026-01-09"])
            case "pause":
                await life.schedules.pause(made.id)
                await life.until(NOON + 2 * DAY + timedelta(hours=1))
                await life.schedules.resume(made.id)
            case _:
                await life.schedules.delete(made.id)
        await life.until(NOON + 5 * DAY)
        expected = {"update": (1, 2, 3, 4), "pause": (1, 2, 3), "delete": (1,)}[operation]
        assert await told(life, made) == {"excluded": noons(*expected)}
        fired = {"update": (0, 5), "pause": (0, 4, 5), "delete": (0,)}[operation]
        assert life.slots(made) == noons(*fired)


async def test_days_off_while_nobody_led_are_on_record_with_the_rest(
    app: Tickwork, database: str | None
) -> None:
    """Two weeks without a leader, with two weekends; what was missed between them fires late."""
    async with living(app, database, START) as life:
        weekends = [(START + number * DAY).date().isoformat() for number in (5, 6, 12, 13)]
        made = await life.create(**DAILY, exclude=weekends, missed={"cap": 6})
        paused = await life.create(**DAILY, exclude=weekends)
        await life.until(NOON + timedelta(hours=1))
        life.h._clock.move_to(NOON + 14 * DAY - timedelta(hours=1))
        await life.schedules.pause(paused.id)
        await life.h.drain()
        await life.until(NOON + 14 * DAY)
        await life.schedules.resume(paused.id)
        assert sorted(life.slots(made)) == noons(0, 4, 7, 8, 9, 10, 11, 14)
        found = await told(life, made)
        assert (found["excluded"], found["skipped_missed"]) == (
            noons(5, 6, 12, 13),
            noons(1, 2, 3),
        )
        assert (await told(life, paused))["excluded"] == noons(5, 6, 12, 13)


@pytest.mark.one_store("sqlite")
async def test_a_pause_of_what_was_caught_up_records_its_days_off_once(
    app: Tickwork, database: str | None
) -> None:
    """Slots on both sides of a weekend wait in a queue that stands still."""
    async with living(app, database, START) as life:
        weekend = [(START + number * DAY).date().isoformat() for number in (5, 6)]
        made = await life.create(**DAILY, exclude=weekend)
        await life.until(NOON + 3 * DAY + timedelta(hours=1))
        await life.store.queues.pause(DEFAULT, "work")
        await life.until(NOON + 7 * DAY + timedelta(hours=1))
        await life.schedules.pause(made.id)
        await life.until(NOON + 8 * DAY + timedelta(hours=1))
        await life.schedules.resume(made.id)
        await life.store.queues.resume(DEFAULT, "work")
        await life.until(NOON + 9 * DAY)
        assert life.slots(made) == noons(0, 1, 2, 3, 9)
        assert await told(life, made) == {"excluded": noons(5, 6), "paused": noons(4, 7, 8)}


async def test_a_pause_within_a_fire_window_records_days_off_once(
    app: Tickwork, database: str | None
) -> None:
    """Friday's last slots are not due yet when Saturday's first ones are on record."""
    midnight = datetime(2026, 1, 10, tzinfo=UTC)
    async with living(app, database, midnight - timedelta(hours=1)) as life:
        rule = {"cron_expr": "*/10 * * * *", "fire_window_seconds": 3_600}
        last = midnight - timedelta(minutes=10)
        made = await _late(life, last, timedelta(minutes=30), **rule, exclude=["2026-01-10"])
        await life.until(midnight + timedelta(minutes=5))
        await life.schedules.pause(made.id)
        await life.until(midnight + timedelta(minutes=45))
        await life.schedules.resume(made.id)
        await life.until(midnight + timedelta(minutes=75))
        found = await told(life, made)
        assert last in found["paused"]
        assert found["excluded"] == [midnight + n * timedelta(minutes=10) for n in range(8)]
        accounted = sorted([*life.slots(made), *found["paused"]])
        assert accounted == [midnight - n * timedelta(minutes=10) for n in range(5, 0, -1)]


@pytest.mark.parametrize("field", ["payload", "exclude", "calendar"])
async def test_an_update_within_a_fire_window_records_days_off_once(
    app: Tickwork, database: str | None, field: str
) -> None:
    """Friday's last slots are not due yet when Saturday's first ones are on record: they stay."""
    midnight = datetime(2026, 1, 10, tzinfo=UTC)
    async with living(app, database, midnight - timedelta(hours=1)) as life:
        rule: dict[str, Any] = {"cron_expr": "*/10 * * * *", "fire_window_seconds": 3_600}
        last = midnight - timedelta(minutes=10)
        await closed(life, 5)
        off = {"calendar": "feasts"} if field == "calendar" else {"exclude": ["2026-01-10"]}
        made = await _late(life, last, timedelta(minutes=30), **rule, **off)
        await life.until(midnight + timedelta(minutes=5))
        match field:
            case "payload":
                await life.schedules.update(made.id, payload={"new": True})
            case "exclude":
                await life.schedules.update(made.id, exclude=["2026-01-10", "2026-01-11"])
            case _:
                await closed(life, 5, 6)
        await life.until(midnight + timedelta(minutes=75))
        off_slots = [midnight + n * timedelta(minutes=10) for n in range(8)]
        assert await told(life, made) == {"excluded": off_slots}
        every = [midnight - n * timedelta(minutes=10) for n in range(5, 0, -1)]
        assert sorted(life.slots(made)) == every


async def _late(life: Life, slot: datetime, least: timedelta, **rule: Any) -> Schedule:
    """A schedule of which this slot is due so much later, at least."""
    for _ in range(1_000):
        made = await life.create(**rule)
        if when.due_at(made.definition.rule, slot) - slot >= least:
            return made
        await life.schedules.delete(made.id)
    raise AssertionError("no schedule is that late")


async def test_what_is_not_due_yet_in_a_fire_window_fires_after_a_short_pause(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        rule = {"cron_expr": "0 12 * * *", "fire_window_seconds": 7_200}
        made = await _late(life, NOON, timedelta(minutes=1), **rule, exclude=["2026-01-10"])
        await life.until(NOON + timedelta(seconds=1))
        await life.schedules.pause(made.id)
        await life.schedules.resume(made.id)
        await life.until(NOON + timedelta(hours=3))
        assert (life.slots(made), await told(life, made)) == (noons(0), {})


@pytest.mark.one_store("sqlite")
async def test_a_day_that_is_closed_while_the_window_of_its_slot_is_open_is_on_record(
    app: Tickwork, database: str | None
) -> None:
    """By its own list or by a calendar, and also if that is opened again at once."""
    async with living(app, database, START) as life:
        await closed(life)
        open_at = NOON + timedelta(seconds=2)
        owns, waiting = list[Schedule](), list[Schedule]()
        for overlap, spread in product(
            ("allow", "skip"), ("fire_window_seconds", "jitter_seconds")
        ):
            rule: dict[str, Any] = {**DAILY, spread: 7_200, "overlap": overlap}
            made = [await life.create(**rule, calendar="feasts") for _ in range(4)]
            late = [
                schedule
                for schedule in made
                if schedule.due_at is not None and schedule.due_at > open_at
            ]
            assert len(late) > 1
            owns.append(late.pop())
            waiting += late
        await life.until(open_at)
        for own in owns:
            await life.schedules.update(own.id, exclude=[NOON.date().isoformat()])
        await closed(life, 0)
        await closed(life)
        await life.until(NOON + DAY + timedelta(hours=3))
        for schedule in (*owns, *waiting):
            assert await told(life, schedule) == {"excluded": noons(0)}
            assert life.slots(schedule) == noons(1)
            assert (await life.schedules.why(schedule.id, NOON)).code == "excluded"


@pytest.mark.one_store("sqlite")
async def test_a_dead_firing_that_pauses_records_days_off_once(
    app: Tickwork, database: str | None
) -> None:
    """Thursday's firing dies on Monday, with Friday's behind it, and the weekend on record."""
    async with living(app, database, START, max_concurrency=1) as life:
        weekend = [(START + number * DAY).date().isoformat() for number in (5, 6)]
        await life.until(NOON + 2 * DAY + timedelta(hours=1))
        made = await life.create(
            **DAILY,
            exclude=weekend,
            on_dead="pause",
            retry={"max_attempts": 1},
            payload={"fails": 1},
            missed={"policy": "fire_late", "grace_seconds": 7 * 86_400},
        )
        await life.store.queues.pause(DEFAULT, "work")
        await life.until(NOON + 7 * DAY - timedelta(hours=1))
        await life.store.queues.resume(DEFAULT, "work")
        await life.until(NOON + 7 * DAY - timedelta(minutes=59))
        paused = await life.now(made)
        assert (paused.status, paused.last_slot) == (ScheduleStatus.PAUSED, NOON + 3 * DAY)
        assert (paused.next_slot, paused.fired) == (NOON + 7 * DAY, 1)
        await life.until(NOON + 8 * DAY + timedelta(hours=1))
        await life.schedules.resume(made.id)
        await life.until(NOON + 9 * DAY)
        assert life.slots(made) == noons(3, 9)
        assert await told(life, made) == {"excluded": noons(5, 6), "paused": noons(4, 7, 8)}


async def test_more_calendars_than_are_remembered_are_all_kept_to(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calendars, "CALENDARS_MAX", 3)
    async with living(app, database, START) as life:
        made: list[Schedule] = []
        for number in range(7):
            off = [(START + (number % 3) * DAY).date()]
            await life.store.calendars.put(DEFAULT, f"feast {number}", off)
            made.append(await life.create(**DAILY, calendar=f"feast {number}"))
        await life.until(NOON + 2 * DAY)
        for number, schedule in enumerate(made):
            assert (await life.now(schedule)).status is ScheduleStatus.ACTIVE
            assert life.slots(schedule) == noons(*({0, 1, 2} - {number % 3}))


async def test_a_single_time_whose_day_was_closed_ends_on_record(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        await closed(life, 20)
        made = await life.create(once_at=(NOON + DAY).isoformat(), calendar="feasts")
        await closed(life, 1)
        await life.until(NOON + 2 * DAY)
        assert life.fired == []
        assert await life.reasons(made) == [("excluded", 1)]
        assert (await life.now(made)).status is ScheduleStatus.COMPLETED


@pytest.mark.one_store("sqlite")
async def test_every_slot_of_frequent_rules_around_days_off_is_accounted_for(
    app: Tickwork, database: str | None
) -> None:
    """Over midnight, in a zone whose clocks change on the day off."""
    start = datetime(2027, 3, 27, 21, tzinfo=UTC)
    async with living(app, database, start) as life:
        rules: list[dict[str, Any]] = [
            {"interval_seconds": 2_100, "timezone": "Europe/Berlin"},
            {"interval_seconds": 30 * 60, "overlap": "skip", "timezone": "Europe/Berlin"},
            {"cron_expr": "*/40 * * * *", "jitter_seconds": 300, "timezone": "Europe/Berlin"},
            {"cron_expr": "30 0-6 * * *", "timezone": "Europe/Berlin"},
        ]
        made = [await life.create(**rule, exclude=["2027-03-28"]) for rule in rules]
        await life.h.advance(hours=30)
        for schedule in made:
            rule = schedule.definition.rule
            bare = structs.replace(rule, exclude=())
            until = life.h.now - timedelta(hours=1)
            every = when.slots_between(bare, start, until)
            given = [slot for slot in life.slots(schedule) if slot <= until]
            off = [slot for slot in (await told(life, schedule))["excluded"] if slot <= until]
            assert sorted([*given, *off]) == every
            assert len(off) == len({*off})
            zone = rule.timezone
            assert {_day(slot, zone) for slot in off} == {date(2027, 3, 28)}


def _day(slot: datetime, zone: str) -> date:
    return slot.astimezone(ZoneInfo(zone)).date()
