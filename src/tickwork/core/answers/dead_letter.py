"""Dead letters as a user sees them, and what became of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.message.dead_letter import DeadGroup, Death, Resolution, StoredDeadLetter
from tickwork.core.model import ContentType


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message that will not be delivered again, unless it is replayed. `resolution` is null while
    it is open."""

    id: Id
    queue: str | None
    message_id: Id
    reason: str
    error: str | None
    summary: Annotated[str | None, Meta(description="The error in one line.")]
    fingerprint: Annotated[str, Meta(description="The same for similar errors.")]
    attempts: int
    failed_at: datetime
    resolution: Resolution | None
    resolved_at: datetime | None
    edited_at: datetime | None
    replayed_as: Id | None
    body: Any
    content_type: ContentType
    type: str | None
    source: str | None
    key: str | None
    priority: int
    event_id: str | None
    correlation_id: Annotated[str, Meta(description="Its message's own id if it began a story.")]
    causation_id: str | None
    hops: int
    batch_id: Id | None
    schedule_id: Id | None
    slot: datetime | None
    idempotency_key: str | None
    sent_at: datetime
    tenant: str
    run: Annotated[int, Meta(description="0 for the slot itself; counts its further runs.")]
    died: Annotated[Death | None, Meta(description="How it died before, in another queue.")]

    @classmethod
    def of(cls, letter: StoredDeadLetter, queue: str | None, body: Any) -> DeadLetter:
        """The answer for a stored dead letter of a queue, with its decoded body."""
        fields = fields_as_in(letter, cls) | {"queue": queue, "body": body}
        fields["correlation_id"] = letter.correlation
        return cls(id=Id.of(Prefix.DEAD_LETTER, letter.id), **fields)


class DeadGroups(Struct, frozen=True):
    """Open dead letters by reason, error and type; the largest group first."""

    groups: tuple[DeadGroup, ...]


class Discarded(Struct, frozen=True):
    """How many dead letters were discarded."""

    discarded: int


class StopReason(StrEnum):
    """Why a replay stopped early."""

    CANARY_DIED = "canary_died"
    CANARY_TIMEOUT = "canary_timeout"
    BACKLOG_FULL = "backlog_full"


class ReplaySummary(Struct, frozen=True, kw_only=True):
    """The result of a replay; `replayed` includes the canaries."""

    replayed: int = 0
    canaries: int = 0
    canaries_failed: int = 0
    stopped: StopReason | None = None
