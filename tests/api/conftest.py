"""Clients of the application in this process: with a fixed clock and no database, or on a store of
each kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest

from tests.kit.api import Client, api_client, bearer, new_key, outside_of
from tests.stores.home import Home
from tickwork import clock
from tickwork.api import create_api
from tickwork.core import when

NOW = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with api_client(tmp_path_factory.mktemp("api"), now=lambda: NOW) as started:
        yield started


@pytest.fixture
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API on an empty database, with the database's own time."""
    api = create_api(
        now=clock.now, limits=when.Limits(), open_store=home.open, outside=outside_of(home.url)
    )
    store = await home.open()
    headers = bearer(await new_key(store))
    await store.close()
    started, stopped = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        # A task of its own: a fixture begins and ends in different ones.
        async with api.lifespan():
            started.set()
            await stopped.wait()

    serving = asyncio.create_task(serve())
    await asyncio.wait(
        [serving, asyncio.create_task(started.wait())], return_when="FIRST_COMPLETED"
    )
    transport = httpx.ASGITransport(app=cast(Any, api), raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://t", headers=headers
    ) as opened:
        yield opened
    stopped.set()
    await serving
