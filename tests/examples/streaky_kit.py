"""Runs Streaky with its worker and fake services as processes, and reads its tables."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any
from uuid import uuid5

import httpx

from examples.streaky.app import STREAKY
from examples.streaky.database import Row, database_at
from examples.streaky.run import sample_user
from examples.streaky.users import User, Users
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.batch import Batch, BatchStatus
from tickwork.core.model import DEFAULT
from tickwork.store.contract import Store

DAY = date(2026, 11, 15)
BATCH = uuid5(STREAKY, DAY.isoformat())
WAIT_SECONDS = 180
"""Seconds that any single step may take, even on a busy machine."""


class Streaky:
    """The example on one database, with its own fake services."""

    def __init__(self, children: Children, home: Home, store: Store, **env: object) -> None:
        self._children, self.url, self._store = children, home.url, store
        self.users = Users(database_at(home.url))
        self._port = _free_port()
        self._services_url = f"http://127.0.0.1:{self._port}"
        named = {
            "GITHUB": self._services_url,
            "DISCORD": self._services_url,
            "TELEGRAM": self._services_url,
        }
        settings = {"RETRY_SECONDS": 0.2, **named, **env}
        self._env = {f"STREAKY_{name}": str(value) for name, value in settings.items()}
        self._env["TICKWORK_DATABASE"] = home.url

    async def prepare(self, users: Iterable[User]) -> None:
        """Create the tables and insert these users."""
        await self.users.create_tables()
        await self.users.add(users)

    async def close(self) -> None:
        """Close the database."""
        await self.users.database.close()

    # Processes

    async def fake_services(self, seconds: float = 0.01) -> Child:
        """Start GitHub, Discord and Telegram with this latency, always at the same address."""
        delays = ("--github-seconds", str(seconds), "--notify-seconds", str(seconds))
        module = "examples.streaky.fake_services"
        child = self._children.spawn(module, "--port", str(self._port), *delays)
        await child.line("Running on", WAIT_SECONDS)
        return child

    def worker(self) -> Child:
        """Start a worker as in the README, but without the scheduler: a test starts its day itself,
        and at noon the schedule would start another one."""
        words = ("run", "examples.streaky.app:app", "--roles", "worker")
        return self._children.spawn("tickwork", *words, env=self._env)

    async def start(self) -> None:
        """Start the day and wait until its batch is stored completely."""
        self.day()

        async def is_stored() -> bool:
            found = await self._store.batches.list(DEFAULT, 1)
            return bool(found) and found[0].status is not BatchStatus.FILLING

        await eventually(is_stored, timeout_seconds=WAIT_SECONDS)

    def day(self) -> Child:
        """Run the command that starts the day, or finds it, and watches it to its end."""
        return self.module("run", "day", DAY.isoformat())

    def module(self, name: str, *words: str) -> Child:
        """Run another program of the example."""
        return self._children.spawn(f"examples.streaky.{name}", *words, env=self._env)

    # Observations

    async def progress(self) -> Batch:
        """Return the day's batch."""
        return await self._store.batches.get(DEFAULT, BATCH)

    async def done(self) -> Batch:
        """Wait until all checks have finished and the day's row is stored."""

        async def is_done() -> bool:
            return bool(await self.rows("streaky_days"))

        await eventually(is_done, timeout_seconds=WAIT_SECONDS, what="the end of the day")
        progress = await self.progress()
        assert progress.status is BatchStatus.COMPLETED
        return progress

    async def rows(self, table: str) -> Sequence[Row]:
        """Return all rows of a table."""
        return await self.users.database.fetch(f"SELECT * FROM {table} ORDER BY 1, 2")

    async def seen(self) -> dict[str, Any]:
        """Return what the fake services received."""
        async with httpx.AsyncClient() as http:
            seen: dict[str, Any] = (await http.get(f"{self._services_url}/seen")).json()
            return seen

    async def faults(self, **faults: object) -> None:
        """Set the faults of the fake services."""
        async with httpx.AsyncClient() as http:
            (await http.put(f"{self._services_url}/faults", json=faults)).raise_for_status()


def sample_users(count: int) -> list[User]:
    """Return users; those with odd numbers have not committed."""
    return [sample_user(number) for number in range(count)]


def idle_users(count: int) -> list[User]:
    """Return users of whom none has committed."""
    return [sample_user(number * 2 + 1) for number in range(count)]


def expected_checks(users: Iterable[User]) -> list[tuple[object, ...]]:
    """Return the rows of `streaky_checks` when all of them were checked once."""
    return [
        (DAY.isoformat(), user.id, user.id % 7 + (user.id % 2 == 0), user.id % 2 == 0)
        for user in users
    ]


def expected_keys(users: Iterable[User]) -> list[str]:
    """Return the keys of the reminders for users who have not committed."""
    return sorted(f"{DAY}/{user.id}" for user in users if user.id % 2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
