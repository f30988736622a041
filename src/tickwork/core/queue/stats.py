"""Counters of a queue by the minute: messages sent, done, retried, lost, dead and so on.

The counters are approximate: each process counts in memory and writes its counters now and then. A
crash loses the counters that were not yet written, and nothing else.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tickwork.core.model import (
    REASON_BACKLOG_FULL,
    REASON_ENDPOINT_DISABLED,
    REASON_EXPIRED,
    Counts,
)

COUNTER_RETENTION_SECONDS = 86_400
"""Seconds to keep counters."""

RECENT_MINUTES = 30
RECENT_KINDS_SECONDS = 3_600
RECENT_DEAD_SECONDS = COUNTER_RETENTION_SECONDS

LATE_SECONDS = 60.0
"""Seconds after which a ready message, or a slot that is not planned, counts as late."""


class CounterName(StrEnum):
    """A counter of a queue: what happened to a message. `LOST`: its worker died, and the claim came
    back."""

    SENT = "sent"
    DONE = "done"
    RETRIED = "retried"
    LOST = "lost"
    DEAD = "dead"
    PURGED = "purged"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    PRUNED = "pruned"


def was_handled(counter: CounterName | None, reason: str | None) -> bool:
    """Whether a handler ran for a message that was removed."""
    if counter is CounterName.DEAD:
        return reason not in (REASON_EXPIRED, REASON_BACKLOG_FULL, REASON_ENDPOINT_DISABLED)
    return counter is CounterName.DONE and reason is None


class MinuteCount(Struct, frozen=True):
    """Number of messages that one counter counted in a minute."""

    minute: datetime
    counter: CounterName
    messages: int


class TypeCount(Struct, frozen=True):
    """Number of messages of one type and source that one counter counted in the last hour."""

    type: str | None
    source: str | None
    counter: CounterName
    messages: int


class DeadCount(Struct, frozen=True):
    """Number of messages of one type that died in the last 24 hours."""

    type: str | None
    messages: int


class Waiting(Struct, frozen=True):
    """Number of messages that wait for a worker, and the age of the oldest one."""

    messages: int
    oldest_age_seconds: float | None


class QueueStats(Struct, frozen=True, kw_only=True):
    """Statistics of a queue: its messages by state, how many of the ready ones have waited for more
    than a minute (`late`), the age of the oldest visible one, counters."""

    counts: Counts
    late: int = 0
    oldest_age_seconds: float | None
    minutes: tuple[MinuteCount, ...]
    kinds: tuple[TypeCount, ...]
    dead: tuple[DeadCount, ...] = ()
