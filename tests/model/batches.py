"""Batches in the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from uuid import UUID

from msgspec import structs

from tests.model.removal import Departures
from tests.model.send import Arrivals
from tests.model.state import BatchRow, Now, Row, Tables, own_tenant
from tickwork.core.limits import check_item, check_item_count, check_limit, check_new_batch
from tickwork.core.message.batch import (
    DEATH_SPAN,
    REASON_CANCELLED,
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    NewBatch,
)
from tickwork.core.model import BatchWithItems, NewMessage, Scope, State, StoredQueue
from tickwork.errors import Conflict, NotFound

PIECE_ITEMS = 1_000


class MemoryBatches:
    """Batches of messages with exact progress."""

    def __init__(
        self, tables: Tables, now: Now, arrivals: Arrivals, departures: Departures
    ) -> None:
        self._tables, self._now = tables, now
        self._arrivals, self._departures = arrivals, departures

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        check_new_batch(batch)
        queue = self._tables.queue(scope, batch.queue)
        source = iter(items)
        first = list(islice(source, PIECE_ITEMS))
        check_item_count(len(first))
        for index, item in enumerate(first):
            check_item(item, index)
        rest = chain(first, source)
        row = self._begin(own_tenant(scope), queue, batch)
        if row.queue_id != queue.id:
            raise Conflict(f"batch {batch.id} is another queue's")
        if row.total is not None:
            if sum(1 for _ in rest) != row.total:
                raise Conflict(f"batch {batch.id} is closed with {row.total} items")
            return self._seen(row)
        if sum(1 for _ in islice(rest, row.stored)) < row.stored:
            raise Conflict(f"batch {batch.id} has {row.stored} items already")
        while piece := list(islice(rest, PIECE_ITEMS)):
            row = self._add(row, queue, piece)
        return self._seen(self.seal(row))

    async def open(self, scope: Scope, batch: NewBatch) -> Batch:
        check_new_batch(batch)
        queue = self._tables.queue(scope, batch.queue)
        row = self._begin(own_tenant(scope), queue, batch)
        if row.queue_id != queue.id:
            raise Conflict(f"batch {batch.id} is another queue's")
        return self._seen(row)

    async def add(self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage]) -> Batch:
        row, queue = self._row(scope, batch.id), self._tables.queue(scope, batch.queue)
        if row.total is not None or row.queue_id != queue.id:
            raise Conflict(f"batch {batch.id} is closed, or another queue's")
        for index, item in enumerate(items):
            check_item(item, index)
        return self._seen(self._add(row, queue, items))

    async def close(self, scope: Scope, batch_id: UUID) -> Batch:
        return self._seen(self.seal(self._row(scope, batch_id)))

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        return self._seen(self._row(scope, batch_id))

    async def list(
        self, scope: Scope, limit: int, *, before: tuple[datetime, UUID] | None = None
    ) -> tuple[Batch, ...]:
        check_limit(limit)
        own = [row for row in self._tables.batches.values() if row.tenant == own_tenant(scope)]
        if before is not None:
            own = [row for row in own if (row.created_at, row.id) < before]
        own.sort(key=lambda row: (row.created_at, row.id), reverse=True)
        return tuple(self._seen(row) for row in own[:limit])

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
        found = [
            item
            for item in self._items(self._row(scope, batch_id))
            if item.status is status and (after is None or item.id > after)
        ]
        return tuple(sorted(found, key=lambda item: item.id)[:limit])

    async def cancel(self, scope: Scope, batch_id: UUID, *, publish_event: bool = True) -> Batch:
        row = self._row(scope, batch_id)
        if not publish_event and row.completed_at is None:
            row = structs.replace(row, total=row.stored, completed_at=self._now())
            self._tables.batches[row.tenant, row.id] = row
        for message in self._living(row):
            if message.message.state is not State.CLAIMED:
                self._departures.drop(message, REASON_CANCELLED)
        return self._seen(self.seal(self._row(scope, batch_id)))

    def make(self, scope: Scope, batch: BatchWithItems) -> None:
        """Stores a batch with all its items unless it exists; part of the caller's transaction."""
        queue, tenant = self._tables.queue(scope, batch.queue), own_tenant(scope)
        known = self._tables.batches.get((tenant, batch.id))
        if known is not None:
            if (known.queue_id, known.total) != (queue.id, len(batch.items)):
                raise Conflict(f"the id {batch.id} is another batch's")
            return
        new = NewBatch(id=batch.id, queue=batch.queue, completion_queue=batch.completion_queue)
        row = self._begin(tenant, queue, new)
        self.seal(self._add(row, queue, batch.items) if batch.items else row)

    def seal(self, row: BatchRow) -> BatchRow:
        """Seals a batch, and completes it if all of its items have ended."""
        if row.total is None:
            row = structs.replace(row, total=row.stored)
            self._tables.batches[row.tenant, row.id] = row
        self._departures.complete(row)
        return self._tables.batches[row.tenant, row.id]

    def _begin(self, tenant: str, queue: StoredQueue, batch: NewBatch) -> BatchRow:
        now = self._now()
        return self._tables.batches.setdefault(
            (tenant, batch.id),
            BatchRow(
                tenant=tenant,
                id=batch.id,
                queue_id=queue.id,
                completion_queue=batch.completion_queue,
                created_at=now,
                filled_at=now,
            ),
        )

    def _add(self, row: BatchRow, queue: StoredQueue, piece: Sequence[NewMessage]) -> BatchRow:
        """Stores a chunk, all or none."""
        check_item_count(row.stored + len(piece))
        with self._tables.transaction():
            for index, item in enumerate(piece, start=row.stored):
                check_item(item, index)
                if not self._arrivals.store(row.tenant, queue, item, batch_id=row.id):
                    raise Conflict(f"item {item.id} is a message already")
            self._arrivals.check_backlogs({queue.id})
            for item in piece:
                self._arrivals.copy(row.tenant, queue, item)
            # Items may have ended meanwhile, so the counts may have changed.
            row = self._tables.batches[row.tenant, row.id]
            row = structs.replace(row, stored=row.stored + len(piece), filled_at=self._now())
            self._tables.batches[row.tenant, row.id] = row
        return row

    def _row(self, scope: Scope, batch_id: UUID) -> BatchRow:
        row = self._tables.batches.get((own_tenant(scope), batch_id))
        if row is None:
            raise NotFound("batch", batch_id)
        return row

    def _living(self, row: BatchRow) -> Sequence[Row]:
        rows = self._tables.messages.values()
        wanted = (row.tenant, row.id)
        return [
            message_row
            for message_row in rows
            if (message_row.message.tenant, message_row.message.batch_id) == wanted
        ]

    def _items(self, row: BatchRow) -> Iterator[BatchItem]:
        for message_row in self._living(row):
            is_claimed = message_row.message.state is State.CLAIMED
            status = ItemStatus.PROCESSING if is_claimed else ItemStatus.PENDING
            message = message_row.message
            yield BatchItem(
                id=message.id,
                status=status,
                reason=None,
                finished_at=None,
                attempts=message.attempts,
                error=message.last_error,
                started_at=message.claimed_at,
            )
        for (tenant, batch_id, _), item in self._tables.items.items():
            if (tenant, batch_id) == (row.tenant, row.id):
                yield self._with_error(item, row)

    def _with_error(self, item: BatchItem, row: BatchRow) -> BatchItem:
        if item.status is ItemStatus.FAILED:
            for letter in self._tables.letters.values():
                same = (letter.tenant, letter.batch_id, letter.message_id, letter.queue_id)
                is_open = letter.resolution is None
                assert item.finished_at is not None
                is_its_death = abs(letter.failed_at - item.finished_at) <= DEATH_SPAN
                if is_open and is_its_death and same == (row.tenant, row.id, item.id, row.queue_id):
                    item = structs.replace(item, attempts=letter.attempts, error=letter.error)
        return item

    def _seen(self, row: BatchRow) -> Batch:
        """Counted from the items every time: the stores' counters must equal that."""
        statuses = [item.status for item in self._items(row)]
        status = BatchStatus.FILLING if row.total is None else BatchStatus.RUNNING
        return Batch(
            id=row.id,
            tenant=row.tenant,
            queue_id=row.queue_id,
            status=status if row.completed_at is None else BatchStatus.COMPLETED,
            total=len(statuses),
            pending=statuses.count(ItemStatus.PENDING),
            processing=statuses.count(ItemStatus.PROCESSING),
            completed=statuses.count(ItemStatus.COMPLETED),
            failed=statuses.count(ItemStatus.FAILED),
            created_at=row.created_at,
            completed_at=row.completed_at,
        )
