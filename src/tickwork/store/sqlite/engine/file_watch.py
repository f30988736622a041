"""Noticing what others commit, and telling those who wait.

SQLite tells nobody that another process has written. But a connection can ask, for about a
microsecond, whether anybody else has committed since it last asked (`PRAGMA data_version`); if
so, another newest message means that something was sent. The writer's thread asks: while
somebody watches, often at first, and the longer nothing happens the more rarely.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.store.shared.waiting import EventWatch, Watchers
from tickwork.store.sqlite.engine.sql import SQL

PAUSE_SECONDS_MIN = 0.02
PAUSE_SECONDS_MAX = 0.25


class _Seen(NamedTuple):
    version: int
    newest: tuple[bytes, int] | None


class Lookout:
    """The watches of this process, on whatever event loop, and what was last seen for them.

    Watches come and go on their loops; everything else happens on the writer's thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_loop: dict[asyncio.AbstractEventLoop, Watchers] = {}
        self._seen: _Seen | None = None
        self._may_have_missed = False
        self._pause_seconds = PAUSE_SECONDS_MIN
        self._look_at = 0.0

    @contextmanager
    def added(self, queue_ids: Sequence[UUID]) -> Iterator[EventWatch]:
        """A watch on the running loop. What other processes send counts from `begin` on."""
        loop = asyncio.get_running_loop()
        with self._lock:
            watchers = self._by_loop.setdefault(loop, Watchers())
        try:
            with watchers.added(queue_ids) as watch:
                yield watch
        finally:
            with self._lock:
                if not watchers:
                    self._by_loop.pop(loop, None)
                if not self._by_loop:
                    self._seen = None  # Nobody looks from now on; the next watch begins anew.

    @property
    def pause_seconds(self) -> float | None:
        """How long the thread may rest: for good, if nobody watches."""
        return max(self._look_at - monotonic(), 0.0) if self._by_loop else None

    @property
    def is_due(self) -> bool:
        return bool(self._by_loop) and monotonic() >= self._look_at

    def begin(self, connection: sqlite3.Connection) -> None:
        """Remembers how things stand, for a watch that starts."""
        if self._seen is None:
            self._seen = _look(connection)
        self._rest(PAUSE_SECONDS_MIN)

    def begin_failed(self) -> None:
        """For a watch that starts while the file cannot be asked."""
        self._may_have_missed = True

    def look(self, connection: sqlite3.Connection) -> None:
        """Wakes everybody if another process has sent something."""
        seen, missed = self._seen, self._may_have_missed
        version = _version(connection)
        if seen is not None and version == seen.version and not missed:
            self._rest(min(self._pause_seconds * 2, PAUSE_SECONDS_MAX))
            return
        self._seen = _Seen(version, _newest(connection))
        self._may_have_missed = False
        self._rest(PAUSE_SECONDS_MIN)
        if missed or (seen is not None and self._seen.newest != seen.newest):
            self._call(lambda watchers: watchers.wake_all)

    def reconnected(self, connection: sqlite3.Connection) -> None:
        """What happened meanwhile nobody knows: everyone looks once."""
        self._seen = _look(connection) if self._by_loop else None
        self._call(lambda watchers: watchers.wake_all)

    def tell(self, queue_ids: set[UUID]) -> None:
        """Wakes those who wait for these queues."""
        if queue_ids:
            self._call(lambda watchers: watchers.wake, queue_ids)

    def _rest(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._look_at = monotonic() + pause_seconds

    def _call(self, what: Callable[[Watchers], Callable[..., None]], *arguments: Any) -> None:
        if not self._by_loop:
            return
        with self._lock:
            by_loop = list(self._by_loop.items())
        for loop, watchers in by_loop:
            with suppress(RuntimeError):  # The loop is closed: nobody waits there any more.
                loop.call_soon_threadsafe(what(watchers), *arguments)


def _look(connection: sqlite3.Connection) -> _Seen:
    return _Seen(_version(connection), _newest(connection))


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _newest(connection: sqlite3.Connection) -> tuple[bytes, int] | None:
    found: tuple[bytes, int] | None = connection.execute(SQL.newest_message).fetchone()
    return found
