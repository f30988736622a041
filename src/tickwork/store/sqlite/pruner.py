"""The pruner on SQLite: deletes batches, deliveries and runs with their own rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from tickwork.core.delivery.endpoint import DELIVERY_RETENTION_SECONDS
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS
from tickwork.core.workflow.model import RUN_RETENTION_SECONDS
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.pruner import Pruner
from tickwork.store.shared.archive import Archive
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.steps import Native, Port, Statement

_MARKS = Statement("prune_history_marks")


class SqlitePruner(Pruner):
    """Deletes rows past their retention."""

    def __init__(self, port: Port, paths: HotPaths, database: Database) -> None:
        super().__init__(port, paths)
        self._database = database

    async def _prune_parts(self, now: datetime, limit: int) -> Mapping[str, int]:  # noqa: ARG002
        write = self._database.write
        return {
            "batches": await write(lambda transaction: _prune_batches(transaction, limit)),
            "deliveries": await write(lambda transaction: _prune_deliveries(transaction, limit)),
            "runs": await write(lambda transaction: _prune_runs(transaction, limit)),
        }

    async def _prune_history(self, now: datetime, limit: int, archive: Archive | None) -> int:
        """Deletes chunks, and then the marks by which those of their hours were found."""
        chunks = await super()._prune_history(now, limit, archive)
        marks = 0 if chunks else await self._delete(_MARKS, now, limit)
        return max(chunks, marks)

    def _write(self, write: Callable[[], None]) -> Native:
        return Native(lambda _transaction: write())


def _prune_deliveries(transaction: Transaction, limit: int) -> int:
    """Deletes deliveries with their attempts, of which each has few."""
    values = (transaction.now - microseconds(DELIVERY_RETENTION_SECONDS), limit)
    pruned = transaction.execute(SQL.prune_deliveries, values).fetchall()
    transaction.connection.executemany(SQL.prune_attempts, pruned)
    return len(pruned)


def _prune_runs(transaction: Transaction, limit: int) -> int:
    """Deletes runs with their steps and events."""
    values = (transaction.now - microseconds(RUN_RETENTION_SECONDS), limit)
    pruned = transaction.execute(SQL.prune_runs, values).fetchall()
    transaction.connection.executemany(SQL.forget_steps, [(uid, 0) for (uid,) in pruned])
    transaction.connection.executemany(SQL.forget_events, pruned)
    return len(pruned)


def _prune_batches(transaction: Transaction, limit: int) -> int:
    """Deletes items first, up to the limit; a batch is deleted when it has no items left."""
    execute = transaction.execute
    long_ago = transaction.now - microseconds(BATCH_RETENTION_SECONDS)
    pruned = 0
    for batch in execute(SQL.old_batches, (long_ago, limit)).fetchall():
        limit -= execute(SQL.prune_items, (*batch, limit)).rowcount
        pruned += execute(SQL.prune_batches, batch).rowcount
        if limit <= 0:
            break
    return pruned
