"""Counters of queues on PostgreSQL, stored by the minute."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from tickwork.core.limits import check_system
from tickwork.core.model import Scope, StoredQueue
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
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import CounterKey, Counters


class PostgresStats:
    """Counters of queues."""

    def __init__(
        self, database: Database, moment: Moment, queues: PostgresQueues, counters: Counters
    ) -> None:
        self._database, self._moment = database, moment
        self._queues, self._counters = queues, counters

    async def flush(self, scope: Scope) -> None:
        check_system(scope)
        await self._flush()

    async def queue(self, scope: Scope, name: str, *, at_most: int | None = None) -> QueueStats:
        queue = await self._queues.remembered(scope, name)
        [found] = await self.queues(scope, [queue], at_most=at_most)
        return found

    async def queues(
        self, scope: Scope, queues: Sequence[StoredQueue], *, at_most: int | None = None
    ) -> tuple[QueueStats, ...]:
        await self._flush()
        found: dict[UUID, QueueStats] = {}
        # The system counts all tenants in a shared queue, and in another one its owner.
        counted = {queue.id: queue.tenant if scope.is_system else scope.tenant for queue in queues}
        for tenant in {*counted.values()}:
            ids = [queue_id for queue_id, its in counted.items() if its == tenant]
            found |= zip(ids, await self._read(ids, tenant, at_most), strict=True)
        return tuple(found[queue.id] for queue in queues)

    async def waiting(
        self, scope: Scope, queue_ids: Sequence[UUID], *, at_most: int
    ) -> tuple[Waiting, ...]:
        check_system(scope)
        asked = (self._moment(), queue_ids, scope.tenant, at_most)
        found = await self._database.fetch_with_custom_plan(SQL.count_waiting, *asked)
        return tuple(Waiting(*row) for row in found)

    async def _read(
        self, ids: Sequence[UUID], tenant: str | None, at_most: int | None
    ) -> list[QueueStats]:
        counts = await self._queues.counts_and_late(ids, tenant, at_most)
        asked = (self._moment(), ids, tenant)

        async def work(connection: Connection) -> list[list[asyncpg.Record]]:
            return [
                await connection.fetch(SQL.oldest_visible, *asked),
                await connection.fetch(SQL.recent_minutes, *asked, RECENT_MINUTES),
                await connection.fetch(SQL.recent_kinds, *asked, RECENT_KINDS_SECONDS),
                await connection.fetch(SQL.recent_dead, *asked, RECENT_DEAD_SECONDS),
            ]

        oldest, minutes, kinds, dead = map(_by_queue, await self._database.run(work))
        return [
            QueueStats(
                counts=counted,
                late=late,
                oldest_age_seconds=oldest[id_][0]["age_seconds"] if id_ in oldest else None,
                minutes=tuple(
                    MinuteCount(row["minute"], CounterName(row["passing"]), row["messages"])
                    for row in minutes.get(id_, ())
                ),
                kinds=tuple(
                    TypeCount(
                        row["type"], row["source"], CounterName(row["passing"]), row["messages"]
                    )
                    for row in kinds.get(id_, ())
                ),
                dead=tuple(DeadCount(row["type"], row["messages"]) for row in dead.get(id_, ())),
            )
            for id_, (counted, late) in zip(ids, counts, strict=True)
        ]

    async def _flush(self) -> None:
        counted = self._counters.take()
        if not counted:
            return
        try:
            # Not repeated automatically, because a repeat might count twice.
            await self._database.run(
                lambda connection: connection.execute(
                    SQL.add_counters, self._moment(), *_columns(counted)
                ),
                repeatable=False,
            )
        except StoreError:
            self._counters.give_back(counted)
            raise


def _by_queue(rows: list[asyncpg.Record]) -> dict[UUID, list[asyncpg.Record]]:
    found: dict[UUID, list[asyncpg.Record]] = {}
    for row in rows:
        found.setdefault(row["queue_id"], []).append(row)
    return found


def _columns(
    counted: list[tuple[CounterKey, int]],
) -> tuple[list[UUID], list[str], list[str], list[str], list[str], list[int]]:
    return (
        [key.queue_id for key, _ in counted],
        [key.tenant for key, _ in counted],
        [key.passing for key, _ in counted],
        [key.type for key, _ in counted],
        [key.source for key, _ in counted],
        [messages for _, messages in counted],
    )
