"""The pruner on SQLite: one short transaction for each kind of row past its retention."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import structs

from tickwork.core.audit import AUDIT_RETENTION_SECONDS
from tickwork.core.delivery.endpoint import (
    DELIVERY_RETENTION_SECONDS,
    PUBLISHED_RETENTION_SECONDS,
)
from tickwork.core.entity.call import RESULT_RETENTION_SECONDS
from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS, StoredDeadLetter
from tickwork.core.message.progress import PROGRESS_KEPT_SECONDS
from tickwork.core.model import EVENT_RETENTION_SECONDS, Pruned, Scope
from tickwork.core.queue.stats import COUNTER_RETENTION_SECONDS, CounterName
from tickwork.core.request import REQUEST_RETENTION_SECONDS
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringRecord
from tickwork.core.schedule.model import DELETED_KEPT_SECONDS
from tickwork.core.stream import STREAM_RETENTION_SECONDS
from tickwork.core.workflow.model import RUN_RETENTION_SECONDS
from tickwork.store.nouns.dead_letters import read_dead_letter
from tickwork.store.nouns.firings import read_firing
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.shared.archive import (
    ARCHIVE_BATCH_MAX,
    DEAD_LETTERS,
    FIRINGS,
    Archive,
    hour_of,
)
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.steps import Statement

_TAKE = Statement("take_dead_letters", StoredDeadLetter)
_TAKE_FIRINGS = Statement("take_firings", FiringRecord)


class SqlitePruner:
    """Deletes rows past their retention."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def prune(self, scope: Scope, limit: int, *, archive: Archive | None = None) -> Pruned:
        check_system(scope)
        check_limit(limit)
        write = self._database.write
        await self._prune(SQL.prune_requests, REQUEST_RETENTION_SECONDS, limit)
        await self._prune(SQL.prune_sessions, 0, limit)
        await self._prune(SQL.prune_entity_results, RESULT_RETENTION_SECONDS, limit)
        await self._prune(SQL.prune_audit, AUDIT_RETENTION_SECONDS, limit)
        await self._prune(SQL.prune_stream, STREAM_RETENTION_SECONDS, limit)
        await self._prune(SQL.prune_published, PUBLISHED_RETENTION_SECONDS, limit)
        pruned = Pruned(
            events=await self._prune(SQL.prune_events, EVENT_RETENTION_SECONDS, limit),
            progress=await self._prune(SQL.prune_progress, PROGRESS_KEPT_SECONDS, limit),
            batches=await write(lambda transaction: _prune_batches(transaction, limit)),
            schedules=await self._prune(SQL.prune_schedules, DELETED_KEPT_SECONDS, limit),
            counters=await self._prune(SQL.prune_counters, COUNTER_RETENTION_SECONDS, limit),
            deliveries=await write(lambda transaction: _prune_deliveries(transaction, limit)),
            runs=await write(lambda transaction: _prune_runs(transaction, limit)),
        )
        if archive is not None:
            return structs.replace(
                pruned,
                firings=await write(
                    lambda transaction: _archive_firings(transaction, limit, archive)
                ),
                dead_letters=await write(
                    lambda transaction: _archive_letters(transaction, limit, archive)
                ),
            )
        return structs.replace(
            pruned,
            firings=await self._prune(SQL.prune_firings, FIRINGS_KEPT_SECONDS, limit),
            dead_letters=await write(lambda transaction: _prune_letters(transaction, limit)),
        )

    async def _prune(self, statement: str, kept_seconds: int, limit: int) -> int:
        def work(transaction: Transaction) -> int:
            values = (transaction.now - microseconds(kept_seconds), limit)
            return transaction.execute(statement, values).rowcount

        return await self._database.write(work)


def _archive_firings(transaction: Transaction, limit: int, archive: Archive) -> int:
    hour = hour_of(from_microseconds(transaction.now))
    until = hour - timedelta(seconds=FIRINGS_KEPT_SECONDS)
    taken = carry_out(transaction, _TAKE_FIRINGS.fetch(until, limit))
    if taken:
        archive.write(FIRINGS, hour, map(read_firing, taken))
    return len(taken)


def _archive_letters(transaction: Transaction, limit: int, archive: Archive) -> int:
    hour = hour_of(from_microseconds(transaction.now))
    until = hour - timedelta(seconds=DEAD_LETTER_RETENTION_SECONDS)
    taken = carry_out(transaction, _TAKE.fetch(until, min(limit, ARCHIVE_BATCH_MAX)))
    letters = [*map(read_dead_letter, taken)]
    if letters:
        archive.write(DEAD_LETTERS, hour, letters)
    _count(
        transaction,
        [(letter.queue_id.bytes, letter.tenant, letter.type, letter.source) for letter in letters],
    )
    return len(letters)


def _prune_letters(transaction: Transaction, limit: int) -> int:
    values = (transaction.now - microseconds(DEAD_LETTER_RETENTION_SECONDS), limit)
    pruned = transaction.execute(SQL.prune_dead_letters, values).fetchall()
    _count(transaction, pruned)
    return len(pruned)


def _count(transaction: Transaction, pruned: Sequence[rows.Row]) -> None:
    """Counts pruned dead letters: the queue, tenant, type and source of each."""
    transaction.counted += [
        CountedMessages(queue_id, tenant, CounterName.PRUNED, type_, source, 1)
        for queue_id, tenant, type_, source in pruned
    ]


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
