"""Batches on SQLite: filled piece by piece, counted with every end of an item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from uuid import UUID

from tickwork.core.limits import check_item, check_item_count, check_limit, check_new_batch
from tickwork.core.message.batch import (
    REASON_CANCELLED,
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    NewBatch,
)
from tickwork.core.model import BatchWithItems, NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import Conflict, NotFound
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, for_rows, from_microseconds, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_progress import BatchName, complete, seal
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES, finish_removal
from tickwork.store.sqlite.messages.send import (
    DEFAULT_TENANT,
    PreparedMessages,
    QueueRow,
    find_queue,
    is_storable,
)

PIECE_ITEMS = 1_000


class SqliteBatches:
    """Messages that are counted together."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        check_new_batch(batch)
        source = iter(items)
        await self._database.read(lambda transaction: find_queue(transaction, scope, batch.queue))
        # Before anything is stored: of a batch whose beginning is refused nothing is left.
        first = _next_piece(source, 0)
        begun = await self._database.write(lambda transaction: _begin(transaction, scope, batch))
        if begun.status is not BatchStatus.FILLING:
            if _skip(chain(first, source), begun.total + 1) != begun.total:
                raise Conflict(f"batch {batch.id} is closed with {begun.total} items")
            return begun
        stored, piece = begun.total, first[begun.total :]
        if not piece:
            if len(first) + _skip(source, stored - len(first)) < stored:
                raise Conflict(f"batch {batch.id} has {stored} items already, more than are given")
            piece = _next_piece(source, stored)
        while piece:
            filling = _Piece(scope, batch, piece, stored)
            await self._database.write(filling.store, rows=len(piece))
            stored += len(piece)
            piece = _next_piece(source, stored)
        return await self._database.write(
            lambda transaction: _seal(transaction, scope, batch.id, stored)
        )

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        return await self._database.read(lambda transaction: _get(transaction, scope, batch_id))

    async def list(self, scope: Scope, limit: int) -> tuple[Batch, ...]:
        check_limit(limit)
        values = (_tenant(scope), limit)
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
        values = (_tenant(scope), batch_id.bytes, str(status), start, limit)

        def work(transaction: Transaction) -> Sequence[rows.Row]:
            _get(transaction, scope, batch_id)
            return transaction.execute(_items_of(status), values).fetchall()

        return tuple(
            BatchItem(
                UUID(bytes=id_), status, reason, None if at is None else from_microseconds(at)
            )
            for id_, reason, at in await self._database.read(work)
        )

    async def cancel(self, scope: Scope, batch_id: UUID, *, is_told: bool = True) -> Batch:
        name = (_tenant(scope), batch_id.bytes)

        def close(transaction: Transaction) -> None:
            _get(transaction, scope, batch_id)
            if is_told:
                transaction.execute(SQL.seal_batch, name)
            else:
                transaction.execute(SQL.withdraw_batch, (*name, transaction.now))

        def finish(transaction: Transaction) -> Batch:
            complete(transaction, *name)
            return _get(transaction, scope, batch_id)

        # Sealed first: what is not stored by now will not be.
        await self._database.write(close)
        after: bytes | None = b""
        while after is not None:
            after = await self._database.write(
                lambda transaction, after=after: _drop_some(transaction, name, after),  # type: ignore[misc]
                rows=REMOVAL_CHUNK_MESSAGES,
            )
        return await self._database.write(finish)


class Whole:
    """A batch with all its items, stored together or not at all."""

    def __init__(self, scope: Scope, batch: BatchWithItems) -> None:
        self._scope, self._batch, self._prepared = scope, batch, PreparedMessages(batch.items)

    def find(self, transaction: Transaction) -> QueueRow:
        """The queue; `NotFound` if there is no such queue."""
        return find_queue(transaction, self._scope, self._batch.queue)

    @property
    def name(self) -> BatchName:
        """An empty one is the caller's to complete, when all else is stored."""
        return _tenant(self._scope), self._batch.id.bytes

    def store(self, transaction: Transaction) -> None:
        """Unless it is there; `Conflict` if that is another one, or an item's id is in use."""
        queue, batch = self.find(transaction), self._batch
        name, total = self.name, len(batch.items)
        values = (*name, queue.id, batch.completion_queue, transaction.now, total)
        if not transaction.execute(SQL.store_whole_batches, values).rowcount:
            if not transaction.execute(SQL.has_whole_batch, (*name, queue.id, total)).fetchone():
                raise Conflict(f"the id {batch.id} is another batch's")
            return
        if batch.items:
            self._prepared.store(transaction, name[0], queue, batch_id=name[1])


class _Piece:
    """Items of a batch that are stored together or not at all, after so many others."""

    def __init__(
        self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage], stored: int
    ) -> None:
        self._scope, self._batch, self._stored = scope, batch, stored
        self._prepared = PreparedMessages(items)

    def store(self, transaction: Transaction) -> None:
        """`Conflict` if somebody else fills the batch or has closed it, or an id is in use."""
        queue = find_queue(transaction, self._scope, self._batch.queue)
        name = (_tenant(self._scope), self._batch.id.bytes)
        items = self._prepared.messages
        values = (*name, queue.id, self._stored, len(items), transaction.now)
        row = transaction.execute(SQL.fill_batch, values).fetchone()
        if row is None:
            raise Conflict(f"batch {self._batch.id} is closed, or somebody else fills it")
        (ended,) = row
        if ended and _has_ended(transaction, name, items):
            raise Conflict("an item has the id of one that has ended")
        self._prepared.store(transaction, name[0], queue, batch_id=name[1])


def _skip(source: Iterable[NewMessage], count: int) -> int:
    """Passes over so many items, or as many as there are; says how many."""
    return sum(1 for _ in islice(source, count))


def _next_piece(source: Iterator[NewMessage], place: int) -> tuple[NewMessage, ...]:
    """The items from a place on that are stored together; `InvalidInput` if one may not be."""
    piece = tuple(islice(source, PIECE_ITEMS))
    check_item_count(place + len(piece))
    for index, item in enumerate(piece, start=place):
        check_item(item, index)
    return piece


def _begin(transaction: Transaction, scope: Scope, batch: NewBatch) -> Batch:
    """The batch, begun if it was not there."""
    queue = find_queue(transaction, scope, batch.queue)
    values = (_tenant(scope), batch.id.bytes, queue.id, batch.completion_queue, transaction.now)
    transaction.execute(SQL.open_batch, values)
    begun = _get(transaction, scope, batch.id)
    if begun.queue_id.bytes != queue.id:
        raise Conflict(f"batch {batch.id} is another queue's")
    return begun


def _seal(transaction: Transaction, scope: Scope, batch_id: UUID, stored: int) -> Batch:
    """The batch is whole, if it has what its filler thinks."""
    seal(transaction, _tenant(scope), batch_id.bytes)
    sealed = _get(transaction, scope, batch_id)
    if sealed.total != stored:
        raise Conflict(f"batch {batch_id} is closed with {sealed.total} items")
    return sealed


def _get(transaction: Transaction, scope: Scope, batch_id: UUID) -> Batch:
    tenant, row = _tenant(scope), None
    if is_storable(tenant):
        row = transaction.execute(SQL.get_batch, (tenant, batch_id.bytes)).fetchone()
    if row is None:
        raise NotFound("batch", batch_id)
    return rows.batch(row)


def _drop_some(transaction: Transaction, batch: BatchName, after: bytes) -> bytes | None:
    """Takes away some of what nobody holds, by id; the last one of them, None if there was none."""
    found = transaction.execute(
        SQL.waiting_items, (*batch, after, REMOVAL_CHUNK_MESSAGES)
    ).fetchall()
    if not found:
        return None
    places = rows.as_json(place for place, _ in found)
    gone = transaction.execute(SQL.delete_messages, (places,)).fetchall()
    finish_removal(transaction, gone, CounterName.PURGED, REASON_CANCELLED)
    last: bytes = found[-1][1]
    return last


def _has_ended(
    transaction: Transaction, batch: tuple[str, bytes], items: Sequence[NewMessage]
) -> bool:
    """Whether an item of the batch with one of these ids was there before."""
    for some in in_chunks([item.id.bytes for item in items]):
        (known,) = transaction.execute(
            for_rows(SQL.has_ended_items, len(some)), (*batch, *some)
        ).fetchone()
        if known:
            return True
    return False


def _items_of(status: ItemStatus) -> str:
    """The statement that finds items of a status."""
    statement: str = {
        ItemStatus.PENDING: SQL.pending_items,
        ItemStatus.PROCESSING: SQL.processing_items,
    }.get(status, SQL.ended_items)
    return statement


def _tenant(scope: Scope) -> str:
    return scope.tenant or DEFAULT_TENANT
