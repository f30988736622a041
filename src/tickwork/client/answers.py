"""What the server answers, as values. The names are those of the OpenAPI description, which a test
compares with these fields. Ids have their prefix, such as `sch_…`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct

from tickwork.core.message.batch import BatchStatus, ItemStatus
from tickwork.core.schedule.firing import ChannelOutcome, FiringStatus

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """A page of a list."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Items(Struct, Generic[T], frozen=True):
    """All of a list."""

    items: tuple[T, ...]


# Queues


class SubscriptionBody(Struct, frozen=True):
    """A queue that gets a copy of each message and event whose type matches."""

    types: str
    queue: str


# Batches


class BatchAnswer(Struct, frozen=True, kw_only=True):
    """A batch and its exact progress."""

    id: str
    queue: str | None
    status: BatchStatus
    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    created_at: datetime
    completed_at: datetime | None


class ItemAnswer(Struct, frozen=True, kw_only=True):
    """An item: the id of its message, and what became of it."""

    id: str
    status: ItemStatus
    attempts: int | None
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    error: str | None


# Schedules


class ScheduleAnswer(Struct, frozen=True, kw_only=True):
    """A schedule. Exactly one timing is set; `cron_equivalent` is the cron expression with the same
    slots, where there is one."""

    id: str
    name: str | None
    owner: str | None
    status: str
    kind: str
    cron_equivalent: str | None
    cron_expr: str | None
    interval_seconds: int | None
    interval_minutes: int | None
    daily_time: dict[str, Any] | None
    weekly_time: dict[str, Any] | None
    monthly_time: dict[str, Any] | None
    once_at: str | None
    rrule: str | None
    interval_mode: str
    timezone: str
    target: dict[str, Any]
    payload: Any
    metadata: dict[str, Any]
    dst: dict[str, Any]
    missed: dict[str, Any]
    delivery: str
    overlap: str
    retry: dict[str, Any] | None
    on_dead: str
    on_success: dict[str, Any] | None
    on_failure: dict[str, Any] | None
    priority: int
    start_at: str | None
    end_at: str | None
    max_firings: int | None
    exclude: tuple[str, ...]
    calendar: str | None
    roll: str
    jitter_seconds: int
    fire_window_seconds: int
    expires_after_seconds: int | None
    next_fire_at: datetime | None
    next_due_at: datetime | None
    last_fire_at: datetime | None
    last_status: str | None
    last_error: str | None
    error_count: int
    fired: int
    created_at: datetime
    updated_at: datetime


class Backfilled(Struct, frozen=True):
    """The slots that run now."""

    slots: tuple[datetime, ...]


class FiringAnswer(Struct, frozen=True, kw_only=True):
    """An attempt at a slot, a slot that is planned or running, or `count` slots from `slot` to
    `last_slot` that did not fire."""

    id: str
    schedule_id: str
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


class CompletedAnswer(Struct, frozen=True, kw_only=True):
    """A firing that its receiver completed."""

    id: str
    schedule_id: str | None
    slot: datetime | None
    attempt: int
    status: FiringStatus


class UpcomingAnswer(Struct, frozen=True, kw_only=True):
    """A slot that will fire; `due_at` is later than `fire_at` in a fire window."""

    schedule_id: str | None
    name: str | None
    fire_at: datetime
    due_at: datetime
    timezone: str
    tenant: str = "default"


class Fires(Struct, frozen=True):
    """The next fires, soonest first. `truncated`: fires are missing, because very many schedules
    are overdue, or due before `since`."""

    fires: tuple[UpcomingAnswer, ...]
    truncated: bool = False


class TriggeredRun(Struct, frozen=True):
    """What became of the run that was triggered last, at a time: as in `WhyAnswer`."""

    at: datetime
    fired: bool | None
    code: str
    answer: str


class WhyAnswer(Struct, frozen=True, kw_only=True):
    """Why a schedule fired, or did not: a code for programs, a sentence for people, and the facts.
    `fired` is None while it is undecided. `triggered` is set only if no instant was given."""

    schedule_id: str
    at: datetime
    is_slot: bool
    fired: bool | None
    code: str
    answer: str
    previous_slot: datetime | None
    next_slot: datetime | None
    firings: tuple[FiringAnswer, ...]
    triggered: TriggeredRun | None = None


class CalendarAnswer(Struct, frozen=True, kw_only=True):
    """A calendar: named days off."""

    name: str
    days: tuple[str, ...]
    updated_at: datetime
