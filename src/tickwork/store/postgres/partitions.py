"""Firings by day on PostgreSQL: partitions that are made ahead, and dropped whole when old.

Making or dropping one needs a moment alone with the table. Whoever does not get it at once gives
up, and the next pass tries again: what has no day of its own lies in the default partition, and
is taken away from there by its age. A day that has records there already gets no partition.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from tickwork.core.schedule.firing import FIRING_SECONDS
from tickwork.store.postgres.database import SQL, Connection, Database

DAYS_AHEAD = 3
"""So many days, with today, have their partition."""

COUNTED_BYTES_MAX = 64 * 2**20
"""A larger day is not counted record by record when it goes: its number is the statistics'."""

_LOCK_KEY = 0x66697265  # "fire": only the making and dropping of days takes this advisory lock.
_DAY = timedelta(days=1)
_PREFIX = "tickwork_firings_"


class Partitions:
    """Makes and drops days."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turn(self, now: datetime) -> int:
        """One pass: makes the coming days, drops one that is old; how many records that had."""
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        known = await self._database.run(lambda each: each.fetch(SQL.days_of_firings))
        names = {row["name"] for row in known}
        for ahead in range(DAYS_AHEAD):
            day = today + ahead * _DAY
            if _name(day) not in names:
                await self._alone(lambda each, day=day: _make(each, day))
        kept_from = _name(now.astimezone(UTC) - timedelta(seconds=FIRING_SECONDS))
        for row in known:
            if row["name"] < kept_from:
                return await self._alone(lambda each, row=row: _drop(each, row))
        return 0

    async def _alone(self, work: Any) -> int:
        """Does something to the partitions, or nothing if somebody is in the way."""

        async def whole(connection: Connection) -> int:
            if not await connection.fetchval(SQL.try_lock_days, _LOCK_KEY):
                return 0
            try:
                async with connection.transaction():
                    done: int = await work(connection)
                    return done
            except (
                asyncpg.LockNotAvailableError,
                asyncpg.CheckViolationError,
                asyncpg.DuplicateTableError,
                asyncpg.UndefinedTableError,
            ):
                return 0

        return await self._database.transact(whole, repeatable=False)


async def _make(connection: Connection, day: datetime) -> int:
    statement: str = SQL.make_day
    await connection.execute(
        statement.replace("/*day*/", f"{day:%Y%m%d}")
        .replace("/*start*/", day.isoformat())
        .replace("/*end*/", (day + _DAY).isoformat())
    )
    return 0


async def _drop(connection: Connection, row: Any) -> int:
    day = row["name"].removeprefix(_PREFIX)
    records = max(row["rows"], 0)
    if row["bytes"] <= COUNTED_BYTES_MAX:
        records = await connection.fetchval(SQL.count_day.replace("/*day*/", day))
    await connection.execute(SQL.drop_day.replace("/*day*/", day))
    return int(records)


def _name(day: datetime) -> str:
    return f"{_PREFIX}{day:%Y%m%d}"
