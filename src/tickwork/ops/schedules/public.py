"""A schedule as users see it: the fields it was created with, and its status."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw
from msgspec.json import encode
from msgspec.structs import replace

from tickwork.core import when
from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.answers.schedule import ScheduleAnswer
from tickwork.core.schedule.fields import render_definition
from tickwork.core.schedule.model import Schedule
from tickwork.ops.context import Context
from tickwork.ops.schedules.views import KINDS, SlotsInSight, fire_times, slots_in_sight

INLINE_BYTES_MAX = 200_000
"""Number of bytes of payloads that are decoded in the event loop; more are in a thread."""


async def show_stored(
    context: Context, found: Sequence[Schedule], *, for_json: bool = False
) -> tuple[ScheduleAnswer, ...]:
    """Stored schedules as users see them, in the same order. With `for_json` many payloads stay
    encoded: to encode four megabytes of them again holds the event loop."""
    now = await context.store.now()
    in_sight = await slots_in_sight(context, found, now)

    is_small = sum(len(schedule.definition.body) for schedule in found) <= INLINE_BYTES_MAX

    def show() -> tuple[ScheduleAnswer, ...]:
        shown = (show_schedule(schedule, now, in_sight.get(schedule.id)) for schedule in found)
        return tuple(shown if is_small or not for_json else map(_with_encoded_payload, shown))

    return show() if is_small else await asyncio.to_thread(show)


def _with_encoded_payload(schedule: ScheduleAnswer) -> ScheduleAnswer:
    return replace(schedule, payload=Raw(encode(schedule.payload)))


def show_schedule(
    schedule: Schedule,
    now: datetime,
    in_sight: SlotsInSight | None = None,
    *,
    rule: when.Rule | None = None,
) -> ScheduleAnswer:
    """A stored schedule as users see it. `in_sight` are its slots around now, and `rule` is its
    rule with the days of its calendar, where they are known."""
    rule = rule or schedule.definition.rule
    fires = fire_times(schedule, now, rule, in_sight)
    fields: dict[str, Any] = render_definition(schedule.definition)
    fields.setdefault("payload", None)
    return ScheduleAnswer(
        id=Id.of(Prefix.SCHEDULE, schedule.id),
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
