"""What passed through a queue, counted by the minute.

These are observations, not the truth: each process counts what it does and writes it down
every now and then, so a crash loses a moment of them and nothing else.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tickwork.core.model import REASON_EXPIRED, Counts, Ending
from tickwork.core.schedule.firing import FiringStatus

COUNTER_RETENTION_SECONDS = 86_400
"""So long tallies are kept."""

RECENT_MINUTES = 30
RECENT_KINDS_SECONDS = 3_600


class CounterName(StrEnum):
    """What happened to a message."""

    SENT = "sent"
    DONE = "done"
    RETRIED = "retried"
    DEAD = "dead"
    PURGED = "purged"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    PRUNED = "pruned"


def skip_reason(ending: Ending) -> str | None:
    """Why nobody handled a message that was acked: it was a slot that came too late."""
    firing = ending.firing
    return firing.reason if firing is not None and firing.status is FiringStatus.SKIPPED else None


def was_handled(counter: CounterName | None, reason: str | None) -> bool:
    """Whether a message that left was in somebody's hands, and not just let go for a reason."""
    if counter is CounterName.DEAD:
        return reason != REASON_EXPIRED
    return counter is CounterName.DONE and reason is None


class MinuteCount(Struct, frozen=True):
    """How many messages of a queue passed in a minute."""

    minute: datetime
    counter: CounterName
    messages: int


class TypeCount(Struct, frozen=True):
    """How many messages of one type and source passed within the last hour."""

    type: str | None
    source: str | None
    counter: CounterName
    messages: int


class QueueStats(Struct, frozen=True, kw_only=True):
    """A queue at a glance: how it stands, how old its oldest visible message is, what passed."""

    counts: Counts
    oldest_age_seconds: float | None
    minutes: tuple[MinuteCount, ...]
    kinds: tuple[TypeCount, ...]
