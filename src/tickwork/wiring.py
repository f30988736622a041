"""From configuration to running parts: the only module that knows all of them.

A setting is a flag, else an environment variable, else an entry in the section `[server]` of
`tickwork.toml` in the current directory, else its default:

```
 setting               flag        environment                    [server]
 host                  --host      TICKWORK_HOST                  host = "127.0.0.1"
 port                  --port      TICKWORK_PORT                  port = 8080
 database              --database  TICKWORK_DATABASE              database = "sqlite:///tickwork.db"
 database_direct                   TICKWORK_DATABASE_DIRECT       database_direct = "postgresql://…"
 roles                 --roles     TICKWORK_ROLES                 roles = ["api"]
 min_interval_seconds              TICKWORK_MIN_INTERVAL_SECONDS  min_interval_seconds = 60
```

What cannot be used is refused by the name under which it was given. The file may hold a topology
as well (`core/topology.py`), which is none of the settings.
"""

from __future__ import annotations

import socket
import tomllib
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from tickwork import clock
from tickwork.core import when
from tickwork.core.model import Scope
from tickwork.core.topology import SECTIONS as TOPOLOGY
from tickwork.errors import FieldError, InvalidInput
from tickwork.store.moment import Moment, database_time

if TYPE_CHECKING:
    from litestar import Litestar

    from tickwork.app.declarations import Registry
    from tickwork.app.messages import Composer
    from tickwork.service.worker import Worker
    from tickwork.store.contract import Store
    from tickwork.store.diagnosis import Finding
    from tickwork.store.migrations import Migration

SETTINGS_FILE = "tickwork.toml"
SECTION = "server"

_PORT_MAX = 65_535
_MIN_INTERVAL_SECONDS_MAX = 86_400


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

    return create_api(
        now=clock.now,
        limits=when.Limits(min_interval_seconds=settings.min_interval_seconds),
        open_store=lambda: open_store(settings),
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
) -> Worker:
    """The consumers of an app, on its store, with a node of their own."""
    from tickwork.service.claims import Claims
    from tickwork.service.consumer import Context
    from tickwork.service.isolating import Isolator
    from tickwork.service.node import Node
    from tickwork.service.observing import Lines
    from tickwork.service.worker import open_worker

    node = Node(lambda: open_store(settings), name=socket.gethostname(), roles=[str(Role.WORKER)])
    context = Context(
        store=store,
        claims=Claims(store),
        holder=lambda: node.id,
        compose=compose,
        isolator=Isolator(registry.handlers),
        observer=Lines(),
    )
    return await open_worker(context, node, registry.consumers(), scope_of)


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


def _min_interval(value: object) -> int:
    return _integer(value, 1, _MIN_INTERVAL_SECONDS_MAX)


def _integer(value: object, low: int, high: int) -> int:
    number = value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise ValueError(f"must be a whole number from {low} to {high}, not {value!r}")
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
    "min_interval_seconds": _min_interval,
}
