"""Messages as a user sees them, and what pulling and settling them answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.message.body import body_in_json
from tickwork.core.message.dead_letter import Death, read_death
from tickwork.core.model import ContentType, Message


class Sent(Struct, frozen=True):
    """A stored message."""

    id: Id
    event_id: str | None


class SentBatch(Struct, frozen=True):
    """Stored messages, in the order in which they were given."""

    ids: tuple[Id, ...]


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message that is not settled yet. `state` is ready, delayed until `visible_at`, claimed, or
    blocked behind an earlier message of its key. `claimed_by`, `node` and `claimed_at` say who has
    a claimed message, the name of that process, and since when."""

    id: Id
    tenant: str
    queue: str
    state: str
    body: Any
    content_type: ContentType
    type: str | None
    key: str | None
    priority: int
    attempts: Annotated[int, Meta(description="Attempts that failed.")]
    lost_claims: Annotated[int, Meta(description="Workers that died with it.")]
    claim: Annotated[int, Meta(description="Number of its claims.")]
    claimed_by: str | None
    node: Annotated[
        str | None,
        Meta(description="Process whose worker has it; null if a consumer pulled it."),
    ]
    claimed_at: datetime | None
    visible_at: datetime
    sent_at: datetime
    event_id: str | None
    source: str | None
    correlation_id: str | None
    causation_id: str | None
    hops: int
    batch_id: Id | None
    schedule_id: Id | None
    slot: datetime | None
    idempotency_key: str | None
    died: Annotated[
        Death | None, Meta(description="In a dead-letter queue: how it died elsewhere.")
    ]
    last_error: str | None
    waits_for_completion: Annotated[
        bool, Meta(description="Whether its receiver reports later how it ended.")
    ]

    @classmethod
    def of(
        cls, message: Message, *, queue: str, state: str, body: Any, node: str | None
    ) -> StoredMessage:
        """The answer for a message of a queue, whose claim a node has."""
        return cls(
            **fields_as_in(message, cls) | {"body": body, "state": state},
            id=Id.of(Prefix.MESSAGE, message.id),
            queue=queue,
            lost_claims=message.lost,
            claimed_by=None if message.holder is None else str(message.holder),
            node=node,
            died=read_death(message.death),
            waits_for_completion=message.waits_since is not None,
        )


class PulledMetadata(Struct, frozen=True, kw_only=True):
    """What a pulled message has besides its body. `run` is 0 for a slot itself, and counts its
    further runs."""

    content_type: ContentType
    type: str | None
    source: str | None
    event_id: str | None
    key: str | None
    priority: int
    correlation_id: str | None
    causation_id: str | None
    hops: int
    batch_id: Id | None
    schedule_id: Id | None
    slot: datetime | None
    run: int
    catch_up: bool
    idempotency_key: str | None


class PulledMessage(Struct, frozen=True, kw_only=True):
    """A leased message. `attempts` starts at 1."""

    id: Id
    lease_id: str
    body: Any
    attempts: int
    timestamp_ms: Annotated[int, Meta(description="When it was sent.")]
    metadata: PulledMetadata

    @classmethod
    def of(cls, message: Message, lease_id: str) -> PulledMessage:
        """The answer for a message with a lease. Its body is to be sent as a part of JSON."""
        return cls(
            id=Id.of(Prefix.MESSAGE, message.id),
            lease_id=lease_id,
            body=body_in_json(message.body, message.content_type),
            attempts=message.attempts + 1,
            timestamp_ms=int(message.sent_at.timestamp() * 1000),
            metadata=PulledMetadata(**fields_as_in(message, PulledMetadata)),
        )


class PullAnswer(Struct, frozen=True):
    """Leased messages. `message_backlog_count` may be some seconds old."""

    messages: tuple[PulledMessage, ...]
    message_backlog_count: int


class RefusedLease(Struct, frozen=True):
    """A lease that is over: its message may be with another consumer, or gone."""

    lease_id: str
    code: Literal["not_held"] = "not_held"


class AckAnswer(Struct, frozen=True):
    """How many leases were settled, and which were over."""

    ack_count: int
    retry_count: int
    refused: tuple[RefusedLease, ...]


class Extended(Struct, frozen=True):
    """The lease goes on."""

    lease_id: str
    visibility_timeout_ms: int
