"""A year of mixed schedules in all zones, in virtual time: every slot is accounted for.

Time moves in large steps, and everything within a step counts as on time: what is looked at here is
the account, not the pace. The slots are those of an independent walk, day by day and zone by zone
(`tests.when.reference`), where it knows the timing, else those of the rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.service.schedule_life import TARGET, Life, living, unaccounted
from tests.when import reference
from tests.when.zones import all_zones
from tickwork.core import when
from tickwork.core.schedule import Schedule
from tickwork.facade import Tickwork

START = datetime(2027, 12, 31, 22, 30, tzinfo=UTC)
"""So that the year has 29 February."""

SLOTS = 250
GRACE_SECONDS = 40 * 86_400
WALKED = ((START, 4), (datetime(2028, 3, 25, tzinfo=UTC), 3))
"""From when on, and for how many days, slots are walked minute by minute."""


def mixed(number: int) -> Iterator[dict[str, Any]]:
    """Schedules of every kind, spread over the zones."""
    zones, random = all_zones(), Random(7)
    random.shuffle(zones)
    for place in range(number):
        clock = {"hour": random.choice((0, 1, 2, 3, 9, 23)), "minute": random.choice((0, 30, 59))}
        kinds: list[dict[str, Any]] = [
            {"weekly_time": {**clock, "day_of_week": random.sample(range(7), 2)}},
            {"monthly_time": {**clock, "day": random.choice((1, 29, 30, 31, "last"))}},
            {"cron_expr": f"{clock['minute']} {clock['hour']} * * {random.choice('0123456')}"},
            {"cron_expr": f"{clock['minute']} {clock['hour']} L * *"},
            {"interval_seconds": random.choice((86_400, 100_000, 604_800))},
            {"rrule": "FREQ=WEEKLY;BYDAY=MO,FR", "start_at": "2027-06-01T02:30:00"},
            {"cron_expr": f"{clock['minute']} {clock['hour']} * * *", "max_firings": 40},
            {"daily_time": clock, "end_at": "2028-04-15T00:00:00Z"},
        ]
        fields = kinds[place % len(kinds)]
        if place % 3 == 0:
            fields["dst"] = {
                "gap": random.choice(reference.GAPS),
                "overlap": random.choice(reference.OVERLAPS),
            }
        if place % 5 == 0 and "interval_seconds" not in fields:
            fields["exclude"] = ["2028-02-29", "2028-12-25", "2028-03-26"]
        if place % 7 == 0:
            fields["jitter_seconds"] = 600
        yield {
            **fields,
            "timezone": zones[place % len(zones)],
            "target": TARGET,
            "missed": {"policy": "fire_late", "cap": 100, "grace_seconds": GRACE_SECONDS},
        }


async def live_a_year(life: Life, number: int, *, days: int, step_days: int) -> None:
    bodies = [*mixed(number)]
    made: list[Schedule] = []
    for first in range(0, number, 500):
        made += await life.schedules.create_many(bodies[first : first + 500])
    for _ in range(0, days, step_days):
        life.h._clock.advance(seconds=step_days * 86_400)
        await life.h.keep()
        await life.h.drain()
    await life.h.advance(hours=1)
    given: dict[UUID, list[datetime]] = defaultdict(list)
    for fired in life.fired:
        given[fired.schedule_id].append(fired.slot)
    faults: list[str] = []
    for fields, schedule in zip(bodies, made, strict=True):
        faults += await _faults(life, fields, schedule, given[schedule.id])
    assert faults == []


async def _faults(
    life: Life, fields: dict[str, Any], schedule: Schedule, given: list[datetime]
) -> Iterator[str]:
    """What is wrong with the account of one schedule."""
    rule = schedule.definition.rule
    now = life.h.now
    expected = when.slots_between(rule, schedule.created_at, now - timedelta(hours=1))
    # What came up within the last hour may or may not be planned, due and handled yet.
    seen = [slot for slot in given if slot <= now - timedelta(hours=1)]
    records = [
        each for each in await life.records(schedule) if each.slot <= now - timedelta(hours=1)
    ]
    excluded = [each for each in records if each.reason in ("excluded", "past_end")]
    missing = unaccounted(expected, seen, [each for each in records if each not in excluded])
    faults = [f"{fields}: {fault}" for fault in missing]
    faults += [f"{fields}: {fault}" for fault in _walked(fields, schedule, seen, now)]
    return iter(faults)


def _walked(
    fields: dict[str, Any], schedule: Schedule, seen: list[datetime], now: datetime
) -> Iterator[str]:
    """Where the independent walk differs, in the days around the change of the year and of the
    clocks in March."""
    if not {"weekly_time", "monthly_time", "daily_time", "cron_expr"} & {*fields}:
        return
    if "L" in str(fields.get("cron_expr")) or "max_firings" in fields or "end_at" in fields:
        return
    dst = {"gap": "run_after", "overlap": "first"} | fields.get("dst", {})
    timing = {name: value for name, value in fields.items() if name in ("exclude", *_TIMINGS)}
    if "monthly_time" in timing:
        timing["monthly_time"] = {"short_month": "skip", **timing["monthly_time"]}
    for begin, days in WALKED:
        end = begin + timedelta(days=days)
        if end > now:
            return
        walk = reference.Walk(ZoneInfo(schedule.definition.rule.timezone), begin, end)
        expected = reference.meet(reference.read(timing), walk).slots(dst["gap"], dst["overlap"])
        found = sorted(slot for slot in seen if begin < slot <= end)
        if found != expected:
            yield f"walked {expected}, and {found} fired"


_TIMINGS = ("weekly_time", "monthly_time", "daily_time", "cron_expr")


async def test_a_year_of_some_schedules_is_accounted_for(app: Tickwork) -> None:
    async with living(app, None, START, max_concurrency=SLOTS) as life:
        await live_a_year(life, 48, days=366, step_days=3)
        assert len(life.fired) > 2_000


async def test_a_month_is_accounted_for(app: Tickwork, database: str | None) -> None:
    async with living(app, database, START, max_concurrency=SLOTS) as life:
        await live_a_year(life, 16, days=30, step_days=3)


@pytest.mark.soak
async def test_a_year_of_a_thousand_schedules_is_accounted_for(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START, max_concurrency=SLOTS) as life:
        await live_a_year(life, 1_000, days=366, step_days=3)
        assert len(life.fired) > 50_000
