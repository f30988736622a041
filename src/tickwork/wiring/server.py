"""Serves HTTP in a process: the API with what runs beside it, or an app with its other roles."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tickwork import clock
from tickwork.app.payloads import PayloadOf
from tickwork.core.http.client_address import is_loopback
from tickwork.core.model import SYSTEM
from tickwork.core.request_rate import RequestRates
from tickwork.errors import FieldError, InvalidInput, StoreUnavailable
from tickwork.extras import has_delivery_extra, server_extra
from tickwork.service.not_ready import answer_not_ready
from tickwork.service.process_lifecycle import listen
from tickwork.settings import Role, Settings
from tickwork.wiring.backend import backend_of
from tickwork.wiring.database import open_store
from tickwork.wiring.deliveries import guard, outside_of
from tickwork.wiring.worker import build_worker, start_tracing

if TYPE_CHECKING:
    from litestar import Litestar
    from prometheus_client import CollectorRegistry

    from tickwork.api.connections import ConnectionLimits
    from tickwork.ops.stores import Store
    from tickwork.service.http_application import HttpApplication
    from tickwork.service.processes.child import ParentLink
    from tickwork.service.worker.worker import Worker

_log = logging.getLogger("tickwork")

_ANY = ("0.0.0.0", "::")  # noqa: S104 (what is warned of)


def build_api(
    settings: Settings,
    *,
    registry: CollectorRegistry | None = None,
    shown: CollectorRegistry | None = None,
    types: tuple[str, PayloadOf] | None = None,
) -> Litestar:
    """The HTTP application of these settings. Its database is open while it is served. Without a
    `registry` it is alone in its process, so it also runs a node with the other roles. /metrics
    serves `shown` instead of it, if given. `types` are the tenant and the payload types of the app
    in this process."""
    with server_extra("the HTTP API"):
        from tickwork.api import create_api
        from tickwork.api.server_state import AppTypes
    from tickwork.service.observe.metrics import registry_of_process

    start_tracing(settings)
    metrics = registry or registry_of_process()
    if has_delivery_extra():
        guard(settings)  # Imports what it needs now, and not while others wait for an answer.
    return create_api(
        now=clock.now,
        limits=settings.schedule_limits,
        open_store=lambda: open_store(settings),
        registry=metrics,
        shown=shown,
        issuers=settings.jwt,
        is_on_loopback=is_loopback(settings.host),
        trusted_proxies=settings.trusted_proxies,
        beside=partial(_run_node, settings, metrics) if registry is None else None,
        outside=outside_of(settings),
        types=None if types is None else AppTypes(*types),
        unknown_types=settings.unknown_types,
        rates=RequestRates(
            key_per_second=settings.key_requests_per_second,
            tenant_per_second=settings.tenant_requests_per_second,
        ),
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits of the connections of a server with these settings."""
    from tickwork.api.connections import ConnectionLimits

    return ConnectionLimits(
        header_seconds=settings.request_header_seconds,
        body_seconds=settings.request_body_seconds,
        keep_alive_seconds=settings.keep_alive_seconds,
        connections_max=settings.connections_max,
    )


def open_to_others(host: str, port: int) -> str | None:
    """What it means that the API listens on an address that others can reach; None if it does
    not."""
    if is_loopback(host):
        return None
    everyone = "every network of this machine" if host in _ANY else f"the network of {host}"
    return (
        f"The API and the console listen on {host}, port {port}: who can reach {everyone} can "
        "reach them. They need a key, except for /docs, /healthz and /readyz. This is plain HTTP: "
        "keys and sessions can be read on the way. Put a proxy with TLS in front, or use --host "
        "127.0.0.1."
    )


@asynccontextmanager
async def _run_node(
    settings: Settings, metrics: CollectorRegistry, store: Store
) -> AsyncIterator[None]:
    """Runs a node without an app: it maintains the store and, with that role, plans schedules."""
    from tickwork.app.declarations import Registry
    from tickwork.ops.send import RegistryComposer

    registry = Registry()
    compose, folder = RegistryComposer(registry), Path.cwd()
    own = settings
    built = await build_worker(
        store, registry, own, lambda _: SYSTEM, compose, folder=folder, serves=True
    )
    async with built.running(drain_seconds=0.0, registry=metrics):
        yield


async def prepare(settings: Settings, parent: ParentLink | None = None) -> None:
    """Configures logging, and waits for a database that is away. The API answers meanwhile that it
    is not ready."""
    from tickwork.service.observe.log_set_up import LogSetUp

    number = None if parent is None else parent.set_up.number
    LogSetUp(settings.log_format, settings.log_level, number).apply()

    def listen_there() -> socket.socket:
        return _inherited(parent, Role.API) or listen(settings.host, settings.port)

    await wait_for_database(settings, listen_there if Role.API in settings.roles else None)


DATABASE_RETRY_SECONDS = 1.0
"""Seconds between two attempts to reach a database that is away."""

DATABASE_LOG_SECONDS = 30.0
"""Seconds between two log lines that a database is away."""


async def wait_for_database(
    settings: Settings, listen_there: Callable[[], socket.socket] | None = None
) -> None:
    """Returns when the database server of these settings answers. Raises `StoreUnavailable` after
    `wait_seconds`. A file is there or not: nobody waits for it.

    With `listen_there`, it meanwhile answers requests at that socket: this process is not ready.
    """
    if not backend_of(settings).can_be_away:
        return
    started_at, logged_at = clock.monotonic(), None
    async with AsyncExitStack() as not_ready:
        while True:
            try:
                store = await open_store(settings)
            except StoreUnavailable as error:
                now = clock.monotonic()
                if settings.wait_seconds is not None and now - started_at >= settings.wait_seconds:
                    raise
                if logged_at is None and listen_there is not None:
                    await not_ready.enter_async_context(answer_not_ready(listen_there()))
                if logged_at is None or now - logged_at >= DATABASE_LOG_SECONDS:
                    _log.warning("the database is away; this process waits for it: %s", error)
                    logged_at = now
                await asyncio.sleep(DATABASE_RETRY_SECONDS)
            else:
                await store.close()
                if logged_at is not None:
                    _log.warning("the database is back; this process starts")
                return


@asynccontextmanager
async def hosted(
    settings: Settings,
    work: Callable[..., AbstractAsyncContextManager[Worker]],
    handlers: HttpApplication,
    on_api: Callable[[str], Awaitable[None]],
    types: tuple[str, PayloadOf] | None = None,
    parent: ParentLink | None = None,
) -> AsyncIterator[Worker]:
    """Runs a worker in a process of ours: passes a metrics
    `registry` to `work`, and serves it if `metrics_port` is set. With the role `http` it serves the
    HTTP `handlers` of the app. With the role `api`, `on_api` gets its URL when it is up. With a
    `parent` it listens where that does, and `/metrics` has those of all its processes."""
    from tickwork.service.observe.metrics import registry_of_process, serve_metrics
    from tickwork.service.processes.metrics import merged_registry

    check_ports(settings)
    for role in settings.roles & {Role.API, Role.HTTP}:
        with server_extra(f"the role {role}"):  # Before any handler runs.
            import tickwork.api.serve  # noqa: F401
    registry = registry_of_process(None if parent is None else parent.registry)
    shown = registry if parent is None else merged_registry(parent.all_metrics)
    with ExitStack() as served:
        if settings.metrics_port is not None and parent is None:
            host, port = settings.metrics_host, settings.metrics_port
            served.enter_context(serve_metrics(registry, host=host, port=port))
        async with (
            work(registry=registry) as worker,
            _served(settings, (registry, shown), on_api, types, _inherited(parent, Role.API)),
            _handlers_served(settings, handlers, _inherited(parent, Role.HTTP)),
        ):
            yield worker


def _inherited(parent: ParentLink | None, role: Role) -> socket.socket | None:
    """Where the parent listens for a role."""
    return None if parent is None else parent.listener(role)


def check_ports(settings: Settings) -> None:
    """Handlers of an app must not have the origin of the console: their pages could act for its
    users."""
    is_same = settings.http_port == settings.port != 0
    if settings.roles >= {Role.API, Role.HTTP} and is_same:
        fault = f"{settings.port} is the port of the API; HTTP handlers need a port of their own"
        raise InvalidInput([FieldError("http_port", fault)])


@asynccontextmanager
async def _handlers_served(
    settings: Settings, handlers: HttpApplication, listener: socket.socket | None
) -> AsyncIterator[None]:
    """Serves the HTTP handlers of the app in this process, if it has that role."""
    if Role.HTTP not in settings.roles:
        yield
        return
    from tickwork.api.serve import serving

    served = serving(
        handlers,
        host=settings.http_host,
        port=settings.http_port,
        limits=connection_limits(settings),
        listener=listener,
    )
    async with handlers.opened(), served as address:
        logging.getLogger("tickwork").info("HTTP handlers are up at %s", address)
        yield


@asynccontextmanager
async def _served(
    settings: Settings,
    registries: tuple[CollectorRegistry, CollectorRegistry],
    on_api: Callable[[str], Awaitable[None]],
    types: tuple[str, PayloadOf] | None,
    listener: socket.socket | None,
) -> AsyncIterator[None]:
    """Serves the API in this process, if it has that role. The first registry gets its metrics, the
    second one is shown."""
    if Role.API not in settings.roles:
        yield
        return
    from tickwork.api.serve import serving
    from tickwork.api.server_state import stop_streams

    registry, shown = registries
    api = build_api(settings, registry=registry, shown=shown, types=types)
    async with serving(
        api,
        host=settings.host,
        port=settings.port,
        limits=connection_limits(settings),
        on_stop=lambda: stop_streams(api),
        listener=listener,
    ) as address:
        logging.getLogger("tickwork").info("the API is up at %s", address)
        if (warning := open_to_others(settings.host, settings.port)) is not None:
            logging.getLogger("tickwork").warning(warning)
        await on_api(address)
        yield
