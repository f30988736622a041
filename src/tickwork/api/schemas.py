"""Schemas of request and response bodies.

Request types only document a body: `ops` parses plain fields and reports every fault. Responses
are instances of their types.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from litestar.openapi.spec import OpenAPIType, Schema
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition
from msgspec import Meta, Struct

from tickwork.core.answers.ids import Id

Hour = Annotated[int, Meta(ge=0, le=23)]
Minute = Annotated[int, Meta(ge=0, le=59)]
Moment = Annotated[
    str, Meta(description="ISO 8601, with an offset or local in the zone: 2027-03-14T09:00:00Z")
]


class IdSchema(OpenAPISchemaPlugin):
    """Documents an id as a text with a prefix."""

    @staticmethod
    def is_plugin_supported_type(value: object) -> bool:
        return value is Id

    def to_openapi_schema(
        self,
        field_definition: FieldDefinition,  # noqa: ARG002 (part of the interface)
        schema_creator: object,  # noqa: ARG002
    ) -> Schema:
        return Schema(type=OpenAPIType.STRING, pattern="^[a-z]{3,4}_[0-9a-f]{32}$")


class DailyTime(Struct, frozen=True):
    """Every day at a wall-clock time."""

    hour: Hour
    minute: Minute


class WeeklyTime(Struct, frozen=True):
    """On one or more days of the week; 0 is Sunday."""

    day_of_week: Annotated[int | list[int], Meta(description="0 to 6, 0 is Sunday.")]
    hour: Hour
    minute: Minute


class MonthlyTime(Struct, frozen=True):
    """On a day of the month, or on its last day."""

    day: Annotated[int | Literal["last"], Meta(description='1 to 31, or "last".')]
    hour: Hour
    minute: Minute
    short_month: Annotated[
        Literal["skip", "last_day"], Meta(description="What to do in a month without that day.")
    ] = "skip"


class DstPolicy(Struct, frozen=True):
    """What to do when a local time is skipped (`gap`) or occurs twice (`overlap`)."""

    gap: Literal["run_after", "shift", "skip"] = "run_after"
    overlap: Literal["first", "last", "both"] = "first"


class MissedPolicy(Struct, frozen=True):
    """What to do with slots that were not planned in time; a preview ignores it."""

    policy: Literal["fire_late", "fire_most_recent", "skip"] = "fire_late"
    cap: Annotated[int, Meta(ge=1, le=1000)] = 10
    grace_seconds: Annotated[int, Meta(ge=0)] = 60


class RuleRequest(Struct, frozen=True, kw_only=True):
    """Exactly one timing, its zone and limits.

    A timing is one of `cron_expr`, `interval_seconds`, `interval_minutes`, `daily_time`,
    `weekly_time`, `monthly_time`, `once_at` and `rrule` (which needs `start_at`).
    """

    cron_expr: Annotated[
        str | None,
        Meta(
            description="5 fields, names, L, LW, 15W, 5#3, ?, H, @daily; 6 fields with seconds "
            "first where they are allowed.",
            examples=["0 9 * * MON-FRI"],
        ),
    ] = None
    interval_seconds: Annotated[
        int | None, Meta(description="Elapsed time; counts from start_at, or else from `from`.")
    ] = None
    interval_minutes: int | None = None
    interval_mode: Literal["fixed_rate", "fixed_delay"] | None = None
    daily_time: DailyTime | None = None
    weekly_time: WeeklyTime | None = None
    monthly_time: MonthlyTime | None = None
    once_at: Moment | None = None
    rrule: Annotated[
        str | None, Meta(description="RFC 5545", examples=["FREQ=WEEKLY;BYDAY=MO"])
    ] = None
    timezone: Annotated[str, Meta(description="IANA time zone", examples=["Europe/Berlin"])] = "UTC"
    dst: DstPolicy | None = None
    missed: MissedPolicy | None = None
    start_at: Moment | None = None
    end_at: Moment | None = None
    max_firings: Annotated[int, Meta(ge=1)] | None = None
    exclude: Annotated[
        list[date] | None, Meta(description="Local dates on which the schedule does not fire.")
    ] = None
    calendar: str | None = None
    roll: Annotated[
        Literal["skip", "next_day", "previous_day"],
        Meta(description="What to do with a slot on an excluded date."),
    ] = "skip"
    jitter_seconds: Annotated[int, Meta(ge=0)] = 0
    fire_window_seconds: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="0: exact, also while the operator widens the windows."),
    ] = None


class PreviewRequest(RuleRequest, frozen=True, kw_only=True, rename={"start": "from"}):
    """A timing as a schedule has it, the start of the preview and the maximum number of fires."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of fires.")] = 5
    start: Annotated[
        str | None,
        Meta(description="Fires are strictly after this time; ISO 8601, default now."),
    ] = None


class Health(Struct, frozen=True):
    """The process is running."""

    status: Literal["ok"]
    version: str


class Readiness(Struct, frozen=True):
    """The process can serve requests. `missing` names the roles that no live process has: without
    `scheduler` no schedule fires, without `worker` nothing is handled or delivered."""

    status: Literal["ready"]
    missing: tuple[str, ...] = ()
