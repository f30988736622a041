"""Wake-ups on SQLite: within the process after the commit, between processes by looking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from tickwork.errors import StoreUnavailable
from tickwork.store.shared.waiting import EventWatch
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.file_watch import Lookout


class SqliteWakeups:
    """Starts watches."""

    def __init__(self, database: Database, lookout: Lookout) -> None:
        self._database, self._lookout = database, lookout

    @asynccontextmanager
    async def watch(self, queue_ids: Sequence[UUID]) -> AsyncIterator[EventWatch]:
        with self._lookout.added(queue_ids) as watch:
            try:
                await self._database.write(
                    lambda transaction: self._lookout.begin(transaction.connection)
                )
            except StoreUnavailable:
                self._lookout.begin_failed()
            yield watch
