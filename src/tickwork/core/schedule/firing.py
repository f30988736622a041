"""Firings: what became of a slot, one row for each attempt, and what is still to become of it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

FIRING_SECONDS = 30 * 86_400
"""So long firings are kept."""


class FiringStatus(StrEnum):
    """How an attempt at a slot stands or ended."""

    PLANNED = "planned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    DEAD = "dead"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class Then(StrEnum):
    """What becomes of a schedule when one of its firings has ended."""

    GO_ON = "go_on"
    COMPLETE = "complete"
    PARK = "park"
    PAUSE = "pause"


class ChannelOutcome(Struct, frozen=True):
    """What one of several channels said."""

    channel: str
    status: str
    detail: str | None = None


class FiringRecord(Struct, frozen=True, kw_only=True):
    """What a handler's end says about its slot; the message knows which slot that is.

    `then` and `next_after_seconds` are for its schedule: how it stands now, and, if its next slot
    is counted from this end, after how long. `error` is what the schedule shows. `is_attempt`: a
    handler really started.
    """

    status: FiringStatus
    is_attempt: bool = True
    reason: str | None = None
    then: Then = Then.GO_ON
    next_after_seconds: float | None = None
    error: str | None = None
    took_seconds: float = 0.0
    result_code: int | None = None
    excerpt: str | None = None
    channels: tuple[ChannelOutcome, ...] = ()

    @property
    def is_plain_success(self) -> bool:
        """Whether nothing follows for its schedule but that it succeeded."""
        return (
            self.status is FiringStatus.SUCCEEDED
            and self.then is Then.GO_ON
            and self.next_after_seconds is None
        )

    @property
    def is_followed(self) -> bool:
        """Whether its schedule goes on from it, or ends with it."""
        return self.then is not Then.GO_ON or self.next_after_seconds is not None

    @property
    def says_nothing_but_success(self) -> bool:
        """Whether nothing is recorded of it, either, but that it succeeded."""
        return (
            self.is_plain_success
            and self.reason is None
            and self.result_code is None
            and self.excerpt is None
            and not self.channels
        )


class Firing(Struct, frozen=True):
    """A recorded attempt at a slot, or a run of slots that did not fire: `count` of them, from
    `slot` to `last_slot`. `attempt` is how many there were by then: none, if no handler ever
    started. `excerpt` is what came back, or in a line what went wrong."""

    id: UUID
    tenant: str
    schedule_id: UUID
    slot: datetime
    run: int
    attempt: int
    status: FiringStatus
    reason: str | None
    due_at: datetime
    started_at: datetime
    finished_at: datetime
    result_code: int | None
    excerpt: str | None
    channels: tuple[ChannelOutcome, ...]
    catch_up: bool
    count: int
    last_slot: datetime | None


class OpenFiring(Struct, frozen=True, kw_only=True):
    """A slot that is a message: planned, or running; nothing is recorded of that. `attempt` is the
    one that runs, or the last one that did. The names are those of a recorded one."""

    id: UUID
    tenant: str
    schedule_id: UUID
    slot: datetime
    run: int
    attempt: int
    status: FiringStatus
    due_at: datetime
    catch_up: bool
    reason: None = None
    started_at: None = None
    finished_at: None = None
    result_code: None = None
    excerpt: None = None
    channels: tuple[ChannelOutcome, ...] = ()
    count: int = 1
    last_slot: None = None
