"""A slot that rolled to another day fires once, however its calendar changes and whichever node
dies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import pytest

from tests.service.schedule_life import Life, living
from tickwork.core.model import DEFAULT, SYSTEM, Tenant
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.schedules.calendars import put_calendar
from tickwork.ops.schedules.why import why

START = datetime(2027, 3, 1, 8, tzinfo=UTC)
THIRD = {"monthly_time": {"day": 3, "hour": 13, "minute": 0}, "calendar": "feasts"}


def at(day: int, hour: int = 13) -> datetime:
    return datetime(2027, 3, day, hour, tzinfo=UTC)


async def closed(life: Life, *days: int, calendar: str = "feasts") -> None:
    """The calendar closes on these days of March, and on no other."""
    await put_calendar(Context(life.store, DEFAULT), calendar, [date(2027, 3, day) for day in days])


class Change(NamedTuple):
    """The days on which a calendar closes, before and after it is changed, and when a schedule that
    keeps to it fires."""

    before: tuple[int, ...]
    changed: datetime
    after: tuple[int, ...]
    fires: list[datetime]
    roll: str = "next_day"


async def live_through(
    life: Life, changes: Mapping[str, Change], rule: Mapping[str, Any]
) -> dict[str, Schedule]:
    """Lives until the eighth with a calendar and a schedule for each change."""
    made: dict[str, Schedule] = {}
    for name, change in changes.items():
        await closed(life, *change.before, calendar=name)
        made[name] = await life.create(**{**rule, "calendar": name, "roll": change.roll})
    for name, change in sorted(changes.items(), key=lambda item: item[1].changed):
        await life.until(change.changed)
        await closed(life, *change.after, calendar=name)
        for slot in change.fires:
            assert (await why(Context(life.store, DEFAULT), made[name].id, slot)).is_slot, name
    await life.until(at(8))
    return made


ONCE = {
    "opened behind it, it stays": Change((3,), at(4, 10), (), [at(4)]),
    "opened before it, it goes there": Change((3,), at(2, 10), (), [at(3)]),
    "closed before it, it goes further": Change((3,), at(4, 10), (3, 4), [at(5)]),
    "closed behind it, no more": Change((3,), at(4, 14), (3, 4), [at(4)]),
    "it would be past, it stays": Change((), at(2, 14), (3,), [at(3)], "previous_day"),
    "it has fired, not again": Change((3,), at(2, 14), (), [at(2)], "previous_day"),
}
TWICE = {
    "closed behind both, no more": Change((), at(3, 20), (3,), [at(3, 9), at(3)]),
    "opened between, each where it is": Change((3,), at(3, 10), (), [at(3), at(4, 9)]),
    "closed between, the other goes": Change((3,), at(4, 10), (3, 4), [at(4, 9), at(5)]),
}


@pytest.mark.parametrize(
    ("changes", "rule", "hour"),
    [
        pytest.param(ONCE, THIRD, 13, id="once a day"),
        pytest.param(TWICE, {"cron_expr": "0 9,13 3 * *"}, 9, id="twice a day"),
    ],
)
async def test_a_rolled_slot_fires_once(
    app: Tickwork,
    database: str | None,
    changes: Mapping[str, Change],
    rule: Mapping[str, Any],
    hour: int,
) -> None:
    async with living(app, database, START) as life:
        made = await live_through(life, changes, rule)
        for name, change in changes.items():
            assert life.slots(made[name]) == change.fires, name
            next_slot = (await life.now(made[name])).next_slot
            assert next_slot == datetime(2027, 4, 3, hour, tzinfo=UTC), name


async def test_days_that_a_schedule_was_not_told_of_cost_it_no_firing(
    app: Tickwork, database: str | None
) -> None:
    """Whoever changed them died before it came to that; and nobody says it again."""
    async with living(app, database, START) as life:
        await closed(life, 3)
        made = await life.create(**THIRD, roll="next_day")
        await life.store.calendars.put(DEFAULT, "feasts", [])
        await life.until(at(8))
        assert life.slots(made) == [at(4)]


async def test_one_that_may_not_count_again_stops_no_calendar(
    app: Tickwork, database: str | None
) -> None:
    async with living(app, database, START) as life:
        await closed(life)
        over = await life.create(**THIRD, roll="next_day", end_at=at(3, 23).isoformat())
        other = await life.create(**THIRD, roll="next_day")
        await closed(life, 3)
        await life.until(at(2))
        assert (await life.now(over)).status is ScheduleStatus.COMPLETED
        await life.store.tenants.put(SYSTEM, Tenant(id="default", schedules_max=1))
        await closed(life)
        await life.until(at(8))
        assert (await life.now(over)).status is ScheduleStatus.COMPLETED
        assert (life.slots(over), life.slots(other)) == ([], [at(3)])
