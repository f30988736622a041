"""Queues on SQLite."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tickwork.core.limits import check_limit, check_queue, is_name
from tickwork.core.message.batch import REASON_PURGED
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
from tickwork.store.ids import new_id
from tickwork.store.shared.columns import settings_text
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_progress import BatchName
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES, complete_all, remove_some


class SqliteQueues:
    """Queues by name. Every operation looks the name up in its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            new_id().bytes,
            scope.tenant,
            name,
            settings_text(settings, declared_by),
            settings.max_retries,
            settings.retention_seconds,
        )

        def work(transaction: Transaction) -> rows.Row:
            execute = transaction.execute
            known = execute(SQL.get_queue, (scope.tenant, name)).fetchone()
            if scope.tenant is not None and known is None:
                _check_room(transaction, scope.tenant)
            if check is not None:
                check(None if known is None else rows.queue(known[:5]))
            row: rows.Row = execute(SQL.put_queue, values).fetchone()
            if settings.counts_claims:
                execute(SQL.count_claims, (row[0],))
            execute(SQL.recount_backlog, (row[0], settings.backlog_bytes_max is not None))
            return row

        return rows.queue(await self._database.change(work))

    async def get(self, scope: Scope, name: str) -> StoredQueue:
        found = await self._database.read(lambda transaction: find_queue(transaction, scope, name))
        return rows.queue(found[:5])

    async def list(
        self, scope: Scope, *, limit: int | None = None, after: QueuePosition | None = None
    ) -> tuple[StoredQueue, ...]:
        if limit is not None:
            check_limit(limit)
        is_page = limit is not None and not scope.is_system
        statement = SQL.page_queues if is_page else SQL.list_queues
        # No tenant has an empty name: a tenant that cannot exist sees only the shared queues.
        tenant = scope.tenant if scope.tenant is None or is_name(scope.tenant) else ""
        values = (tenant, *(after or BEFORE_QUEUES), limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(statement, values).fetchall()
        )
        return tuple(rows.queue(row) for row in found)

    async def delete(self, scope: Scope, name: str, *, check: CheckQueue | None = None) -> None:
        def work(transaction: Transaction) -> None:
            queue = _own(transaction, scope, name)
            if check is not None:
                check(rows.queue(queue[:5]))
            if transaction.execute(SQL.delete_queue, (queue.id,)).rowcount == 0:
                raise Conflict(
                    f"queue {name} still has messages or dead letters; purge and discard them first"
                )

        await self._database.change(work)

    async def pause(self, scope: Scope, name: str) -> None:
        await self._set_paused(scope, name, paused=True)

    async def resume(self, scope: Scope, name: str) -> None:
        await self._set_paused(scope, name, paused=False)

    async def purge(self, scope: Scope, name: str) -> int:
        """Deletes in chunks. Messages sent after the call started stay."""
        queue = await self._database.read(lambda transaction: find_queue(transaction, scope, name))
        until = await self._database.read(lambda transaction: transaction.now)
        values = (queue.id, scope.tenant, until)
        purged, ended = 0, set[BatchName]()
        while True:
            gone, batches = await self._database.change(
                lambda transaction: _purge_some(transaction, values), rows=REMOVAL_CHUNK_MESSAGES
            )
            purged += gone
            ended |= batches
            if not gone:
                break
        if ended:
            await self._database.write(lambda transaction: complete_all(transaction, ended))
        return purged

    async def counts(self, scope: Scope, name: str, *, at_most: int | None = None) -> Counts:
        def work(transaction: Transaction) -> Counts:
            queue = find_queue(transaction, scope, name)
            values = (queue.id, scope.tenant, transaction.now, at_most)
            *counts, _, _ = transaction.execute(SQL.count_messages, values).fetchone()
            return Counts(*counts)

        return await self._database.read(work)

    async def mark_pulled(self, scope: Scope, name: str) -> None:
        def work(transaction: Transaction) -> None:
            queue_id = find_queue(transaction, scope, name).id
            transaction.execute(SQL.mark_pulled, (queue_id, transaction.now))

        await self._database.change(work)

    async def pulled_at(self, scope: Scope, name: str) -> datetime | None:
        def work(transaction: Transaction) -> int | None:
            queue_id = find_queue(transaction, scope, name).id
            at: int | None = transaction.execute(SQL.pulled_at, (queue_id,)).fetchone()[0]
            return at

        at = await self._database.read(work)
        return None if at is None else from_microseconds(at)

    async def _set_paused(self, scope: Scope, name: str, *, paused: bool) -> None:
        def work(transaction: Transaction) -> None:
            queue = _own(transaction, scope, name)
            transaction.execute(SQL.pause_queue, (queue.id, paused))
            if not paused:
                transaction.queues_to_wake.add(UUID(bytes=queue.id))

        await self._database.change(work)


def _check_room(transaction: Transaction, tenant: str) -> None:
    """Raises `TooMany` if the tenant may not have one more queue, `NotFound` if there is none."""
    row = transaction.execute(SQL.lock_counted_quotas, (tenant,)).fetchone()
    if row is None:
        raise NotFound("tenant", tenant)
    if (most := row[0]) is not None:
        (count,) = transaction.execute(SQL.count_queues, (tenant, QUEUES_MAX)).fetchone()
        check_room(tenant, "queues_max", count, most)


def _purge_some(
    transaction: Transaction, values: tuple[bytes, str | None, int]
) -> tuple[int, set[BatchName]]:
    """Blocked messages first: otherwise they would be unblocked only to be purged."""
    return remove_some(transaction, (SQL.purge_blocked, SQL.purge_ready), values, REASON_PURGED)


def _own(transaction: Transaction, scope: Scope, name: str) -> QueueRow:
    """The queue, if the scope may change it; only the system may change a shared one."""
    queue = find_queue(transaction, scope, name)
    if queue.tenant != scope.tenant:
        raise Conflict(f"queue {name} is shared; only the system may change it")
    return queue
