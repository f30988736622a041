"""The history: a record of each message that has ended, kept for a time.

Records lie in chunks. What one settlement ends is one chunk for each tenant, queue and node. Chunks
are found by time, or by their marks: texts that stand for the ids, event ids, keys and correlation
ids of their records.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from msgspec import Meta, Struct

HistoryKept: TypeAlias = Literal["all", "failures", "off"]
"""Of which messages of a queue a record is kept. `failures` are those that were not handled: dead,
expired and discarded ones."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class Outcome(StrEnum):
    """How a message ended."""

    DONE = "done"
    DEAD = "dead"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    """Not handled: deleted, purged, cancelled, skipped, or a duplicate."""


HISTORY_SECONDS_MIN = 3_600
HISTORY_SECONDS_MAX = 90 * 86_400
"""Bounds of the seconds that a record is kept, at least. It is dropped with its chunk's hour, or
with the day if it is kept for more than `HOURLY_HISTORY_SECONDS`."""

HOURLY_HISTORY_SECONDS = 2 * 86_400

REASON_DUPLICATE = "duplicate"
"""Why a message was discarded whose event had been handled before."""

MARK_CHARACTERS = 10
"""Characters of an id that are its mark, with the hyphen: ids made within four seconds share it."""

_ID_VERSION = 7
_ID_RANDOM_BITS = 80
_ID_MILLISECONDS_MAX = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp()) * 1_000
"""An id of this version begins with the milliseconds at which it was made."""

CHUNKS_LOOKED_AT_MAX = 500
"""Maximum number of chunks that a page of a filtered list looks at."""


FINAL = (Outcome.DONE, Outcome.DISCARDED)
"""Outcomes after which a message is nowhere. One that is dead may wait in a dead-letter queue, and
end there again."""


class HistoryDefault(Struct, frozen=True):
    """What queues keep that have no setting of their own."""

    history: HistoryKept = "all"
    history_seconds: Annotated[int, Meta(ge=HISTORY_SECONDS_MIN, le=HISTORY_SECONDS_MAX)] = 86_400


class HistorySelection(Struct, frozen=True, kw_only=True):
    """Which records to list: those that match every given field. `since` is part of the time,
    `until` is not."""

    queue: str | None = None
    type: str | None = None
    outcome: Outcome | None = None
    key: str | None = None
    event_id: str | None = None
    correlation_id: str | None = None
    batch_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def marks(self) -> list[str]:
        """The marks of every record that it selects."""
        return [*self._marks()]

    @property
    def is_filtered(self) -> bool:
        """Whether it may select few of the records of a time."""
        return any(
            getattr(self, name) is not None
            for name in self.__struct_fields__
            if name not in ("since", "until")
        )

    def _marks(self) -> Iterator[str]:
        if self.correlation_id is not None:
            yield f"c:{self.correlation_id}"
        if self.event_id is not None:
            yield f"e:{self.event_id}"
        if self.key is not None:
            yield f"k:{self.key}"


class HistoryPosition(Struct, frozen=True, array_like=True):
    """A position in the list: records are sorted by the time of their end and their id, the newest
    first."""

    ended_at: Annotated[datetime, Meta(tz=True)]
    id: UUID


class EndedRecord(Struct, frozen=True, kw_only=True):
    """A stored record."""

    tenant: str
    queue: str
    node: str | None
    ended_at: datetime
    id: UUID
    outcome: str
    reason: str | None
    attempts: int
    sent_at: datetime
    started_at: datetime | None
    type: str | None
    source: str | None
    key: str | None
    event_id: str | None
    correlation_id: str | None
    causation_id: str | None
    batch_id: UUID | None
    schedule_id: UUID | None
    slot: datetime | None
    run: int | None
    content_type: str | None
    body: bytes | None


class HistoryPage(Struct, frozen=True):
    """Records of a list, and the position behind which the next page starts; None on the last."""

    records: tuple[EndedRecord, ...]
    next: HistoryPosition | None


def drop_at(ended_at: datetime, history_seconds: int) -> datetime:
    """From when on a record may be dropped, with all others of that hour: at the end of the hour in
    which its time is over, or of the day if it is kept long."""
    width = _HOUR if history_seconds <= HOURLY_HISTORY_SECONDS else _DAY
    over = ended_at - EPOCH + timedelta(seconds=history_seconds)
    return EPOCH + (over // width + 1) * width


def likely_drop_at(message_id: UUID, history_seconds: int) -> tuple[datetime, datetime] | None:
    """The first and last time from when on the record of a message is dropped that ended within an
    hour after its id was made; None if the id does not say when that was."""
    milliseconds = message_id.int >> _ID_RANDOM_BITS
    if message_id.version != _ID_VERSION or milliseconds > _ID_MILLISECONDS_MAX:
        return None
    made = EPOCH + timedelta(milliseconds=milliseconds)
    return drop_at(made, history_seconds), drop_at(made + _HOUR, history_seconds)


def mark_of_id(message_id: UUID) -> str:
    """The mark of an id."""
    return str(message_id)[:MARK_CHARACTERS]
