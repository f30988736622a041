"""The settings of a process: flags, environment variables, `tickwork.toml`, defaults.

The first that is given wins: a flag, an environment variable, an entry in the section `[server]` of
`tickwork.toml` in the current directory, the default.

```
 [server]                               flag            environment
 host = "127.0.0.1"                     --host          TICKWORK_HOST
 port = 8080                            --port          TICKWORK_PORT
 http_host = "127.0.0.1"                                TICKWORK_HTTP_HOST
 http_port = 8090                       --http-port     TICKWORK_HTTP_PORT
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
 version_grace_seconds = 60                             TICKWORK_VERSION_GRACE_SECONDS
 drain_seconds = 30                     --drain-seconds TICKWORK_DRAIN_SECONDS
 wait_seconds = 60                      --wait-seconds  TICKWORK_WAIT_SECONDS
 processes = "auto"                     --processes     TICKWORK_PROCESSES
 allow_targets = ["10.0.0.0/8"]                         TICKWORK_ALLOW_TARGETS
 delivery_concurrency = 1000                            TICKWORK_DELIVERY_CONCURRENCY
 delivery_tenant_concurrency = 500              TICKWORK_DELIVERY_TENANT_CONCURRENCY
 host_concurrency = 20                                  TICKWORK_HOST_CONCURRENCY
 host_rate_per_second = 50                              TICKWORK_HOST_RATE_PER_SECOND
 smtp_url = "smtp://user:password@host:587"             TICKWORK_SMTP_URL
 email_from = "Shop <shop@example.com>"                 TICKWORK_EMAIL_FROM
 email_provider = "resend"                              TICKWORK_EMAIL_PROVIDER
 email_key = "the key of the provider"                  TICKWORK_EMAIL_KEY
 email_url = "https://mail.example.com/send"            TICKWORK_EMAIL_URL
 email_rate_per_second = 20                             TICKWORK_EMAIL_RATE_PER_SECOND
 secret_key = "32 random bytes in base64"               TICKWORK_SECRET_KEY
 admin_key = "the first API key"                        TICKWORK_ADMIN_KEY
 public_url = "https://jobs.example.com"                TICKWORK_PUBLIC_URL
 trusted_proxies = ["10.0.0.7"]                         TICKWORK_TRUSTED_PROXIES
 owner_targets = ["reminders"]                          TICKWORK_OWNER_TARGETS
 tracing = "on"                                         TICKWORK_TRACING
 unknown_types = "refuse"                               TICKWORK_UNKNOWN_TYPES
 archive_directory = "/var/lib/tickwork/archive"        TICKWORK_ARCHIVE_DIRECTORY
```

The issuers whose JWTs the API accepts are entries `[[jwt]]` (`core/jwt_issuer`), or one issuer in
`TICKWORK_JWT_ISSUER`, `TICKWORK_JWT_AUDIENCE` and so on, which takes precedence over the file.

An error names a setting as it was given: the flag, the variable or the entry. The file may also
hold a topology (`core/topology`), which is not part of the settings; a worker takes the concurrency
of its consumers from it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from tickwork.core.api_key import CHOSEN_KEY, parse_token
from tickwork.core.delivery.secret_keys import read_keys
from tickwork.core.fields import FieldReader, Reader, shown
from tickwork.core.jwt_issuer import Issuer, read_issuer_variables, read_issuers
from tickwork.core.near_names import nearest
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.core.topology import Topology, parse, section_faults
from tickwork.core.types.declared import UnknownTypes
from tickwork.core.when import Limits
from tickwork.errors import FieldError, InvalidInput
from tickwork.setting_readers import (
    checked,
    email_key,
    email_url,
    secret,
    sender,
    smtp_url,
    texts,
    url,
)

SETTINGS_FILE = "tickwork.toml"
SECTION = "server"
JWT_SECTION = "jwt"
VARIABLES = "TICKWORK_"

POSTGRES_SCHEMES = ("postgresql://", "postgres://")
"""How the URL of a PostgreSQL server begins."""

MISSPELLED_LIKENESS = 0.75
"""Likeness to one of our variables from which on another is taken for a misspelling of it."""

JWT_VARIABLES = "TICKWORK_JWT_"
SECRETS = frozenset({"smtp_url", "email_key", "secret_key", "admin_key"})
"""Settings whose value is not shown."""

_OTHER_VARIABLES = frozenset({"DEBUG", "KEY", "URL"})
"""Variables of the command line, which are no settings of a process."""
LOG_FORMATS = ("json", "console")
EMAIL_PROVIDERS = ("smtp", "http", "resend", "postmark", "sendgrid")
LOG_LEVELS = ("debug", "info", "warning", "error")

Value = TypeVar("Value")

AUTO = "auto"
"""As many processes as there are cores."""

PROCESSES_MAX = 256
"""Maximum number of processes that a parent starts."""

_PORT_MAX = 65_535
_MIN_INTERVAL_SECONDS_MAX = 86_400
_LINES_PER_SECOND_MAX = 1_000_000
_BLOCKED_SECONDS_MAX = 3_600
_DRAIN_SECONDS_MAX = 86_400
_DELIVERY_CONCURRENCY_MAX = 10_000
_CONNECTIONS_MAX = 100_000
_REQUEST_SECONDS_MAX = 3_600


class Role(StrEnum):
    """A task of a process. `http` serves the HTTP handlers of an app, which `up` has not."""

    API = "api"
    SCHEDULER = "scheduler"
    WORKER = "worker"
    HTTP = "http"


SERVER_ROLES = frozenset({Role.API, Role.SCHEDULER, Role.WORKER})
"""Default roles of `tickwork up`: all that need no app."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of a process, checked."""

    host: str = "127.0.0.1"
    port: int = 8080
    http_host: str = "127.0.0.1"
    http_port: int = 8090
    database: str = "sqlite:///tickwork.db"
    database_direct: str | None = None
    roles: frozenset[Role] = SERVER_ROLES
    min_interval_seconds: int = 60
    owner_min_interval_seconds: int = 60
    log_format: str | None = None
    log_level: str = "info"
    log_successes_per_second: int = 10
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    loop_blocked_seconds: int = 1
    version_grace_seconds: int = 60
    drain_seconds: float = 30.0
    wait_seconds: float | None = None
    processes: int | str = 1
    allow_targets: tuple[str, ...] = ()
    delivery_concurrency: int = 1_000
    delivery_tenant_concurrency: int | None = None
    host_concurrency: int = 20
    host_rate_per_second: float | None = None
    smtp_url: str | None = None
    email_from: str | None = None
    email_provider: str | None = None
    email_key: str | None = None
    email_url: str | None = None
    email_rate_per_second: float = 20.0
    secret_key: str | None = None
    admin_key: str | None = None
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    owner_targets: tuple[str, ...] = ()
    key_requests_per_second: float = 2_000.0
    tenant_requests_per_second: float = 5_000.0
    connections_max: int = 4_000
    request_header_seconds: float = 10.0
    request_body_seconds: float = 30.0
    keep_alive_seconds: float = 5.0
    archive_directory: str | None = None
    tracing: str = "off"
    unknown_types: UnknownTypes = UnknownTypes.REFUSE
    jwt: tuple[Issuer, ...] = ()

    @property
    def schedule_limits(self) -> Limits:
        """The limits of schedules, unless a tenant has its own."""
        return Limits(self.min_interval_seconds, self.owner_min_interval_seconds)


class GivenSetting(NamedTuple):
    """A value, and the name under which it was given."""

    value: object
    name: str


RUN_ROLES = frozenset({Role.SCHEDULER, Role.WORKER})
"""Default roles of `tickwork run`. The API is not among them: only one process can use its port."""


def load_settings(
    flags: Mapping[str, object],
    *,
    environ: Mapping[str, str],
    folder: Path,
    roles: frozenset[Role] = SERVER_ROLES,
    log_level: str = "info",
) -> Settings:
    """Loads the settings, or raises `InvalidInput` with all errors. `roles` and `log_level` are
    defaults.

    A flag that is None and an empty environment variable count as not given.
    """
    faults: list[FieldError] = []
    tables = _read_tables(folder / SETTINGS_FILE, faults)
    Reader(flags, faults).refuse_unknown(_READERS.keys())
    given = _all_given(flags, environ, _server_section(tables, faults))
    reader = Reader(
        {name: value.value for name, value in given.items()},
        faults,
        names={name: value.name for name, value in given.items()},
        parses_text=True,
    )
    values: dict[str, Any] = {"roles": roles, "log_level": log_level, **reader.read(_READERS)}
    values["jwt"] = _issuers(tables, environ, faults)
    if faults:
        raise InvalidInput(faults)
    return Settings(**values)


def given_names(
    flags: Mapping[str, object], *, environ: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """The name under which each setting is given, of those that are: `--port`, `TICKWORK_PORT`,
    `server.port in tickwork.toml`."""
    file = _server_section(_read_tables(folder / SETTINGS_FILE, []), [])
    return {name: value.name for name, value in _all_given(flags, environ, file).items()}


def misspelled_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A sentence about each variable that is almost one of ours. Others that begin with TICKWORK_
    may be the app's own."""
    known = {*map(str.upper, _READERS), *_OTHER_VARIABLES}
    for variable in sorted(environ):
        name = variable.removeprefix(VARIABLES)
        if variable.startswith(VARIABLES) and name not in known and not name.startswith("JWT_"):
            near = nearest(name, known, likeness=MISSPELLED_LIKENESS)
            if near is not None:
                advice = f"did you mean {VARIABLES}{near}?"
                yield f"{variable} is not a known environment variable; {advice}"


def read_topology(folder: Path) -> Topology:
    """The topology in the settings file of a folder; empty without a file."""
    try:
        return parse((folder / SETTINGS_FILE).read_text(encoding="utf-8"), file=SETTINGS_FILE)
    except FileNotFoundError:
        return Topology()


def _variable(name: str) -> str:
    return f"{VARIABLES}{name.upper()}"


def _all_given(
    flags: Mapping[str, object], environ: Mapping[str, str], file: Mapping[str, object]
) -> dict[str, GivenSetting]:
    found = {name: _given(name, flags, environ, file) for name in _READERS}
    return {name: value for name, value in found.items() if value is not None}


def _given(
    name: str, flags: Mapping[str, object], environ: Mapping[str, str], file: Mapping[str, object]
) -> GivenSetting | None:
    variable = _variable(name)
    if flags.get(name) is not None:
        return GivenSetting(flags[name], f"--{name.replace('_', '-')}")
    if environ.get(variable):
        return GivenSetting(environ[variable], variable)
    if name in file:
        return GivenSetting(file[name], _name_in_file(name))
    return None


def _name_in_file(name: str) -> str:
    return f"{SECTION}.{name} in {SETTINGS_FILE}"


def _read_tables(path: Path, faults: list[FieldError]) -> Mapping[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(FieldError(SETTINGS_FILE, f"cannot be read: {error}"))
        return {}
    faults += section_faults(tables, SETTINGS_FILE)
    return tables


def _issuers(
    tables: Mapping[str, Any], environ: Mapping[str, str], faults: list[FieldError]
) -> tuple[Issuer, ...]:
    given = read_issuer_variables(environ, faults, JWT_VARIABLES)
    if given:
        return given
    entries = tables.get(JWT_SECTION, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        faults.append(
            FieldError(SETTINGS_FILE, f"{JWT_SECTION} must be entries, [[{JWT_SECTION}]]")
        )
        return ()
    return read_issuers(entries, faults, JWT_SECTION)


def _server_section(tables: Mapping[str, Any], faults: list[FieldError]) -> Mapping[str, object]:
    section = tables.get(SECTION, {})
    if not isinstance(section, dict):
        faults.append(FieldError(SETTINGS_FILE, f"{SECTION} must be a section, [{SECTION}]"))
        return {}
    names = {name: _name_in_file(name) for name in section}
    Reader(section, faults, names=names).refuse_unknown(_READERS.keys())
    return section


def _host(reader: Reader, name: str) -> str | None:
    value = reader.value(name)
    if (
        not isinstance(value, str)
        or not value.strip()
        or any(character.isspace() for character in value)
    ):
        reader.fault(name, f"must be a host name or address such as 127.0.0.1, not {shown(value)}")
        return None
    return value


def _integer(low: int, high: int) -> FieldReader:
    return lambda reader, name: reader.integer(name, low, high)


def _database(reader: Reader, name: str) -> str | None:
    """Checks only the form. The error does not show the value: it may contain a password."""
    value = reader.value(name)
    if isinstance(value, str):
        scheme, found, rest = value.partition("://")
        if found and scheme == "sqlite" and rest.startswith("/") and rest.strip("/"):
            return value
        if value.startswith(POSTGRES_SCHEMES) and rest.strip("/"):
            return f"postgresql://{rest}"  # `postgres://` is the same, as for the server's tools.
    reader.fault(name, "must be sqlite:///path/to/file.db or postgresql://user@host/name")
    return None


def _direct(reader: Reader, name: str) -> str | None:
    value = reader.value(name)
    if isinstance(value, str) and value.startswith(POSTGRES_SCHEMES):
        return _database(reader, name)
    reader.fault(name, "must be postgresql://user@host/name, of the server and not of its pooler")
    return None


def _drain_seconds(reader: Reader, name: str) -> float | None:
    return reader.number_between(name, 0, _DRAIN_SECONDS_MAX, "a number of seconds")


def _processes(reader: Reader, name: str) -> int | str | None:
    """A number, or that of the cores."""
    if reader.is_word(name, AUTO):
        return AUTO
    value = reader.value(name)
    if isinstance(value, str) and not value.strip().isdecimal():
        reader.fault(name, f"must be {AUTO} or a whole number, not {shown(value)}")
        return None
    return reader.integer(name, 1, PROCESSES_MAX)


def _request_seconds(reader: Reader, name: str) -> float | None:
    return reader.number_between(name, 1, _REQUEST_SECONDS_MAX, "a number of seconds")


def _request_rate(reader: Reader, name: str) -> float | None:
    return reader.number_between(name, RATE_MIN, RATE_MAX, "a number of requests")


def _host_rate(reader: Reader, name: str) -> float | None:
    return reader.number_between(name, RATE_MIN, RATE_MAX, "a number of deliveries")


def _targets(reader: Reader, name: str) -> tuple[str, ...] | None:
    """Hosts and networks."""
    from tickwork.channel.guard import Guard

    found = texts(reader, name, "hosts and networks, such as localhost,10.0.0.0/8")
    return None if found is None else checked(reader, name, found, Guard)


def _proxies(reader: Reader, name: str) -> tuple[str, ...] | None:
    """Addresses and networks."""
    from ipaddress import ip_network

    found = texts(reader, name, "addresses and networks, such as 127.0.0.1,10.0.0.0/8")
    for text in found or ():
        try:
            ip_network(text, strict=False)
        except ValueError:
            advice = "neither an address nor a network, such as 127.0.0.1 or 10.0.0.0/8"
            reader.fault(name, f"{shown(text)} is {advice}")
    return found


def _owner_targets(reader: Reader, name: str) -> tuple[str, ...] | None:
    """Targets of owners, as a tenant lists them; a name alone is that of a queue."""
    from tickwork.core.owner_targets import CHANNELS, check_owner_targets

    found = texts(reader, name, "queues and other targets, such as reminders,email")
    if found is None:
        return None
    targets = tuple(
        target if ":" in target or target in CHANNELS else f"queue:{target}" for target in found
    )
    for fault in check_owner_targets(targets):
        reader.fault(name, fault.message)
    return targets


def _public_url(reader: Reader, name: str) -> str | None:
    what = "the URL at which others reach this server, such as https://jobs.example.com"
    value = url(reader, name, what, without="?#@")
    return None if value is None else value.rstrip("/")


def _secret_key(reader: Reader, name: str) -> str | None:
    value = secret(reader, name)
    return None if value is None else checked(reader, name, value, read_keys)


def _archive_directory(reader: Reader, name: str) -> str | None:
    value = reader.text(name)
    if value is not None and Path(value).exists() and not Path(value).is_dir():
        reader.fault(name, f"{shown(value)} is not a directory")
    return value


def _admin_key(reader: Reader, name: str) -> str | None:
    """The error does not show the value."""
    value = reader.value(name)
    if isinstance(value, str) and parse_token(value) is not None:
        return value
    reader.fault(name, f"must be {CHOSEN_KEY}")
    return None


def _unknown_types(reader: Reader, name: str) -> UnknownTypes | None:
    chosen = reader.one_of(name, UnknownTypes)
    return None if chosen is None else UnknownTypes(chosen)


_READERS: dict[str, FieldReader] = {
    "host": _host,
    "port": _integer(0, _PORT_MAX),
    "http_host": _host,
    "http_port": _integer(0, _PORT_MAX),
    "database": _database,
    "database_direct": _direct,
    "roles": lambda reader, name: reader.some_of(name, Role),
    "min_interval_seconds": _integer(1, _MIN_INTERVAL_SECONDS_MAX),
    "owner_min_interval_seconds": _integer(1, _MIN_INTERVAL_SECONDS_MAX),
    "log_format": lambda reader, name: reader.one_of(name, LOG_FORMATS),
    "log_level": lambda reader, name: reader.one_of(name, LOG_LEVELS),
    "log_successes_per_second": _integer(0, _LINES_PER_SECOND_MAX),
    "metrics_host": _host,
    "metrics_port": _integer(0, _PORT_MAX),
    "loop_blocked_seconds": _integer(1, _BLOCKED_SECONDS_MAX),
    "version_grace_seconds": _integer(0, 86_400),
    "drain_seconds": _drain_seconds,
    "wait_seconds": _drain_seconds,
    "processes": _processes,
    "allow_targets": _targets,
    "delivery_concurrency": _integer(1, _DELIVERY_CONCURRENCY_MAX),
    "delivery_tenant_concurrency": _integer(1, _DELIVERY_CONCURRENCY_MAX),
    "host_concurrency": _integer(1, _DELIVERY_CONCURRENCY_MAX),
    "host_rate_per_second": _host_rate,
    "smtp_url": smtp_url,
    "email_from": sender,
    "email_provider": lambda reader, name: reader.one_of(name, EMAIL_PROVIDERS),
    "email_key": email_key,
    "email_url": email_url,
    "email_rate_per_second": _host_rate,
    "secret_key": _secret_key,
    "admin_key": _admin_key,
    "public_url": _public_url,
    "trusted_proxies": _proxies,
    "owner_targets": _owner_targets,
    "key_requests_per_second": _request_rate,
    "tenant_requests_per_second": _request_rate,
    "connections_max": _integer(1, _CONNECTIONS_MAX),
    "request_header_seconds": _request_seconds,
    "request_body_seconds": _request_seconds,
    "keep_alive_seconds": _request_seconds,
    "tracing": lambda reader, name: reader.one_of(name, ("off", "on")),
    "unknown_types": _unknown_types,
    "archive_directory": _archive_directory,
}
assert _READERS.keys() == set(Settings.__struct_fields__) - {JWT_SECTION}
