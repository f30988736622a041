"""Statistics on SQLite: the counters of the process, stored by the minute."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwork.core.limits import check_system
from tickwork.core.model import Counts, Scope, StoredQueue
from tickwork.core.queue.stats import (
    RECENT_DEAD_SECONDS,
    RECENT_KINDS_SECONDS,
    RECENT_MINUTES,
    CounterName,
    DeadCount,
    MinuteCount,
    QueueStats,
    TypeCount,
    Waiting,
)
from tickwork.errors import StoreError
from tickwork.store.shared.counters import CounterKey
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue

_MINUTE_SECONDS = 60


class SqliteStats:
    """Queue statistics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def flush(self, scope: Scope) -> None:
        check_system(scope)
        await self._flush()

    async def queue(self, scope: Scope, name: str, *, at_most: int | None = None) -> QueueStats:
        queue = await self._database.read(lambda transaction: find_queue(transaction, scope, name))
        await self._flush()
        return await self._database.read(
            lambda transaction: _read_stats(transaction, queue.id, scope.tenant, at_most)
        )

    async def queues(
        self, scope: Scope, queues: Sequence[StoredQueue], *, at_most: int | None = None
    ) -> tuple[QueueStats, ...]:
        await self._flush()

        def work(transaction: Transaction) -> tuple[QueueStats, ...]:
            # The system counts all tenants in a shared queue, and in another one its owner.
            return tuple(
                _read_stats(
                    transaction,
                    queue.id.bytes,
                    queue.tenant if scope.is_system else scope.tenant,
                    at_most,
                )
                for queue in queues
            )

        return await self._database.read(work)

    async def waiting(
        self, scope: Scope, queue_ids: Sequence[UUID], *, at_most: int
    ) -> tuple[Waiting, ...]:
        check_system(scope)

        def work(transaction: Transaction) -> tuple[Waiting, ...]:
            now, found = transaction.now, list[Waiting]()
            for id_ in queue_ids:
                asked = (id_.bytes, scope.tenant, now, at_most)
                messages, oldest = transaction.execute(SQL.count_waiting, asked).fetchone()
                found.append(Waiting(messages, _age_seconds(oldest, now)))
            return tuple(found)

        return await self._database.read(work)

    async def _flush(self) -> None:
        counting = self._database.counters
        counted = counting.take()
        if counted:
            try:
                await self._database.write(
                    lambda transaction: write_counts(transaction, counted), rows=len(counted)
                )
            except StoreError:
                counting.give_back(counted)
                raise


def write_counts(transaction: Transaction, counted: Sequence[tuple[CounterKey, int]]) -> None:
    """Adds to the stored counters."""
    minute = transaction.now - transaction.now % microseconds(_MINUTE_SECONDS)
    transaction.connection.executemany(
        SQL.add_counters,
        [
            (
                key.queue_id.bytes,
                key.tenant,
                minute,
                str(key.passing),
                key.type,
                key.source,
                messages,
            )
            for key, messages in counted
        ],
    )


def _age_seconds(visible_at: int | None, now: int) -> float | None:
    return None if visible_at is None else (now - visible_at) / microseconds(1)


def _read_stats(
    transaction: Transaction, queue_id: bytes, tenant: str | None, at_most: int | None
) -> QueueStats:
    execute, now = transaction.execute, transaction.now
    asked = (queue_id, tenant, now, at_most)
    *counts, late, oldest = execute(SQL.count_messages, asked).fetchone()
    minutes_from = now - microseconds(RECENT_MINUTES * _MINUTE_SECONDS)
    kinds_from = now - microseconds(RECENT_KINDS_SECONDS)
    dead_from = now - microseconds(RECENT_DEAD_SECONDS)
    return QueueStats(
        counts=Counts(*counts),
        late=late,
        oldest_age_seconds=_age_seconds(oldest, now),
        minutes=tuple(
            MinuteCount(from_microseconds(minute), CounterName(passing), messages)
            for minute, passing, messages in execute(
                SQL.recent_minutes, (queue_id, tenant, minutes_from)
            )
        ),
        kinds=tuple(
            TypeCount(type_ or None, source or None, CounterName(passing), messages)
            for type_, source, passing, messages in execute(
                SQL.recent_kinds, (queue_id, tenant, kinds_from)
            )
        ),
        dead=tuple(
            DeadCount(type_ or None, messages)
            for type_, messages in execute(SQL.recent_dead, (queue_id, tenant, dead_from))
        ),
    )
