"""Deletes old records on PostgreSQL, and creates and drops the daily partitions of firings.

Each kind of record is deleted in one short transaction.

Partitions are created ahead and dropped as a whole. Both need an exclusive lock on the table. If it
is not free, the pass gives up and the next one tries again: records without a partition of their
day go to the default partition, and are deleted from there by age. A day with records in the
default partition gets no partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tickwork.core.delivery.endpoint import (
    DELIVERY_RETENTION_SECONDS,
)
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS
from tickwork.core.workflow.model import RUN_RETENTION_SECONDS
from tickwork.store.ids import Moment
from tickwork.store.nouns.firings import read_firing
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.pruner import Pruner
from tickwork.store.ports.asyncpg import carry_out
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import recount_backlog
from tickwork.store.shared.archive import (
    Archive,
)
from tickwork.store.steps import Native, Port, Statement

DAYS_AHEAD = 3
"""Number of days, including today, that have a partition."""

COUNTED_BYTES_MAX = 64 * 2**20
"""Maximum size in bytes of a day whose records are counted before it is dropped. For a larger
day the number comes from the statistics."""

BLOCKS_READ = 256
"""Number of blocks of a day that are read at a time for the archive: some 10,000 records."""

_BLOCK_BYTES = 8_192
_LOCK_KEY = 0x66697265  # "fire": the advisory lock for partition changes.
_DAY = timedelta(days=1)
_PREFIX = "tickwork_firings_"


class _PartitionDropped(Exception):
    """Another node has archived and dropped it."""


class FiringPartitions:
    """Creates and drops daily partitions."""

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
            if _name(day) not in names:
                await self._try_alone(lambda connection, day=day: _make(connection, day))
        kept_from = _name(now.astimezone(UTC) - timedelta(seconds=FIRINGS_KEPT_SECONDS))
        for row in known:
            if row["name"] < kept_from:
                if archive is not None:
                    try:
                        await self._archive(row, archive)
                    except _PartitionDropped:
                        return 0
                return await self._try_alone(lambda connection, row=row: _drop(connection, row))
        return 0

    async def _archive(self, row: Any, archive: Archive) -> None:
        """Writes a day to a file, some blocks at a time. Nobody records firings of that day any
        more. Another node may do the same, or has dropped the day meanwhile."""
        statement = SQL.read_firing_partition.replace("/*day*/", row["name"].removeprefix(_PREFIX))
        blocks = row["bytes"] // _BLOCK_BYTES
        with archive.open(row["name"].removeprefix("tickwork_").replace("_", "-")) as append:
            for first in range(0, blocks, BLOCKS_READ):
                ends = (f"({first},0)", f"({first + BLOCKS_READ},0)")

                async def read(connection: Connection, ends: tuple[str, str] = ends) -> list[Any]:
                    try:
                        return await connection.fetch(statement, *ends)
                    except asyncpg.UndefinedTableError:
                        raise _PartitionDropped from None

                found = await self._database.run(read)
                await asyncio.to_thread(append, map(read_firing, found))

    async def _try_alone(self, work: Any) -> int:
        """Changes the partitions, or does nothing if another transaction holds the lock."""

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

        return await self._database.transact(locked, repeatable=False)


async def _make(connection: Connection, day: datetime) -> int:
    statement: str = SQL.create_firing_partition
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
        records = await connection.fetchval(SQL.count_firings_in_partition.replace("/*day*/", day))
    await connection.execute(SQL.drop_firing_partition.replace("/*day*/", day))
    return int(records)


def _name(day: datetime) -> str:
    return f"{_PREFIX}{day:%Y%m%d}"


QUEUES_PER_PASS = 10
"""Number of capped queues whose backlog is recounted in one pass."""

RECEIPT_SECONDS = 86_400
"""Seconds to keep receipts of sends, which answer repeats."""


_RUNS = Statement("prune_runs")
_DELIVERIES = Statement("prune_deliveries")
_RECEIPTS = Statement("prune_receipts")


class PostgresPruner(Pruner):
    """Deletes records after their retention, and recounts backlogs."""

    def __init__(self, port: Port, paths: HotPaths, database: Database, moment: Moment) -> None:
        super().__init__(port, paths)
        self._database, self._moment = database, moment
        self._partitions = FiringPartitions(database)
        self._last_capped: UUID | None = None

    async def _prune_parts(self, now: datetime, limit: int) -> Mapping[str, int]:
        await self._recount()
        deliveries_until = now - timedelta(seconds=DELIVERY_RETENTION_SECONDS)
        runs_until = now - timedelta(seconds=RUN_RETENTION_SECONDS)
        receipts_until = now - timedelta(seconds=RECEIPT_SECONDS)
        return {
            "deliveries": await self._delete(_DELIVERIES, deliveries_until, limit),
            "receipts": await self._delete(_RECEIPTS, receipts_until, limit),
            "batches": await self._prune_batches(now, limit),
            "runs": await self._delete(_RUNS, runs_until, limit),
        }

    def _write(self, write: Callable[[], None]) -> Native:
        return Native(lambda _connection: asyncio.to_thread(write))

    async def _prune_firings(self, now: datetime, limit: int, archive: Archive | None) -> int:
        """Drops an old day, and deletes old records of the default partition."""
        records = await self._partitions.turn(now, archive)
        return records + await super()._prune_firings(now, limit, archive)

    async def _recount(self) -> None:
        """Recounts the backlog of some capped queues, in turn: a cap that was set during
        settlements may have counted their messages."""
        queues = await self._database.run(
            lambda connection: connection.fetch(
                SQL.capped_queues, self._last_capped, QUEUES_PER_PASS
            )
        )
        self._last_capped = queues[-1]["id"] if len(queues) == QUEUES_PER_PASS else None
        for queue in queues:
            await self._database.transact(
                lambda connection, queue_id=queue["id"]: carry_out(  # type: ignore[misc]
                    connection, self._moment, recount_backlog(queue_id)
                )
            )

    async def _prune_batches(self, now: datetime, limit: int) -> int:
        """Deletes items first, some at a time, and then batches without items."""
        until = now - timedelta(seconds=BATCH_RETENTION_SECONDS)

        async def work(connection: Connection) -> int:
            await connection.execute(SQL.prune_items, until, limit)
            return len(await connection.fetch(SQL.prune_batches, until, limit))

        return await self._database.transact(work, repeatable=False)
