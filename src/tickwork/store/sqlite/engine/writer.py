"""The writer: one thread, one connection, one transaction at a time.

The thread takes the waiting work items as a group of bounded size. Each item runs inside a
savepoint, so that a failing item does not undo the others. One COMMIT makes the group durable, and
only then are callers answered. If the COMMIT fails, or the transaction is lost before it, every
item of the group fails and none has changed anything. The thread survives every error: it closes a
connection that may be broken, and the next group opens a new one.
"""

from __future__ import annotations

import sqlite3
from queue import Empty
from threading import Thread
from typing import Any, NoReturn

from tickwork.errors import StoreError, StoreUnavailable
from tickwork.store.ids import Moment
from tickwork.store.sqlite.engine.counters import MessageCounters
from tickwork.store.sqlite.engine.file import DatabaseFile, ManagedConnection
from tickwork.store.sqlite.engine.file_watch import FileWatcher
from tickwork.store.sqlite.engine.work import Transaction, WorkItem, WorkQueue, deliver_results

GROUP_ITEMS_MAX = 500
"""Maximum number of work items in one commit."""

GROUP_ROWS_MAX = 2_000
"""Maximum number of rows in one commit, unless a single item has more."""

CLOSE_SECONDS_MAX = 5.0
"""Seconds that `close` waits for accepted writes to finish."""


class Writer:
    """Runs work items that it gets by `submit`, in order of arrival. The caller of an item is
    answered when it is durable."""

    def __init__(
        self,
        file: DatabaseFile,
        moment: Moment,
        file_watcher: FileWatcher,
        counters: MessageCounters,
    ) -> None:
        self._file, self._moment = file, moment
        self._file_watcher, self._counters = file_watcher, counters
        self._work_queue = WorkQueue()
        self.submit = self._work_queue.put
        self._next: WorkItem[Any] | None = None
        self._managed = ManagedConnection(file, file_watcher.on_reconnect)
        self._thread = Thread(target=self._serve, name="tickwork-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finishes accepted items and closes the connection. Blocks, for a bounded time: the
        application's own code in a joint commit may never return. What is unfinished then is
        rolled back when the process exits."""
        self._work_queue.close()
        if self._work_queue.is_own_process:
            self._thread.join(CLOSE_SECONDS_MAX)

    def _serve(self) -> None:
        while (group := self._next_group()) is not None:
            if group:
                self._carry_out(group)
                deliver_results(group, self._file)
            if self._file_watcher.is_poll_due:
                self._poll()
        self._managed.close()

    def _next_group(self) -> list[WorkItem[Any]] | None:
        """The waiting items that fit into one commit. Empty if none arrived before the next poll;
        None when the queue is closed and empty."""
        first, self._next = self._next, None
        if first is None:
            try:
                first = self._work_queue.take(self._file_watcher.seconds_to_next_poll)
            except Empty:
                return []
        if first is None:
            return None
        group, rows = [first], first.rows
        while len(group) < GROUP_ITEMS_MAX and not first.alone:
            item = self._work_queue.take_waiting()
            if item is None:
                break
            if item.alone or rows + item.rows > GROUP_ROWS_MAX:
                self._next = item
                break
            group.append(item)
            rows += item.rows
        return group

    def _carry_out(self, group: list[WorkItem[Any]]) -> None:
        try:
            connection = self._managed.get()
            self._file.begin(connection)
            transaction = Transaction(connection, self._moment)
            self._run(group, transaction)
            connection.commit()
        except (sqlite3.Error, StoreError) as error:
            self._fail(group, error)
            return
        self._file_watcher.wake(transaction.queues_to_wake)
        self._counters.add(transaction.counted)
        for item in group:
            self._managed.close_if_broken(item.error)

    def _run(self, group: list[WorkItem[Any]], transaction: Transaction) -> None:
        """Runs each item inside a savepoint; raises if one of them loses the transaction."""
        is_alone = len(group) == 1
        for item in group:
            if item.future.cancelled():  # The caller was cancelled before the item started.
                continue
            if not is_alone:
                transaction.execute("SAVEPOINT item")
            counted = len(transaction.counted)
            if not item.run(transaction):
                if is_alone or not transaction.connection.in_transaction:
                    _raise_loss(item.error)
                transaction.execute("ROLLBACK TO item")
                del transaction.counted[counted:]
            if not is_alone:
                transaction.execute("RELEASE item")

    def _fail(self, group: list[WorkItem[Any]], error: sqlite3.Error | StoreError) -> None:
        """Fails every item of a group that was rolled back. The item that caused it keeps its own
        error; the others get this one, because what they saw was never committed."""
        for item in group:
            if item.error is None or item.error not in (error, error.__cause__):
                item.error = self._file.as_store_error(error)
        try:
            self._managed.roll_back()
        except sqlite3.Error:
            self._managed.close()
        self._managed.close_if_broken(error)

    def _poll(self) -> None:
        try:
            self._file_watcher.poll(self._managed.get())
        except (sqlite3.Error, StoreError):
            self._managed.close()


def _raise_loss(error: BaseException | None) -> NoReturn:
    """Raises the error that undid the whole transaction."""
    if isinstance(error, sqlite3.Error | StoreError):
        raise error
    raise StoreUnavailable(f"the transaction was rolled back: {error}") from error
