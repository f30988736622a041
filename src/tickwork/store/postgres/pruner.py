"""Deletes old records on PostgreSQL, each kind in one short transaction. Partitions are in
`partitions`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from tickwork.core.delivery.endpoint import (
    DELIVERY_RETENTION_SECONDS,
)
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS
from tickwork.core.workflow.model import RUN_RETENTION_SECONDS
from tickwork.store.ids import Moment
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.pruner import Pruner
from tickwork.store.ports.asyncpg import carry_out
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import recount_backlog
from tickwork.store.postgres.partitions import FiringPartitions, HistoryPartitions
from tickwork.store.shared.archive import (
    Archive,
)
from tickwork.store.steps import Native, Port, Statement

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
        self._history = HistoryPartitions(database)
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

    async def _prune_history(self, now: datetime, limit: int, archive: Archive | None) -> int:
        """Drops an old hour, and deletes old chunks of the default partition."""
        chunks = await self._history.turn(now, archive)
        return chunks + await super()._prune_history(now, limit, archive)

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
