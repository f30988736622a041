"""Watches what this process really does with sockets, below all of our code: the interpreter
reports each one that is made, each connection and each lookup to its audit hooks."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

_INTERNET = (socket.AF_INET, socket.AF_INET6)


class Opened(NamedTuple):
    """One event, and the address or name that it is about."""

    event: str
    host: str = ""
    port: int | None = None


_watchers: list[list[Opened]] = []


@contextmanager
def watched_sockets() -> Iterator[list[Opened]]:
    """What was opened meanwhile: an entry for each socket of the internet, connection or lookup of
    any thread. The pairs of sockets of an event loop are not of the internet."""
    _install()
    seen: list[Opened] = []
    _watchers.append(seen)
    try:
        yield seen
    finally:
        _watchers.remove(seen)


@cache  # A hook cannot be removed.
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, details: tuple[Any, ...]) -> None:
    if not _watchers or not event.startswith("socket."):
        return
    match event, details:
        case "socket.__new__", (_, family, *_) if family in _INTERNET:
            seen = Opened(event)
        case (("socket.connect" | "socket.sendto"), (_, (host, port, *_))):
            seen = Opened(event, str(host), port)
        case "socket.getaddrinfo", (host, *_):
            seen = Opened(event, str(host))
        case _:
            return
    for watcher in _watchers:
        watcher.append(seen)
