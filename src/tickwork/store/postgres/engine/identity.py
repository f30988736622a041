"""Identifies the database of a URL, to compare two URLs.

Parts that the URL omits come from the environment or from the driver's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

_PORT = "5432"


class DatabaseIdentity(NamedTuple):
    """A database and its search path. Hosts are compared as text: `localhost` differs from
    `127.0.0.1`."""

    hosts: tuple[tuple[str, str], ...]
    database: str
    names: tuple[str | None, ...]


def identity_of(url: str, environ: Mapping[str, str]) -> DatabaseIdentity:
    """Returns the identity of a URL. It ignores the login and session settings."""
    # Newer versions of urlsplit refuse a list of hosts that begins with an address in brackets.
    location, _, query = url.partition("://")[2].partition("#")[0].partition("?")
    netloc, _, path = location.partition("/")
    parameters = dict(parse_qsl(query))
    login, _, hosts = netloc.rpartition("@")
    port = environ.get("PGPORT") or _PORT
    if not hosts:
        hosts = parameters.get("host") or environ.get("PGHOST", "")
        port = parameters.get("port") or port
    user = unquote(login.partition(":")[0]) or parameters.get("user") or environ.get("PGUSER", "")
    named = unquote(path) or parameters.get("dbname") or parameters.get("database")
    return DatabaseIdentity(
        hosts=tuple(_host(part, port) for part in hosts.split(",")),
        database=named or environ.get("PGDATABASE") or user,
        names=(parameters.get("search_path"), parameters.get("options")),
    )


def _host(text: str, default_port: str) -> tuple[str, str]:
    """Splits a host of a URL into address and port. An IPv6 address is in brackets."""
    address, bracket, rest = text.rpartition("]")
    name, _, port = rest.partition(":")
    return unquote(f"{address}{bracket}{name}").strip("[]"), port or default_port
