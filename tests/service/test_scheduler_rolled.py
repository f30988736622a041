"""A slot that rolled to another day fires once, however its calendar changes and whichever node
dies."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tests.service.schedule_life import Life, living
from tickwork.core.model import DEFAULT, SYSTEM, Tenant
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.facade.app import Tickwork
from tickwork.ops.schedules.calendars import put_calendar
from tickwork.ops.schedules.why import why

START = datetime(2027, 3, 1, 8, tzinfo=UTC)
THIRD = {"monthly_time": {"day": 3, "hour": 13, "minute": 0}, "calendar": "feasts"}


def at(day: int, hour: int = 13) -> datetime:
    return datetime(2027, 3, day, hour, tzinfo=UTC)


async def closed(life: Life, *days: int) -> None:
    """The calendar closes on these days of March, and on no other."""
    await put_calendar(life.store, DEFAULT, "feasts", [date(2027, 3, day) for day in days])


@pytest.mark.parametrize(
    ("roll", "before", "changed", "after", "fires"),
    [
        pytest.param("next_day", (3,), at(4, 10), (), at(4), id="opened behind it: it stays"),
        pytest.param("next_day", (3,), at(2, 10), (), at(3), id="opened before it: it goes there"),
        pytest.param("next_day", (3,), at(4, 10), (3, 4), at(5), id="closed before it: further"),
        pytest.param("next_day", (3,), at(4, 14), (3, 4), at(4), id="closed behind it: no more"),
        pytest.param("previous_day", (), at(2, 14), (3,), at(3), id="it would be past: it stays"),
        pytest.param("previous_day", (3,), at(2, 14), (), at(2), id="it has fired: not again"),
    ],
)
async def test_a_rolled_slot_fires_once(
    app: Tickwork,
    database: str | None,
    *,
    roll: str,
    before: tuple[int, ...],
    changed: datetime,
    after: tuple[int, ...],
    fires: datetime,
) -> None:
    async with living(app, database, START) as life:
        await closed(life, *before)
        made = await life.create(**THIRD, roll=roll)
        await life.until(changed)
        await closed(life, *after)
        await life.until(at(8))
        assert life.slots(made) == [fires]
        assert (await life.now(made)).next_slot == datetime(2027, 4, 3, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "changed", "after", "fires"),
    [
        pytest.param((), at(3, 20), (3,), [at(3, 9), at(3)], id="closed behind both: no more"),
        pytest.param((3,), at(3, 10), (), [at(3), at(4, 9)], id="opened between: each where it is"),
        pytest.param(
            (3,), at(4, 10), (3, 4), [at(4, 9), at(5)], id="closed between: the other goes"
        ),
    ],
)
async def test_of_several_a_day_each_fires_once(
    app: Tickwork,
    database: str | None,
    *,
    before: tuple[int, ...],
    changed: datetime,
    after: tuple[int, ...],
    fires: list[datetime],
) -> None:
    async with living(app, database, START) as life:
        await closed(life, *before)
        twice = {"cron_expr": "0 9,13 3 * *", "calendar": "feasts", "roll": "next_day"}
        made = await life.create(**twice)
        await life.until(changed)
        await closed(life, *after)
        for each in fires:
            assert (await why(life.store, DEFAULT, made.id, each)).is_slot
        await life.until(at(8))
        assert life.slots(made) == fires
        assert (await life.now(made)).next_slot == datetime(2027, 4, 3, 9, tzinfo=UTC)


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
