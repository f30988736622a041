"""Work items for the writer and reader threads, the queue they wait in, and their results.

A work item is a function of an open transaction. The caller waits on its own event loop. A thread
runs the item and delivers the results of a whole group with one call per loop.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeVar
from uuid import UUID

from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.store.ids import Moment
from tickwork.store.sqlite.engine.connection import Connection
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.file import DatabaseFile
from tickwork.store.sqlite.engine.sql import current_microseconds

Result = TypeVar("Result")


class Transaction:
    """What a work item gets: the connection, the time, and lists of what to do after the commit:
    queues to wake and messages to count."""

    __slots__ = ("_moment", "_now", "connection", "counted", "execute", "queues_to_wake")

    def __init__(self, connection: Connection, moment: Moment) -> None:
        self.connection, self.execute = connection, connection.execute
        self._moment = moment
        self._now: int | None = None
        self.queues_to_wake: set[UUID] = set()
        self.counted: list[CountedMessages] = []

    @property
    def now(self) -> int:
        """The time of the transaction, in microseconds. Read on first use, which is after the
        write lock is taken."""
        if self._now is None:
            self._now = current_microseconds(self._moment)
        return self._now


class WorkItem(Generic[Result]):
    """A function to run in a transaction. `rows` is its weight in a group; with `alone` nothing
    else joins its group."""

    __slots__ = ("alone", "error", "future", "loop", "result", "rows", "work")

    def __init__(
        self, work: Callable[[Transaction], Result], *, rows: int = 1, alone: bool = False
    ) -> None:
        self.work = work
        self.rows = rows
        self.alone = alone
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Result] = self.loop.create_future()
        self.result: Result | None = None
        self.error: BaseException | None = None

    def run(self, transaction: Transaction) -> bool:
        """Runs the work and keeps its result or error; False if it failed."""
        with self:
            self.result = self.work(transaction)
        return self.error is None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        # Every error is raised in the caller, never on the thread.
        # (A future cannot carry a StopIteration.)
        self.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        return True


def deliver_results(items: Iterable[WorkItem[Any]], file: DatabaseFile) -> None:
    """Resolves the items' futures on their event loops, from any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[WorkItem[Any]]] = {}
    for item in items:
        by_loop.setdefault(item.loop, []).append(item)
        if isinstance(item.error, sqlite3.Error):
            cause, item.error = item.error, file.as_store_error(item.error)
            item.error.__cause__ = cause
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # The loop is closed: no caller waits there.
            loop.call_soon_threadsafe(_resolve_futures, own)


def _resolve_futures(items: Iterable[WorkItem[Any]]) -> None:
    for item in items:
        if item.future.done():
            continue
        if item.error is None:
            item.future.set_result(item.result)
        else:
            item.future.set_exception(item.error)


class WorkQueue:
    """Work items in order of arrival, for the threads that run them.

    Not bounded: a caller waits for each item in it.
    """

    def __init__(self) -> None:
        self._items: SimpleQueue[WorkItem[Any] | None] = SimpleQueue()
        self._lock = Lock()
        self._is_closed = False
        self._pid = os.getpid()

    @property
    def is_own_process(self) -> bool:
        """False in a forked child: threads and connections do not survive a fork."""
        return self._pid == os.getpid()

    def put(self, item: WorkItem[Any]) -> None:
        """Accepts an item, which will then be run."""
        if not self.is_own_process:
            raise StoreBroken(
                "this store was opened before a fork: open a new one in the child process"
            )
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable("the store is closed")
            self._items.put(item)

    def close(self) -> None:
        """Accepts no more items. Those accepted before are still run."""
        if self.is_own_process:
            with self._lock:
                if not self._is_closed:
                    self._is_closed = True
                    self._items.put(None)

    def take(self, timeout_seconds: float | None = None) -> WorkItem[Any] | None:
        """The next item, or None when the queue is closed and empty. Raises `Empty` on timeout."""
        item = self._items.get(timeout=timeout_seconds)
        if item is None:
            self._items.put(None)  # Every other thread, and every later call, must see it too.
        return item

    def take_waiting(self) -> WorkItem[Any] | None:
        """The next item if there is one now."""
        try:
            return self.take(0)
        except Empty:
            return None
