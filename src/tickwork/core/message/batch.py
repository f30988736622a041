"""Batches: messages that are counted together, with one event when all have finished.

```
  filling ──the last item is stored──▶ running ──the last item has finished──▶ completed
```

Items run as soon as they are stored. A batch completes only after all its items are stored. An item
finishes once: `completed` when it is acked, `failed` when it becomes a dead letter, expires, is
purged or deleted. The replay of a dead letter is a new message and does not count.

`ProgressRate` estimates the speed of a batch and its remaining time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.answers.ids import AnId, Prefix, public_id
from tickwork.core.model import NewMessage
from tickwork.core.stable_hash import derived_id

BATCH_ITEMS_MAX = 1_000_000

BATCH_FILLING_SECONDS_MAX = 3_600
"""Seconds without new items after which a filling batch is closed with the items it has."""

BATCH_RETENTION_SECONDS = 14 * 86_400
"""Seconds to keep a batch after its completion."""

BATCH_COMPLETED = "batch.completed"
"""The type of the completion event."""

REASON_PURGED = "purged"
REASON_DELETED = "deleted"
REASON_CANCELLED = "cancelled"


class BatchStatus(StrEnum):
    """The status of a batch."""

    FILLING = "filling"
    RUNNING = "running"
    COMPLETED = "completed"


class ItemStatus(StrEnum):
    """The status of an item."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class NewBatch(Struct, frozen=True, kw_only=True):
    """A batch to create. The caller chooses the id, so that a repeated call continues the batch.
    `run_id` is the run of a workflow that waits for its completion event."""

    id: UUID
    queue: str
    completion_queue: str | None = None
    run_id: str | None = None


class Batch(Struct, frozen=True, kw_only=True):
    """A batch and its progress. While it is filling, `total` counts the items stored so far.

    At any time `pending + processing + completed + failed == total`.
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


class ItemFields(Struct, Generic[AnId], frozen=True, kw_only=True):
    """One item: the id of its message, and its status.

    `attempts` counts handlers that ran, and `error` is the last one that they raised. A failed item
    has both while its dead letter is open. `started_at` is when a worker made the last claim of an
    item that is processing or has ended. An item whose event was done before never started.
    """

    id: AnId
    status: ItemStatus
    attempts: int | None
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    error: str | None


class BatchItem(ItemFields[UUID], frozen=True, kw_only=True):
    """A stored item."""


def completed_attempts(status: ItemStatus, failed: int, *, is_started: bool) -> int | None:
    """The attempts to record of an ended item that failed some times before. None for a failed
    item: its dead letter has them."""
    return failed + is_started if status is ItemStatus.COMPLETED else None


DEATH_SPAN = timedelta(minutes=1)
"""Maximum time between the end of an item and the death of its message, one transaction."""


class TimeSpan(NamedTuple):
    """Two instants, both included."""

    start: datetime
    end: datetime


def death_span(items: Sequence[BatchItem]) -> TimeSpan:
    """The time in which the messages of these ended items died."""
    ended = [item.finished_at for item in items if item.finished_at is not None]
    return TimeSpan(min(ended) - DEATH_SPAN, max(ended) + DEATH_SPAN)


def with_errors(
    items: Sequence[BatchItem], errors: Mapping[UUID, tuple[int, str | None]]
) -> tuple[BatchItem, ...]:
    """The items with the attempts and errors of their dead letters, where they are known."""
    return tuple(
        structs.replace(item, attempts=errors[item.id][0], error=errors[item.id][1])
        if item.id in errors
        else item
        for item in items
    )


class CompletedBatch(Struct, frozen=True, omit_defaults=True):
    """The body of a completion event."""

    batch_id: str
    total: int
    completed: int
    failed: int
    run_id: str | None = None


def completion_event(
    batch_id: UUID, *, total: int, completed: int, failed: int, run_id: str | None = None
) -> NewMessage:
    """The completion event of a batch. Its id is derived from the batch's, so it is unique."""
    own_id = public_id(Prefix.BATCH, batch_id)
    body = CompletedBatch(own_id, total, completed, failed, run_id)
    return NewMessage(
        id=derived_id(batch_id, BATCH_COMPLETED),
        body=msgspec.json.encode(body),
        type=BATCH_COMPLETED,
        source=own_id,
        correlation_id=own_id,
    )


RATE_WINDOW_SECONDS = 30.0
"""Seconds of samples that the rate covers."""

SAMPLES_MAX = 1_000


class Sample(NamedTuple):
    """The number of finished items at a time."""

    seconds: float
    done: int


class ProgressRate:
    """The rate of a count that only grows, from its latest samples."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def add(self, seconds: float, done: int) -> None:
        """Adds a sample. Times must not decrease."""
        assert not self._samples or self._samples[-1].seconds <= seconds
        self._samples.append(Sample(seconds, done))
        # Keeps two samples, so that there is a rate even if samples are rare.
        while len(self._samples) > 2 and self._samples[0].seconds < seconds - RATE_WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float | None:
        """Items per second; None before the second sample."""
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        elapsed = last.seconds - first.seconds
        return (last.done - first.done) / elapsed if elapsed > 0 else None

    def remaining_seconds(self, total: int) -> float | None:
        """Seconds until `total` items are done at this rate; None if the rate is 0 or unknown."""
        rate = self.per_second
        if not rate:
            return None
        return max(0, total - self._samples[-1].done) / rate
