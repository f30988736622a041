"""From configuration to running parts: the only module that knows all of them."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tickwork import clock
from tickwork import tzdata_version as zone_data
from tickwork.core import when
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.topology import Topology, parse
from tickwork.errors import MissingExtra
from tickwork.settings import RUN_ROLES, SETTINGS_FILE, Role, Settings, is_postgres, load_settings
from tickwork.store.ids import Moment, database_time

if TYPE_CHECKING:
    from litestar import Litestar
    from prometheus_client import CollectorRegistry

    from tickwork.app.declarations import Registry
    from tickwork.app.message import Composer
    from tickwork.service.loop import ReportError
    from tickwork.service.node import Node
    from tickwork.service.observe.schedule_metrics import ScheduleCounters
    from tickwork.service.observe.watchdog import WatchedWorker
    from tickwork.service.scheduler.scheduler import Scheduler
    from tickwork.store.contract import Store
    from tickwork.store.shared.doctor import Finding
    from tickwork.store.shared.sql_files import Migration

__all__ = [
    "RUN_ROLES",
    "Role",
    "Settings",
    "build_api",
    "build_worker",
    "database_identity",
    "examine",
    "hosted",
    "load_settings",
    "migrate",
    "open_store",
    "postgres_extra",
    "server_extra",
]

_SERVER_PACKAGES = frozenset({"litestar", "uvicorn"})
_POSTGRES_PACKAGES = frozenset({"asyncpg"})


@contextmanager
def server_extra(feature: str) -> Iterator[None]:
    """Wraps imports of the HTTP server. `MissingExtra` if it is not installed."""
    with _extra("server", _SERVER_PACKAGES, feature, "HTTP server"):
        yield


@contextmanager
def postgres_extra() -> Iterator[None]:
    """Wraps imports of the PostgreSQL driver. `MissingExtra` if it is not installed."""
    with _extra("postgres", _POSTGRES_PACKAGES, "postgresql://", "driver"):
        yield


@contextmanager
def _extra(extra: str, packages: frozenset[str], feature: str, dependency: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise MissingExtra(feature, dependency, extra) from None


def build_api(settings: Settings, *, registry: CollectorRegistry | None = None) -> Litestar:
    """The HTTP application of these settings; its database is open while it is served. Without a
    registry of others it is alone in its process, and a whole node: what the other roles say is
    done beside it."""
    with server_extra("the HTTP API"):
        from tickwork.api import create_api
    from tickwork.service.observe.metrics import registry_of_process

    numbers = registry or registry_of_process()
    return create_api(
        now=clock.now,
        limits=when.Limits(min_interval_seconds=settings.min_interval_seconds),
        open_store=lambda: open_store(settings),
        registry=numbers,
        beside=partial(_bare_node, settings, numbers) if registry is None else None,
    )


@asynccontextmanager
async def _bare_node(
    settings: Settings, numbers: CollectorRegistry, store: Store
) -> AsyncIterator[None]:
    """A node without an app: it plans schedules if its roles say so, and keeps the store in
    order."""
    from tickwork.app.declarations import Registry
    from tickwork.ops.send import RegistryComposer

    registry = Registry()
    compose, folder = RegistryComposer(registry), Path.cwd()
    own = structs.replace(settings, roles=settings.roles - {Role.WORKER})
    watched = await build_worker(
        store, registry, own, lambda _: SYSTEM, compose, folder=folder, serves=True
    )
    async with watched.running(drain_seconds=0.0, registry=numbers):
        yield


async def open_store(
    settings: Settings,
    *,
    moment: Moment = database_time,
    create: bool = True,
    is_temporary: bool = False,
) -> Store:
    """The store of these settings. SQLite's schema is brought up to date by the way; a server's
    is not, because other nodes may still run on the old one. `moment` may be a virtual clock's.
    Without `create` a file that is not there is refused; one that `is_temporary` is not synced."""
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
    """Which database these settings are for: equal for all spellings of its URL."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres.engine.identity import identity_of as place_of_postgres

        try:
            return place_of_postgres(settings.database, environ)
        except ValueError:  # Whoever opens it says what is wrong.
            return settings.database
    from tickwork.store.sqlite.engine.file import locate

    return locate(settings.database).resolve()


async def build_worker(
    store: Store,
    registry: Registry,
    settings: Settings,
    scope_of: Callable[[str], Scope],
    compose: Composer,
    *,
    folder: Path,
    serves: bool,
) -> WatchedWorker:
    """The consumers of an app, on its store, and a scheduler beside them: of these what the roles
    say, with one node for both. What the topology in the folder says about consumers counts, and
    one that is wrong is refused. With neither role only the store is kept in order. `serves` says
    whether this process serves the API, too: then its node says so."""
    from tickwork.service.isolation import Isolator
    from tickwork.service.node import Node
    from tickwork.service.observe import ClockOffset, Reports
    from tickwork.service.observe.log_events import EventLog
    from tickwork.service.observe.metrics import WorkerMetrics
    from tickwork.service.observe.schedule_metrics import ScheduleCounters, ScheduleMetrics
    from tickwork.service.observe.watchdog import Watchdog, WatchedWorker, running_invocations_of
    from tickwork.service.worker.claim import Claimer, WorkerContext
    from tickwork.service.worker.worker import open_worker

    roles = sorted(settings.roles if serves else settings.roles & RUN_ROLES)
    node = Node(lambda: open_store(settings), name=socket.gethostname(), roles=roles)
    time = ClockOffset()
    lines = EventLog(time, successes_per_second=settings.log_successes_per_second)
    metrics, numbers = WorkerMetrics(time), ScheduleCounters()
    node.on_lease_lost(lines.lease_lost)
    node.on_lease_lost(metrics.lease_lost)
    node.on_error(lines.trouble)
    context = WorkerContext(
        store=store,
        claims=Claimer(store),
        holder=lambda: node.id,
        compose=compose,
        isolator=Isolator(registry.handlers),
        observer=Reports(lines, metrics, time, numbers),
        trusted_until=lambda: node.trusted_until,
    )
    said = {each.queue: each.max_concurrency for each in _read_topology(folder).consumers}
    consumers = [
        structs.replace(each, operator_concurrency=said.get(each.queue.name))
        for each in registry.consumers()
        if Role.WORKER in settings.roles
    ]
    if Role.WORKER in settings.roles and not consumers:
        told = "this app has no handlers, and handles nothing; declare one with @app.on(…)"
        logging.getLogger("tickwork").warning(told)
    is_leading = Role.SCHEDULER in settings.roles
    scheduler = _scheduler(store, node, numbers, context.observer.trouble) if is_leading else None
    worker = await open_worker(context, node, consumers, scope_of, scheduler)
    limit_seconds = float(settings.loop_blocked_seconds)
    watchdog = Watchdog(running_invocations_of(worker.consumers), limit_seconds=limit_seconds)
    metrics.watch(worker.consumers, context.isolator, watchdog)
    collectors = (metrics, ScheduleMetrics(numbers, is_leading=is_leading))
    return WatchedWorker(worker, collectors, watchdog)


def _scheduler(store: Store, node: Node, numbers: ScheduleCounters, tell: ReportError) -> Scheduler:
    from tickwork.service.scheduler.leadership import Leadership
    from tickwork.service.scheduler.scheduler import Scheduler

    leadership = Leadership(
        store,
        lambda: node.id,
        is_trusted=lambda: clock.monotonic() < node.trusted_until,
        term=lambda: node.term,
        zones=zone_data.version(),
    )
    return Scheduler(store, leadership, numbers, tell=tell)


@asynccontextmanager
async def hosted(
    settings: Settings, work: Callable[..., AbstractAsyncContextManager[Any]]
) -> AsyncIterator[None]:
    """Work in a process that is ours: its lines look as the settings say, and its numbers, which
    are in the `registry` that it is given, are served if they say where."""
    from tickwork.service.observe.log_format import configure_logging
    from tickwork.service.observe.metrics import registry_of_process, serving

    if Role.API in settings.roles:
        with server_extra("the role api"):  # Before any handler runs.
            import tickwork.api.serve  # noqa: F401
    configure_logging(settings.log_format, settings.log_level)
    registry = registry_of_process()
    with ExitStack() as served:
        if settings.metrics_port is not None:
            host, port = settings.metrics_host, settings.metrics_port
            served.enter_context(serving(registry, host=host, port=port))
        async with work(registry=registry), _served(settings, registry):
            yield


@asynccontextmanager
async def _served(settings: Settings, registry: CollectorRegistry) -> AsyncIterator[None]:
    """The API in this process, if that is one of its roles."""
    if Role.API not in settings.roles:
        yield
        return
    from tickwork.api.serve import serving

    api = build_api(settings, registry=registry)
    async with serving(api, host=settings.host, port=settings.port) as address:
        logging.getLogger("tickwork").info("the API is up at %s", address)
        yield


async def migrate(settings: Settings) -> tuple[Migration, ...]:
    """Brings the schema up to date, and says what was applied."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres.engine.migrate import migrate as migrate_postgres

        return await migrate_postgres(settings.database_direct or settings.database)
    from tickwork.store.sqlite.engine.migrate import migrate as migrate_sqlite

    return await migrate_sqlite(settings.database)


async def examine(settings: Settings) -> tuple[Finding, ...]:
    """What the database's set-up gives."""
    if is_postgres(settings.database):
        with postgres_extra():
            from tickwork.store.postgres.engine.doctor import examine as examine_postgres

        return await examine_postgres(settings.database)
    from tickwork.store.sqlite.engine.doctor import examine as examine_sqlite

    return await examine_sqlite(settings.database)


def _read_topology(folder: Path) -> Topology:
    """What the file says beside the settings, which were read from it before; or nothing."""
    try:
        return parse((folder / SETTINGS_FILE).read_text(encoding="utf-8"), file=SETTINGS_FILE)
    except FileNotFoundError:
        return Topology()
