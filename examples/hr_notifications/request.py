"""What users send to schedule a job, and what they see of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from examples.hr_notifications.jobs import JobType

Hour: TypeAlias = Annotated[int, Meta(ge=0, le=23)]
Minute: TypeAlias = Annotated[int, Meta(ge=0, le=59)]


class DailyTime(Struct, frozen=True, forbid_unknown_fields=True):
    """Every day at a time."""

    hour: Hour
    minute: Minute


class WeeklyTime(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Every week; 0 is Sunday."""

    day_of_week: Annotated[int, Meta(ge=0, le=6)]
    hour: Hour
    minute: Minute


class MonthlyTime(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Every month on a day."""

    day_of_month: Annotated[int, Meta(ge=1, le=31)]
    hour: Hour
    minute: Minute


TIMINGS = ("interval_minutes", "daily_time", "weekly_time", "monthly_time", "once_at")


class TimingFields(TypedDict, total=False):
    """When, as `app.schedules` takes it."""

    cron_expr: str | None
    interval_minutes: int | None
    once_at: datetime | None
    timezone: str


class Timing(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """When: exactly one of the five."""

    timezone: str | UnsetType = UNSET
    interval_minutes: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    daily_time: DailyTime | UnsetType = UNSET
    weekly_time: WeeklyTime | UnsetType = UNSET
    monthly_time: MonthlyTime | UnsetType = UNSET
    once_at: datetime | UnsetType = UNSET

    def __post_init__(self) -> None:
        given = [timing for timing in TIMINGS if getattr(self, timing) is not UNSET]
        if len(given) != 1:
            names = "intervalMinutes, dailyTime, weeklyTime, monthlyTime, onceAt"
            raise ValueError(f"give exactly one of {names}, not {len(given)}")

    def cron(self) -> str | None:
        """Return the times of day as a cron expression."""
        if (daily := self.daily_time) is not UNSET:
            return f"{daily.minute} {daily.hour} * * *"
        if (weekly := self.weekly_time) is not UNSET:
            return f"{weekly.minute} {weekly.hour} * * {weekly.day_of_week}"
        if (monthly := self.monthly_time) is not UNSET:
            return f"{monthly.minute} {monthly.hour} {monthly.day_of_month} * *"
        return None

    def fields(self) -> TimingFields:
        """Return the timing as fields of a schedule."""
        fields: TimingFields = {}
        if (cron := self.cron()) is not None:
            fields["cron_expr"] = cron
        if self.interval_minutes is not UNSET:
            fields["interval_minutes"] = self.interval_minutes
        if self.once_at is not UNSET:
            fields["once_at"] = self.once_at
        if self.timezone is not UNSET:
            fields["timezone"] = self.timezone
        return fields


class NewSchedule(Timing, frozen=True, kw_only=True):
    """A job and when to do it."""

    type: JobType


class ScheduleRow(Struct, frozen=True, rename="camel", kw_only=True):
    """A schedule as its user sees it."""

    id: str
    type: JobType
    timezone: str
    cron_expression: str | None = None
    interval_minutes: int | None = None
    once_at: datetime | None = None
    is_active: bool = True
    next_run: datetime | None = None
    last_run: datetime | None = None
    updated_at: datetime | None = None


class UpcomingRow(Struct, frozen=True, rename="camel"):
    """What the admin sees of a run to come."""

    at: datetime
    user_id: str
    type: JobType
    schedule_id: str
