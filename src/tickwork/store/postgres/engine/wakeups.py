"""Wake-ups on PostgreSQL: a coalesced NOTIFY after the commit, and LISTEN on a connection of its
own.

A NOTIFY inside the sending transaction would make commits wait for each other, so it follows the
commit. It may be lost with its sender: consumers poll anyway, and a notification only makes them
poll sooner.
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
from tickwork.store.shared.waiting import EventWatch, Watchers

_CHANNEL = "tickwork"
_TELL_EVERY_SECONDS = 0.01
_RECONNECT_SECONDS = 1.0
_CLOSE_SECONDS = 0.5


class PostgresWakeups:
    """Notifies and listens."""

    def __init__(self, database: Database, listen_url: str | None) -> None:
        self._database, self._listen_url = database, listen_url
        self._watchers = Watchers()
        self._untold: set[UUID] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    def tell(self, queue_ids: Iterable[UUID]) -> None:
        """Wakes the consumers of the queues: in this process at once, in others soon."""
        queue_ids = set(queue_ids)
        self._watchers.wake(queue_ids)
        self._untold |= queue_ids
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    @asynccontextmanager
    async def watch(self, queue_ids: Sequence[UUID]) -> AsyncIterator[EventWatch]:
        if self._listening is None and self._listen_url is not None:
            self._listening = asyncio.create_task(self._listen(self._listen_url))
        with self._watchers.added(queue_ids) as watch:
            yield watch

    async def close(self) -> None:
        """Sends pending notifications, but does not wait for a server that does not answer."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=_CLOSE_SECONDS)
            self._telling.cancel()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening], timeout=_CLOSE_SECONDS)

    async def _tell(self) -> None:
        while self._untold:
            told, self._untold = list(self._untold), set()
            with suppress(StoreError):  # A hint that got lost: polling finds the message.
                await self._database.run(
                    lambda connection, told=told: connection.execute(SQL.notify, told),  # type: ignore[misc]
                    repeatable=False,
                )
            await asyncio.sleep(_TELL_EVERY_SECONDS)

    async def _listen(self, url: str) -> None:
        """Listens until cancelled. After a reconnect all consumers poll once."""
        while True:
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                connection = await asyncpg.connect(url)
                try:
                    lost = asyncio.Event()
                    connection.add_termination_listener(lambda _: lost.set())  # noqa: B023
                    await connection.add_listener(_CHANNEL, self._heard)
                    self._watchers.wake_all()
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(_RECONNECT_SECONDS)

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: Any) -> None:
        with suppress(ValueError):
            self._watchers.wake({UUID(payload)})
