"""The preview of a schedule that need not exist."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any

from litestar import post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import Body

from tickwork.api.access import SECURITY_SCHEME
from tickwork.api.bodies import Documented
from tickwork.api.problems import described
from tickwork.api.schemas import PreviewRequest
from tickwork.core import when
from tickwork.core.access import Caller
from tickwork.ops import preview_schedule
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import holidays_among, limits_of

_BODIES = [
    Example(
        summary="A clock change",
        value={
            "cron_expr": "30 2 * * *",
            "timezone": "America/New_York",
            "from": "2027-03-13T12:00:00Z",
            "limit": 2,
        },
    ),
    Example(
        summary="Weekdays, not on a holiday",
        value={
            "weekly_time": {"day_of_week": [1, 2, 3, 4, 5], "hour": 9, "minute": 0},
            "timezone": "Europe/Berlin",
            "exclude": ["2027-05-17"],
            "roll": "next_day",
        },
    ),
]


_BODY = """Exactly one timing: cron_expr, interval_seconds, interval_minutes, daily_time,
weekly_time, monthly_time, once_at, or rrule with start_at. All other fields are optional."""

_GAP = when.UpcomingSlot(
    fire_at=datetime.fromisoformat("2027-03-14T07:00:00+00:00"),
    local=datetime.fromisoformat("2027-03-14T03:00:00-04:00"),
    dst=when.ClockChange.GAP,
    note="on 2027-03-14 at 03:00 instead of 02:30",
)
_DAY_AFTER = when.UpcomingSlot(
    fire_at=datetime.fromisoformat("2027-03-15T06:30:00+00:00"),
    local=datetime.fromisoformat("2027-03-15T02:30:00-04:00"),
    dst=None,
    note=None,
)
_ANSWERS = [
    Example(
        summary="A clock change",
        value=when.Preview((_GAP, _DAY_AFTER), "At 02:30, every day, New York time", ()),
    )
]
_ANSWER = ResponseSpec(
    when.Preview, description="The next fires", generate_examples=False, examples=_ANSWERS
)


@post(
    "/v1/schedules/preview",
    tags=["schedules"],
    opt={"permission": "read", "owners": True},
    security=[{SECURITY_SCHEME: ["read"]}],
    status_code=200,
    operation_id="preview_schedule",
    summary="Preview a schedule",
    responses={200: _ANSWER, **described(400, 401, 403, 413, 415, 422, 503)},
    dto=Documented[PreviewRequest],
)
async def preview(
    data: Annotated[dict[str, Any], Body(description=_BODY, examples=_BODIES)],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
) -> when.Preview:
    """Returns the next fires of a schedule that need not exist, strictly after `from`.

    Nothing is stored. Each fire that a clock change affects has a note.
    """
    calendars = await holidays_among(context, [data])
    limits = await limits_of(context)
    limits = limits.for_owner(caller.owner)
    # In a thread: searching a rule that rarely fires must not block other requests.
    return await asyncio.to_thread(
        preview_schedule, data, now=context.now(), limits=limits, calendars=calendars
    )
