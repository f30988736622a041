"""Schedules in PostgreSQL's binary COPY format.

asyncpg makes a row of each schedule's values. Of very many that are alike in all but a few columns
it would encode the same values again and again; here they are encoded once, and a row is put
together from what is common and what is its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from uuid import UUID

from tickwork.core.schedule.model import NewSchedule, bucket_of, texts_of
from tickwork.store.alike import Alike

OWN = ("id", "bucket", "name", "idempotency_key", "fingerprint", "metadata", "body")
"""What each schedule has for itself."""

COMMON = (
    "tenant", "queue_id", "status", "next_slot", "due_at", "look_at", "grace_seconds",
    "expires_after_seconds", "priority", "overlap", "on_dead", "rule", "calendar", "terms", "retry",
    "queue", "type", "content_type",
)  # fmt: skip
"""What those that are alike have in common."""

TIMES = ("created_at", "updated_at", "changed_at")
"""What the table has by itself, unless a time is given."""

ROWS_AT_ONCE = 250
"""So many are sent before others get their turn."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"

_COUNT, _LENGTH = Struct("!h"), Struct("!i")
_SMALL, _INTEGER, _TIME, _FLOAT = (Struct(f"!i{code}") for code in "hiqd")
_ID_AND_BUCKET = Struct("!i16sih")


class Rows:
    """Encodes the schedules of a tenant; `queue_id` says which queue a name is."""

    def __init__(self, tenant: str, queue_id: Callable[[str], UUID]) -> None:
        self._tenant, self._queue_id = tenant, queue_id
        self._common = Alike(self._encode)

    def row(self, new: NewSchedule) -> bytes:
        """One row without its beginning: that says how many columns there are."""
        said, schedule_id = new.definition, new.id
        return b"".join(
            (
                _ID_AND_BUCKET.pack(16, schedule_id.bytes, 2, bucket_of(schedule_id)),
                _text(new.name),
                _text(new.idempotency_key),
                _bytes(new.fingerprint),
                _bytes(said.metadata),
                _bytes(said.body),
                self._common.of(new),
            )
        )

    def _encode(self, new: NewSchedule) -> bytes:
        said = new.definition
        rule, texts, expires = said.rule, texts_of(said), said.expires_after_seconds
        texts_after = (
            said.overlap, said.on_dead, texts.rule, rule.calendar, texts.terms, texts.retry,
            said.queue, said.type, said.content_type,
        )  # fmt: skip
        return b"".join(
            (
                _text(self._tenant),
                _bytes(self._queue_id(said.queue).bytes),
                _text(new.status),
                _time(new.next_slot),
                _time(new.due_at),
                _time(new.look_at),
                _INTEGER.pack(4, rule.missed.grace_seconds),
                _NULL if expires is None else _FLOAT.pack(8, expires),
                _SMALL.pack(2, said.priority),
                *map(_text, texts_after),
            )
        )


def columns(now: datetime | None) -> tuple[str, ...]:
    """The columns of `copied`."""
    return (*OWN, *COMMON) if now is None else (*OWN, *COMMON, *TIMES)


async def copied(rows: Sequence[bytes], now: datetime | None) -> AsyncIterator[bytes]:
    """What is sent for some rows, which were made now; without a time the table has its own."""
    begin, end = _COUNT.pack(len(columns(now))), b"" if now is None else _time(now) * len(TIMES)
    yield _SIGNATURE
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield b"".join((begin, (end + begin).join(rows[start : start + ROWS_AT_ONCE]), end))
    yield _END


def _text(text: str | None) -> bytes:
    return _NULL if text is None else _bytes(text.encode())


def _bytes(data: bytes | None) -> bytes:
    return _NULL if data is None else _LENGTH.pack(len(data)) + data


def _time(at: datetime | None) -> bytes:
    return _NULL if at is None else _TIME.pack(8, (at - _EPOCH) // _MICROSECOND)
