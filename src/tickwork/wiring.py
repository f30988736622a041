"""From configuration to running parts: the only module that knows all of them.

A setting is a flag, else an environment variable, else an entry in the section `[server]` of
`tickwork.toml` in the current directory, else its default:

```
 [server]                               flag            environment
 host = "127.0.0.1"                     --host          TICKWORK_HOST
 port = 8080                            --port          TICKWORK_PORT
 database = "sqlite:///tickwork.db"     --database      TICKWORK_DATABASE
 database_direct = "postgresql://…"                     TICKWORK_DATABASE_DIRECT
 roles = ["api"]                        --roles         TICKWORK_ROLES
 min_interval_seconds = 60                              TICKWORK_MIN_INTERVAL_SECONDS
 log_format = "json"                    --log-format    TICKWORK_LOG_FORMAT
 log_level = "info"                     --log-level     TICKWORK_LOG_LEVEL
 log_successes_per_second = 10                          TICKWORK_LOG_SUCCESSES_PER_SECOND
 metrics_host = "127.0.0.1"             --metrics-host  TICKWORK_METRICS_HOST
 metrics_port = 9464                    --metrics-port  TICKWORK_METRICS_PORT
 loop_blocked_seconds = 1                               TICKWORK_LOOP_BLOCKED_SECONDS
 drain_seconds = 30                     --drain-seconds TICKWORK_DRAIN_SECONDS
```

What cannot be used is refused by the name under which it was given. The file may hold a topology
as well (`core/topology.py`), which is none of the settings; of it a worker uses how many
invocations its consumers may have at a time.
"""

from __future__ import annotations

import logging
import socket
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, structs

from tickwork import clock
from tickwork.core import when
from tickwork.core.model import Scope
from tickwork.core.topology import SECTIONS as TOPOLOGY
from tickwork.core.topology import Topology, parse
from tickwork.errors import FieldError, InvalidInput
from tickwork.store.moment import Moment, database_time

if TYPE_CHECKING:
    from litestar import Litestar

    from tickwork.app.declarations import Registry
    from tickwork.app.messages import Composer
    from tickwork.service.watched import WatchedWorker
    from tickwork.store.contract import Store
    from tickwork.store.diagnosis import Finding
    from tickwork.store.migrations import Migration

SETTINGS_FILE = "tickwork.toml"
SECTION = "server"
LOG_FORMATS = ("json", "console")
LOG_LEVELS = ("debug", "info", "warning", "error")

_PORT_MAX = 65_535
_MIN_INTERVAL_SECONDS_MAX = 86_400
_LINES_PER_SECOND_MAX = 1_000_000
_BLOCKED_SECONDS_MAX = 3_600
_DRAIN_SECONDS_MAX = 86_400


class Role(StrEnum):
    """What a process does; by default all of it."""

    API = "api"
    SCHEDULER = "scheduler"
    WORKER = "worker"


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be configured, checked."""

    host: str = "127.0.0.1"
    port: int = 8080
    database: str = "sqlite:///tickwork.db"
    database_direct: str | None = None
    roles: frozenset[Role] = frozenset(Role)
    min_interval_seconds: int = 60
    log_format: str | None = None
    log_level: str = "info"
    log_successes_per_second: int = 10
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    loop_blocked_seconds: int = 1
    drain_seconds: float = 30.0


class Given(NamedTuple):
    """A value as somebody gave it, and under which name."""

    value: object
    name: str


def load_settings(
    flags: Mapping[str, object], *, environ: Mapping[str, str], folder: Path
) -> Settings:
    """The settings, or `InvalidInput` that names each one at fault.

    A flag that is None, or an empty environment variable, was not given.
    """
    faults: list[FieldError] = []
    file = _read_file(folder / SETTINGS_FILE, faults)
    faults += [FieldError(name, "is no setting") for name in flags if name not in _READERS]
    known: dict[str, Any] = {}
    for name, reader in _READERS.items():
        given = _given(name, flags, environ, file)
        if given is None:
            continue
        try:
            known[name] = reader(given.value)
        except ValueError as error:
            faults.append(FieldError(given.name, str(error)))
    if faults:
        raise InvalidInput(faults)
    return Settings(**known)


def build_api(settings: Settings) -> Litestar:
    """The HTTP application of these settings; its database is open while it is served."""
    from tickwork.api import create_api  # Heavy, and other commands do without.
    from tickwork.service.metrics import registry_of_process

    return create_api(
        now=clock.now,
        limits=when.Limits(min_interval_seconds=settings.min_interval_seconds),
        open_store=lambda: open_store(settings),
        registry=registry_of_process(),
    )


async def open_store(
    settings: Settings, *, moment: Moment = database_time, create: bool = True
) -> Store:
    """The store of these settings. SQLite's schema is brought up to date by the way; a server's
    is not, because other nodes may still run on the old one. `moment` may be a virtual clock's.
    Without `create` a file that is not there is refused."""
    if _is_postgres(settings.database):
        from tickwork.store.postgres import PostgresStore

        return await PostgresStore.open(
            settings.database, moment=moment, direct_url=settings.database_direct
        )
    from tickwork.store.sqlite import SqliteStore
    from tickwork.store.sqlite.file import locate

    if create or locate(settings.database).exists():
        await migrate(settings)
    return await SqliteStore.open(settings.database, moment=moment)


async def build_worker(
    store: Store,
    registry: Registry,
    settings: Settings,
    scope_of: Callable[[str], Scope],
    compose: Composer,
    *,
    folder: Path,
) -> WatchedWorker:
    """The consumers of an app, on its store, with a node of their own; what the topology in the
    folder says about them counts, and one that is wrong is refused. Without the role `worker`
    there are none, and only the store is kept in order."""
    from tickwork.service.claims import Claims
    from tickwork.service.context import Context
    from tickwork.service.isolating import Isolator
    from tickwork.service.lines import Lines
    from tickwork.service.metrics import Metrics
    from tickwork.service.node import Node
    from tickwork.service.observing import DatabaseClock, Reports
    from tickwork.service.watchdog import Watchdog, under_way_in
    from tickwork.service.watched import WatchedWorker
    from tickwork.service.worker import open_worker

    roles = sorted(settings.roles & {Role.WORKER})
    node = Node(lambda: open_store(settings), name=socket.gethostname(), roles=roles)
    time = DatabaseClock()
    lines = Lines(time, successes_per_second=settings.log_successes_per_second)
    metrics = Metrics(time)
    node.on_lost(lines.lease_lost)
    node.on_lost(metrics.lease_lost)
    node.on_trouble(lines.trouble)
    context = Context(
        store=store,
        claims=Claims(store),
        holder=lambda: node.id,
        compose=compose,
        isolator=Isolator(registry.handlers),
        observer=Reports(lines, metrics, time),
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
    worker = await open_worker(context, node, consumers, scope_of)
    limit_seconds = float(settings.loop_blocked_seconds)
    watchdog = Watchdog(under_way_in(worker.consumers), limit_seconds=limit_seconds)
    metrics.watch(worker.consumers, context.isolator, watchdog)
    return WatchedWorker(worker, metrics, watchdog)


@asynccontextmanager
async def hosted(
    settings: Settings, work: Callable[..., AbstractAsyncContextManager[Any]]
) -> AsyncIterator[None]:
    """Work in a process that is ours: its lines look as the settings say, and its numbers, which
    are in the `registry` that it is given, are served if they say where."""
    from tickwork.service.logs import set_up
    from tickwork.service.metrics import registry_of_process
    from tickwork.service.metrics_server import serving

    set_up(settings.log_format, settings.log_level)
    registry = registry_of_process()
    with ExitStack() as served:
        if settings.metrics_port is not None:
            host, port = settings.metrics_host, settings.metrics_port
            served.enter_context(serving(registry, host=host, port=port))
        async with work(registry=registry):
            yield


async def migrate(settings: Settings) -> tuple[Migration, ...]:
    """Brings the schema up to date, and says what was applied."""
    if _is_postgres(settings.database):
        from tickwork.store.postgres.migrate import migrate as migrate_postgres

        return await migrate_postgres(settings.database_direct or settings.database)
    from tickwork.store.sqlite.migrate import migrate as migrate_sqlite

    return await migrate_sqlite(settings.database)


async def examine(settings: Settings) -> tuple[Finding, ...]:
    """What the database's set-up gives."""
    if _is_postgres(settings.database):
        from tickwork.store.postgres.doctor import examine as examine_postgres

        return await examine_postgres(settings.database)
    from tickwork.store.sqlite.doctor import examine as examine_sqlite

    return await examine_sqlite(settings.database)


def _read_topology(folder: Path) -> Topology:
    """What the file says beside the settings, which were read from it before; or nothing."""
    try:
        return parse((folder / SETTINGS_FILE).read_text(encoding="utf-8"), file=SETTINGS_FILE)
    except FileNotFoundError:
        return Topology()


def _is_postgres(url: str) -> bool:
    return url.startswith("postgresql://")


def _given(
    name: str, flags: Mapping[str, object], environ: Mapping[str, str], file: Mapping[str, object]
) -> Given | None:
    variable = f"TICKWORK_{name.upper()}"
    if flags.get(name) is not None:
        return Given(flags[name], f"--{name.replace('_', '-')}")
    if environ.get(variable):
        return Given(environ[variable], variable)
    if name in file:
        return Given(file[name], f"{SECTION}.{name} in {SETTINGS_FILE}")
    return None


def _read_file(path: Path, faults: list[FieldError]) -> Mapping[str, object]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(FieldError(SETTINGS_FILE, f"cannot be read: {error}"))
        return {}
    section = tables.pop(SECTION, {})
    sections = f"the section [{SECTION}], and {', '.join(TOPOLOGY)}"
    faults += [_unknown(name, sections) for name in tables if name not in TOPOLOGY]
    if not isinstance(section, dict):
        faults.append(FieldError(SETTINGS_FILE, f"{SECTION} must be a section, [{SECTION}]"))
        return {}
    faults += [_unknown(name, ", ".join(_READERS)) for name in section if name not in _READERS]
    return section


def _unknown(name: str, known: str) -> FieldError:
    return FieldError(SETTINGS_FILE, f"{name!r} is not known; use {known}")


def _host(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or any(each.isspace() for each in value):
        raise ValueError(f"must be a host name or address such as 127.0.0.1, not {value!r}")
    return value


def _port(value: object) -> int:
    return _integer(value, 0, _PORT_MAX)


def _one_of(value: object, known: Sequence[str]) -> str:
    if value not in known:
        raise ValueError(f"must be one of {', '.join(known)}, not {value!r}")
    return str(value)


def _integer(value: object, low: int, high: int) -> int:
    number = value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise ValueError(f"must be a whole number from {low} to {high}, not {value!r}")
    return number


def _seconds(value: object, high: int) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number <= high:
        raise ValueError(f"must be a number of seconds from 0 to {high}, not {value!r}")
    return number


def _database(value: object) -> str:
    """Only the form is looked at. The value is not shown: there may be a password in it."""
    if isinstance(value, str):
        scheme, found, rest = value.partition("://")
        if found and scheme == "sqlite" and rest.startswith("/") and rest.strip("/"):
            return value
        if found and scheme == "postgresql" and rest.strip("/"):
            return value
    raise ValueError("must be sqlite:///path/to/file.db or postgresql://user@host/name")


def _direct(value: object) -> str:
    if isinstance(value, str) and _is_postgres(value):
        return _database(value)
    raise ValueError("must be postgresql://user@host/name, the server itself and not its pooler")


def _roles(value: object) -> frozenset[Role]:
    names = value.split(",") if isinstance(value, str) else value
    known = [str(role) for role in Role]
    if not isinstance(names, list) or not names:
        raise ValueError(f"must be some of {','.join(known)}, not {value!r}")
    named = [name.strip() if isinstance(name, str) else name for name in names]
    for name in named:
        if name not in known:
            raise ValueError(f"{name!r} is not a role; use some of {','.join(known)}")
    return frozenset(Role(name) for name in named)


_READERS: dict[str, Callable[[object], object]] = {
    "host": _host,
    "port": _port,
    "database": _database,
    "database_direct": _direct,
    "roles": _roles,
    "min_interval_seconds": partial(_integer, low=1, high=_MIN_INTERVAL_SECONDS_MAX),
    "log_format": partial(_one_of, known=LOG_FORMATS),
    "log_level": partial(_one_of, known=LOG_LEVELS),
    "log_successes_per_second": partial(_integer, low=0, high=_LINES_PER_SECOND_MAX),
    "metrics_host": _host,
    "metrics_port": _port,
    "loop_blocked_seconds": partial(_integer, low=1, high=_BLOCKED_SECONDS_MAX),
    "drain_seconds": partial(_seconds, high=_DRAIN_SECONDS_MAX),
}
