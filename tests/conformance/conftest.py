"""Here every test also runs on the model, so that the model obeys the same laws.

The tests share one event loop, so that connections to PostgreSQL stay open from one to the next.
"""

from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio

from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tests.stores.open_homes import Homes
from tests.stores.postgres_home import KeptPools
from tickwork.store.contract import Store

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_coroutine = iscoroutinefunction(getattr(item, "obj", None))
        if is_coroutine and HERE in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pools() -> AsyncIterator[KeptPools]:
    """Connections that stay open from one test to the next."""
    kept = KeptPools()
    yield kept
    kept.close()


@pytest_asyncio.fixture(params=["model", *KINDS], loop_scope="session")
async def home(
    request: pytest.FixtureRequest, homes: Homes, pools: KeptPools
) -> AsyncIterator[Home]:
    """An empty database of each kind, and an empty model."""
    async with homes.take(request.param, pools) as taken:
        yield taken


@pytest_asyncio.fixture(loop_scope="session")
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    opened = await home.open(clock)
    yield opened
    await opened.close()
