"""Routes for schedules: create, list, get, change, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromQuery, QueryParameter
from msgspec import Meta, Struct, structs

from tickwork.api.bodies import DocumentedMany
from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, read_cursor, read_page
from tickwork.api.schedule_access import ScheduleId, shown_schedule
from tickwork.api.schemas import RuleRequest
from tickwork.api.versions import IfMatch, read_version
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.schedule import ScheduleAnswer
from tickwork.core.fields import read_instant
from tickwork.core.schedule.model import ScheduleOrder, ScheduleSelection, ScheduleStatus
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops import requests
from tickwork.ops.context import Context
from tickwork.ops.schedules import change, create, lookup
from tickwork.ops.schedules.public import show_stored

routes = Routes("schedules")

_CREATE = [
    Example(
        summary="Every weekday at 9:00 in New York, to a URL",
        value={
            "cron_expr": "0 9 * * MON-FRI",
            "timezone": "America/New_York",
            "target_url": "https://example.com/webhooks/morning-report",
            "payload": {"team": "ops"},
            "name": "morning-report",
        },
    ),
    Example(
        summary="Every 30 minutes, to a queue",
        value={"interval_minutes": 30, "target": {"type": "queue", "queue": "jobs"}},
    ),
]
_CREATE_BODY = """One schedule, or a list of up to 1,000, all or none. Exactly one timing:
cron_expr, interval_seconds, interval_minutes, daily_time, weekly_time, monthly_time, once_at, or
rrule with start_at; and a target or target_url."""
_PATCH = [Example(summary="Another time", value={"daily_time": {"hour": 10, "minute": 30}})]


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often a firing is attempted, and after which delays."""

    max_attempts: int | None = None
    backoff: dict[str, Any] | None = None


class ScheduleRequest(RuleRequest, frozen=True, kw_only=True):
    """A schedule: exactly one timing, a target, and policies."""

    target: Annotated[
        dict[str, Any] | None,
        Meta(
            description='Such as {"type": "queue", "queue": "jobs"} or {"type": "webhook", '
            '"endpoint": "billing"}.'
        ),
    ] = None
    target_url: Annotated[str | None, Meta(description="Short for a target of type webhook.")] = (
        None
    )
    payload: Annotated[Any, Meta(description="What each firing carries.")] = None
    name: str | None = None
    owner: Annotated[str | None, Meta(description="The user inside the tenant.")] = None
    idempotency_key: Annotated[
        str | None, Meta(description="Sent with every firing; unique in the tenant.")
    ] = None
    delivery: Annotated[
        Literal["at_least_once", "at_most_once"] | None,
        Meta(description="Whether a crash may repeat a delivery to a target outside."),
    ] = None
    overlap: Literal["allow", "skip", "buffer_one", "buffer_all"] | None = None
    retry: RetryPolicy | None = None
    on_dead: Literal["continue", "pause"] | None = None
    on_success: Annotated[
        dict[str, Any] | None,
        Meta(
            description=(
                'Who gets the result: {"queue": "results"}, {"endpoint": "billing"} or '
                '{"workflow": "report"}.'
            )
        ),
    ] = None
    on_failure: Annotated[
        dict[str, Any] | None, Meta(description="The same, when no attempt is left.")
    ] = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    expires_after_seconds: int | None = None
    metadata: dict[str, Any] | None = None


class SchedulePatch(ScheduleRequest, frozen=True, kw_only=True):
    """The fields of a schedule that change; null gives one its default again."""

    timezone: str | None = None  # type: ignore[assignment]
    roll: Literal["skip", "next_day", "previous_day"] | None = None  # type: ignore[assignment]
    jitter_seconds: Annotated[int, Meta(ge=0)] | None = None  # type: ignore[assignment]


class ManySchedules(Struct, frozen=True):
    """The schedules of a list, in its order."""

    items: tuple[ScheduleAnswer, ...]


@routes.post(
    "/v1/schedules",
    "Create a schedule",
    needs=Permission.MANAGE,
    status=201,
    body=DocumentedMany[ScheduleRequest],
    is_for_owners=True,
    problems=(409, 429),
)
async def create_schedule(
    data: Annotated[Any, Body(description=_CREATE_BODY, examples=_CREATE)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[ScheduleAnswer | ManySchedules]:
    """Creates a schedule, or all schedules of a list or none: then the answer has `items`.

    With an `idempotency_key` in its body the same request returns the same schedule for as long as
    it exists; that key is also sent with every firing.
    """
    many = isinstance(data, list)
    if many:
        create.check_count(data)
    bodies = data if many else [data]

    async def make(seed: UUID) -> ScheduleAnswer | ManySchedules:
        ids = requests.ids_from(seed, len(bodies))
        if many:
            made = await create.create_many(context, bodies, ids=ids)
        else:
            made = (await create.create(context, bodies[0], ids=ids),)
        answers = await show_stored(context, made, for_json=True)
        return ManySchedules(answers) if many else answers[0]

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.get("/v1/schedules", "List schedules", needs=Permission.READ, is_for_owners=True)
async def list_schedules(
    context: NamedDependency[Context],
    status: FromQuery[ScheduleStatus | None] = None,
    name: FromQuery[str | None] = None,
    name_prefix: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    calendar: FromQuery[str | None] = None,
    order: FromQuery[ScheduleOrder] = ScheduleOrder.CREATED,
    before: Annotated[
        str | None, QueryParameter(description="With order=next_due_at: due before this time.")
    ] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[ScheduleAnswer]:
    """Returns schedules; without a status all but the deleted ones."""
    selection = ScheduleSelection(
        status=status,
        name=name,
        name_prefix=name_prefix,
        owner=owner,
        calendar=calendar,
        order=order,
        before=read_instant("before", before),
    )
    if before is not None and order is not ScheduleOrder.NEXT_DUE:
        raise InvalidInput([FieldError("before", "needs order=next_due_at")])

    async def read(count: int, after: UUID | None) -> Sequence[ScheduleAnswer]:
        wanted = structs.replace(selection, after=after)
        found = await lookup.list_schedules(context, wanted, limit=count)
        return await show_stored(context, found, for_json=True)

    after: UUID | None = read_cursor(cursor, UUID)
    return await read_page(read, limit, after, lambda shown: shown.id.uuid)


@routes.get(
    "/v1/schedules/{schedule:str}", "Get a schedule", needs=Permission.READ, is_for_owners=True
)
async def get_schedule(
    schedule: ScheduleId, context: NamedDependency[Context]
) -> Response[ScheduleAnswer]:
    """Returns one schedule, by its id or name."""
    return await shown_schedule(context, await lookup.get_schedule(context, schedule))


async def _update(
    schedule: str, data: dict[str, Any], context: Context, if_match: str | None
) -> Response[ScheduleAnswer]:
    known = await lookup.get_schedule(context, schedule)
    changed = await change.update(
        context, known.id, data, version=read_version(if_match, "schedule", schedule)
    )
    return await shown_schedule(context, changed)


@routes.patch(
    "/v1/schedules/{schedule:str}",
    "Change a schedule",
    needs=Permission.MANAGE,
    body=SchedulePatch,
    is_for_owners=True,
    problems=(409, 412),
)
async def update_schedule(
    schedule: ScheduleId,
    data: Annotated[dict[str, Any], Body(examples=_PATCH)],
    context: NamedDependency[Context],
    if_match: IfMatch = None,
) -> Response[ScheduleAnswer]:
    """Applies a merge patch: given fields replace the old ones, null removes a field, a new timing
    replaces the old one. Slots that are due or running run as planned."""
    return await _update(schedule, data, context, if_match)


@routes.put(
    "/v1/schedules/{schedule:str}",
    "Change a schedule, as PATCH does",
    needs=Permission.MANAGE,
    body=SchedulePatch,
    is_for_owners=True,
    problems=(409, 412),
)
async def merge_schedule(
    schedule: ScheduleId,
    data: Annotated[dict[str, Any], Body(examples=_PATCH)],
    context: NamedDependency[Context],
    if_match: IfMatch = None,
) -> Response[ScheduleAnswer]:
    """Merges the given fields, as PATCH does."""
    return await _update(schedule, data, context, if_match)


@routes.delete(
    "/v1/schedules/{schedule:str}",
    "Delete a schedule",
    needs=Permission.MANAGE,
    status=204,
    is_for_owners=True,
    problems=(412,),
)
async def delete_schedule(
    schedule: ScheduleId, context: NamedDependency[Context], if_match: IfMatch = None
) -> None:
    """Deletes a schedule and withdraws what no worker has started. Its history stays."""
    known = await lookup.get_schedule(context, schedule)
    if known.status is ScheduleStatus.DELETED:
        raise NotFound("schedule", schedule)
    version = read_version(if_match, "schedule", schedule)
    await change.delete(context, known.id, version=version)
