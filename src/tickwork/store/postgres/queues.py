"""Queues on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import asyncpg

from tickwork.clock import monotonic
from tickwork.core.limits import check_limit, check_queue, is_name
from tickwork.core.model import (
    BEFORE_QUEUES,
    Counts,
    QueuePosition,
    QueueSettings,
    Scope,
    StoredQueue,
)
from tickwork.core.tenant_limits import QUEUES_MAX, check_room
from tickwork.errors import Conflict, NotFound
from tickwork.store.contract import CheckQueue
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.messages import rows
from tickwork.store.postgres.messages.backlog import recount_backlog
from tickwork.store.shared.columns import settings_text

if TYPE_CHECKING:
    from tickwork.store.postgres.messages.removal import Purger

QUEUES_REMEMBERED_MAX = 10_000
"""Maximum number of cached queues; beyond it all are dropped."""

QUEUES_REMEMBERED_SECONDS = 1.0
"""Seconds a queue is cached. Another process may delete it, or create one that takes precedence
over a shared one."""


class _Remembered(NamedTuple):
    queue: StoredQueue
    until_monotonic: float


class PostgresQueues:
    """Queues by name, cached briefly."""

    purger: Purger
    """Set when the store is assembled: it depends on modules that depend on queues."""

    def __init__(self, database: Database, moment: Moment, wakeups: PostgresWakeups) -> None:
        self._database = database
        self._moment = moment
        self._wakeups = wakeups
        self._known: dict[tuple[str | None, str], _Remembered] = {}

    async def put(
        self,
        scope: Scope,
        name: str,
        settings: QueueSettings,
        *,
        declared_by: str | None = None,
        check: CheckQueue | None = None,
    ) -> StoredQueue:
        check_queue(name, settings)
        if scope.tenant is not None and not is_name(scope.tenant):
            raise NotFound("tenant", scope.tenant)
        values = (
            new_id(),
            scope.tenant,
            name,
            settings_text(settings, declared_by),
            settings.max_retries,
            settings.retention_seconds,
            settings.has_claim_limits,
            settings.backlog_bytes_max is not None,
        )

        async def work(connection: Connection) -> StoredQueue:
            if scope.tenant is not None:
                await _check_room(connection, scope.tenant, name)
            await _check(connection, scope, name, check)
            queue = rows.queue(await connection.fetchrow(SQL.put_queue, *values))
            if settings.counts_claims:
                await connection.execute(SQL.count_claims, queue.id)
            if settings.backlog_bytes_max is not None:
                await recount_backlog(connection, queue.id)
            return queue

        try:
            queue = await self._database.change(work)
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("tenant", scope.tenant) from None
        self._known.clear()
        return queue

    async def get(self, scope: Scope, name: str) -> StoredQueue:
        row = None
        if is_name(name) and (scope.tenant is None or is_name(scope.tenant)):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_queue, scope.tenant, name)
            )
        if row is None:
            raise NotFound("queue", name)
        return rows.queue(row)

    async def id_of(self, scope: Scope, name: str) -> UUID:
        """Returns the id of a queue."""
        return (await self.remembered(scope, name)).id

    async def remembered(self, scope: Scope, name: str) -> StoredQueue:
        """Returns a queue from the cache if possible: every send and claim needs one."""
        now, is_virtual = monotonic(), self._moment() is not None
        found = self._known.get((scope.tenant, name))
        if found is None or is_virtual or found.until_monotonic < now:
            queue = await self.get(scope, name)
            if len(self._known) >= QUEUES_REMEMBERED_MAX:
                self._known.clear()
            found = _Remembered(queue, now + QUEUES_REMEMBERED_SECONDS)
            self._known[scope.tenant, name] = found
        return found.queue

    def forget(self, queue_ids: set[UUID]) -> None:
        """Removes queues from the cache that were deleted or changed."""
        self._known = {
            name: value for name, value in self._known.items() if value.queue.id not in queue_ids
        }

    async def list(
        self, scope: Scope, *, limit: int | None = None, after: QueuePosition | None = None
    ) -> tuple[StoredQueue, ...]:
        if limit is not None:
            check_limit(limit)
        is_page = limit is not None and not scope.is_system
        statement = SQL.page_queues if is_page else SQL.list_queues
        values = (scope.tenant, *(after or BEFORE_QUEUES), limit)
        found = await self._database.run(lambda connection: connection.fetch(statement, *values))
        return tuple(rows.queue(row) for row in found)

    async def delete(self, scope: Scope, name: str, *, check: CheckQueue | None = None) -> None:
        queue_id = await self._own(scope, name)

        async def work(connection: Connection) -> bool:
            # Two statements, so that the second sees messages sent while the first waited.
            await connection.execute(SQL.lock_queue, queue_id)
            await _check(connection, scope, name, check)
            return await connection.fetchval(SQL.delete_queue, queue_id) is not None

        if not await self._database.change(work):
            raise Conflict(
                f"queue {name} still has messages or dead letters; purge and discard them first"
            )
        self.forget({queue_id})

    async def pause(self, scope: Scope, name: str) -> None:
        await self._set_paused(scope, name, paused=True)

    async def resume(self, scope: Scope, name: str) -> None:
        self._wakeups.notify([await self._set_paused(scope, name, paused=False)])

    async def purge(self, scope: Scope, name: str) -> int:
        return await self.purger.purge(scope, await self.id_of(scope, name))

    async def counts(self, scope: Scope, name: str, *, at_most: int | None = None) -> Counts:
        ids = [await self.id_of(scope, name)]
        [(counts, _)] = await self.counts_and_late(ids, scope.tenant, at_most)
        return counts

    async def counts_and_late(
        self, ids: Sequence[UUID], tenant: str | None, at_most: int | None
    ) -> tuple[tuple[Counts, int], ...]:
        """The counts of queues in order, and how many of their ready messages are late."""
        asked = (self._moment(), ids, tenant, at_most)
        found = await self._database.fetch_with_custom_plan(SQL.count_messages, *asked)
        return tuple((Counts(*counts), late) for *counts, late in found)

    async def mark_pulled(self, scope: Scope, name: str) -> None:
        queue_id = await self.id_of(scope, name)
        await self._database.change(
            lambda connection: connection.execute(SQL.mark_pulled, queue_id, self._moment())
        )

    async def pulled_at(self, scope: Scope, name: str) -> datetime | None:
        queue_id = await self.id_of(scope, name)
        at: datetime | None = await self._database.run(
            lambda connection: connection.fetchval(SQL.pulled_at, queue_id)
        )
        return at

    async def _set_paused(self, scope: Scope, name: str, *, paused: bool) -> UUID:
        queue_id = await self._own(scope, name)
        await self._database.change(
            lambda connection: connection.execute(SQL.pause_queue, queue_id, paused)
        )
        return queue_id

    async def _own(self, scope: Scope, name: str) -> UUID:
        """Returns the id of a queue that the scope may change; only the system may change a
        shared one."""
        queue = await self.get(scope, name)
        if queue.tenant != scope.tenant:
            raise Conflict(f"queue {name} is shared; only the system may change it")
        return queue.id


async def _check_room(connection: Connection, tenant: str, name: str) -> None:
    """Raises `TooMany` if the tenant may not have a new queue of that name."""
    known = await connection.fetchrow(SQL.get_queue, tenant, name)
    if known is not None and known["tenant"] is not None:
        return
    # Before the queue, in the same order as when schedules are created.
    quotas = await connection.fetchrow(SQL.lock_counted_quotas, tenant)
    if quotas is not None and quotas["queues_max"] is not None:
        count = await connection.fetchval(SQL.count_queues, tenant, QUEUES_MAX)
        check_room(tenant, "queues_max", count, quotas["queues_max"])


async def _check(connection: Connection, scope: Scope, name: str, check: CheckQueue | None) -> None:
    """Locks a queue and lets the caller refuse the change."""
    if check is not None:
        row = await connection.fetchrow(SQL.lock_own_queue, scope.tenant, name)
        check(None if row is None else rows.queue(row))
