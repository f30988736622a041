"""Routes for events and their deliveries to endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery
from msgspec import Meta, Struct, structs

from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_LIMIT,
    PAGE_LIMIT_MAX,
    Cursor,
    Limit,
    Page,
    read_cursor,
    read_page,
)
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.delivery import DeliveryAnswer
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.delivery.endpoint import (
    Attempt,
    DeliverySelection,
    DeliveryStatus,
    Published,
)
from tickwork.core.fields import read_instant
from tickwork.ops import endpoints, events
from tickwork.ops.context import Context

routes = Routes("deliveries")

_PUBLISH = [
    Example(
        summary="An order was paid",
        value={"type": "order.paid", "data": {"order": 17}, "event_id": "order-17-paid"},
    )
]


class EventRequest(Struct, frozen=True, kw_only=True):
    """An event. The same `event_id` is published once."""

    type: str
    data: Any
    event_id: str | None = None
    key: str | None = None
    owner: str | None = None


@routes.post(
    "/v1/events",
    "Publish an event",
    needs=Permission.SEND,
    tag="events",
    status=201,
    body=EventRequest,
    problems=(404, 409, 429),
)
async def publish_event(
    data: Annotated[dict[str, Any], Body(examples=_PUBLISH)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[Published]:
    """Publishes an event to the queues and endpoints whose types match, in one transaction. With
    `is_repeat` it was published before, and those that have it do not get it again."""
    reader = body_reader(data, *EventRequest.__struct_fields__)
    if "data" not in data:
        reader.fault("data", "is missing; null is possible, too")
    finished(reader)
    fields: dict[str, Any] = {name: data.get(name) for name in ("event_id", "key", "owner")}
    event_type: Any = data.get("type")

    async def make(seed: UUID) -> Published:
        # An event without an id has one of the request: a repeat publishes nothing more.
        chosen = fields["event_id"] or f"evt_{seed.hex}"
        owner = events.event_owner(context.scope, fields["owner"])
        event = events.new_event(
            context.scope, event_type, data["data"], key=fields["key"], event_id=chosen
        )
        return await events.publish_event(context, event, owner)

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.get("/v1/deliveries", "List deliveries", needs=Permission.READ, problems=(404,))
async def list_deliveries(
    context: NamedDependency[Context],
    endpoint: FromQuery[str | None] = None,
    status: FromQuery[Literal["waiting", "delivered", "dead", "undelivered"] | None] = None,
    since: FromQuery[str | None] = None,
    until: FromQuery[str | None] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[DeliveryAnswer]:
    """Returns deliveries, newest first; `undelivered` ones are waiting or dead."""
    is_undelivered = status == "undelivered"
    selection = DeliverySelection(
        status=None if status is None or is_undelivered else DeliveryStatus(status),
        is_undelivered=is_undelivered,
        since=read_instant("since", since),
        until=read_instant("until", until),
    )
    selection = await endpoints.select_endpoint(context, selection, endpoint)
    before: UUID | None = read_cursor(cursor, UUID)

    async def read(count: int, before: UUID | None) -> Sequence[DeliveryAnswer]:
        wanted = structs.replace(selection, limit=count)
        return await events.list_deliveries(context, wanted, before=before)

    return await read_page(read, limit, before, lambda delivery: delivery.id.uuid)


@routes.get("/v1/deliveries/{delivery:str}", "Get a delivery", needs=Permission.READ)
async def get_delivery(
    delivery: FromPath[str], context: NamedDependency[Context]
) -> DeliveryAnswer:
    """Returns one delivery."""
    return await events.find_delivery(context, _id(delivery))


@routes.get(
    "/v1/deliveries/{delivery:str}/attempts",
    "List the attempts at a delivery",
    needs=Permission.READ,
)
async def list_attempts(
    delivery: FromPath[str],
    context: NamedDependency[Context],
    limit: Limit = PAGE_LIMIT_MAX,
    cursor: Cursor = None,
) -> Page[Attempt]:
    """Returns each attempt with its time, duration, status or error, and a short excerpt, in
    order."""
    wanted = _id(delivery)
    last: int | None = read_cursor(cursor, Annotated[int, Meta(ge=0, lt=2**31)])

    async def read(count: int, after: int | None) -> Sequence[Attempt]:
        return await events.list_attempts(context, wanted, limit=count, after=after or 0)

    return await read_page(
        read, limit, last, lambda attempt: attempt.number, lambda attempt: attempt
    )


@routes.post(
    "/v1/deliveries/{delivery:str}/resend",
    "Send a delivery again",
    needs=Permission.MANAGE,
    problems=(409,),
)
async def resend_delivery(
    delivery: FromPath[str], context: NamedDependency[Context]
) -> DeliveryAnswer:
    """Sends a delivery again with the same id, also a delivered one."""
    wanted = _id(delivery)
    await events.resend_delivery(context, wanted)
    return await events.find_delivery(context, wanted)


def _id(text: str) -> UUID:
    return read_path_id(Prefix.DELIVERY, text, "delivery")
