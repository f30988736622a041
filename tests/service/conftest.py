"""Where the apps of these tests have their store: a SQLite file or a PostgreSQL database."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module

import pytest

from tests.kit.databases import PostgresHost
from tests.stores.home import KINDS
from tests.stores.open_homes import Homes
from tickwork.core.model import SYSTEM, Tenant
from tickwork.facade.app import Tickwork
from tickwork.store.contract import Store
from tickwork.store.ids import Moment
from tickwork.wiring import Settings, open_store

HARNESS_MODULE = import_module("tickwork.testing.harness")
OWN_DATABASE_TESTS = frozenset({"test_app_harness", "test_app_loops"})
"""Test modules in which the harness creates its own database, as it does for users."""


@pytest.fixture(autouse=True)
def reused_databases(
    request: pytest.FixtureRequest, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gives the harness an empty database that is migrated already. Creating and migrating one
    takes longer than most of these tests."""
    if request.module.__name__.rpartition(".")[2] in OWN_DATABASE_TESTS:
        return

    @asynccontextmanager
    async def open_empty_store(
        database: str | None, moment: Moment, *, tenant: str
    ) -> AsyncIterator[Store]:
        async with homes.take("sqlite" if database is None else "postgres") as home:
            url = home.url
            if database is not None:
                url += f"{'&' if '?' in url else '?'}{'&'.join(HARNESS_MODULE.FAST_OPTIONS)}"
            store = await open_store(Settings(database=url), moment=moment, is_temporary=True)
            try:
                await store.tenants.put(SYSTEM, Tenant(id=tenant))
                yield store
            finally:
                await store.close()

    monkeypatch.setattr(HARNESS_MODULE, "open_empty_store", open_empty_store)


@pytest.fixture(scope="session")
def schemas_database(postgres_server: PostgresHost) -> Iterator[str]:
    """One database for all: a harness takes only a schema of it."""
    with ThreadPoolExecutor(1) as pool:  # This session may have an event loop already.
        url = pool.submit(asyncio.run, postgres_server.create_database()).result()
        yield url
        pool.submit(asyncio.run, postgres_server.drop_database(url)).result()


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> str | None:
    """What a harness is given."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("schemas_database")
    return url


@pytest.fixture
def app() -> Tickwork:
    """An app that has declared nothing yet."""
    return Tickwork()
