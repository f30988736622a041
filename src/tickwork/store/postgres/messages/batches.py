"""Batches on PostgreSQL: fill and cancel them.

An item is a message until it ends. The transaction that removes the message stores the item as a
row and counts it in a stripe of its batch. After the commit, the caller checks whether all items
have ended: of several concurrent transactions, the last to commit sees all items. After a crash the
sweep completes the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import check_new_batch
from tickwork.core.message.batch import (
    BATCH_ITEMS_MAX,
    REASON_CANCELLED,
    Batch,
    BatchStatus,
    ItemStatus,
    NewBatch,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import Conflict
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.nouns.batches import Batches
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.batch_fill import PIECE_ITEMS, BatchFiller
from tickwork.store.postgres.messages.batch_progress import BatchProgress, EndedItem
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.send import Sender
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.steps import Port

PIECES_MAX = BATCH_ITEMS_MAX // PIECE_ITEMS + 1


class PostgresBatches(Batches):
    """Batches of messages with exact progress."""

    def __init__(
        self,
        port: Port,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        progress: BatchProgress,
        keys: Keys,
        counters: Counters,
    ) -> None:
        super().__init__(port)
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
                SQL.cancel_items,
                self._moment(),
                tenant,
                [row["id"] for row in waiting],
                REASON_CANCELLED,
                batch_id,
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
