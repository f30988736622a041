"""Fills batches on SQLite: stores their items in chunks and then seals the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import check_item, check_item_count
from tickwork.core.message.batch import (
    Batch,
    BatchStatus,
    NewBatch,
)
from tickwork.core.model import BatchWithItems, NewMessage, Scope
from tickwork.errors import Conflict
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.batches import get_batch
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.batch_progress import BatchName, seal
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue
from tickwork.store.sqlite.messages.send import Sent, send_copies

PIECE_ITEMS = 1_000


class BatchFiller:
    """Stores the items of batches in chunks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fill(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        source = iter(items)
        await self._database.read(lambda transaction: find_queue(transaction, scope, batch.queue))
        # Checked before anything is stored: a batch whose first chunk is refused leaves nothing.
        first = _next_piece(source, 0)
        opened = await self._database.write(lambda transaction: _open(transaction, scope, batch))
        if opened.status is not BatchStatus.FILLING:
            if _skip(chain(first, source), opened.total + 1) != opened.total:
                shown = public_id(Prefix.BATCH, batch.id)
                raise Conflict(f"batch {shown} is already sealed with {opened.total} items")
            return opened
        stored, piece = opened.total, first[opened.total :]
        if not piece:
            if len(first) + _skip(source, stored - len(first)) < stored:
                shown = public_id(Prefix.BATCH, batch.id)
                raise Conflict(f"batch {shown} has {stored} items already, more than given")
            piece = _next_piece(source, stored)
        while piece:
            filling = _Piece(scope, batch, piece, stored)
            await self._database.write(filling.store, rows=len(piece))
            stored += len(piece)
            piece = _next_piece(source, stored)
        return await self._database.write(
            lambda transaction: _seal(transaction, scope, batch.id, stored)
        )

    async def open(self, scope: Scope, batch: NewBatch) -> Batch:
        """The batch, created if it does not exist."""
        return await self._database.write(lambda transaction: _open(transaction, scope, batch))

    async def add(self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage]) -> Batch:
        """Stores items of an open batch, all or none."""
        for index, item in enumerate(items):
            check_item(item, index)

        def work(transaction: Transaction) -> Batch:
            stored = carry_out(transaction, get_batch(scope, batch.id)).total
            check_item_count(stored + len(items))
            _Piece(scope, batch, items, stored).store(transaction)
            return carry_out(transaction, get_batch(scope, batch.id))

        return await self._database.write(work, rows=len(items))


class PreparedBatch:
    """A batch with all its items, stored together or not at all."""

    def __init__(self, scope: Scope, batch: BatchWithItems) -> None:
        self._scope = scope
        self._batch = batch
        self._prepared = PreparedMessages(batch.items)

    def find(self, transaction: Transaction) -> QueueRow:
        """The target queue; `NotFound` if it does not exist."""
        return find_queue(transaction, self._scope, self._batch.queue)

    @property
    def name(self) -> BatchName:
        """The key of the batch. The caller completes an empty batch after everything else is
        stored."""
        return own_tenant(self._scope), self._batch.id.bytes

    def store_own(self, transaction: Transaction) -> Sent:
        """Stores the batch unless it exists; `Conflict` if its id or an item's id is in use. The
        caller copies the items to subscribers."""
        queue, batch = self.find(transaction), self._batch
        name, total = self.name, len(batch.items)
        values = (*name, queue.id, batch.completion_queue, transaction.now, total)
        if not transaction.execute(SQL.store_whole_batches, values).rowcount:
            if not transaction.execute(SQL.has_whole_batch, (*name, queue.id, total)).fetchone():
                shown = public_id(Prefix.BATCH, batch.id)
                raise Conflict(f"batch id {shown} is already in use by another batch")
            return name[0], (), queue.id
        self._prepared.store(transaction, name[0], queue, batch_id=name[1])
        return name[0], batch.items, queue.id


class _Piece:
    """Items of a batch that are stored together or not at all, after `stored` others."""

    def __init__(
        self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage], stored: int
    ) -> None:
        self._scope = scope
        self._batch = batch
        self._stored = stored
        self._prepared = PreparedMessages(items)

    def store(self, transaction: Transaction) -> None:
        """Stores the items; `Conflict` if the batch is sealed or filled by someone else, or an id
        is in use."""
        queue = find_queue(transaction, self._scope, self._batch.queue)
        name = (own_tenant(self._scope), self._batch.id.bytes)
        items = self._prepared.messages
        values = (*name, queue.id, self._stored, len(items), transaction.now)
        row = transaction.execute(SQL.fill_batch, values).fetchone()
        if row is None:
            shown = public_id(Prefix.BATCH, self._batch.id)
            raise Conflict(f"batch {shown} is sealed, or another process is filling it")
        (ended,) = row
        if ended and _has_ended(transaction, name, items):
            raise Conflict("an item has the id of an item of this batch that has ended")
        self._prepared.store(transaction, name[0], queue, batch_id=name[1])
        send_copies(transaction, name[0], items, queue.id)


def _skip(source: Iterable[NewMessage], count: int) -> int:
    """Skips up to `count` items; returns how many there were."""
    return sum(1 for _ in islice(source, count))


def _next_piece(source: Iterator[NewMessage], start: int) -> tuple[NewMessage, ...]:
    """The next chunk of items, from index `start` on; `InvalidInput` if one of them is invalid."""
    piece = tuple(islice(source, PIECE_ITEMS))
    check_item_count(start + len(piece))
    for index, item in enumerate(piece, start=start):
        check_item(item, index)
    return piece


def _open(transaction: Transaction, scope: Scope, batch: NewBatch) -> Batch:
    """The batch, created if it does not exist."""
    queue = find_queue(transaction, scope, batch.queue)
    values = (own_tenant(scope), batch.id.bytes, queue.id, batch.completion_queue, transaction.now)
    transaction.execute(SQL.open_batch, (*values, batch.run_id))
    opened = carry_out(transaction, get_batch(scope, batch.id))
    if opened.queue_id.bytes != queue.id:
        raise Conflict(f"batch {public_id(Prefix.BATCH, batch.id)} belongs to another queue")
    return opened


def _seal(transaction: Transaction, scope: Scope, batch_id: UUID, stored: int) -> Batch:
    """Seals the batch; `Conflict` if it does not have this many items."""
    seal(transaction, own_tenant(scope), batch_id.bytes)
    sealed = carry_out(transaction, get_batch(scope, batch_id))
    if sealed.total != stored:
        raise Conflict(
            f"batch {public_id(Prefix.BATCH, batch_id)} is sealed with {sealed.total} items"
        )
    return sealed


def _has_ended(
    transaction: Transaction, batch: tuple[str, bytes], items: Sequence[NewMessage]
) -> bool:
    """Whether an item of the batch with one of these ids has ended."""
    for some in in_chunks([item.id.bytes for item in items]):
        (known,) = transaction.execute(
            for_rows(SQL.has_ended_items, len(some)), (*batch, *some)
        ).fetchone()
        if known:
            return True
    return False
