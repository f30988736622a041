"""Batches on PostgreSQL: create, read, list and cancel.

An item is a message until it ends. The transaction that removes the message stores the item as a
row and counts it in a stripe of its batch. After the commit, the caller checks whether all items
have ended: of several concurrent transactions, the last to commit sees all items. After a crash the
sweep completes the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import check_limit, check_new_batch, is_name
from tickwork.core.message.batch import (
    BATCH_ITEMS_MAX,
    REASON_CANCELLED,
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    NewBatch,
    death_span,
    with_errors,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.batch_fill import PIECE_ITEMS, BatchFiller
from tickwork.store.postgres.messages.batch_progress import BatchProgress, EndedItem
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.send import Sender
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import CounterKey, Counters

PIECES_MAX = BATCH_ITEMS_MAX // PIECE_ITEMS + 1


_END_OF_TIME = (datetime(9999, 1, 1, tzinfo=UTC), UUID(int=0))


class PostgresBatches:
    """Batches of messages with exact progress."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        progress: BatchProgress,
        keys: Keys,
        counters: Counters,
    ) -> None:
        self._database, self._moment = database, moment
        self._queues = queues
        self._sender = sender
        self._progress = progress
        self._keys, self._counters = keys, counters
        self._filler = BatchFiller(database, moment, sender)

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        check_new_batch(batch)
        queue = await self._queues.get(scope, batch.queue)
        tenant = own_tenant(scope)
        await self._filler.fill(tenant, batch, queue, items)
        await self._progress.complete([(tenant, batch.id)])
        return await self.get(scope, batch.id)

    async def open(self, scope: Scope, batch: NewBatch) -> Batch:
        check_new_batch(batch)
        queue = await self._queues.get(scope, batch.queue)
        await self._filler.open(own_tenant(scope), batch, queue)
        return await self.get(scope, batch.id)

    async def add(self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage]) -> Batch:
        queue = await self._queues.get(scope, batch.queue)
        known = await self.get(scope, batch.id)
        if known.queue_id != queue.id:
            raise Conflict(f"batch {public_id(Prefix.BATCH, batch.id)} belongs to another queue")
        await self._filler.add(own_tenant(scope), batch, queue, items, known.total)
        return await self.get(scope, batch.id)

    async def close(self, scope: Scope, batch_id: UUID) -> Batch:
        tenant = own_tenant(scope)
        known = await self.get(scope, batch_id)
        if known.status is BatchStatus.FILLING:
            # Items that are added at the same time are part of it, or refused.
            await self._database.change(
                lambda connection: connection.execute(SQL.seal_batch, tenant, batch_id)
            )
            await self._progress.complete([(tenant, batch_id)])
        return await self.get(scope, batch_id)

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        row = None
        if is_name(tenant := own_tenant(scope)):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_batch, tenant, batch_id)
            )
        if row is None:
            raise NotFound("batch", batch_id)
        return _batch(row)

    async def list(
        self, scope: Scope, limit: int, *, before: tuple[datetime, UUID] | None = None
    ) -> tuple[Batch, ...]:
        check_limit(limit)
        position = before or _END_OF_TIME
        if not is_name(tenant := own_tenant(scope)):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_batches, tenant, limit, *position)
        )
        return tuple(_batch(row) for row in found)

    async def items(
        self,
        scope: Scope,
        batch_id: UUID,
        status: ItemStatus,
        limit: int,
        *,
        after: UUID | None = None,
    ) -> tuple[BatchItem, ...]:
        check_limit(limit)
        batch = await self.get(scope, batch_id)
        wanted = (own_tenant(scope), batch_id, after, limit)

        async def work(connection: Connection) -> list[asyncpg.Record]:
            if status is ItemStatus.PENDING:
                return await connection.fetch(SQL.pending_items, *wanted)
            if status is ItemStatus.PROCESSING:
                return await connection.fetch(SQL.processing_items, *wanted)
            return await connection.fetch(SQL.ended_items, *wanted, status)

        found = [
            BatchItem(
                *(row["id"], status, row["reason"], row["ended_at"], row["attempts"]),
                *(row["error"], row["started_at"]),
            )
            for row in await self._database.run(work)
        ]
        if status is not ItemStatus.FAILED or not found:
            return tuple(found)
        span = death_span(found)
        dead = await self._database.run(
            lambda connection: connection.fetch(
                SQL.dead_items,
                batch.queue_id,
                *wanted[:2],
                *(span.start, span.end, found[0].id, found[-1].id),
            )
        )
        return with_errors(
            found, {row["message_id"]: (row["attempts"], row["error"]) for row in dead}
        )

    async def cancel(self, scope: Scope, batch_id: UUID, *, publish_event: bool = True) -> Batch:
        await self.get(scope, batch_id)
        tenant = own_tenant(scope)

        async def close(connection: Connection) -> None:
            if publish_event:
                await connection.execute(SQL.seal_batch, tenant, batch_id)
            else:
                await connection.execute(SQL.withdraw_batch, self._moment(), tenant, batch_id)

        # Sealed first: no items are stored after this.
        await self._database.change(close)
        last = await self._cancel_piece(tenant, batch_id, None)
        for _ in range(PIECES_MAX):
            if last is None:
                break
            last = await self._cancel_piece(tenant, batch_id, last)
        await self._progress.complete([(tenant, batch_id)])
        return await self.get(scope, batch_id)

    async def _cancel_piece(self, tenant: str, batch_id: UUID, after: UUID | None) -> UUID | None:
        """Deletes a chunk of unclaimed items, ordered by id; returns the last id if there may
        be more."""

        async def work(connection: Connection) -> tuple[Sequence[Any], Sequence[Any], set[UUID]]:
            waiting = await connection.fetch(
                SQL.waiting_items, tenant, batch_id, after, PIECE_ITEMS
            )
            keys = {Key(tenant, row["queue_id"], row["key"]) for row in waiting if row["key"]}
            # Locks keys before messages: a transaction that unblocks a message locks the key first.
            if keys:
                await self._keys.lock(connection, keys)
            removed = await connection.fetch(
                SQL.cancel_items, tenant, batch_id, [row["id"] for row in waiting]
            )
            queues_to_wake = await self._keys.unblock(connection, keys)
            await self._progress.end_items(
                connection,
                [
                    EndedItem(tenant, batch_id, row["id"], ItemStatus.FAILED, REASON_CANCELLED)
                    for row in removed
                ],
            )
            backlog = BacklogChange()
            for row in removed:
                if row["bytes"] is not None:
                    backlog.free(row["queue_id"], row["bytes"])
            await change_backlog(connection, backlog)
            return waiting, removed, queues_to_wake

        waiting, removed, queues_to_wake = await self._database.transact(work)
        self._counters.add_all(
            CounterKey(
                row["queue_id"], tenant, CounterName.PURGED, row["type"] or "", row["source"] or ""
            )
            for row in removed
        )
        if queues_to_wake:
            self._sender.wake(queues_to_wake)
        return waiting[-1]["id"] if len(waiting) == PIECE_ITEMS else None


def _batch(row: Any) -> Batch:
    total = row["stored"] if row["total"] is None else row["total"]
    status = BatchStatus.RUNNING
    if row["completed_at"] is not None:
        status = BatchStatus.COMPLETED
    elif row["total"] is None:
        status = BatchStatus.FILLING
    return Batch(
        id=row["id"],
        tenant=row["tenant"],
        queue_id=row["queue_id"],
        status=status,
        total=total,
        pending=total - row["processing"] - row["completed"] - row["failed"],
        processing=row["processing"],
        completed=row["completed"],
        failed=row["failed"],
        created_at=row["created_at"],
        completed_at=row["completed_at"],
    )
