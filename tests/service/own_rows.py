"""An app's own table `own` in the store's database, written and read by handlers."""

from collections.abc import Awaitable
from typing import Any

from tickwork.app.invocation import Rows
from tickwork.app.message import Message
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness

_MAKE = "CREATE TABLE own (value TEXT NOT NULL UNIQUE)"
_READ = "SELECT value FROM own ORDER BY value"


class OwnRows:
    """Declares two queues of its own at the app."""

    def __init__(self, app: Tickwork, database: str | None) -> None:
        self._mark = "?" if database is None else "$1"
        self._making, self._reading = app.queue("making"), app.queue("reading")
        self._found: list[str] = []
        app.on("making")(self._make)
        app.on("reading")(self._read)

    def insert(self, rows: Rows, value: str | None) -> None:
        """Writes one, as a handler does; None is refused by the table, and a double too."""
        rows.execute(f"INSERT INTO own (value) VALUES ({self._mark})", value)

    async def make(self, h: Harness) -> None:
        """Makes the table."""
        await self._making.send(None)
        await h.drain()

    async def all(self, h: Harness) -> list[str]:
        """What is in it."""
        await self._reading.send(None)
        await h.drain()
        return self._found

    async def _make(self, message: Message[Any]) -> None:
        message.transaction().execute(_MAKE)

    async def _read(self, message: Message[Any]) -> None:
        message.transaction().run(self._fetch)

    def _fetch(self, connection: Any) -> Awaitable[None] | None:
        if hasattr(connection, "fetchrow"):
            return self._fetch_awaiting(connection)
        self._found = [value for (value,) in connection.execute(_READ)]
        return None

    async def _fetch_awaiting(self, connection: Any) -> None:
        self._found = [row["value"] for row in await connection.fetch(_READ)]
