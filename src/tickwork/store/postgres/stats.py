"""Counters of queues on PostgreSQL, stored by the minute."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.core.queue.stats import (
    RECENT_DEAD_SECONDS,
    RECENT_KINDS_SECONDS,
    RECENT_MINUTES,
    CounterName,
    DeadCount,
    MinuteCount,
    QueueStats,
    TypeCount,
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
        queue_id = await self._queues.id_of(scope, name)
        await self._flush()
        counts, late = await self._queues.counts_and_late(scope, name, at_most)
        asked = (self._moment(), queue_id, scope.tenant)

        async def work(
            connection: Connection,
        ) -> tuple[float | None, list[asyncpg.Record], list[asyncpg.Record], list[asyncpg.Record]]:
            return (
                await connection.fetchval(SQL.oldest_visible, *asked),
                await connection.fetch(SQL.recent_minutes, *asked, RECENT_MINUTES),
                await connection.fetch(SQL.recent_kinds, *asked, RECENT_KINDS_SECONDS),
                await connection.fetch(SQL.recent_dead, *asked, RECENT_DEAD_SECONDS),
            )

        oldest_age_seconds, minutes, kinds, dead = await self._database.run(work)
        return QueueStats(
            counts=counts,
            late=late,
            oldest_age_seconds=oldest_age_seconds,
            minutes=tuple(
                MinuteCount(row["minute"], CounterName(row["passing"]), row["messages"])
                for row in minutes
            ),
            kinds=tuple(
                TypeCount(row["type"], row["source"], CounterName(row["passing"]), row["messages"])
                for row in kinds
            ),
            dead=tuple(DeadCount(row["type"], row["messages"]) for row in dead),
        )

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
