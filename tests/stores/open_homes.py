"""Opens a store of any kind on an empty database of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from tests.kit.databases import PostgresHost
from tests.model.state import Tables
from tests.model.store import MemoryStore
from tests.stores.clock import VirtualClock
from tests.stores.home import Home, Kind, moment_of
from tests.stores.postgres_home import KeptPools, PostgresHomes
from tests.stores.sqlite_home import SqliteHomes
from tickwork.store.contract import Store


class ModelHome:
    """Tables in memory."""

    kind: Kind = "model"
    url = "memory:"

    def __init__(self) -> None:
        self.tables = Tables()

    async def open(self, clock: VirtualClock | None = None) -> Store:
        assert clock is not None, "the model has no clock of its own"
        # The model has no schedules: their tests run on real stores only.
        return cast(Store, MemoryStore(self.tables, moment_of(clock)))

    async def crash(self, store: Store) -> None:  # noqa: ARG002  all there is, is in the tables
        """The tables are the database; counters that were only in memory are lost."""
        self.tables.counted.clear()


class Homes:
    """The databases of a test session."""

    def __init__(self, server: PostgresHost, sqlite: SqliteHomes) -> None:
        self._postgres, self._sqlite = PostgresHomes(server), sqlite

    def close(self) -> None:
        """Closes connections that were kept for the next test."""
        self._postgres.close()

    @asynccontextmanager
    async def take(self, kind: Kind, pools: KeptPools | None = None) -> AsyncIterator[Home]:
        """An empty database, for the duration of the block."""
        if kind == "model":
            yield ModelHome()
        elif kind == "sqlite":
            async with self._sqlite.take() as file:
                yield file
        else:
            async with self._postgres.take(pools) as database:
                yield database

    @asynccontextmanager
    async def open_store(self, kind: Kind, clock: VirtualClock) -> AsyncIterator[Store]:
        """A store on an empty database of its own."""
        async with self.take(kind) as home:
            store = await home.open(clock)
            try:
                yield store
            finally:
                await store.close()
