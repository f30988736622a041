"""The stream of a tenant: system events and changes, as hints about what to read again.

Ids are made by the processes that write, and become visible with their transactions. So a reader
looks back by `OVERLAP_SECONDS` and leaves out what it has seen.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

STREAM_RETENTION_SECONDS = 86_400
"""Seconds that a system event is kept for streams that resume. Changes are in the audit log."""

OVERLAP_SECONDS = 10.0
"""Seconds that a reader looks back: a transaction takes so long at most."""

_TIME_BITS = 80


class StreamEvent(Struct, frozen=True, kw_only=True):
    """Something that happened in a tenant; `owner` is that of the schedule it is about."""

    id: UUID
    tenant: str
    owner: str | None
    at: datetime
    type: str
    data: dict[str, Any]


class NewStreamEvent(Struct, frozen=True, kw_only=True):
    """A system event for the stream. `data` is JSON; `schedule_id` is the schedule it is about."""

    id: UUID
    tenant: str
    type: str
    data: str
    schedule_id: UUID | None = None


def look_back(event_id: UUID, seconds: float = OVERLAP_SECONDS) -> UUID:
    """The lowest id that may have been made so many seconds before another one."""
    milliseconds = event_id.int >> _TIME_BITS
    return UUID(int=max(milliseconds - int(seconds * 1_000), 0) << _TIME_BITS)
