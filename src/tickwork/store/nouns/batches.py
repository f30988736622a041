"""Batches, as people look at them. Filling, cancelling and completing them is in each store."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tickwork.core.limits import check_limit, is_name
from tickwork.core.message.batch import (
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    death_span,
    with_errors,
)
from tickwork.core.message.message_list import END_OF_TIME, NO_ID
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import Noun, Row, Statement, Steps, page, reads

_PROGRESS = {"id": Kind.ID, "queue_id": Kind.ID, "created_at": Kind.TIME, "completed_at": Kind.TIME}
_ITEM = {"id": Kind.ID, "ended_at": Kind.TIME, "started_at": Kind.TIME}
_GET = Statement("get_batch", None, **_PROGRESS)
_LIST = Statement("list_batches", None, **_PROGRESS)
_PENDING = Statement("pending_items", None, **_ITEM)
_PROCESSING = Statement("processing_items", None, **_ITEM)
_ENDED = Statement("ended_items", None, **_ITEM)
_DEAD = Statement("dead_items", message_id=Kind.ID)


class Batches(Noun):
    """Batches of messages with exact progress."""

    @reads
    def get(self, scope: Scope, batch_id: UUID) -> Steps[Batch]:
        return (yield from get_batch(scope, batch_id))

    @reads
    def list(
        self, scope: Scope, limit: int, *, before: tuple[datetime, UUID] | None = None
    ) -> Steps[tuple[Batch, ...]]:
        position = before or (END_OF_TIME, NO_ID)
        return (yield from page(_LIST, _read_batch, scope, *position, limit=limit))

    @reads
    def items(
        self,
        scope: Scope,
        batch_id: UUID,
        status: ItemStatus,
        limit: int,
        *,
        after: UUID | None = None,
    ) -> Steps[tuple[BatchItem, ...]]:
        check_limit(limit)
        batch = yield from get_batch(scope, batch_id)
        values = (own_tenant(scope), batch_id, after, limit)
        if status is ItemStatus.PENDING:
            rows = yield from _PENDING.fetch(*values)
        elif status is ItemStatus.PROCESSING:
            rows = yield from _PROCESSING.fetch(*values)
        else:
            rows = yield from _ENDED.fetch(*values, status)
        items = [_read_item(row, status) for row in rows]
        if status is not ItemStatus.FAILED or not items:
            return tuple(items)
        span = death_span(items)
        bounds = (span.start, span.end, items[0].id, items[-1].id)
        dead = yield from _DEAD.fetch(batch.queue_id, *values[:2], *bounds)
        return with_errors(
            items, {row["message_id"]: (row["attempts"], row["error"]) for row in dead}
        )


def get_batch(scope: Scope, batch_id: UUID) -> Steps[Batch]:
    """A batch; `NotFound` if there is none."""
    row = None
    if is_name(tenant := own_tenant(scope)):
        row = yield from _GET.fetch_row(tenant, batch_id)
    if row is None:
        raise NotFound("batch", batch_id)
    return _read_batch(row)


def _read_item(row: Row, status: ItemStatus) -> BatchItem:
    return BatchItem(
        id=row["id"],
        status=status,
        attempts=row["attempts"],
        started_at=row["started_at"],
        finished_at=row["ended_at"],
        reason=row["reason"],
        error=row["error"],
    )


def _read_batch(row: Row) -> Batch:
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
