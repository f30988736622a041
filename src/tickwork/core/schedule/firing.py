"""Firings: the outcome of each attempt at a slot, and the rows of a schedule's history."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from tickwork.core.answers.ids import Prefix, without_prefix
from tickwork.core.fields import iso

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


def slot_key(
    base: str | None, schedule_id: UUID | None, slot: datetime | None, run: int
) -> str | None:
    """The idempotency key of a slot's message: the same for every attempt and different from that
    of any other slot or run. `base` is the schedule's own idempotency key, if it has one.

    A copy of a slot's message and its replay have the whole key as their `base`: a copy has no
    slot, and the base of a replay names the slot already.
    """
    if schedule_id is None or slot is None:
        return base
    own = f":{iso(slot)}"
    if base is not None and run and own in base:
        return base
    # Without a prefix: receivers recognise a repeat by this key, also after an upgrade.
    return f"{base or without_prefix(schedule_id)}{own}" + (f":{run}" if run else "")


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


class FiringResult(Struct, frozen=True, kw_only=True):
    """Outcome of a slot's message, as recorded for its firing and applied to its schedule.

    `follow_up` is what the schedule does next. `next_after_seconds` is set for a fixed delay: the
    next slot comes that many seconds after now. `error` is shown on the schedule. `is_attempt` is
    False if no handler started. `result_target` is who gets the result.
    """

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


class FiringRecord(Struct, frozen=True):
    """One row of a schedule's history: an attempt at a slot, a slot that is planned or running, or
    a run of `count` slots from `slot` to `last_slot` that did not fire.

    `attempt` counts handlers that started, so it is 0 for a slot that never ran. A planned slot has
    no `started_at`, a running one that of its claim; neither has a `finished_at`. `excerpt` is the
    start of the answer or the error in one line.
    """

    ID_PREFIX: ClassVar = Prefix.FIRING

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
