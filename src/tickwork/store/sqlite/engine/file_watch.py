"""Polls the file for commits of other processes and wakes those who wait for messages.

SQLite does not notify a process when another one writes. But `PRAGMA data_version` shows a
connection, in about a microsecond, whether another connection has committed since it last asked.
If so, and the newest message is a different one, something was sent. The writer thread polls while
there are watches: often at first, and less often the longer nothing happens.
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
from tickwork.store.shared.watches import EventWatch, Watchers
from tickwork.store.sqlite.engine.sql import SQL

POLL_SECONDS_MIN = 0.02
"""Seconds between two polls right after something happened."""

POLL_SECONDS_MAX = 0.25
"""Seconds between two polls after nothing has happened for a while."""


class _Snapshot(NamedTuple):
    version: int
    newest: tuple[bytes, int] | None


class FileWatcher:
    """The watches of this process, on any of its event loops, and the last snapshot of the file.

    Watches start and stop on their event loops; everything else runs on the writer thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_loop: dict[asyncio.AbstractEventLoop, Watchers] = {}
        self._snapshot: _Snapshot | None = None
        self._may_have_missed = False
        self._poll_seconds = POLL_SECONDS_MIN
        self._poll_at = 0.0

    @contextmanager
    def watch(self, queue_ids: Sequence[UUID]) -> Iterator[EventWatch]:
        """A watch on the running loop. Other processes' sends are noticed from `start` on."""
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
                    self._snapshot = None  # Polling stops here; the next watch starts over.

    @property
    def seconds_to_next_poll(self) -> float | None:
        """Seconds the writer thread may sleep; None, without a limit, if there is no watch."""
        return max(self._poll_at - monotonic(), 0.0) if self._by_loop else None

    @property
    def is_poll_due(self) -> bool:
        return bool(self._by_loop) and monotonic() >= self._poll_at

    def start(self, connection: sqlite3.Connection) -> None:
        """Takes the first snapshot for a watch that starts."""
        if self._snapshot is None:
            self._snapshot = _take_snapshot(connection)
        self._schedule_poll(POLL_SECONDS_MIN)

    def start_failed(self) -> None:
        """Records that a watch started while the file could not be read."""
        self._may_have_missed = True

    def poll(self, connection: sqlite3.Connection) -> None:
        """Wakes every watch if another process has sent something."""
        before, missed = self._snapshot, self._may_have_missed
        version = _version(connection)
        if before is not None and version == before.version and not missed:
            self._schedule_poll(min(self._poll_seconds * 2, POLL_SECONDS_MAX))
            return
        self._snapshot = _Snapshot(version, _newest(connection))
        self._may_have_missed = False
        self._schedule_poll(POLL_SECONDS_MIN)
        if missed or (before is not None and self._snapshot.newest != before.newest):
            self._call_on_loops(lambda watchers: watchers.wake_all)

    def on_reconnect(self, connection: sqlite3.Connection) -> None:
        """Wakes every watch once: commits before the new connection may have been missed."""
        self._snapshot = _take_snapshot(connection) if self._by_loop else None
        self._call_on_loops(lambda watchers: watchers.wake_all)

    def wake(self, queue_ids: set[UUID]) -> None:
        """Wakes the watches on these queues."""
        if queue_ids:
            self._call_on_loops(lambda watchers: watchers.wake, queue_ids)

    def _schedule_poll(self, seconds: float) -> None:
        self._poll_seconds = seconds
        self._poll_at = monotonic() + seconds

    def _call_on_loops(
        self, method: Callable[[Watchers], Callable[..., None]], *arguments: Any
    ) -> None:
        if not self._by_loop:
            return
        with self._lock:
            by_loop = list(self._by_loop.items())
        for loop, watchers in by_loop:
            with suppress(RuntimeError):  # The loop is closed, and so are its watches.
                loop.call_soon_threadsafe(method(watchers), *arguments)


def _take_snapshot(connection: sqlite3.Connection) -> _Snapshot:
    return _Snapshot(_version(connection), _newest(connection))


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _newest(connection: sqlite3.Connection) -> tuple[bytes, int] | None:
    found: tuple[bytes, int] | None = connection.execute(SQL.newest_message).fetchone()
    return found
