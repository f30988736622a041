"""Builds running parts from settings; with `deliveries`, the only module that knows all of them.

`assemble` puts a node, a worker and a scheduler together. `build_worker` calls it for a real
process with its settings, logs and metrics; the test harness calls it with a virtual clock.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
)
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from tickwork import clock, tzdata_version
from tickwork.core import when
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.topology import Topology, parse
from tickwork.deliveries import guard, secret_box, webhook_channel, webhook_deliveries
from tickwork.extras import delivery_extra, postgres_extra, server_extra
from tickwork.ops.schedules.outside import OutsideRules
from tickwork.settings import RUN_ROLES, SETTINGS_FILE, Role, Settings, is_postgres, load_settings
from tickwork.store.ids import Moment, database_time
from tickwork.store.shared.database_url import without_password

if TYPE_CHECKING:
    from litestar import Litestar
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from tickwork.app.declarations import Consumer, Registry
    from tickwork.app.message import Composer
    from tickwork.channel.channels import Channels
    from tickwork.service.isolation import Isolator
    from tickwork.service.node import Node, OpenStore
    from tickwork.service.observe import ClockOffset, Observer
    from tickwork.service.observe.watchdog import Watchdog
    from tickwork.service.scheduler.scheduler import Scheduler
    from tickwork.service.worker.found_consumers import FindConsumers
    from tickwork.service.worker.worker import Worker
    from tickwork.store.contract import Store
    from tickwork.store.shared.doctor import Finding
    from tickwork.store.shared.sql_files import Migration

__all__ = [
    "RUN_ROLES",
    "Role",
    "Settings",
    "assemble",
    "build_api",
    "build_worker",
    "database_identity",
    "delivery_extra",
    "examine",
    "guard",
    "hosted",
    "load_settings",
    "migrate",
    "open_store",
    "postgres_extra",
    "secret_box",
    "server_extra",
    "shown_database",
    "webhook_channel",
]

_HOST_LENGTH_MAX = 100
"""Characters of the host in the name of a node."""


def build_api(settings: Settings, *, registry: CollectorRegistry | None = None) -> Litestar:
    """The HTTP application of these settings. Its database is open while it is served. Without a
    `registry` it is alone in its process, so it also runs a node with the other roles."""
    with server_extra("the HTTP API"):
        from tickwork.api import create_api
        from tickwork.api.access import is_loopback
        from tickwork.api.context import Outside
    from tickwork.service.observe.metrics import registry_of_process

    metrics = registry or registry_of_process()
    rules = OutsideRules(lambda url: guard(settings).check_url(url), lambda: settings.public_url)
    sink = partial(webhook_channel, settings)
    return create_api(
        now=clock.now,
        limits=when.Limits(min_interval_seconds=settings.min_interval_seconds),
        open_store=lambda: open_store(settings),
        registry=metrics,
        issuers=settings.jwt,
        is_on_loopback=is_loopback(settings.host),
        beside=partial(_run_node, settings, metrics) if registry is None else None,
        outside=Outside(rules, partial(secret_box, settings), sink),
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


async def open_store(
    settings: Settings,
    *,
    moment: Moment = database_time,
    create: bool = True,
    is_temporary: bool = False,
) -> Store:
    """Opens the store of these settings. Migrates a SQLite file, but not a server, because other
    nodes may still use the old schema. `moment` may be a virtual clock. Without `create`, a missing
    file is refused. With `is_temporary`, commits are not synced to disk."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres import PostgresStore

        return await PostgresStore.open(
            settings.database, moment=moment, direct_url=settings.database_direct
        )
    from tickwork.store.sqlite import SqliteStore
    from tickwork.store.sqlite.engine.file import locate

    if create or locate(settings.database).exists():
        await migrate(settings)
    return await SqliteStore.open(settings.database, moment=moment, is_temporary=is_temporary)


def database_identity(settings: Settings, *, environ: Mapping[str, str]) -> object:
    """Identifies the database of these settings: equal for all spellings of its URL."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres.engine.identity import identity_of as place_of_postgres

        try:
            return place_of_postgres(settings.database, environ)
        except ValueError:  # Opening it reports the error.
            return settings.database
    from tickwork.store.sqlite.engine.file import locate

    return locate(settings.database).resolve()


class Assembly(NamedTuple):
    """A worker, its node, and the isolator that runs its handlers; none of them is started."""

    worker: Worker
    node: Node
    isolator: Isolator


async def assemble(
    store: Store,
    registry: Registry,
    observer: Observer,
    *,
    compose: Composer,
    scope_of: Callable[[str], Scope],
    consumers: Iterable[Consumer],
    roles: Collection[str],
    open_node_store: OpenStore,
    node_name: str,
    clock_offset: ClockOffset | None = None,
    virtual_clock: Callable[[], float] | None = None,
    declare_again: Callable[[], Awaitable[None]] | None = None,
    find: FindConsumers | None = None,
) -> Assembly:
    """Puts a node, the consumers and, with the role `scheduler`, a scheduler together.

    With `virtual_clock` (monotonic seconds) all times come from it, and the caller keeps the node's
    lease: it is always trusted. The store must use the same virtual clock.
    """
    from tickwork.service.isolation import Isolator
    from tickwork.service.node import Node
    from tickwork.service.observe import ClockOffset
    from tickwork.service.worker.claim import Claimer, WorkerContext
    from tickwork.service.worker.worker import open_worker

    is_virtual = virtual_clock is not None
    node = Node(open_node_store, name=node_name, roles=sorted(roles), observer=observer)
    if is_virtual:
        node.trusted_until = inf
    isolator = Isolator(registry.handlers)
    context = WorkerContext(
        store=store,
        claimer=Claimer(store),
        holder=lambda: node.id,
        compose=compose,
        isolator=isolator,
        observer=observer,
        clock_offset=clock_offset or ClockOffset(),
        is_virtual=is_virtual,
        monotonic=virtual_clock or clock.monotonic,
        trusted_until=lambda: node.trusted_until,
    )
    if declare_again is not None:
        context = context._replace(declare_again=declare_again)
    scheduler = None
    if Role.SCHEDULER in roles:
        scheduler = _scheduler(store, node, observer, virtual_clock)
    worker = await open_worker(context, node, consumers, scope_of, scheduler, find)
    return Assembly(worker, node, isolator)


def _scheduler(
    store: Store, node: Node, observer: Observer, virtual_clock: Callable[[], float] | None
) -> Scheduler:
    from tickwork.service.scheduler.leadership import Leadership
    from tickwork.service.scheduler.scheduler import Scheduler

    monotonic = virtual_clock or clock.monotonic
    leadership = Leadership(
        store,
        lambda: node.id,
        is_trusted=lambda: monotonic() < node.trusted_until,
        term=lambda: node.term,
        # A virtual clock starts with an empty store, which has no times of other tzdata.
        tzdata=None if virtual_clock else tzdata_version.version(),
    )
    return Scheduler(store, leadership, observer, monotonic=virtual_clock or clock.since_boot)


class ObservedWorker(NamedTuple):
    """A worker that is not started, with its metrics and watchdog."""

    worker: Worker
    collectors: Sequence[Collector]
    watchdog: Watchdog
    channels: Channels | None = None

    @asynccontextmanager
    async def running(
        self, *, drain_seconds: float, registry: CollectorRegistry | None
    ) -> AsyncIterator[Worker]:
        """Runs the worker inside the context, with its metrics in the registry. Raises
        `HeartbeatEnded` if the heartbeat thread ends."""
        with ExitStack() as observing:
            if registry is not None:
                for each in self.collectors:
                    registry.register(each)
                    observing.callback(registry.unregister, each)
            observing.enter_context(self.watchdog)
            await self.worker.start()
            try:
                async with self.worker.guarded():
                    yield self.worker
            finally:
                await self.worker.stop(drain_seconds)
                if self.channels is not None:
                    await self.channels.close()


async def build_worker(
    store: Store,
    registry: Registry,
    settings: Settings,
    scope_of: Callable[[str], Scope],
    compose: Composer,
    *,
    folder: Path,
    serves: bool,
    declare_again: Callable[[], Awaitable[None]] | None = None,
) -> ObservedWorker:
    """The worker of an app on its store, with the roles of the settings: consumers, a scheduler,
    both on one node, or with neither role only the maintenance of the store. The topology file in
    the folder sets the concurrency of consumers; an invalid file is refused. `serves`: this process
    also serves the API, so its node has that role too. `declare_again` is called when a declared
    queue is gone."""
    from tickwork.ops.alerts import ensure_alerts
    from tickwork.ops.endpoints import ensure_endpoints
    from tickwork.ops.schedules.outside import ensure_deliveries
    from tickwork.service.observe import ClockOffset, Observers
    from tickwork.service.observe.log_events import EventLog
    from tickwork.service.observe.metrics import WorkerMetrics
    from tickwork.service.observe.schedule_metrics import ScheduleMetrics
    from tickwork.service.observe.watchdog import Watchdog, running_invocations_of

    clock_offset = ClockOffset()
    log = EventLog(clock_offset, successes_per_second=settings.log_successes_per_second)
    metrics = WorkerMetrics(clock_offset)
    schedule_metrics = ScheduleMetrics(is_leading=Role.SCHEDULER in settings.roles)
    observer = Observers(metrics, schedule_metrics, log)
    consumers = _consumers(registry, folder)
    channels, find = None, None
    if Role.WORKER not in settings.roles:
        consumers = []
    elif (deliveries := webhook_deliveries(store, settings)) is not None:
        channels, built_in, find = deliveries
        await ensure_deliveries(store)
        await ensure_endpoints(store)
        await ensure_alerts(store)
        consumers += built_in
    is_idle = not registry.handlers and (bool(registry.queues) or channels is None)
    if Role.WORKER in settings.roles and is_idle and serves is False:
        text = "this app has no handlers, and handles nothing; declare one with @app.on(…)"
        logging.getLogger("tickwork").warning(text)
    worker, _, isolator = await assemble(
        store,
        registry,
        observer,
        compose=compose,
        scope_of=scope_of,
        consumers=consumers,
        roles=settings.roles if serves else settings.roles & RUN_ROLES,
        open_node_store=lambda: open_store(settings),
        node_name=f"{socket.gethostname()[:_HOST_LENGTH_MAX]}:{os.getpid()}",
        clock_offset=clock_offset,
        declare_again=declare_again,
        find=find,
    )
    limit_seconds = float(settings.loop_blocked_seconds)
    running = running_invocations_of(worker.consumers)
    watchdog = Watchdog(running, observer, limit_seconds=limit_seconds)
    metrics.watch(worker.consumers, isolator, watchdog)
    return ObservedWorker(worker, (metrics, schedule_metrics), watchdog, channels)


def _consumers(registry: Registry, folder: Path) -> list[Consumer]:
    """The consumers of an app, with the concurrency that the topology file sets for them."""
    topology = _read_topology(folder)
    concurrency = {each.queue: each.max_concurrency for each in topology.consumers}
    return [
        structs.replace(each, operator_concurrency=concurrency.get(each.queue.name))
        for each in registry.consumers()
    ]


@asynccontextmanager
async def hosted(
    settings: Settings, work: Callable[..., AbstractAsyncContextManager[Worker]]
) -> AsyncIterator[Worker]:
    """Runs a worker in a process of ours: configures logging as the settings say, passes a metrics
    `registry` to `work`, and serves it if `metrics_port` is set."""
    from tickwork.service.observe.log_set_up import LogSetUp
    from tickwork.service.observe.metrics import registry_of_process, serve_metrics

    if Role.API in settings.roles:
        with server_extra("the role api"):  # Before any handler runs.
            import tickwork.api.serve  # noqa: F401
    LogSetUp(settings.log_format, settings.log_level).apply()
    registry = registry_of_process()
    with ExitStack() as served:
        if settings.metrics_port is not None:
            host, port = settings.metrics_host, settings.metrics_port
            served.enter_context(serve_metrics(registry, host=host, port=port))
        async with work(registry=registry) as worker, _served(settings, registry):
            yield worker


@asynccontextmanager
async def _served(settings: Settings, registry: CollectorRegistry) -> AsyncIterator[None]:
    """Serves the API in this process, if it has that role."""
    if Role.API not in settings.roles:
        yield
        return
    from tickwork.api.serve import serving

    api = build_api(settings, registry=registry)
    async with serving(api, host=settings.host, port=settings.port) as address:
        logging.getLogger("tickwork").info("the API is up at %s", address)
        yield


def shown_database(settings: Settings) -> str:
    """The database of these settings for people: a URL without a password; of a file with its
    absolute path."""
    if is_postgres(settings.database):
        return without_password(settings.database)
    from tickwork.store.sqlite.engine.file import locate

    return f"sqlite:///{locate(settings.database).absolute()}"


async def migrate(settings: Settings) -> tuple[Migration, ...]:
    """Migrates the schema; returns the migrations that were applied."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres.engine.migrate import migrate as migrate_postgres

        return await migrate_postgres(settings.database_direct or settings.database)
    from tickwork.store.sqlite.engine.migrate import migrate as migrate_sqlite

    return await migrate_sqlite(settings.database)


async def examine(settings: Settings) -> tuple[Finding, ...]:
    """Checks the database's configuration."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres.engine.doctor import examine as examine_postgres

        return await examine_postgres(settings.database)
    from tickwork.store.sqlite.engine.doctor import examine as examine_sqlite

    return await examine_sqlite(settings.database)


def _read_topology(folder: Path) -> Topology:
    """The topology in the settings file; empty without a file."""
    try:
        return parse((folder / SETTINGS_FILE).read_text(encoding="utf-8"), file=SETTINGS_FILE)
    except FileNotFoundError:
        return Topology()
