"""Streaky as a whole: its worker and the stand-in are processes, its tables are looked at here."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any
from uuid import uuid5

import httpx

from examples.streaky.app import STREAKY
from examples.streaky.database import Row, database_at
from examples.streaky.run import made_up
from examples.streaky.users import User, Users
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.batch import Batch, BatchStatus
from tickwork.core.model import DEFAULT
from tickwork.store.contract import Store

DAY = date(2026, 11, 15)
BATCH = uuid5(STREAKY, DAY.isoformat())
WAIT_SECONDS = 60
"""Nothing takes so long, not even on a busy machine that starts processes."""


class Streaky:
    """The example on one database, with a stand-in of its own."""

    def __init__(self, children: Children, home: Home, store: Store, **env: object) -> None:
        self._children, self.url, self._store = children, home.url, store
        self.users = Users(database_at(home.url))
        self._port = _free_port()
        self._outside = f"http://127.0.0.1:{self._port}"
        named = {"GITHUB": self._outside, "DISCORD": self._outside, "TELEGRAM": self._outside}
        settings = {"RETRY_SECONDS": 0.2, **named, **env}
        self._env = {f"STREAKY_{name}": str(value) for name, value in settings.items()}
        self._env["TICKWORK_DATABASE"] = home.url

    async def prepare(self, users: Iterable[User]) -> None:
        """The tables, with these users."""
        await self.users.create_tables()
        await self.users.add(users)

    async def close(self) -> None:
        """Lets go of the tables."""
        await self.users.database.close()

    # Processes

    async def stand_in(self, seconds: float = 0.01) -> Child:
        """GitHub, Discord and Telegram, each so slow; always at the same address."""
        delays = ("--github-seconds", str(seconds), "--notify-seconds", str(seconds))
        module = "examples.streaky.stand_in"
        child = self._children.spawn(module, "--port", str(self._port), *delays)
        await child.line("Running on", WAIT_SECONDS)
        return child

    def worker(self) -> Child:
        """A worker, as the README starts it, but for its role: a test begins its day by hand, and
        at noon another one would begin."""
        words = ("run", "examples.streaky.app:app", "--roles", "worker")
        return self._children.spawn("tickwork", *words, env=self._env)

    async def start(self) -> None:
        """Starts the day; returns when its batch is there, whole."""
        self.day()

        async def is_whole() -> bool:
            found = await self._store.batches.list(DEFAULT, 1)
            return bool(found) and found[0].status is not BatchStatus.FILLING

        await eventually(is_whole, timeout_seconds=WAIT_SECONDS)

    def day(self) -> Child:
        """Starts the day, or finds it, and watches it to its end."""
        return self.module("run", "day", DAY.isoformat())

    def module(self, name: str, *words: str) -> Child:
        """Another program of the example."""
        return self._children.spawn(f"examples.streaky.{name}", *words, env=self._env)

    # What is to be seen

    async def progress(self) -> Batch:
        """How far the day is."""
        return await self._store.batches.get(DEFAULT, BATCH)

    async def done(self) -> Batch:
        """Waits until all units have ended and the day's own row is there."""

        async def is_done() -> bool:
            return bool(await self.rows("streaky_days"))

        await eventually(is_done, timeout_seconds=WAIT_SECONDS, what="the end of the day")
        progress = await self.progress()
        assert progress.status is BatchStatus.COMPLETED
        return progress

    async def rows(self, table: str) -> Sequence[Row]:
        """Everything in a table."""
        return await self.users.database.fetch(f"SELECT * FROM {table} ORDER BY 1, 2")

    async def seen(self) -> dict[str, Any]:
        """What the stand-in saw."""
        async with httpx.AsyncClient() as http:
            seen: dict[str, Any] = (await http.get(f"{self._outside}/seen")).json()
            return seen

    async def faults(self, **faults: object) -> None:
        """What goes wrong at the stand-in from now on."""
        async with httpx.AsyncClient() as http:
            (await http.put(f"{self._outside}/faults", json=faults)).raise_for_status()


def people(count: int) -> list[User]:
    """So many users as the stand-in knows them; those with odd numbers have not committed."""
    return [made_up(number) for number in range(count)]


def idle(count: int) -> list[User]:
    """So many users of whom none has committed."""
    return [made_up(number * 2 + 1) for number in range(count)]


def expected_checks(users: Iterable[User]) -> list[tuple[object, ...]]:
    """What must be in the table when all of them are checked, each once."""
    return [
        (DAY.isoformat(), each.id, each.id % 7 + (each.id % 2 == 0), each.id % 2 == 0)
        for each in users
    ]


def expected_keys(users: Iterable[User]) -> list[str]:
    """The keys of the reminders that those who have not committed get."""
    return sorted(f"{DAY}/{each.id}" for each in users if each.id % 2)


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port
