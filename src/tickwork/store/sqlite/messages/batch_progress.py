"""Counts ended items of batches on SQLite, and completes a batch with its last item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tickwork.core.message.batch import ItemStatus, completion_event
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.shared.counters import warn_missing_completion_queue
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages, send_exempt_copies
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue


class EndedItem(NamedTuple):
    """An item of a batch, and how it ended."""

    tenant: str
    batch_id: bytes
    id: bytes
    status: ItemStatus
    reason: str | None
    started_at: int | None
    attempts: int | None


BatchName = tuple[str, bytes]
"""The tenant and the id of a batch."""


def end_items(transaction: Transaction, ended: Sequence[EndedItem]) -> set[BatchName]:
    """Records and counts ended items; returns the batches that may be complete."""
    transaction.connection.executemany(
        SQL.end_items,
        [
            (item.tenant, item.batch_id, item.status, item.id, item.reason, transaction.now,
             item.started_at, item.attempts)
            for item in ended
        ],
    )  # fmt: skip
    counts = Counter((item.tenant, item.batch_id, item.status) for item in ended)
    batches = {(item.tenant, item.batch_id) for item in ended}
    for tenant, batch_id in batches:
        completed = counts[tenant, batch_id, ItemStatus.COMPLETED]
        failed = counts[tenant, batch_id, ItemStatus.FAILED]
        transaction.execute(SQL.count_ended_items, (tenant, batch_id, completed, failed))
    return batches


def seal(transaction: Transaction, tenant: str, batch_id: bytes) -> bool:
    """Seals a batch, and completes it if all its items have ended; returns whether it did."""
    transaction.execute(SQL.seal_batch, (tenant, batch_id))
    return complete(transaction, tenant, batch_id)


def complete(transaction: Transaction, tenant: str, batch_id: bytes) -> bool:
    """Completes a batch whose items have all ended and sends its event; False if items are left or
    it was completed before."""
    values = (tenant, batch_id, transaction.now)
    row = transaction.execute(SQL.complete_batches, values).fetchone()
    if row is None:
        return False
    queue_name, run_id, total, completed, failed = row
    event = completion_event(
        UUID(bytes=batch_id), total=total, completed=completed, failed=failed, run_id=run_id
    )
    queue: QueueRow | None = None
    if queue_name is not None:
        try:
            queue = find_queue(transaction, Scope(tenant), queue_name)
        except NotFound:
            warn_missing_completion_queue(UUID(bytes=batch_id), queue_name)
    if queue is None:
        send_exempt_copies(transaction, tenant, [event])
    elif PreparedMessages([event]).store(transaction, tenant, queue, is_exempt=True):
        send_exempt_copies(transaction, tenant, [event], except_queue_id=queue.id)
    return True
