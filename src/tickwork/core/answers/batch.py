"""Batches as a user sees them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.message.batch import Batch, BatchItem, BatchStatus, ItemFields


class BatchAnswer(Struct, frozen=True, kw_only=True):
    """A batch and its exact progress. While it is filling, `total` counts the items stored so far.

    At any time `pending + processing + completed + failed == total`.
    """

    id: Id
    queue: str | None
    status: BatchStatus
    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    created_at: datetime
    completed_at: datetime | None
    tenant: str

    @classmethod
    def of(cls, batch: Batch, queue: str | None) -> BatchAnswer:
        """The answer for a stored batch of a queue."""
        fields = fields_as_in(batch, cls) | {"queue": queue}
        return cls(id=Id.of(Prefix.BATCH, batch.id), **fields)


class ItemAnswer(ItemFields[Id], frozen=True, kw_only=True):
    """An item of a batch, and what became of it."""

    id: Id

    @classmethod
    def of(cls, item: BatchItem) -> ItemAnswer:
        """The answer for a stored item."""
        return cls(id=Id.of(Prefix.MESSAGE, item.id), **fields_as_in(item, cls))
