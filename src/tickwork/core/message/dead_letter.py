"""Dead letters: messages that will not be delivered again, unless they are replayed.

```
  open ──replay──▶ replayed, or fixed if its body was edited before
    │
    └──discard──▶ discarded
```

A dead letter is resolved once. A replay is a new message at the end of its queue: it has a new id,
a new event id if it had one, the same correlation id, and the old event (or message) as its cause.
The replay of a schedule's slot is an extra run of that slot: it has a firing record of its own, and
its outcome is shown on the schedule. If the schedule was deleted, it is an ordinary message.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct, field

from tickwork.core.answers.ids import ENCODER, Id, Prefix, decoder_of, public_id
from tickwork.core.message.error_summary import summary
from tickwork.core.message.message_list import END_OF_TIME, LAST_ID, NO_ID
from tickwork.core.model import ContentType, NewMessage, slot_key

DEAD_LETTERS_AT_ONCE_MAX = 1_000
"""Maximum number of dead letters that one transaction replays or discards."""

DEAD_LETTER_RETENTION_SECONDS = 14 * 86_400
"""Seconds to keep a dead letter."""


class Resolution(StrEnum):
    """How a dead letter was resolved."""

    REPLAYED = "replayed"
    DISCARDED = "discarded"
    FIXED = "fixed"


class Death(Struct, frozen=True, kw_only=True):
    """How a message died, for the consumer of a dead-letter queue. `queue` is the queue in which it
    died, `dead_letter_id` the dead letter recorded there. `error` is one line; the dead letter has
    the traceback."""

    dead_letter_id: Id
    queue: str
    reason: str
    error: str | None
    attempts: int
    failed_at: datetime

    @property
    def text(self) -> str:
        """As a message stores it."""
        return ENCODER.encode(self).decode()


_DEATH = decoder_of(Death)


def read_death(text: str | None) -> Death | None:
    """The inverse of `Death.text`."""
    return None if text is None else _DEATH.decode(text)


class StoredDeadLetter(Struct, frozen=True):
    """A message that will not be delivered again, with the reason, as it is stored."""

    id: UUID
    tenant: str
    queue_id: UUID
    message_id: UUID
    reason: str
    error: str | None
    fingerprint: str
    attempts: int
    failed_at: datetime
    resolution: Resolution | None
    resolved_at: datetime | None
    edited_at: datetime | None
    replayed_as: UUID | None
    key: str | None
    event_id: str | None
    type: str | None
    source: str | None
    correlation_id: str | None
    causation_id: str | None
    hops: int
    priority: int
    batch_id: UUID | None
    schedule_id: UUID | None
    slot: datetime | None
    run: int
    idempotency_base: str | None
    death: str | None
    receiver: str | None
    content_type: ContentType
    format: int
    sent_at: datetime
    body: bytes

    @property
    def summary(self) -> str | None:
        """Its error in one line: the last exception, not the head of a traceback."""
        return summary(self.error)

    @property
    def correlation(self) -> str:
        """Its correlation id; a message without one began a correlation, which has its id."""
        return self.correlation_id or public_id(Prefix.MESSAGE, self.message_id)

    @property
    def idempotency_key(self) -> str | None:
        """The key that is the same for every attempt at a slot, also after a replay."""
        return slot_key(self.idempotency_base, self.schedule_id, self.slot, self.run)

    @property
    def died(self) -> Death | None:
        """How it died before, if it came from a dead-letter queue."""
        return read_death(self.death)


class DeadGroup(Struct, frozen=True):
    """The open dead letters of a queue that have the same reason, fingerprint and type. `example`
    is the error of one of them, in one line; None if none was looked up."""

    reason: str
    fingerprint: str
    type: str | None
    dead_letters: int = field(name="letters")
    first_failed_at: datetime
    last_failed_at: datetime
    example: str | None = None


class Selection(Struct, frozen=True, kw_only=True):
    """Selects open dead letters of a queue, oldest first: those that match every given field.

    `no_type` selects those without a type. `failed_before` includes that time itself."""

    ids: tuple[UUID, ...] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: bool = False
    failed_before: datetime | None = None
    limit: int = 100

    @property
    def has_window(self) -> bool:
        """Whether few dead letters may match, so that a page looks at a limited number of them.
        Ids have an index."""
        filters = (self.reason, self.fingerprint, self.type)
        is_filtered = self.no_type or any(value is not None for value in filters)
        return self.ids is None and is_filtered


class MatchingDeadLetters(Struct, frozen=True):
    """The number of open dead letters that match a selection, and the time of the count. A replay
    or discard with this `failed_before` takes none that failed later."""

    dead_letters: int = field(name="letters")
    failed_before: datetime


class DeadLetterPage(Struct, frozen=True):
    """Dead letters of a list, and the id of the one behind which the next page starts; None on the
    last."""

    letters: tuple[StoredDeadLetter, ...]
    next: UUID | None


class Pace(Struct, frozen=True, kw_only=True):
    """When replayed messages become visible: a delay for the first, and the spacing of the rest."""

    first_after_seconds: float = 0.0
    spacing_seconds: float = 0.0


class Replayed(Struct, frozen=True):
    """A replayed dead letter and its new message."""

    dead_letter_id: UUID
    message_id: UUID


def replay_of(
    letter: StoredDeadLetter, *, message_id: UUID, delay_seconds: float, run: int | None = None
) -> NewMessage:
    """The message that replays a dead letter.

    `run` is the number of a new run of its schedule, if it was the message of a slot.
    """
    return NewMessage(
        id=message_id,
        body=letter.body,
        content_type=letter.content_type,
        delay_seconds=delay_seconds,
        priority=letter.priority,
        key=letter.key,
        event_id=None if letter.event_id is None else public_id(Prefix.MESSAGE, message_id),
        type=letter.type,
        source=letter.source,
        correlation_id=letter.correlation,
        causation_id=letter.event_id or public_id(Prefix.MESSAGE, letter.message_id),
        hops=letter.hops,
        schedule_id=None if run is None else letter.schedule_id,
        slot=None if run is None else letter.slot,
        run=run or 0,
        idempotency_base=letter.idempotency_key,
        death=letter.death,
        receiver=letter.receiver,
    )


def newest_start(selection: Selection, after: StoredDeadLetter | None) -> tuple[datetime, UUID]:
    """The time of failure and the id before which a list begins that has the newest first."""
    start = END_OF_TIME, NO_ID
    if selection.failed_before is not None:
        start = selection.failed_before, LAST_ID
    return start if after is None else min(start, (after.failed_at, after.id))
