"""Firings: the outcome of each attempt at a slot, and the rows of a schedule's history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic
from uuid import UUID

from msgspec import Struct

from tickwork.core.answers.ids import AnId
from tickwork.core.effects import Effect, LockRank
from tickwork.core.fields import NAME_LENGTH_MAX, text_faults
from tickwork.core.limits import DELAY_SECONDS_MAX, EXCERPT_LENGTH_MAX
from tickwork.errors import FieldError

FIRINGS_KEPT_SECONDS = 30 * 86_400
"""Seconds that firing records are kept."""

SPREAD_MAX = timedelta(days=3)
"""Time by which a slot may be due after its nominal time: jitter, and a fire window, also one that
the operator widened. Each is at most a day."""


class FiringStatus(StrEnum):
    """State or outcome of an attempt at a slot."""

    PLANNED = "planned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    DEAD = "dead"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class PlannedSlot(Struct, frozen=True):
    """A slot that is a message already and not due yet."""

    tenant: str
    schedule_id: UUID
    name: str | None
    timezone: str
    slot: datetime
    due_at: datetime


class FollowUp(StrEnum):
    """What a schedule does after one of its firings finished. `COMPLETE_PARKED`: it is completed if
    it was parked because the slot that has now succeeded had died."""

    NONE = "none"
    COMPLETE = "complete"
    PARK = "park"
    PAUSE = "pause"
    COMPLETE_PARKED = "complete_parked"


class ChannelOutcome(Struct, frozen=True):
    """Outcome of one channel of a firing with several channels."""

    channel: str
    status: str
    detail: str | None = None


class ResultTarget(Struct, frozen=True, omit_defaults=True):
    """Who gets the final result of each firing of a schedule: a queue, an endpoint or a new run of
    a workflow, by name."""

    queue: str | None = None
    endpoint: str | None = None
    workflow: str | None = None


class FiringResult(Effect, frozen=True, kw_only=True):
    """Outcome of a slot's message, as recorded for its firing and applied to its schedule.

    `follow_up` is what the schedule does next. `next_after_seconds` is set for a fixed delay: the
    next slot comes that many seconds after now. `error` is shown on the schedule. `is_attempt` is
    False if no handler started. `result_target` is who gets the result.
    """

    RANK = LockRank.SCHEDULE

    status: FiringStatus
    is_attempt: bool = True
    reason: str | None = None
    follow_up: FollowUp = FollowUp.NONE
    next_after_seconds: float | None = None
    error: str | None = None
    took_seconds: float = 0.0
    result_code: int | None = None
    excerpt: str | None = None
    channels: tuple[ChannelOutcome, ...] = ()
    result_target: ResultTarget | None = None

    @property
    def skip_reason(self) -> str | None:
        return self.reason if self.status is FiringStatus.SKIPPED else None

    def faults(self, prefix: str) -> Iterator[FieldError]:
        at = f"{prefix}firing."
        if not 0 <= self.took_seconds <= DELAY_SECONDS_MAX:
            yield FieldError(f"{at}took_seconds", f"must be from 0 to {DELAY_SECONDS_MAX}")
        if self.reason is not None:
            yield from text_faults(f"{at}reason", self.reason, NAME_LENGTH_MAX)
        if self.excerpt is not None:
            yield from text_faults(f"{at}excerpt", self.excerpt, EXCERPT_LENGTH_MAX)
        for index, outcome in enumerate(self.channels):
            for field in ("channel", "status", "detail"):
                text = getattr(outcome, field)
                if text is not None:
                    field_at = f"{at}channels[{index}].{field}"
                    yield from text_faults(field_at, text, EXCERPT_LENGTH_MAX)

    @property
    def is_plain_success(self) -> bool:
        """Whether it succeeded and has no follow-up."""
        return (
            self.status is FiringStatus.SUCCEEDED
            and self.follow_up is FollowUp.NONE
            and self.next_after_seconds is None
        )

    @property
    def has_follow_up(self) -> bool:
        """Whether it changes the status or the next slot of its schedule."""
        return self.follow_up is not FollowUp.NONE or self.next_after_seconds is not None

    @property
    def completes(self) -> bool:
        """Whether it completes its schedule, if no later slot has a message."""
        return self.follow_up is FollowUp.COMPLETE

    @property
    def is_bare_success(self) -> bool:
        """Whether it is a success without reason, result code, excerpt, channels or target of its
        result, after which the schedule waits for its next slot or is completed."""
        return (
            self.status is FiringStatus.SUCCEEDED
            and self.follow_up in (FollowUp.NONE, FollowUp.COMPLETE)
            and self.next_after_seconds is None
            and self.reason is None
            and self.result_code is None
            and self.excerpt is None
            and not self.channels
            and self.result_target is None
        )


class FiringFields(Struct, Generic[AnId], frozen=True, kw_only=True):
    """One row of a schedule's history: an attempt at a slot, a slot that is planned or running, or
    a run of `count` slots from `slot` to `last_slot` that did not fire.

    `attempt` counts handlers that started, so it is 0 for a slot that never ran. A planned slot has
    no `started_at`, a running one that of its claim; neither has a `finished_at`. `excerpt` is the
    start of the answer or the error in one line.
    """

    id: AnId
    schedule_id: AnId
    slot: datetime
    due_at: datetime
    attempt: int
    run: int
    status: FiringStatus
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    result_code: int | None
    excerpt: str | None
    channels: tuple[ChannelOutcome, ...]
    catch_up: bool
    count: int
    last_slot: datetime | None


class FiringRecord(FiringFields[UUID], frozen=True, kw_only=True):
    """A stored row."""

    tenant: str
