"""Wake-ups on PostgreSQL: a coalesced NOTIFY after the commit, and LISTEN on its own connection.

A NOTIFY inside the sending transaction would make commits wait for each other, so it runs after the
commit. It is lost if the sender crashes in between. Consumers poll anyway; a notification only
makes them poll sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import asyncpg

from tickwork.errors import StoreError
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.watches import EventWatch, Watchers

_CHANNEL = "tickwork"
_NOTIFY_INTERVAL_SECONDS = 0.01
_RECONNECT_SECONDS = 1.0
_CLOSE_SECONDS = 0.5


class PostgresWakeups:
    """Notifies other processes of new messages, and listens for their notifications."""

    def __init__(self, database: Database, listen_url: str | None) -> None:
        self._database, self._listen_url = database, listen_url
        self._watchers = Watchers()
        self._pending: set[UUID] = set()
        self._notifier: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None

    def notify(self, queue_ids: Iterable[UUID]) -> None:
        """Wakes the consumers of the queues: in this process now, in other processes soon after."""
        queue_ids = set(queue_ids)
        self.wake(queue_ids)
        self._pending |= queue_ids
        if self._notifier is None or self._notifier.done():
            self._notifier = asyncio.create_task(self._notify_pending())

    def wake(self, queue_ids: set[UUID]) -> None:
        """Wakes the consumers in this process."""
        self._watchers.wake(queue_ids)

    @asynccontextmanager
    async def watch(self, queue_ids: Sequence[UUID]) -> AsyncIterator[EventWatch]:
        if self._listener is None and self._listen_url is not None:
            self._listener = asyncio.create_task(self._listen(self._listen_url))
        with self._watchers.added(queue_ids) as watch:
            yield watch

    async def close(self) -> None:
        """Sends pending notifications. Waits only briefly for a server that does not answer."""
        try:
            if self._notifier is not None:
                await asyncio.wait([self._notifier], timeout=_CLOSE_SECONDS)
        finally:
            running = [task for task in (self._notifier, self._listener) if task is not None]
            for task in running:
                task.cancel()
        if running:
            await asyncio.wait(running, timeout=_CLOSE_SECONDS)

    async def _notify_pending(self) -> None:
        while self._pending:
            ids, self._pending = list(self._pending), set()
            with suppress(StoreError):  # Consumers find the message by polling.
                await self._database.run(
                    lambda connection, ids=ids: connection.execute(SQL.notify, ids),  # type: ignore[misc]
                    repeatable=False,
                )
            await asyncio.sleep(_NOTIFY_INTERVAL_SECONDS)

    async def _listen(self, url: str) -> None:
        """Listens until cancelled. After each connect it wakes all consumers, because notifications
        may have been missed."""
        while True:
            with suppress(
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                asyncpg.InternalClientError,
                OSError,
                TimeoutError,
            ):
                connection = await asyncpg.connect(url)
                try:
                    lost = asyncio.Event()
                    connection.add_termination_listener(lambda _: lost.set())  # noqa: B023
                    await connection.add_listener(_CHANNEL, self._on_notification)
                    self._watchers.wake_all()
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(_RECONNECT_SECONDS)

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: Any) -> None:
        with suppress(ValueError):
            self._watchers.wake({UUID(payload)})
