"""Stores as pytest fixtures; tests/conftest.py makes them available to every test."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext

import pytest

from tests.kit.databases import PostgresHost
from tests.kit.work_dirs import WorkDir
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tests.stores.open_homes import Homes
from tests.stores.postgres_home import KeptPools, opened_with
from tests.stores.sqlite_home import SqliteHomes
from tickwork.store.contract import Store
from tickwork.store.shared.sql_files import Migration
from tickwork.wiring.backend import SqliteBackend

OWN_CONNECTIONS = frozenset(
    {
        *("faults", "mutants", "store", "stores"),
        *("test_scheduler_running", "test_scheduler_year", "test_schemathesis"),
        *(
            "test_node_step_down",
            "test_worker_node",
            "test_worker_starting",
            "test_worker_stopping",
        ),
    }
)
"""Folders and files of tests that count, cut or watch the connections of their database."""


@pytest.fixture(scope="session")
def sqlite_homes() -> Iterator[SqliteHomes]:
    """SQLite files. They need not survive a power cut."""
    files = WorkDir.take("stores", in_memory=True)
    yield SqliteHomes(files.path)
    files.remove()


@pytest.fixture(scope="session")
def homes(postgres_server: PostgresHost, sqlite_homes: SqliteHomes) -> Iterator[Homes]:
    """Databases for stores."""
    taken = Homes(postgres_server, sqlite_homes)
    yield taken
    taken.close()


@pytest.fixture(scope="session", autouse=True)
def migrated_files(sqlite_homes: SqliteHomes) -> Iterator[None]:
    """A new SQLite file of an app or a command is a copy of one that is migrated: migrating
    takes longer than most tests."""
    migrate = SqliteBackend.migrate

    async def copy_and_migrate(backend: SqliteBackend) -> tuple[Migration, ...]:
        path = backend.path
        if sqlite_homes.is_copying and path.parent.exists() and not path.exists():
            sqlite_homes.copy_to(path)
        return await migrate(backend)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteBackend, "migrate", copy_and_migrate)
        yield


@pytest.fixture
def migrations(sqlite_homes: SqliteHomes) -> Iterator[None]:
    """Files of this test are created by migrations."""
    sqlite_homes.is_copying = False
    yield
    sqlite_homes.is_copying = True


@pytest.fixture(scope="session")
async def pools() -> AsyncIterator[KeptPools]:
    """Connections that stay open from one test to the next."""
    kept = KeptPools()
    with opened_with(kept):
        yield kept
    kept.close()
    await asyncio.sleep(0)  # Sockets are closed in the next turn of the event loop.


@pytest.fixture
def clock() -> VirtualClock:
    """The clock of `store`; it stands still until the test advances it."""
    return VirtualClock()


@pytest.fixture(params=KINDS)
async def home(
    request: pytest.FixtureRequest, homes: Homes, pools: KeptPools
) -> AsyncIterator[Home]:
    """An empty database of each kind."""
    is_own = not OWN_CONNECTIONS.isdisjoint({request.path.parent.name, request.path.stem})
    async with homes.take(request.param, None if is_own else pools) as taken:
        with nullcontext() if is_own else pools.lent_for(taken.url):
            yield taken


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    opened = await home.open(clock)
    yield opened
    await opened.close()
