"""Batches on SQLite: fill and cancel them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from tickwork.core.limits import check_new_batch
from tickwork.core.message.batch import (
    REASON_CANCELLED,
    Batch,
    NewBatch,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.batches import Batches, get_batch
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_fill import BatchFiller
from tickwork.store.sqlite.messages.batch_progress import BatchName, complete, seal
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES, finish_removal
from tickwork.store.steps import Port


class SqliteBatches(Batches):
    """Batches of messages with exact progress."""

    def __init__(self, port: Port, database: Database) -> None:
        super().__init__(port)
        self._database = database
        self._filler = BatchFiller(database)

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        check_new_batch(batch)
        return await self._filler.fill(scope, batch, items)

    async def open(self, scope: Scope, batch: NewBatch) -> Batch:
        check_new_batch(batch)
        return await self._filler.open(scope, batch)

    async def add(self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage]) -> Batch:
        return await self._filler.add(scope, batch, items)

    async def close(self, scope: Scope, batch_id: UUID) -> Batch:
        def work(transaction: Transaction) -> Batch:
            carry_out(transaction, get_batch(scope, batch_id))
            seal(transaction, own_tenant(scope), batch_id.bytes)
            return carry_out(transaction, get_batch(scope, batch_id))

        return await self._database.change(work)

    async def cancel(self, scope: Scope, batch_id: UUID, *, publish_event: bool = True) -> Batch:
        name = (own_tenant(scope), batch_id.bytes)

        def close(transaction: Transaction) -> None:
            carry_out(transaction, get_batch(scope, batch_id))
            if publish_event:
                transaction.execute(SQL.seal_batch, name)
            else:
                transaction.execute(SQL.withdraw_batch, (*name, transaction.now))

        def finish(transaction: Transaction) -> Batch:
            complete(transaction, *name)
            return carry_out(transaction, get_batch(scope, batch_id))

        # Sealed first: no items are stored after this.
        await self._database.change(close)
        after: bytes | None = b""
        while after is not None:
            after = await self._database.write(
                lambda transaction, after=after: _drop_some(transaction, name, after),  # type: ignore[misc]
                rows=REMOVAL_CHUNK_MESSAGES,
            )
        return await self._database.write(finish)


def _drop_some(transaction: Transaction, batch: BatchName, after: bytes) -> bytes | None:
    """Deletes a chunk of unclaimed items, ordered by id; returns the last id, None if there were
    none."""
    found = transaction.execute(
        SQL.waiting_items, (*batch, after, REMOVAL_CHUNK_MESSAGES)
    ).fetchall()
    if not found:
        return None
    rowids = rows.as_json(rowid for rowid, _ in found)
    removed = transaction.execute(SQL.delete_messages, (rowids,)).fetchall()
    finish_removal(transaction, removed, CounterName.PURGED, REASON_CANCELLED)
    last: bytes = found[-1][1]
    return last
