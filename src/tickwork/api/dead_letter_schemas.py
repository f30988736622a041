"""Dead letters as the API shows them, and the bodies of the requests that act on them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tickwork.core.answers.ids import Prefix, optional_id, public_id
from tickwork.core.message.body import body_in_json
from tickwork.core.message.dead_letter import DeadGroup, DeadLetter, Resolution
from tickwork.core.model import ContentType


class DeadLetterAnswer(Struct, frozen=True, kw_only=True):
    """A message that will not be delivered again, unless it is replayed. `resolution` is null while
    it is open."""

    id: str
    queue: str | None
    message_id: str
    reason: str
    error: str | None
    summary: Annotated[str | None, Meta(description="The error in one line.")]
    fingerprint: Annotated[str, Meta(description="The same for similar errors.")]
    attempts: int
    failed_at: datetime
    resolution: Resolution | None
    resolved_at: datetime | None
    edited_at: datetime | None
    replayed_as: str | None
    body: Any
    content_type: ContentType
    type: str | None
    source: str | None
    key: str | None
    priority: int
    event_id: str | None
    correlation_id: str | None
    causation_id: str | None
    hops: int
    batch_id: str | None
    schedule_id: str | None
    slot: datetime | None
    idempotency_key: str | None
    sent_at: datetime

    @classmethod
    def of(cls, letter: DeadLetter, queue: str | None) -> DeadLetterAnswer:
        """The answer for a dead letter."""
        own = {
            "id": public_id(Prefix.DEAD_LETTER, letter.id),
            "queue": queue,
            "message_id": public_id(Prefix.MESSAGE, letter.message_id),
            "replayed_as": optional_id(Prefix.MESSAGE, letter.replayed_as),
            "batch_id": optional_id(Prefix.BATCH, letter.batch_id),
            "schedule_id": optional_id(Prefix.SCHEDULE, letter.schedule_id),
            "body": body_in_json(letter.body, letter.content_type),
        }
        same = {name: getattr(letter, name) for name in cls.__struct_fields__ if name not in own}
        return cls(**own, **same)


class DeadGroups(Struct, frozen=True):
    """Open dead letters by reason, error and type; the largest group first."""

    groups: tuple[DeadGroup, ...]


class EditRequest(Struct, frozen=True, kw_only=True):
    """The body that a replay sends."""

    body: Any
    content_type: Literal["json", "text", "bytes"] = "json"


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """Which dead letters to send again, and how."""

    ids: list[str] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: Annotated[bool, Meta(description="Only those without a type.")] = False
    failed_before: Annotated[datetime | None, Meta(description="Or at that time.")] = None
    limit: int | None = None
    canary: Annotated[int, Meta(ge=0, description="So many first; the rest if they succeed.")] = 0
    rate_per_second: Annotated[float | None, Meta(description="Messages a second.")] = None
    canary_timeout_seconds: float = 30.0


class DiscardRequest(Struct, frozen=True, kw_only=True):
    """Which dead letters to discard."""

    ids: list[str] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: Annotated[bool, Meta(description="Only those without a type.")] = False
    failed_before: Annotated[datetime | None, Meta(description="Or at that time.")] = None
    limit: int | None = None


class Discarded(Struct, frozen=True):
    """How many dead letters were discarded."""

    discarded: int
