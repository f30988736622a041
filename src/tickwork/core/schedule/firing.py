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


class FiringResult(Struct, frozen=True, kw_only=True):
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


class FiringRecord(Struct, frozen=True):
    """One row of a schedule's history: an attempt at a slot, a slot that is planned or running, or
    a run of `count` slots from `slot` to `last_slot` that did not fire.

    `attempt` counts handlers that started, so it is 0 for a slot that never ran. A planned slot has
    no `started_at`; a planned or running one no `finished_at`. `excerpt` is the start of the answer
    or the error in one line.
    """

    id: UUID
    tenant: str
    schedule_id: UUID
    slot: datetime
    run: int
    attempt: int
    status: FiringStatus
    reason: str | None
    due_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result_code: int | None = None
    excerpt: str | None = None
    channels: tuple[ChannelOutcome, ...] = ()
    catch_up: bool = False
    count: int = 1
    last_slot: datetime | None = None
