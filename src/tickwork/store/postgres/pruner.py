"""Deletes old records on PostgreSQL, and creates and drops the daily partitions of firings.

Each kind of record is deleted in one short transaction.

Partitions are created ahead and dropped as a whole. Both need an exclusive lock on the table. If it
is not free, the pass gives up and the next one tries again: records without a partition of their
day go to the default partition, and are deleted from there by age. A day with records in the
default partition gets no partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
from msgspec import structs

from tickwork.core.audit import AUDIT_RETENTION_SECONDS
from tickwork.core.delivery.endpoint import (
    DELIVERY_RETENTION_SECONDS,
    PUBLISHED_RETENTION_SECONDS,
)
from tickwork.core.entity.call import RESULT_RETENTION_SECONDS
from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS
from tickwork.core.message.progress import PROGRESS_KEPT_SECONDS
from tickwork.core.model import EVENT_RETENTION_SECONDS, Pruned, Scope
from tickwork.core.queue.stats import COUNTER_RETENTION_SECONDS, CounterName
from tickwork.core.request import REQUEST_RETENTION_SECONDS
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS
from tickwork.core.schedule.model import DELETED_KEPT_SECONDS
from tickwork.core.stream import STREAM_RETENTION_SECONDS
from tickwork.core.workflow.model import RUN_RETENTION_SECONDS
from tickwork.store.ids import Moment
from tickwork.store.nouns.dead_letters import read_dead_letter
from tickwork.store.nouns.firings import read_firing
from tickwork.store.ports.asyncpg import carry_out
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import recount_backlog
from tickwork.store.shared.archive import (
    ARCHIVE_BATCH_MAX,
    DEAD_LETTERS,
    FIRINGS,
    Archive,
    hour_of,
)
from tickwork.store.shared.counters import CounterKey, Counters

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


class PostgresPruner:
    """Deletes records after their retention. Those that are archived come last, because that may
    fail."""

    def __init__(self, database: Database, moment: Moment, counters: Counters) -> None:
        self._database = database
        self._moment = moment
        self._counters = counters
        self._partitions = FiringPartitions(database)
        self._last_capped: UUID | None = None

    async def prune(self, scope: Scope, limit: int, *, archive: Archive | None = None) -> Pruned:
        check_system(scope)
        check_limit(limit)
        now = self._moment()
        if now is None:
            now = await self._database.run(lambda connection: connection.fetchval(SQL.read_clock))
            assert now is not None
        await self._recount()
        await self._take(SQL.prune_entity_results, now, RESULT_RETENTION_SECONDS, limit)
        await self._take(SQL.prune_audit, now, AUDIT_RETENTION_SECONDS, limit)
        await self._take(SQL.prune_stream, now, STREAM_RETENTION_SECONDS, limit)
        await self._take(SQL.prune_requests, now, REQUEST_RETENTION_SECONDS, limit)
        await self._take(SQL.prune_sessions, now, 0, limit)
        await self._take(SQL.prune_published, now, PUBLISHED_RETENTION_SECONDS, limit)
        deliveries = await self._take(SQL.prune_deliveries, now, DELIVERY_RETENTION_SECONDS, limit)
        pruned = Pruned(
            events=len(await self._take(SQL.prune_events, now, EVENT_RETENTION_SECONDS, limit)),
            receipts=len(await self._take(SQL.prune_receipts, now, RECEIPT_SECONDS, limit)),
            progress=len(await self._take(SQL.prune_progress, now, PROGRESS_KEPT_SECONDS, limit)),
            batches=await self._take_batches(now, limit),
            schedules=len(await self._take(SQL.prune_schedules, now, DELETED_KEPT_SECONDS, limit)),
            counters=len(
                await self._take(SQL.prune_counters, now, COUNTER_RETENTION_SECONDS, limit)
            ),
            deliveries=len(deliveries),
            runs=len(await self._take(SQL.prune_runs, now, RUN_RETENTION_SECONDS, limit)),
        )
        return structs.replace(
            pruned,
            firings=await self._take_firings(now, limit, archive),
            dead_letters=await self._take_dead_letters(now, limit, archive),
        )

    async def _take_dead_letters(self, now: datetime, limit: int, archive: Archive | None) -> int:
        if archive is None:
            found = await self._take(
                SQL.prune_dead_letters, now, DEAD_LETTER_RETENTION_SECONDS, limit
            )
        else:
            found = await self._archive(
                SQL.take_dead_letters,
                hour_of(now),
                DEAD_LETTER_RETENTION_SECONDS,
                min(limit, ARCHIVE_BATCH_MAX),
                lambda rows: archive.write(DEAD_LETTERS, hour_of(now), map(read_dead_letter, rows)),
            )
        self._counters.add_all(
            CounterKey(
                row["queue_id"],
                row["tenant"],
                CounterName.PRUNED,
                row["type"] or "",
                row["source"] or "",
            )
            for row in found
        )
        return len(found)

    async def _archive(
        self,
        statement: str,
        now: datetime,
        seconds: int,
        limit: int,
        write: Callable[[list[Any]], None],
    ) -> list[Any]:
        """Deletes records, which stay deleted only if they were written."""
        until = now - timedelta(seconds=seconds)

        async def work(connection: Connection) -> list[Any]:
            found = await connection.fetch(statement, until, limit)
            if found:
                await asyncio.to_thread(write, found)
            return found

        return await self._database.transact(work, repeatable=False)

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

    async def _take(self, statement: str, now: datetime, seconds: int, limit: int) -> list[Any]:
        until = now - timedelta(seconds=seconds)
        return await self._database.run(
            lambda connection: connection.fetch(statement, until, limit), repeatable=False
        )

    async def _take_firings(self, now: datetime, limit: int, archive: Archive | None) -> int:
        """Drops an old day, and deletes old records of the default partition."""
        records = await self._partitions.turn(now, archive)
        if archive is None:
            found = await self._take(SQL.prune_firings, now, FIRINGS_KEPT_SECONDS, limit)
        else:
            found = await self._archive(
                SQL.take_firings,
                hour_of(now),
                FIRINGS_KEPT_SECONDS,
                limit,
                lambda rows: archive.write(FIRINGS, hour_of(now), map(read_firing, rows)),
            )
        return records + len(found)

    async def _take_batches(self, now: datetime, limit: int) -> int:
        """Deletes items first, some at a time, and then batches without items."""
        until = now - timedelta(seconds=BATCH_RETENTION_SECONDS)

        async def work(connection: Connection) -> int:
            await connection.execute(SQL.prune_items, until, limit)
            return len(await connection.fetch(SQL.prune_batches, until, limit))

        return await self._database.transact(work, repeatable=False)
