"""A year of mixed schedules in all zones, in virtual time: every slot is accounted for.

The slots are those of an independent reference, to the last one (`year_account.py`). Where time
goes from one due thing to the next, each is also handled at its very time; where it leaps, what
matters is the account.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.service.year_account import Mixed, leaping
from tickwork.facade.app import Tickwork

NEW_YEAR = datetime(2027, 12, 31, 22, 30, tzinfo=UTC)
"""So that the year has 29 February."""

SPRING = datetime(2028, 3, 11, 22, 30, tzinfo=UTC)
"""Clocks change: in North America in the first night, in Europe in the last."""

YEAR_DAYS = 366
LOOK_DAYS = 27
"""Records are kept for a month: so often they are looked at."""


async def test_two_weeks_of_ninety_schedules_are_accounted_for(
    app: Tickwork, database: str | None
) -> None:
    async with leaping(app, database, SPRING) as life:
        schedules = await Mixed.create(life, 90)
        await life.h.advance(days=1)
        assert schedules.untimely() == []
        assert len(life.fired) > 35
        await schedules.leap(days=14)
        assert await schedules.faults() == []
        assert len(life.fired) > 600


@pytest.mark.one_store("sqlite")
async def test_a_year_of_two_schedules_of_each_kind_is_accounted_for(
    app: Tickwork, database: str | None
) -> None:
    await _live_a_year(app, database, 18, fired=1_200)


@pytest.mark.soak
async def test_a_year_of_a_thousand_schedules_is_accounted_for(
    app: Tickwork, database: str | None
) -> None:
    await _live_a_year(app, database, 1_000, fired=80_000)


@pytest.mark.soak
async def test_a_year_of_a_hundred_schedules_has_each_slot_at_its_time(
    app: Tickwork, database: str | None
) -> None:
    async with leaping(app, database, NEW_YEAR) as life:
        schedules = await Mixed.create(life, 100)
        await life.h.advance(days=YEAR_DAYS, hours=1)
        assert schedules.untimely() == []
        assert await schedules.faults() == []
        assert len(life.fired) > 8_000


async def _live_a_year(app: Tickwork, database: str | None, number: int, *, fired: int) -> None:
    async with leaping(app, database, NEW_YEAR) as life:
        schedules = await Mixed.create(life, number)
        for _ in range(YEAR_DAYS // LOOK_DAYS + 1):
            await schedules.leap(days=LOOK_DAYS)
            assert await schedules.faults() == []
        assert len(life.fired) > fired
