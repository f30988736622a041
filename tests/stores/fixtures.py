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
from tickwork.store.contract import Store

OWN_CONNECTIONS = frozenset(
    {
        *("faults", "mutants", "store", "stores"),
        *("test_scheduler_running", "test_scheduler_year"),
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
def homes(postgres_server: PostgresHost) -> Iterator[Homes]:
    """Databases for stores. They need not survive a power cut."""
    files = WorkDir.take("stores", in_memory=True)
    taken = Homes(postgres_server, files.path)
    yield taken
    taken.close()
    files.remove()


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
