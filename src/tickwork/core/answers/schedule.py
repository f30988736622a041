"""Schedules and their firings as a user sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field, to_builtins

from tickwork.core import when
from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.delivery.target import AT_LEAST_ONCE
from tickwork.core.schedule.firing import FiringFields, FiringRecord, FiringStatus
from tickwork.core.schedule.model import Calendar, ScheduleStatus


class ScheduleAnswer(Struct, frozen=True, kw_only=True):
    """A schedule. Exactly one of the timing fields is set; what was not given is at its default.

    `cron_equivalent` is the cron expression with the same slots, where there is one. `fired` counts
    the slots that came due and became messages. `error_count` counts failed attempts since the
    last success; it starts at 0 again with the slot after a dead one.
    """

    id: Id
    name: str | None
    owner: str | None = None
    status: ScheduleStatus
    kind: str
    cron_equivalent: str | None = None
    cron_expr: str | None = None
    interval_seconds: int | None = None
    interval_minutes: int | None = None
    daily_time: dict[str, Any] | None = None
    weekly_time: dict[str, Any] | None = None
    monthly_time: dict[str, Any] | None = None
    once_at: str | None = None
    rrule: str | None = None
    interval_mode: str = "fixed_rate"
    timezone: str = "UTC"
    target: dict[str, Any] = {}
    payload: Any = None
    metadata: dict[str, Any] = {}
    dst: dict[str, Any] = field(default_factory=lambda: to_builtins(when.Dst()))
    missed: dict[str, Any] = field(default_factory=lambda: to_builtins(when.Missed()))
    delivery: str = AT_LEAST_ONCE
    overlap: str = "allow"
    retry: dict[str, Any] | None = None
    on_dead: str = "continue"
    on_success: dict[str, Any] | None = None
    on_failure: dict[str, Any] | None = None
    priority: int = 4
    start_at: str | None = None
    end_at: str | None = None
    max_firings: int | None = None
    exclude: list[str] = []
    calendar: str | None = None
    roll: str = "skip"
    jitter_seconds: int = 0
    fire_window_seconds: int = 0
    expires_after_seconds: int | None = None
    next_fire_at: datetime | None = None
    next_due_at: datetime | None = None
    last_fire_at: datetime | None = None
    last_status: str | None = None
    last_error: str | None = None
    error_count: int = 0
    fired: int = 0
    created_at: datetime
    updated_at: datetime


class Backfilled(Struct, frozen=True):
    """The slots that run now."""

    slots: tuple[datetime, ...]


class FiringAnswer(FiringFields[Id], frozen=True, kw_only=True):
    """One row of a schedule's history."""

    id: Id
    schedule_id: Id

    @classmethod
    def of(cls, firing: FiringRecord) -> FiringAnswer:
        """The answer for a stored firing."""
        return cls(id=Id.of(Prefix.FIRING, firing.id), **fields_as_in(firing, cls))


class CompletedFiring(Struct, frozen=True, kw_only=True):
    """A firing that its receiver completed. `status` is that of the attempt: `succeeded`, `failed`
    if it is retried, or `dead`."""

    id: Id
    schedule_id: Id | None
    slot: datetime | None
    attempt: int
    status: FiringStatus


class UpcomingFire(Struct, frozen=True, kw_only=True):
    """A slot of a schedule that will fire; `due_at` is later than `fire_at` in a fire window."""

    schedule_id: Id
    name: str | None
    fire_at: datetime
    due_at: datetime
    timezone: str = "UTC"
    tenant: str = "default"


class Fires(Struct, frozen=True):
    """The next fires, soonest first. `truncated`: fires are missing, because very many schedules
    are overdue, or due before `since`."""

    fires: tuple[UpcomingFire, ...]
    truncated: bool = False


class TriggeredRun(Struct, frozen=True):
    """What became of the run that was triggered last, `at` a time: as in `Why`."""

    at: datetime
    fired: bool | None
    code: str
    answer: str


class Why(Struct, frozen=True, kw_only=True):
    """Why a schedule fired, or did not: a code for programs, a sentence for people, and the facts.

    `fired` is null while it is undecided. `is_slot` comes from the record, or if there is none,
    from the current rule. `triggered` is the latest triggered run, if no instant was given.
    """

    schedule_id: Id
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
    """A calendar: named days off, shared by the schedules of a tenant. `days` are ISO dates."""

    name: str
    days: tuple[str, ...]
    updated_at: datetime

    @classmethod
    def of(cls, calendar: Calendar) -> CalendarAnswer:
        """The answer for a stored calendar."""
        return cls(**fields_as_in(calendar, cls))


class MovedSchedule(Struct, frozen=True, kw_only=True):
    """A schedule whose next slot moved."""

    id: Id
    name: str | None
    before: datetime | None
    after: datetime | None


class ChangedCalendar(CalendarAnswer, frozen=True, kw_only=True):
    """A calendar, and the schedules that moved with it."""

    moved: tuple[MovedSchedule, ...]
