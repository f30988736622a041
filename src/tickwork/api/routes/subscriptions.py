"""Routes for subscriptions: queues that get copies of messages and events by type."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromQuery

from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, page_of, read_cursor
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Permission
from tickwork.core.answers.queue import SubscriptionBody
from tickwork.errors import NotFound
from tickwork.ops import subscriptions
from tickwork.ops.context import Context

routes = Routes("subscriptions")

_PUT = [Example(summary="All content", value={"types": "content.*", "queue": "publish"})]


@routes.get("/v1/subscriptions", "List subscriptions", needs=Permission.READ)
async def list_subscriptions(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[SubscriptionBody]:
    """Returns the tenant's subscriptions by types and queue; there are at most 1,000."""
    after: list[str] | None = read_cursor(cursor, list[str])
    every = await subscriptions.list_subscriptions(context)
    ordered = sorted(every, key=_position)
    found = [
        subscription for subscription in ordered if after is None or _position(subscription) > after
    ]
    return page_of(found, limit, _position)


@routes.post(
    "/v1/subscriptions",
    "Subscribe a queue",
    needs=Permission.MANAGE,
    status=201,
    body=SubscriptionBody,
    problems=(404, 409, 429),
)
async def create_subscription(
    data: Annotated[dict[str, Any], Body(examples=_PUT)], context: NamedDependency[Context]
) -> Response[SubscriptionBody]:
    """Subscribes a queue to types of messages and events. A repeat has no effect."""
    reader = body_reader(data, "types", "queue")
    types, queue = reader.text("types"), reader.text("queue")
    finished(reader)
    made = await subscriptions.subscribe(context, str(types), str(queue))
    return Response(made, status_code=201)


@routes.delete(
    "/v1/subscriptions",
    "Delete a subscription",
    needs=Permission.MANAGE,
    status=204,
    problems=(404, 422),
)
async def delete_subscription(
    context: NamedDependency[Context], types: FromQuery[str], queue: FromQuery[str]
) -> None:
    """Deletes the subscription of a queue to these types."""
    if not await subscriptions.unsubscribe(context, types, queue):
        raise NotFound("subscription", f"of {queue} to {types}")


def _position(subscription: SubscriptionBody) -> list[str]:
    return [subscription.types, subscription.queue]
