"""Wake-ups on SQLite: after the commit within a process, by polling the file between processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from tickwork.errors import StoreUnavailable
from tickwork.store.shared.watches import EventWatch
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.file_watch import FileWatcher


class SqliteWakeups:
    """Starts watches on queues."""

    def __init__(self, database: Database, file_watcher: FileWatcher) -> None:
        self._database, self._file_watcher = database, file_watcher

    @asynccontextmanager
    async def watch(self, queue_ids: Sequence[UUID]) -> AsyncIterator[EventWatch]:
        with self._file_watcher.watch(queue_ids) as watch:
            try:
                await self._database.write(
                    lambda transaction: self._file_watcher.start(transaction.connection)
                )
            except StoreUnavailable:
                self._file_watcher.start_failed()
            yield watch
