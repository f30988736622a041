"""Tells whether two URLs name the same database.

What a URL leaves out is taken from the environment, or from the driver's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

_PORT = "5432"


class DatabaseIdentity(NamedTuple):
    """A database and its search path. Hosts are compared as text: `localhost` need not be
    `127.0.0.1`."""

    hosts: tuple[tuple[str, str], ...]
    database: str
    names: tuple[str | None, ...]


def identity_of(url: str, environ: Mapping[str, str]) -> DatabaseIdentity:
    """Returns the identity of a URL; `ValueError` if it cannot be read. Login and other session
    settings do not matter."""
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query))
    login, _, hosts = parts.netloc.rpartition("@")
    port = environ.get("PGPORT") or _PORT
    if not hosts:
        hosts = asked.get("host") or environ.get("PGHOST", "")
        port = asked.get("port") or port
    user = unquote(login.partition(":")[0]) or asked.get("user") or environ.get("PGUSER", "")
    named = unquote(parts.path.removeprefix("/")) or asked.get("dbname") or asked.get("database")
    return DatabaseIdentity(
        hosts=tuple(_host(each, port) for each in hosts.split(",")),
        database=named or environ.get("PGDATABASE") or user,
        names=(asked.get("search_path"), asked.get("options")),
    )


def _host(written: str, default_port: str) -> tuple[str, str]:
    """An address and its port. An IPv6 address is in brackets."""
    address, bracket, rest = written.rpartition("]")
    name, _, port = rest.partition(":")
    return unquote(f"{address}{bracket}{name}").strip("[]"), port or default_port
