"""SQLite files: migrated once, then copied."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

from tests.stores.clock import VirtualClock
from tests.stores.home import Kind, moment_of
from tickwork.store.contract import Store
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.migrate import migrate


class SqliteHome:
    """One file."""

    kind: Kind = "sqlite"

    def __init__(self, path: Path) -> None:
        self._crashes = count(1)
        self._move_to(path)

    def _move_to(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"

    async def open(self, clock: VirtualClock | None = None) -> Store:
        return await SqliteStore.open(self.url, moment=moment_of(clock))

    async def crash(self, store: Store) -> None:
        """Only what is on the disk now survives: the home moves to a copy of it."""
        left = self.path.with_name(f"after-crash-{next(self._crashes)}.db")
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copy(f"{self.path}{suffix}", f"{left}{suffix}")
        await store.close()
        self._move_to(left)


class SqliteHomes:
    """The files of a session."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count(1)
        self.is_copying = True
        self._template = folder / "template.db"
        with ThreadPoolExecutor(1) as pool:  # This session may have an event loop already.
            pool.submit(asyncio.run, migrate(self._template)).result()

    def copy_to(self, path: Path) -> None:
        """Puts a migrated, empty file there."""
        shutil.copyfile(self._template, path)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[SqliteHome]:
        place = self._folder / f"store-{next(self._numbers)}"
        place.mkdir()
        try:
            path = place / "tickwork.db"
            self.copy_to(path)
            yield SqliteHome(path)
        finally:
            shutil.rmtree(place)
