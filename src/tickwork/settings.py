"""The settings of a process: where they come from, and what they may be.

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

import tomllib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from tickwork.core.topology import SECTIONS as TOPOLOGY
from tickwork.errors import FieldError, InvalidInput

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


RUN_ROLES = frozenset({Role.SCHEDULER, Role.WORKER})
"""What a process of an app does unless it is told: its port is for one of them only."""


def load_settings(
    flags: Mapping[str, object],
    *,
    environ: Mapping[str, str],
    folder: Path,
    roles: frozenset[Role] = frozenset(Role),
) -> Settings:
    """The settings, or `InvalidInput` that names each one at fault; `roles` if nobody says which.

    A flag that is None, or an empty environment variable, was not given.
    """
    faults: list[FieldError] = []
    file = _read_file(folder / SETTINGS_FILE, faults)
    faults += [FieldError(name, "is no setting") for name in flags if name not in _READERS]
    known: dict[str, Any] = {"roles": roles}
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


def is_postgres(url: str) -> bool:
    """Whether it is the address of a server."""
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
    if isinstance(value, str) and is_postgres(value):
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
