"""Assembles the ASGI application: routes, error handlers, documentation and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

from litestar import Litestar, Request, Router
from litestar.datastructures import Headers, State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, Tag
from litestar.types import ASGIApp, ControllerRouterHandler, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry

from tickwork import __version__, clock, spans
from tickwork.api.access import (
    OPEN,
    SECURITY,
    SECURITY_SCHEME,
    caller_of_request,
    check_declarations,
    guard,
)
from tickwork.api.bodies import refuse_body
from tickwork.api.compress import compress_answers
from tickwork.api.jwt import JwtChecker
from tickwork.api.problems import handlers
from tickwork.api.query import keep_slashes, refuse_unknown_parameters
from tickwork.api.rates import RequestGate
from tickwork.api.response_headers import add_headers
from tickwork.api.routes import (
    batches,
    calendars,
    cluster,
    dead_letters,
    endpoints,
    entities,
    events,
    history,
    limits,
    messages,
    operations,
    performance,
    pull,
    queues,
    schedule_runs,
    schedules,
    stream,
    subscriptions,
    tenants,
    why,
    workflows,
)
from tickwork.api.routes.console import console_asset, console_page
from tickwork.api.routes.docs import DocsPage, documentation, openapi_json, serve_docs
from tickwork.api.routes.firings import firing_routes
from tickwork.api.routes.health import healthz, metrics, readyz
from tickwork.api.routes.preview import preview
from tickwork.api.routes.session import SESSION_ROUTES
from tickwork.api.schemas import IdSchema
from tickwork.api.server_state import AppTypes, ServerState, context_of_request
from tickwork.core import when
from tickwork.core.answers.ids import Id
from tickwork.core.http.client_address import TrustedProxies
from tickwork.core.jwt_issuer import Issuer
from tickwork.core.problem import BODY_BYTES_MAX
from tickwork.core.request_rate import RequestRates
from tickwork.core.types.declared import UnknownTypes
from tickwork.ops.authenticate import Authenticator
from tickwork.ops.outside import NO_OUTSIDE, Outside
from tickwork.ops.stores import Store

_TAGS = [
    Tag("schedules", "Schedules and their next fires."),
    Tag("queues", "Queues, their settings and numbers."),
    Tag("messages", "Send messages; pull, ack and extend them."),
    Tag("history", "Messages that have ended."),
    Tag("access", "Tenants and API keys, for the operator."),
    Tag("subscriptions", "Queues that get copies of messages and events by type."),
    Tag("dead letters", "Messages that are not retried: look, edit, replay, discard."),
    Tag("operations", "Work on many things, in batches that nodes carry on."),
    Tag("batches", "Messages that are counted together."),
    Tag("events", "Publish events to queues and endpoints."),
    Tag("endpoints", "Addresses that receive events."),
    Tag("deliveries", "What became of events, endpoint by endpoint."),
    Tag("workflows", "Durable workflows: their runs, steps and events."),
    Tag("calendars", "Days off of schedules."),
    Tag("entities", "Keyed objects: call their methods, look inside, change."),
    Tag("operating", "The state of the cluster and its queues."),
    Tag("health", "Health checks and metrics of the process."),
]


_NOUNS = (
    cluster, schedules, schedule_runs, queues, messages, history, performance, pull, tenants,
    subscriptions, limits, dead_letters, operations, batches, events, endpoints, calendars, stream,
    workflows, entities, why,
)  # fmt: skip

_ROUTES: list[ControllerRouterHandler] = [
    console_page,
    console_asset,
    *SESSION_ROUTES,
    openapi_json,
    healthz,
    readyz,
    metrics,
    preview,
    firing_routes(),
    *(route for noun in _NOUNS for route in noun.routes),
]


def create_api(
    *,
    now: Callable[[], datetime],
    limits: when.Limits,
    open_store: Callable[[], Awaitable[Store]] | None = None,
    beside: Callable[[Store], AbstractAsyncContextManager[None]] | None = None,
    registry: CollectorRegistry | None = None,
    shown: CollectorRegistry | None = None,
    is_on_loopback: bool = False,
    trusted_proxies: Sequence[str] = (),
    issuers: Sequence[Issuer] = (),
    monotonic: Callable[[], float] = clock.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    outside: Outside = NO_OUTSIDE,
    rates: RequestRates | None = None,
    types: AppTypes | None = None,
    unknown_types: UnknownTypes = UnknownTypes.REFUSE,
) -> Litestar:
    """Returns the ASGI application.

    `now` returns the current time; `limits` are the installation's limits for schedules. The store
    is opened on startup and closed on shutdown; without `open_store`, routes that need a store
    answer 503. `beside` runs next to the application while it serves. /metrics serves `registry`,
    or `shown` instead, without a key if the server `is_on_loopback`. `trusted_proxies` may name
    their clients. It accepts JWTs of the `issuers`. Cached keys age by `monotonic`; answers to
    wrong keys wait in `sleep`. `outside` is what reaches the outside, for webhooks and endpoints.
    `rates` are the requests a second that callers may make, `types` those of the app that runs in
    this process, and `unknown_types` what becomes of a message whose type nobody handles.
    """
    check_jwt = JwtChecker(issuers, monotonic).caller if issuers else None
    metrics_registry = registry or CollectorRegistry()
    server = ServerState(
        now=now,
        limits=limits,
        registry=shown or metrics_registry,
        gate=RequestGate(rates or RequestRates(), monotonic, metrics_registry, sleep),
        is_on_loopback=is_on_loopback,
        trusted_proxies=TrustedProxies(trusted_proxies),
        outside=outside,
        types=types,
        unknown_types=unknown_types,
    )

    @asynccontextmanager
    async def with_store(_: Litestar) -> AsyncIterator[None]:
        server.is_stopping = False
        if server.gate is not None:
            server.gate.clear()
        async with AsyncExitStack() as opened:
            if open_store is not None:
                store = server.opened = await open_store()
                opened.push_async_callback(store.close)
                server.authenticator = Authenticator(store, monotonic, check_jwt)
                opened.push_async_callback(server.authenticator.close)
                if beside is not None:
                    await opened.enter_async_context(beside(store))
            yield

    api = _application(server, with_store)
    api.state.documentation = documentation(api)
    check_declarations(api)
    api.asgi_handler = compress_answers(keep_slashes(api.asgi_handler))
    return api


def _application(
    server: ServerState, lifespan: Callable[[Litestar], AbstractAsyncContextManager[None]]
) -> Litestar:
    return Litestar(
        lifespan=[lifespan],
        route_handlers=_ROUTES,
        dependencies={
            "server": Provide(lambda: server, sync_to_thread=False),
            "caller": Provide(caller_of_request, sync_to_thread=False),
            "context": Provide(context_of_request, sync_to_thread=False),
        },
        guards=[guard],
        state=State({"server": server}),
        before_request=_refuse_unknown,
        before_send=[add_headers],
        middleware=[_trace_requests] if spans.is_on() else [],
        exception_handlers=handlers(),
        type_encoders={Id: str},
        plugins=[IdSchema()],
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=_documentation(),
        logging_config=None,
    )


async def _refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Refuses parameters and fields that the route does not have."""
    await refuse_unknown_parameters(request)
    await refuse_body(request)


def _documentation() -> OpenAPIConfig:
    # Litestar would render a page for each request, and one of its own for unknown paths.
    router = Router(
        "/docs",
        route_handlers=[],
        include_in_schema=False,
        opt={"permission": OPEN},
        before_request=serve_docs,
    )
    return OpenAPIConfig(
        title="Tickwork",
        version=__version__,
        description="Schedules and durable queues. Errors are `application/problem+json`.",
        path="/docs",
        openapi_router=router,
        render_plugins=[DocsPage()],
        tags=_TAGS,
        components=Components(security_schemes={SECURITY_SCHEME: SECURITY}),
        use_handler_docstrings=True,
    )


def _trace_requests(app: ASGIApp) -> ASGIApp:
    """A middleware that runs each request in a span below the caller's, which the header
    `traceparent` names."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        method, path = str(scope.get("method", "")), str(scope.get("path_template", ""))
        attributes = {"http.request.method": method, "http.route": path}
        parent = Headers.from_scope(scope).get(spans.TRACEPARENT)
        with spans.span(f"{method} {path}", "server", attributes, parent=parent) as span:

            async def note_status(message: Message) -> None:
                if span is not None and message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await app(scope, receive, note_status)

    return handle
