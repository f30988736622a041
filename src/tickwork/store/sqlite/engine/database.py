"""Access to the database file: one writer thread that commits in groups, and reader threads.

Each reader thread has its own connection, sees what is committed and never waits for a writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock, Thread
from typing import Any, TypeVar

from tickwork.errors import StoreError
from tickwork.store.ids import Moment
from tickwork.store.shared.group_commit import Coalescer, Grouped
from tickwork.store.shared.joined_writes import changes_nothing, waiting_writes
from tickwork.store.shared.watches import run_in_own_thread
from tickwork.store.sqlite.engine.counters import MessageCounters
from tickwork.store.sqlite.engine.file import DatabaseFile, ManagedConnection
from tickwork.store.sqlite.engine.file_watch import FileWatcher
from tickwork.store.sqlite.engine.work import Transaction, WorkItem, WorkQueue, deliver_results
from tickwork.store.sqlite.engine.writer import Writer

READERS = 2
"""Number of reader threads: more than one, so that one slow count does not block other reads."""

CLOSE_SECONDS_MAX = 5.0
"""Seconds that `close` waits for accepted reads to finish."""


class Readers:
    """Threads that run read-only work items, each on one snapshot of the file."""

    def __init__(self, file: DatabaseFile, moment: Moment) -> None:
        self._file = file
        self._moment = moment
        self._work_queue = WorkQueue()
        self.submit = self._work_queue.put
        self._close_lock = Lock()
        self._threads = [
            Thread(target=self._serve, name=f"tickwork-reader-{number}", daemon=True)
            for number in range(READERS)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finishes accepted items and closes the connections. Blocks, for a bounded time."""
        self._work_queue.close()
        if self._work_queue.is_own_process:
            for thread in self._threads:
                thread.join(CLOSE_SECONDS_MAX / READERS)

    def _serve(self) -> None:
        managed = ManagedConnection(
            self._file, lambda connection: connection.execute("PRAGMA query_only = ON")
        )
        while (item := self._work_queue.take()) is not None:
            self._carry_out(managed, item)
            deliver_results([item], self._file)
        with self._close_lock:  # One at a time: the last connection to close removes the WAL.
            managed.close()

    def _carry_out(self, managed: ManagedConnection, item: WorkItem[Any]) -> None:
        try:
            connection = managed.get()
            connection.execute("BEGIN")
            item.run(Transaction(connection, self._moment))
            connection.rollback()
        except (sqlite3.Error, StoreError) as error:
            item.error = self._file.as_store_error(error)
            managed.close()
        else:
            managed.close_if_broken(item.error)


Result = TypeVar("Result")
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Database:
    """One file with its writer and its readers. Safe to use from any event loop."""

    def __init__(self, file: DatabaseFile, moment: Moment, file_watcher: FileWatcher) -> None:
        self.file, self.counters = file, MessageCounters()
        self._writer = Writer(file, moment, file_watcher, self.counters)
        self._readers = Readers(file, moment)

    def write(
        self, work: Callable[[Transaction], Result], *, rows: int = 1, alone: bool = False
    ) -> Awaitable[Result]:
        """Runs work that writes and returns when it is durable; concurrent writes share a commit.

        Work that has started runs to its end even if the caller is cancelled. With `alone` it
        gets a transaction of its own.
        """
        item = WorkItem(work, rows=rows, alone=alone)
        self._writer.submit(item)
        return item.future

    async def change(self, work: Callable[[Transaction], Result], *, rows: int = 1) -> Result:
        """Runs a change as `write` does, with the writes that its caller joins to it; without them
        if the result `changes_nothing`."""
        writes = waiting_writes()
        if not writes:
            return await self.write(work, rows=rows)

        def joined(transaction: Transaction) -> Result:
            result = work(transaction)
            if not changes_nothing(result):
                for write in writes:
                    write.write(transaction)
            return result

        result = await self.write(joined, rows=rows)
        for write in writes:
            write.is_over = True
        return result

    def grouped(
        self, commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
    ) -> Grouped[Item, Answer]:
        """Takes calls that are carried out together."""
        return Coalescer(commit)

    def read(self, work: Callable[[Transaction], Result]) -> Awaitable[Result]:
        """Runs work that only reads, on one snapshot of the file."""
        item = WorkItem(work)
        self._readers.submit(item)
        return item.future

    async def close(self) -> None:
        """Finishes accepted work. The writer closes last and leaves the file without a WAL."""
        await run_in_own_thread(self._readers.close)
        await run_in_own_thread(self._writer.close)
