"""Batches on SQLite: create, read, list and cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.limits import check_limit, check_new_batch
from tickwork.core.message.batch import (
    REASON_CANCELLED,
    Batch,
    BatchItem,
    ItemStatus,
    NewBatch,
    death_span,
    with_errors,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_fill import BatchFiller, get_batch
from tickwork.store.sqlite.messages.batch_progress import BatchName, complete, seal
from tickwork.store.sqlite.messages.queue_rows import is_storable
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES, finish_removal

_END_OF_TIME = 2**63 - 1


class SqliteBatches:
    """Batches of messages with exact progress."""

    def __init__(self, database: Database) -> None:
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
            get_batch(transaction, scope, batch_id)
            seal(transaction, own_tenant(scope), batch_id.bytes)
            return get_batch(transaction, scope, batch_id)

        return await self._database.change(work)

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        return await self._database.read(
            lambda transaction: get_batch(transaction, scope, batch_id)
        )

    async def list(
        self, scope: Scope, limit: int, *, before: tuple[datetime, UUID] | None = None
    ) -> tuple[Batch, ...]:
        check_limit(limit)
        position = (_END_OF_TIME, b"")
        if before is not None:
            position = (to_microseconds(before[0]), before[1].bytes)
        values = (own_tenant(scope), limit, *position)
        if not is_storable(values[0]):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_batches, values).fetchall()
        )
        return tuple(rows.batch(row) for row in found)

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
        start = b"" if after is None else after.bytes
        values = (own_tenant(scope), batch_id.bytes, str(status), start, limit)

        def work(transaction: Transaction) -> tuple[BatchItem, ...]:
            batch = get_batch(transaction, scope, batch_id)
            found = [_item(row, status) for row in transaction.execute(_items_of(status), values)]
            if status is not ItemStatus.FAILED or not found:
                return tuple(found)
            span = death_span(found)
            wanted = (
                *(batch.queue_id.bytes, *values[:2]),
                *(to_microseconds(span.start), to_microseconds(span.end)),
                *(found[0].id.bytes, found[-1].id.bytes),
            )
            dead = transaction.execute(SQL.dead_items, wanted)
            return with_errors(
                found, {UUID(bytes=id_): (attempts, error) for id_, attempts, error in dead}
            )

        return await self._database.read(work)

    async def cancel(self, scope: Scope, batch_id: UUID, *, publish_event: bool = True) -> Batch:
        name = (own_tenant(scope), batch_id.bytes)

        def close(transaction: Transaction) -> None:
            get_batch(transaction, scope, batch_id)
            if publish_event:
                transaction.execute(SQL.seal_batch, name)
            else:
                transaction.execute(SQL.withdraw_batch, (*name, transaction.now))

        def finish(transaction: Transaction) -> Batch:
            complete(transaction, *name)
            return get_batch(transaction, scope, batch_id)

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


def _item(row: rows.Row, status: ItemStatus) -> BatchItem:
    id_, reason, ended_at, attempts, error, started_at = row
    times = rows.Times()
    return BatchItem(
        *(UUID(bytes=id_), status, reason, times[ended_at], attempts, error, times[started_at])
    )


def _items_of(status: ItemStatus) -> str:
    """The statement that lists items of a status."""
    statement: str = {
        ItemStatus.PENDING: SQL.pending_items,
        ItemStatus.PROCESSING: SQL.processing_items,
    }.get(status, SQL.ended_items)
    return statement
