"""DST transitions through the whole system: a rule, a leader, a handler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.service.schedule_life import living
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.facade.app import Tickwork

HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 1, 5, 8, 50, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.one_store("sqlite")
async def test_the_night_on_which_an_hour_is_missing(app: Tickwork, database: str | None) -> None:
    """Berlin, 29 March 2026: after 01:59 comes 03:00."""
    async with living(app, database, utc("2026-03-28T21:00")) as life:
        zone = {"timezone": "Europe/Berlin"}
        in_the_gap = {"daily_time": {"hour": 2, "minute": 30}, **zone}
        after = await life.create(**in_the_gap)
        shifted = await life.create(**in_the_gap, dst={"gap": "shift"})
        skipped = await life.create(**in_the_gap, dst={"gap": "skip"})
        hourly = await life.create(cron_expr="30 * * * *", **zone)
        elapsed = await life.create(interval_minutes=120)
        await life.h.advance(hours=28)
        assert life.slots(after) == [utc("2026-03-29T01:00"), utc("2026-03-30T00:30")]
        assert life.slots(shifted) == [utc("2026-03-29T01:30"), utc("2026-03-30T00:30")]
        assert life.slots(skipped) == [utc("2026-03-30T00:30")]
        # Hour by hour, as elapsed time does: on the wall 01:30 is followed by 03:30.
        assert life.slots(hourly) == [
            utc("2026-03-28T21:30") + number * HOUR for number in range(28)
        ]
        assert life.slots(elapsed) == [
            utc("2026-03-28T23:00") + number * 2 * HOUR for number in range(14)
        ]
        assert all(firing.at == firing.slot for firing in life.fired)


async def test_the_night_on_which_an_hour_comes_twice(app: Tickwork, database: str | None) -> None:
    """New York, 1 November 2026: after 01:59 comes 01:00 again."""
    async with living(app, database, utc("2026-10-31T12:00")) as life:
        twice = {"daily_time": {"hour": 1, "minute": 30}, "timezone": "America/New_York"}
        first = await life.create(**twice)
        last = await life.create(**twice, dst={"overlap": "last"})
        both = await life.create(**twice, dst={"overlap": "both"})
        through = await life.create(cron_expr="30 * * * *", timezone="America/New_York")
        await life.h.advance(days=1)
        early, late = utc("2026-11-01T05:30"), utc("2026-11-01T06:30")
        assert life.slots(first) == [early]
        assert life.slots(last) == [late]
        assert life.slots(both) == [early, late]
        assert life.slots(through) == [
            utc("2026-10-31T12:30") + number * HOUR for number in range(24)
        ]


@pytest.mark.one_store("sqlite")
async def test_the_night_between_two_years(app: Tickwork, database: str | None) -> None:
    async with living(app, database, utc("2026-12-30T12:00")) as life:
        last_minute = await life.create(cron_expr="59 23 31 12 *")
        midnight = await life.create(cron_expr="0 0 1 1 *")
        last_day = await life.create(monthly_time={"day": "last", "hour": 0, "minute": 0})
        in_tokyo = await life.create(cron_expr="@yearly", timezone="Asia/Tokyo")
        thursdays = await life.create(weekly_time={"day_of_week": 4, "hour": 23, "minute": 59})
        await life.h.advance(days=33)
        assert life.slots(last_minute) == [utc("2026-12-31T23:59")]
        assert life.slots(midnight) == [utc("2027-01-01T00:00")]
        assert life.slots(last_day) == [utc("2026-12-31T00:00"), utc("2027-01-31T00:00")]
        assert life.slots(in_tokyo) == [utc("2026-12-31T15:00")]
        assert life.slots(thursdays)[:2] == [utc("2026-12-31T23:59"), utc("2027-01-07T23:59")]
        coming = [
            (await life.now(schedule)).next_slot for schedule in (last_minute, midnight, in_tokyo)
        ]
        assert coming == [
            utc("2027-12-31T23:59"),
            utc("2028-01-01T00:00"),
            utc("2027-12-31T15:00"),
        ]
        assert all(firing.at == firing.slot for firing in life.fired)


async def test_the_day_that_comes_every_four_years(app: Tickwork, database: str | None) -> None:
    async with living(app, database, utc("2028-02-27T12:00")) as life:
        leap = await life.create(cron_expr="0 9 29 2 *")
        last = await life.create(monthly_time={"day": "last", "hour": 9, "minute": 0})
        short = await life.create(
            monthly_time={"day": 30, "hour": 9, "minute": 0, "short_month": "last_day"}
        )
        daily = await life.create(daily_time={"hour": 9, "minute": 0})
        await life.h.advance(days=3)
        leap_day = utc("2028-02-29T09:00")
        assert life.slots(leap) == life.slots(last) == life.slots(short) == [leap_day]
        assert life.slots(daily) == [leap_day - 24 * HOUR, leap_day, leap_day + 24 * HOUR]
        assert (await life.now(leap)).next_slot == utc("2032-02-29T09:00")


async def test_a_day_that_a_zone_leaves_out(app: Tickwork, database: str | None) -> None:
    """Samoa had no 30 December 2011."""
    async with living(app, database, utc("2011-12-29T00:00")) as life:
        daily = await life.create(daily_time={"hour": 9, "minute": 0}, timezone="Pacific/Apia")
        await life.h.advance(days=3)
        assert life.slots(daily) == [
            utc("2011-12-29T19:00"),
            utc("2011-12-30T19:00"),
            utc("2011-12-31T19:00"),
        ]


@pytest.mark.one_store("sqlite")
async def test_an_update_around_the_very_minute_neither_loses_nor_doubles_it(
    app: Tickwork, database: str | None
) -> None:
    offsets = (-31, -30, -29, -1, 0, 1)
    async with living(app, database, MONDAY) as life:
        for hour, offset_seconds in enumerate(offsets, 9):
            slot = MONDAY.replace(hour=hour, minute=0)
            made = await life.create(cron_expr=f"0 {hour} * * *", payload={"n": 1})
            await life.until(slot + timedelta(seconds=offset_seconds))
            await life.schedules.update(made.id, payload={"n": 2})
            await life.until(slot + HOUR / 3)
            assert life.slots(made) == [slot], offset_seconds
            await life.schedules.update(made.id, cron_expr=f"30 {hour} * * *")
            await life.until(slot + 2 * HOUR / 3)
            assert life.slots(made) == [slot, slot + HOUR / 2]
            assert (await life.now(made)).fired == 2


async def test_an_update_to_another_time_at_the_very_minute(
    app: Tickwork, database: str | None
) -> None:
    """What was due has fired; what was only coming has not."""
    async with living(app, database, MONDAY) as life:
        for hour, offset_seconds in enumerate((-31, -29, 0, 1), 9):
            slot = MONDAY.replace(hour=hour, minute=0)
            made = await life.create(cron_expr=f"0 {hour} * * *")
            await life.until(slot + timedelta(seconds=offset_seconds))
            await life.schedules.update(made.id, cron_expr=f"5 {hour} * * *")
            await life.until(slot + HOUR / 2)
            due = [slot] if offset_seconds >= 0 else []
            assert life.slots(made) == [*due, slot + HOUR / 12], offset_seconds


@pytest.mark.one_store("sqlite")
async def test_a_pause_at_the_very_minute_and_a_resume_after_it(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, MONDAY) as life:
        for hour, offset_seconds in enumerate((-31, -29, 0), 9):
            slot = MONDAY.replace(hour=hour, minute=0)
            made = await life.create(cron_expr=f"0,40 {hour} * * *")
            await life.until(slot + timedelta(seconds=offset_seconds))
            await life.schedules.pause(made.id)
            await life.until(slot + HOUR / 2)
            resumed = await life.schedules.resume(made.id)
            assert resumed.status is ScheduleStatus.ACTIVE
            await life.until(slot + 0.8 * HOUR)
            is_over = offset_seconds >= 0
            assert life.slots(made) == [*([slot] if is_over else []), slot + HOUR * 2 / 3]
            assert await life.reasons(made) == ([] if is_over else [("paused", 1)])
