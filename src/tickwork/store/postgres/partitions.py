"""Partitions on PostgreSQL: of firings by day, of the history by the hour from which on it may be
dropped.

They are created ahead and dropped as a whole. Both need an exclusive lock on the table. If it is
not free, the pass gives up and the next one tries again: rows without a partition of their own go
to the default partition, and are deleted from there by age. A day or hour with rows in the default
partition gets no partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from tickwork.core.message.history import drop_at
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS
from tickwork.store.nouns.firings import read_firing
from tickwork.store.nouns.history import read_ended
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.archive import Archive, archived_fields

DAYS_AHEAD = 3
"""Number of days, including today, that have a partition of firings."""

HOURS_AHEAD = 4
"""Number of hours, including this one, whose chunks of the history have partitions."""

DROPPED_PER_PASS = 24
"""Maximum number of hours that are dropped in one pass."""

COUNTED_BYTES_MAX = 64 * 2**20
"""Maximum size in bytes of a day whose records are counted before it is dropped. For a larger
day the number comes from the statistics."""

BLOCKS_READ = 256
"""Number of blocks that are read at a time for the archive: some 10,000 firings."""

_BLOCK_BYTES = 8_192
_LOCK_KEY = 0x66697265  # "fire": the advisory lock for partition changes.
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_FIRINGS, _HISTORY = "tickwork_firings_", "tickwork_message_history_"


class _PartitionDropped(Exception):
    """Another node has archived and dropped it."""


class FiringPartitions:
    """Creates and drops daily partitions of firings."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turn(self, now: datetime, archive: Archive | None) -> int:
        """Creates partitions ahead and drops one old one, after it was archived; returns how many
        records that had."""
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        known = await self._database.run(lambda connection: connection.fetch(SQL.firing_partitions))
        names = {row["name"] for row in known}
        for ahead in range(DAYS_AHEAD):
            day = today + ahead * _DAY
            if _day_name(day) not in names:
                await _try_alone(self._database, lambda connection, day=day: _make(connection, day))
        kept_from = _day_name(now.astimezone(UTC) - timedelta(seconds=FIRINGS_KEPT_SECONDS))
        for row in known:
            if row["name"] < kept_from:
                day = row["name"].removeprefix(_FIRINGS)
                statement = SQL.read_firing_partition.replace("/*day*/", day)
                if archive is not None and not await _archived(
                    self._database, row, statement, read_firing, archive
                ):
                    return 0
                return await _try_alone(
                    self._database, lambda connection, row=row: _drop(connection, row)
                )
        return 0


class HistoryPartitions:
    """Creates and drops partitions of the history."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turn(self, now: datetime, archive: Archive | None) -> int:
        """Creates partitions ahead, for each time that queues keep their history, and drops old
        ones, after they were archived; returns how many it dropped."""
        known = await self._database.run(
            lambda connection: connection.fetch(SQL.history_partitions)
        )
        names = {row["name"] for row in known}
        kept = await self._database.run(lambda connection: connection.fetch(SQL.history_retentions))
        needed = {
            drop_at(now + ahead * _HOUR, row["seconds"])
            for row in kept
            for ahead in range(HOURS_AHEAD)
        }
        for hour in sorted(needed):
            if _hour_name(hour) not in names:
                await _try_alone(
                    self._database, lambda connection, hour=hour: _make_hour(connection, hour)
                )
        dropped = 0
        for row in known[:DROPPED_PER_PASS]:
            if row["name"] <= _hour_name(now):
                dropped += await self._drop(row, archive)
        return dropped

    async def _drop(self, row: Any, archive: Archive | None) -> int:
        hour = row["name"].removeprefix(_HISTORY)
        statement = SQL.read_history_partition.replace("/*hour*/", hour)
        if archive is not None and not await _archived(
            self._database, row, statement, _read_ended, archive
        ):
            return 0
        return await _try_alone(self._database, lambda connection: _drop_hour(connection, hour))


async def _archived(
    database: Database,
    row: Any,
    statement: str,
    read: Callable[[Any], object],
    archive: Archive,
) -> bool:
    """Writes a partition to a file, some blocks at a time. Nobody writes to it any more. False if
    another node, which may do the same, has dropped it meanwhile."""
    blocks = row["bytes"] // _BLOCK_BYTES
    try:
        with archive.open(
            row["name"].removeprefix("tickwork_").removeprefix("message_").replace("_", "-")
        ) as append:
            for first in range(0, blocks, BLOCKS_READ):
                ends = (f"({first},0)", f"({first + BLOCKS_READ},0)")

                async def fetch(
                    connection: Connection, ends: tuple[str, str] = ends
                ) -> Iterable[Any]:
                    try:
                        return await connection.fetch(statement, *ends)
                    except asyncpg.UndefinedTableError:
                        raise _PartitionDropped from None

                found = await database.run(fetch)
                await asyncio.to_thread(append, map(read, found))
    except _PartitionDropped:
        return False
    return True


async def _try_alone(database: Database, work: Any) -> int:
    """Changes partitions, or does nothing if another transaction holds the lock."""

    async def locked(connection: Connection) -> int:
        if not await connection.fetchval(SQL.try_lock_partitions, _LOCK_KEY):
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

    return await database.transact(locked, repeatable=False)


async def _make(connection: Connection, day: datetime) -> int:
    statement: str = SQL.create_firing_partition
    await connection.execute(
        statement.replace("/*day*/", f"{day:%Y%m%d}")
        .replace("/*start*/", day.isoformat())
        .replace("/*end*/", (day + _DAY).isoformat())
    )
    return 0


async def _make_hour(connection: Connection, hour: datetime) -> int:
    statement: str = SQL.create_history_partition
    name = _hour_name(hour).removeprefix(_HISTORY)
    await connection.execute(
        statement.replace("/*hour*/", name).replace("/*start*/", hour.isoformat())
    )
    return 0


async def _drop(connection: Connection, row: Any) -> int:
    day = row["name"].removeprefix(_FIRINGS)
    records = max(row["rows"], 0)
    if row["bytes"] <= COUNTED_BYTES_MAX:
        records = await connection.fetchval(SQL.count_firings_in_partition.replace("/*day*/", day))
    await connection.execute(SQL.drop_firing_partition.replace("/*day*/", day))
    return int(records)


async def _drop_hour(connection: Connection, hour: str) -> int:
    await connection.execute(SQL.drop_history_partition.replace("/*hour*/", hour))
    return 1


def _read_ended(row: Any) -> object:
    return archived_fields(read_ended(row))


def _day_name(day: datetime) -> str:
    return f"{_FIRINGS}{day:%Y%m%d}"


def _hour_name(hour: datetime) -> str:
    return f"{_HISTORY}{hour.astimezone(UTC):%Y%m%d%H}"
