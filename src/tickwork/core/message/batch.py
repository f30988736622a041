"""Batches: many messages that are counted together, and one event when the last one has ended.

```
  filling ──the last item is stored──▶ running ──the last item has ended──▶ completed
```

Items run as soon as they are stored; a batch is completed only after it is whole. An item ends
once: `completed` when it was acked, `failed` when it became a dead letter, expired, was purged
or deleted. A dead letter that is replayed later is a message of its own and counts no more.

How fast something goes, and when it will be through, from how far it was lately.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from tickwork.core.hashing import derived_id
from tickwork.core.model import NewMessage

BATCH_ITEMS_MAX = 1_000_000

BATCH_FILLING_SECONDS_MAX = 3_600
"""A batch whose filling stopped for so long is closed with what it has."""

BATCH_RETENTION_SECONDS = 14 * 86_400
"""So long batches are kept after their completion."""

BATCH_COMPLETED = "batch.completed"
"""The type of the completion event."""

REASON_PURGED = "purged"
REASON_DELETED = "deleted"
REASON_CANCELLED = "cancelled"


class BatchStatus(StrEnum):
    """How far a batch is as a whole."""

    FILLING = "filling"
    RUNNING = "running"
    COMPLETED = "completed"


class ItemStatus(StrEnum):
    """How far an item is."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class NewBatch(Struct, frozen=True, kw_only=True):
    """A batch to be made. Its id is the caller's, so that a repeat goes on where it stopped."""

    id: UUID
    queue: str
    completion_queue: str | None = None


class Batch(Struct, frozen=True, kw_only=True):
    """A batch and its progress; `total` is what is stored so far while it is filling.

    At every moment `pending + processing + completed + failed == total`.
    """

    id: UUID
    tenant: str
    queue_id: UUID
    status: BatchStatus
    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    created_at: datetime
    completed_at: datetime | None


class BatchItem(Struct, frozen=True):
    """One item: the id of its message, and what became of it."""

    id: UUID
    status: ItemStatus
    reason: str | None = None
    ended_at: datetime | None = None


def completion_event(batch_id: UUID, *, total: int, completed: int, failed: int) -> NewMessage:
    """The one event of a batch that has ended; always with the same id."""
    body = f'{{"batch_id":"{batch_id}","total":{total},"completed":{completed},"failed":{failed}}}'
    return NewMessage(
        id=derived_id(batch_id, BATCH_COMPLETED),
        body=body.encode(),
        type=BATCH_COMPLETED,
        source=str(batch_id),
        correlation_id=str(batch_id),
    )


RATE_WINDOW_SECONDS = 30.0
"""What was longer ago says little about now."""

SAMPLES_MAX = 1_000


class Sample(NamedTuple):
    """How many were done at a moment."""

    seconds: float
    done: int


class ProgressRate:
    """The last samples of a count that only grows; time is the caller's."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def add(self, seconds: float, done: int) -> None:
        """Takes a sample, no earlier than those before it."""
        assert not self._samples or self._samples[-1].seconds <= seconds
        self._samples.append(Sample(seconds, done))
        # Two stay, so that a speed is known however rarely somebody looks.
        while len(self._samples) > 2 and self._samples[0].seconds < seconds - RATE_WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float | None:
        """None until two moments are known."""
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        passed = last.seconds - first.seconds
        return (last.done - first.done) / passed if passed > 0 else None

    def remaining_seconds(self, total: int) -> float | None:
        """How long the rest takes at this speed; None where nothing moves, as nobody knows then."""
        rate = self.per_second
        if not rate:
            return None
        return max(0, total - self._samples[-1].done) / rate
