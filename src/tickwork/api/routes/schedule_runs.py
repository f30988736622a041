"""Routes for what schedules do: pause, resume, trigger, backfill; firings, next fires, why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromQuery, QueryParameter
from msgspec import Struct

from tickwork.api.once import IdempotencyKey, change_once
from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, read_cursor, read_page
from tickwork.api.query import body_reader, finished, flag
from tickwork.api.schedule_access import (
    NamedTenant,
    ScheduleId,
    named_scope,
    shown_schedule,
)
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.schedule import Backfilled, Fires, FiringAnswer, ScheduleAnswer, Why
from tickwork.core.fields import read_instant
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.model import Schedule
from tickwork.core.when import PREVIEW_LIMIT_MAX
from tickwork.ops.context import Context
from tickwork.ops.requests import DoneMark
from tickwork.ops.schedules import change, lookup, views
from tickwork.ops.schedules.next_fires import UPCOMING_LIMIT
from tickwork.ops.schedules.next_fires import upcoming as upcoming_fires
from tickwork.ops.schedules.public import show_stored
from tickwork.ops.schedules.why import why

routes = Routes("schedules")

FireLimit = Annotated[
    int, QueryParameter(ge=1, le=PREVIEW_LIMIT_MAX, description="Maximum number of fires.")
]


_BACKFILL = [
    Example(
        summary="A morning",
        value={"from": "2027-03-14T06:00:00Z", "to": "2027-03-14T12:00:00Z", "force": False},
    )
]


class BackfillRequest(Struct, frozen=True, kw_only=True, rename={"start": "from"}):
    """A span of the past. With `force` slots that succeeded run again, too."""

    start: str
    to: str
    force: bool = False


@routes.post(
    "/v1/schedules/{schedule:str}/pause",
    "Pause a schedule",
    needs=Permission.MANAGE,
    is_for_owners=True,
    problems=(409,),
)
async def pause_schedule(
    schedule: ScheduleId, context: NamedDependency[Context]
) -> Response[ScheduleAnswer]:
    """Pauses a schedule and withdraws every slot that no worker has started."""
    known = await lookup.get_schedule(context, schedule)
    changed = await change.pause(context, known.id)
    return await shown_schedule(context, changed)


@routes.post(
    "/v1/schedules/{schedule:str}/resume",
    "Resume a schedule",
    needs=Permission.MANAGE,
    is_for_owners=True,
    problems=(409,),
)
async def resume_schedule(
    schedule: ScheduleId, context: NamedDependency[Context]
) -> Response[ScheduleAnswer]:
    """Resumes a schedule with its next slot. Slots missed during the pause are recorded."""
    known = await lookup.get_schedule(context, schedule)
    changed = await change.resume(context, known.id)
    return await shown_schedule(context, changed)


@routes.post(
    "/v1/schedules/{schedule:str}/trigger",
    "Run a schedule once, now",
    needs=Permission.MANAGE,
    status=201,
    is_for_owners=True,
    problems=(409, 422),
)
async def trigger_schedule(
    schedule: ScheduleId,
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[ScheduleAnswer]:
    """Fires a schedule once, now, whatever its status."""
    known = await lookup.get_schedule(context, schedule)

    async def fire(_: DoneMark) -> Schedule:
        return await change.trigger(context, known.id)

    async def show(fired: Schedule | None) -> ScheduleAnswer:
        (shown,) = await show_stored(context, [fired or known])
        return shown

    return await change_once(
        fire, show, context=context, caller=caller, request=request, key=idempotency_key
    )


@routes.post(
    "/v1/schedules/{schedule:str}/backfill",
    "Run slots of the past",
    needs=Permission.MANAGE,
    status=201,
    body=BackfillRequest,
    is_for_owners=True,
    problems=(409,),
)
async def backfill_schedule(
    schedule: ScheduleId,
    data: Annotated[dict[str, Any], Body(examples=_BACKFILL)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[Backfilled]:
    """Fires the slots from `from` to `to` that did not succeed; with `force` all of them."""
    reader = body_reader(data, "from", "to", "force")
    since, until = reader.instant("from"), reader.instant("to")
    force = flag(reader, data, "force")
    finished(reader)
    assert since is not None
    assert until is not None
    known = await lookup.get_schedule(context, schedule)

    async def fire(mark: DoneMark) -> tuple[datetime, ...]:
        def chosen(slots: tuple[datetime, ...]) -> None:
            mark.answer = msgspec.json.encode(Backfilled(slots))

        return await change.backfill(
            context, known.id, since=since, until=until, force=bool(force),
            on_chosen=chosen,
        )  # fmt: skip

    async def show(slots: tuple[datetime, ...] | None) -> Backfilled:
        return Backfilled(slots or ())

    return await change_once(
        fire, show, context=context, caller=caller, request=request, key=idempotency_key
    )


class _FiringPosition(Struct, array_like=True):
    finished_at: datetime | None
    id: UUID


@routes.get(
    "/v1/schedules/{schedule:str}/firings",
    "List firings",
    needs=Permission.READ,
    is_for_owners=True,
)
async def list_firings(
    schedule: ScheduleId,
    context: NamedDependency[Context],
    status: FromQuery[FiringStatus | None] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[FiringAnswer]:
    """Returns the history of a schedule, newest first; planned and running slots come before it."""
    known = await lookup.get_schedule(context, schedule)
    after: _FiringPosition | None = read_cursor(cursor, _FiringPosition)

    async def read(count: int, after: _FiringPosition | None) -> Sequence[FiringAnswer]:
        return await views.list_firings(
            context,
            known.id,
            limit=count,
            status=status,
            before=None if after is None else (after.finished_at, after.id),
        )

    return await read_page(read, limit, after, _position)


def _position(firing: FiringAnswer) -> _FiringPosition:
    return _FiringPosition(firing.finished_at, firing.id.uuid)


@routes.get(
    "/v1/schedules/{schedule:str}/upcoming",
    "List the next fires of a schedule",
    needs=Permission.READ,
    is_for_owners=True,
)
async def upcoming_of_schedule(
    schedule: ScheduleId, context: NamedDependency[Context], limit: FireLimit = UPCOMING_LIMIT
) -> Fires:
    """Returns the next fires of one schedule; none unless it is active."""
    known = await lookup.get_schedule(context, schedule)
    return await upcoming_fires(context, known.id, limit=limit)


@routes.get(
    "/v1/upcoming",
    "List the next fires of all schedules",
    needs=Permission.READ,
    is_for_owners=True,
    problems=(404,),
)
async def upcoming(
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    owner: FromQuery[str | None] = None,
    since: FromQuery[str | None] = None,
    until: FromQuery[str | None] = None,
    limit: FireLimit = UPCOMING_LIMIT,
    tenant: NamedTenant = None,
) -> Fires:
    """Returns the next fires of all schedules, or of one owner's, soonest first."""
    return await upcoming_fires(
        context.within(await named_scope(context, caller, tenant)),
        limit=limit,
        since=read_instant("since", since),
        until=read_instant("until", until),
        owner=owner,
    )


@routes.get(
    "/v1/schedules/{schedule:str}/why",
    "Explain why a schedule fired, or did not",
    needs=Permission.READ,
    is_for_owners=True,
)
async def why_schedule(
    schedule: ScheduleId,
    context: NamedDependency[Context],
    at: Annotated[
        str | None, QueryParameter(description="An instant; default: the latest slot.")
    ] = None,
) -> Why:
    """Answers with a code, a sentence, and the facts behind it."""
    known = await lookup.get_schedule(context, schedule)
    return await why(context, known.id, read_instant("at", at))
