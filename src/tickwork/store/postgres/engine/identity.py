"""Which database a URL is for, however it is spelt.

What a URL leaves open is read as the driver does: from the environment, else by its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

_PORT = "5432"


class DatabaseIdentity(NamedTuple):
    """A database, and where in it names are looked for. Two hosts that are written differently are
    two: `localhost` need not be `127.0.0.1`."""

    hosts: tuple[tuple[str, str], ...]
    database: str
    names: tuple[str | None, ...]


def identity_of(url: str, environ: Mapping[str, str]) -> DatabaseIdentity:
    """The place of a URL; `ValueError` if it cannot be read. Who logs in, and how, says nothing of
    it, nor do other settings of a session."""
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
    """An address and its port; an address of IPv6 stands in brackets."""
    address, bracket, rest = written.rpartition("]")
    name, _, port = rest.partition(":")
    return unquote(f"{address}{bracket}{name}").strip("[]"), port or default_port
