"""Routes for endpoints: a tenant's addresses that receive events, with their secrets and health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery
from msgspec import Meta, Struct, structs

from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, page_of, read_cursor
from tickwork.api.query import body_reader, finished
from tickwork.api.versions import IfMatch, check_match, etag_of, with_etag
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.endpoint import DeletedEndpoint, EndpointAnswer, Recovered, Secret
from tickwork.core.delivery.endpoint import (
    RECOVER_RATE_PER_SECOND,
    Attempt,
    Endpoint,
    EndpointSettings,
    EndpointStats,
)
from tickwork.core.fields import read_instant
from tickwork.core.options.endpoint import EndpointFields, NewEndpoint
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.ops import endpoints, events
from tickwork.ops.context import Context

routes = Routes("endpoints")

_URL = "/v1/endpoints/{endpoint:str}"
_CREATE = [
    Example(
        summary="All events of orders",
        value={"name": "shop", "url": "https://example.com/hooks", "types": ["order.*"]},
    )
]
_CHANGE = [Example(summary="Another URL", value={"url": "https://example.com/v2/hooks"})]
_RECOVER = [
    Example(summary="Since a time", value={"since": "2027-03-14T09:00:00Z", "rate_per_second": 10})
]

EndpointName = FromPath[str]
"""The id or the name of an endpoint."""


class DisableRequest(Struct, frozen=True):
    """Why it is disabled."""

    reason: str = "disabled by hand"


class RecoverRequest(Struct, frozen=True):
    """What to send again: all that was published in a span and did not arrive."""

    since: str
    until: str | None = None
    rate_per_second: Annotated[float, Meta(description="Deliveries a second.")] = 10.0


def _matching(if_match: str | None) -> Callable[[Endpoint], None] | None:
    """A check that the endpoint is the version that the caller has read."""
    if if_match is None:
        return None
    return lambda known: check_match(
        if_match, _etag(EndpointAnswer.of(known)), "endpoint", known.name
    )


def _etag(endpoint: EndpointAnswer) -> str:
    settings = [getattr(endpoint, name) for name in EndpointSettings.__struct_fields__]
    return etag_of(endpoint.id, settings, endpoint.disabled_at is not None)


@routes.post(
    "/v1/endpoints",
    "Create an endpoint",
    needs=Permission.MANAGE,
    status=201,
    body=NewEndpoint,
    problems=(409, 429),
)
async def create_endpoint(
    data: Annotated[dict[str, Any], Body(examples=_CREATE)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[EndpointAnswer]:
    """Creates an endpoint. Its signing secret is in this answer only; a repeat with the same
    Idempotency-Key does not have it."""
    fields: dict[str, Any] = {**data}
    name: Any = fields.pop("name", None)

    async def make(_: UUID) -> EndpointAnswer:
        return await endpoints.create_endpoint(context, name, fields)

    return await once(
        make,
        context=context,
        caller=caller,
        request=request,
        key=idempotency_key,
        kept=lambda answer: structs.replace(answer, secret=None),
    )


@routes.get("/v1/endpoints", "List endpoints", needs=Permission.READ)
async def list_endpoints(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[EndpointAnswer]:
    """Returns the endpoints by name."""
    after: str | None = read_cursor(cursor, str)
    found = await endpoints.list_endpoints(context, limit=limit + 1, after=after)
    return page_of(found, limit, lambda endpoint: endpoint.name)


@routes.get(_URL, "Get an endpoint", needs=Permission.READ)
async def get_endpoint(
    endpoint: EndpointName, context: NamedDependency[Context]
) -> Response[EndpointAnswer]:
    """Returns one endpoint with its settings and health."""
    return _shown(await endpoints.get_endpoint(context, endpoint))


@routes.patch(
    _URL, "Change an endpoint", needs=Permission.MANAGE, body=EndpointFields, problems=(409, 412)
)
async def update_endpoint(
    endpoint: EndpointName,
    data: Annotated[dict[str, Any], Body(examples=_CHANGE)],
    context: NamedDependency[Context],
    if_match: IfMatch = None,
) -> Response[EndpointAnswer]:
    """Changes the given fields. What waits is delivered with the new ones."""
    fields: Mapping[str, object] = data
    changed = await endpoints.update_endpoint(context, endpoint, fields, check=_matching(if_match))
    return _shown(changed)


@routes.delete(_URL, "Delete an endpoint", needs=Permission.MANAGE, problems=(412,))
async def delete_endpoint(
    endpoint: EndpointName, context: NamedDependency[Context], if_match: IfMatch = None
) -> DeletedEndpoint:
    """Deletes an endpoint, its secrets and what waits for it."""
    check = _matching(if_match)
    waiting = await endpoints.delete_endpoint(context, endpoint, check=check)
    return DeletedEndpoint(waiting)


@routes.post(f"{_URL}/rotate", "Rotate the signing secret", needs=Permission.MANAGE)
async def rotate_endpoint(endpoint: EndpointName, context: NamedDependency[Context]) -> Secret:
    """Replaces the signing secret. For a day deliveries carry the signatures of both."""
    return Secret(await endpoints.rotate_secret(context, endpoint))


@routes.post(f"{_URL}/enable", "Enable an endpoint", needs=Permission.MANAGE)
async def enable_endpoint(
    endpoint: EndpointName, context: NamedDependency[Context]
) -> Response[EndpointAnswer]:
    """Goes on with deliveries, oldest first."""
    return _shown(await endpoints.enable_endpoint(context, endpoint))


@routes.post(f"{_URL}/disable", "Disable an endpoint", needs=Permission.MANAGE, body=DisableRequest)
async def disable_endpoint(
    endpoint: EndpointName,
    data: Annotated[dict[str, Any], Body()],
    context: NamedDependency[Context],
) -> Response[EndpointAnswer]:
    """Stops deliveries. What waits, and what is published meanwhile, is kept."""
    finished(body_reader(data, "reason"))
    reason: Any = data.get("reason", "disabled by hand")
    return _shown(await endpoints.disable_endpoint(context, endpoint, reason))


@routes.post(f"{_URL}/test", "Test an endpoint", needs=Permission.MANAGE)
async def test_endpoint(endpoint: EndpointName, context: NamedDependency[Context]) -> Attempt:
    """Sends an event of type endpoint.test at once and returns the attempt. Nothing is stored."""
    return await endpoints.test_endpoint(context, endpoint)


@routes.post(
    f"{_URL}/recover",
    "Send again what did not arrive",
    needs=Permission.MANAGE,
    body=RecoverRequest,
)
async def recover_endpoint(
    endpoint: EndpointName,
    data: Annotated[dict[str, Any], Body(examples=_RECOVER)],
    context: NamedDependency[Context],
) -> Recovered:
    """Sends everything again that was published in a span and did not arrive, oldest first."""
    reader = body_reader(data, "since", "until", "rate_per_second")
    since = reader.instant("since")
    until = reader.instant("until") if reader.has("until") else None
    rate: float | None = RECOVER_RATE_PER_SECOND
    if reader.has("rate_per_second"):
        kind = "a number of deliveries a second"
        rate = reader.number_between("rate_per_second", RATE_MIN, RATE_MAX, kind)
    finished(reader)
    stored = await endpoints.find_endpoint(context, endpoint)
    number = await events.recover_deliveries(
        context, stored.id, since=since, until=until, rate_per_second=rate or 0.0
    )
    return Recovered(number)


@routes.get(f"{_URL}/stats", "Numbers of an endpoint", needs=Permission.READ)
async def endpoint_stats(
    endpoint: EndpointName, context: NamedDependency[Context], since: FromQuery[str | None] = None
) -> EndpointStats:
    """Returns deliveries and attempts since a time, by default of the last 7 days."""
    start = read_instant("since", since)
    return await endpoints.endpoint_stats(context, endpoint, since=start)


def _shown(endpoint: EndpointAnswer) -> Response[EndpointAnswer]:
    return with_etag(endpoint, _etag(endpoint))
