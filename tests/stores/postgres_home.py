"""Migrated PostgreSQL databases, reused because creating one takes longer than most tests.

A database is handed out as the migrations left it. It is emptied when it is returned, and dropped
if that fails or if a test may have left it in an unknown state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Thread
from typing import cast

import asyncpg
import pytest

from tests.kit.databases import PostgresHost
from tests.stores.clock import VirtualClock
from tests.stores.home import Kind, moment_of
from tickwork.store.contract import Store
from tickwork.store.ids import Moment, database_time
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.migrate import migrate
from tickwork.store.postgres.store import CONNECTIONS_MAX

# Rows that the migrations inserted are saved, and restored if a test changed them. What nothing
# refers to is emptied first. (TRUNCATE takes ten times as long on small tables. Rows that are
# deleted and inserted after each test leave a table of dead rows, which every query then reads.)
_KEEP_SEEDS = """
CREATE SCHEMA seeds;
CREATE TABLE seeds.own_tables AS SELECT tablename FROM pg_tables WHERE schemaname = 'public';
DO $$ DECLARE name text; is_empty boolean; emptied text := ''; restored text := ''; BEGIN
    FOR name IN
        SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        ORDER BY (SELECT count(*) FROM pg_constraint WHERE confrelid = pg_class.oid)
    LOOP
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM public.%I)', name) INTO is_empty;
        IF is_empty THEN
            emptied := emptied || format('DELETE FROM public.%I;', name);
        ELSE
            EXECUTE format('CREATE TABLE seeds.%1$I AS TABLE public.%1$I', name);
            restored := restored || format(
                'IF EXISTS (TABLE public.%1$I EXCEPT ALL TABLE seeds.%1$I)
                OR EXISTS (TABLE seeds.%1$I EXCEPT ALL TABLE public.%1$I) THEN
                    DELETE FROM public.%1$I; INSERT INTO public.%1$I TABLE seeds.%1$I;
                END IF;',
                name
            );
        END IF;
    END LOOP;
    EXECUTE format(
        'CREATE FUNCTION seeds.put_back() RETURNS void LANGUAGE plpgsql AS %L',
        'BEGIN ' || emptied || restored || ' END'
    );
END $$
"""
_NEW_TABLES = """
SELECT tablename FROM pg_tables WHERE schemaname = 'public'
EXCEPT SELECT tablename FROM seeds.own_tables
"""


class PostgresHome:
    """One database of the server."""

    kind: Kind = "postgres"

    def __init__(self, url: str, pools: KeptPools | None = None) -> None:
        self.url, self._pools = url, pools

    async def open(self, clock: VirtualClock | None = None) -> Store:
        if self._pools is None:
            return await PostgresStore.open(self.url, moment=moment_of(clock))
        database = await self._pools.take(self.url)
        return PostgresStore(database, moment_of(clock), self.url)

    async def crash(self, store: Store) -> None:
        """Cuts the connections in the middle of whatever they do."""
        assert isinstance(store, PostgresStore)
        store._database._pool.terminate()


class KeptDatabase(Database):
    """A database whose pool goes back to `KeptPools` when it is closed."""

    pools: KeptPools

    async def close(self) -> None:
        await self.pools.give_back(self)


class KeptPools:
    """Pools that stay open from one test to the next, for tests that share an event loop.

    On a new connection the server reads its catalog and plans every statement again: most of what
    a test on PostgreSQL costs.
    """

    def __init__(self) -> None:
        self._free: dict[str, list[asyncpg.Pool[asyncpg.Record]]] = {}
        self._loop, self._lent = asyncio.get_running_loop(), set[str]()

    @contextmanager
    def lent_for(self, url: str) -> Iterator[None]:
        """Within, whoever opens a store at this URL gets one with a kept pool, such as an app."""
        self._lent.add(url)
        try:
            yield
        finally:
            self._lent.discard(url)

    def lends(self, url: str) -> bool:
        """Whether a store at this URL gets a kept pool. One of another event loop never does."""
        return url in self._lent and asyncio.get_running_loop() is self._loop

    async def take(self, url: str) -> KeptDatabase:
        free = self._free.setdefault(url, [])
        if free:
            database = KeptDatabase(free.pop(), url, pooled=False)
        else:
            opened = await KeptDatabase.open(url, connections_max=CONNECTIONS_MAX, pooled=False)
            database = cast(KeptDatabase, opened)
        database.pools = self
        return database

    async def give_back(self, database: KeptDatabase) -> None:
        """Keeps the pool if all of its connections are idle; a test may have broken one."""
        pool = database._pool
        await database.return_kept()
        is_whole = not pool.is_closing() and pool.get_idle_size() == pool.get_size() > 0
        if is_whole:
            self._free[database.url].append(pool)
        else:
            await Database.close(database)

    def forget(self, url: str) -> None:
        """Closes the pools of one database, with whatever options they were opened."""
        for known in [address for address in self._free if address.startswith(url)]:
            for pool in self._free.pop(known):
                pool.terminate()

    def close(self) -> None:
        for url in [*self._free]:
            self.forget(url)


@contextmanager
def opened_with(pools: KeptPools) -> Iterator[None]:
    """Within, stores are opened with kept pools where these are lent."""
    open_anew = PostgresStore.open

    async def open_store(
        url: str,
        *,
        moment: Moment = database_time,
        direct_url: str | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> PostgresStore:
        if direct_url is None and connections_max == CONNECTIONS_MAX and pools.lends(url):
            return PostgresStore(await pools.take(url), moment, url)
        return await open_anew(
            url, moment=moment, direct_url=direct_url, connections_max=connections_max
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresStore, "open", open_store)
        yield


class PostgresHomes:
    """The databases of a session."""

    def __init__(self, server: PostgresHost) -> None:
        self._server = server
        self._clean: list[str] = []
        self._clean_with_pools: list[str] = []
        self._template: str | None = None
        self._cleaner = _Cleaner()

    @asynccontextmanager
    async def take(self, pools: KeptPools | None = None) -> AsyncIterator[PostgresHome]:
        """An empty database. Those with kept pools are for tests with pools only: others count
        the connections of their database."""
        clean = self._clean if pools is None else self._clean_with_pools
        url = clean.pop() if clean else await self._make()
        try:
            yield PostgresHome(url, pools)
        finally:
            if await self._cleaner.empty(url):
                clean.append(url)
            else:
                if pools is not None:
                    pools.forget(url)
                await self._server.drop_database(url)

    async def _make(self) -> str:
        """A copy of a migrated database: migrating one takes longer."""
        if self._template is None:
            url = await self._server.create_database()
            await migrate(url)
            connection = await asyncpg.connect(url)
            await connection.execute(_KEEP_SEEDS)
            await connection.close()
            self._template = url
        return await self._server.create_database(template_url=self._template)

    def close(self) -> None:
        """Closes what was kept open to empty databases."""
        self._cleaner.close()


CLEANER = "tickwork-tests-cleaner"
"""Name of the connections that empty databases between tests."""


class _Cleaner:
    """Empties databases over connections that stay open: a new one spends five times as long,
    most of it on reading the catalog. They belong to an event loop in a thread, since every test
    has its own."""

    def __init__(self) -> None:
        self._connections: dict[str, asyncpg.Connection[asyncpg.Record]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="cleaner", daemon=True)
        self._thread.start()

    async def empty(self, url: str) -> bool:
        """Whether the database is as the migrations left it."""
        cleaning = asyncio.run_coroutine_threadsafe(self._empty(url), self._loop)
        return await asyncio.wrap_future(cleaning)

    async def _empty(self, url: str) -> bool:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            connection = self._connections.pop(url, None)
            if connection is None or connection.is_closed():
                connection = await asyncpg.connect(
                    url, server_settings={"application_name": CLEANER, "lock_timeout": "2s"}
                )
            try:
                for row in await connection.fetch(_NEW_TABLES):
                    await connection.execute(f'DROP TABLE public."{row[0]}"')
                await connection.execute("SELECT seeds.put_back()")
            except BaseException:
                connection.terminate()
                raise
            self._connections[url] = connection
            return True
        return False

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for connection in self._connections.values():
            await connection.close()
