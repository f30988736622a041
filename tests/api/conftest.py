"""Clients of the application in this process: with a fixed clock and no database, or on a store of
each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import httpx
import pytest

from tests.kit.api import Client, ReusedApi, api_client, bearer, in_process, new_key
from tests.stores.home import Home

NOW = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with api_client(tmp_path_factory.mktemp("api"), now=lambda: NOW) as started:
        yield started


@pytest.fixture(scope="session")
def reused_api() -> ReusedApi:
    return ReusedApi()


@pytest.fixture
async def http(home: Home, reused_api: ReusedApi) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API on an empty database, with the database's own time."""
    api = reused_api.on(home)
    store = await home.open()
    headers = bearer(await new_key(store))
    await store.close()
    async with in_process(api, **headers) as client:
        yield client
