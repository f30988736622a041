"""A message that has ended, as a user sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.message.history import EndedRecord, Outcome


class HistoryRecord(Struct, frozen=True, kw_only=True):
    """What became of a message."""

    id: Id
    queue: str
    tenant: str
    outcome: Outcome
    reason: Annotated[
        str | None, Meta(description="Why it died or was discarded; null if it was handled.")
    ]
    attempts: Annotated[int, Meta(description="Handlers that started, the last one included.")]
    sent_at: datetime
    started_at: Annotated[
        datetime | None, Meta(description="Start of the last handler; null if none started.")
    ]
    ended_at: datetime
    duration_seconds: Annotated[
        float | None, Meta(description="How long the last handler ran, to its settlement.")
    ]
    node: Annotated[
        str | None, Meta(description="Process that had it; null if a consumer pulled it.")
    ]
    type: str | None
    source: str | None
    key: str | None
    event_id: str | None
    correlation_id: str | None
    causation_id: str | None
    batch_id: Id | None
    schedule_id: Id | None
    slot: datetime | None
    run: int | None
    content_type: Annotated[
        str | None, Meta(description="Of the body; null unless the queue has `history_bodies`.")
    ]
    body: Any

    @classmethod
    def of(cls, record: EndedRecord, body: Any) -> HistoryRecord:
        """The answer for a stored record, with its decoded body."""
        ran = None if record.started_at is None else record.ended_at - record.started_at
        return cls(
            **fields_as_in(record, cls) | {"body": body, "outcome": Outcome(record.outcome)},
            id=Id.of(Prefix.MESSAGE, record.id),
            duration_seconds=None if ran is None else ran.total_seconds(),
        )


class EventHandled(Struct, frozen=True):
    """Whether an event was handled in the last 15 days."""

    event_id: str
    was_handled: bool
