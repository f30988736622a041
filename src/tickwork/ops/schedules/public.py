"""A schedule as users see it: the fields it was created with, and its status."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from msgspec import Raw, Struct, field, to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from tickwork.core import when
from tickwork.core.answers.ids import Prefix
from tickwork.core.delivery.target import AT_LEAST_ONCE
from tickwork.core.schedule.fields import render_definition
from tickwork.core.schedule.model import Schedule as StoredSchedule
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.ops.context import Context
from tickwork.ops.schedules.views import KINDS, SlotsInSight, fire_times, slots_in_sight

INLINE_BYTES_MAX = 200_000
"""Number of bytes of payloads that are decoded in the event loop; more are in a thread."""


class ScheduleView(Struct, frozen=True, kw_only=True):
    """What users see of a schedule, without its id."""

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


class Schedule(ScheduleView, frozen=True, kw_only=True):
    """A schedule. Exactly one of the timing fields is set; what was not given is at its default.

    `cron_equivalent` is the cron expression with the same slots, where there is one. `fired` counts
    the slots that came due and became messages. `error_count` counts failed attempts since the
    last success; it starts at 0 again with the slot after a dead one.
    """

    ID_PREFIX: ClassVar = Prefix.SCHEDULE

    id: UUID


async def show_stored(
    context: Context, found: Sequence[StoredSchedule], *, for_json: bool = False
) -> tuple[Schedule, ...]:
    """Stored schedules as users see them, in the same order. With `for_json` many payloads stay
    encoded: to encode four megabytes of them again holds the event loop."""
    now = await context.store.now()
    in_sight = await slots_in_sight(context, found, now)

    is_small = sum(len(schedule.definition.body) for schedule in found) <= INLINE_BYTES_MAX

    def show() -> tuple[Schedule, ...]:
        shown = (_shown(schedule, now, in_sight.get(schedule.id)) for schedule in found)
        return tuple(shown if is_small or not for_json else map(_with_encoded_payload, shown))

    return show() if is_small else await asyncio.to_thread(show)


def _with_encoded_payload(schedule: Schedule) -> Schedule:
    return replace(schedule, payload=Raw(encode(schedule.payload)))


def _shown(schedule: StoredSchedule, now: datetime, in_sight: SlotsInSight | None) -> Schedule:
    rule = schedule.definition.rule
    fires = fire_times(schedule, now, rule, in_sight)
    fields: dict[str, Any] = render_definition(schedule.definition)
    fields.setdefault("payload", None)
    return Schedule(
        id=schedule.id,
        name=schedule.name,
        owner=schedule.owner,
        status=schedule.status,
        kind=KINDS[type(rule.timing)],
        cron_equivalent=when.cron_equivalent(rule.timing),
        **fields,
        next_fire_at=fires.next_fire_at,
        next_due_at=fires.next_due_at,
        last_fire_at=fires.last_fire_at,
        last_status=schedule.last_status,
        last_error=schedule.last_error,
        error_count=schedule.error_count,
        fired=fires.fired,
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
    )
