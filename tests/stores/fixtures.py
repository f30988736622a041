"""Stores as pytest fixtures; tests/conftest.py makes them available to every test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.kit.databases import PostgresHost
from tests.kit.work_dirs import WorkDir
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tests.stores.open_homes import Homes
from tickwork.store.contract import Store


@pytest.fixture(scope="session")
def homes(postgres_server: PostgresHost) -> Iterator[Homes]:
    """Databases for stores. They need not survive a power cut."""
    files = WorkDir.take("stores", in_memory=True)
    taken = Homes(postgres_server, files.path)
    yield taken
    taken.close()
    files.remove()


@pytest.fixture
def clock() -> VirtualClock:
    """The clock of `store`; it stands still until the test advances it."""
    return VirtualClock()


@pytest.fixture(params=KINDS)
async def home(request: pytest.FixtureRequest, homes: Homes) -> AsyncIterator[Home]:
    """An empty database of each kind."""
    async with homes.take(request.param) as taken:
        yield taken


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    opened = await home.open(clock)
    yield opened
    await opened.close()
