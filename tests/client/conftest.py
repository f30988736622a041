"""A client, and an app of the tenant `one`, on the same empty database, once on each store."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from tests.client.kit import InProcess
from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.stores.home import Home
from tickwork import Client, Tickwork
from tickwork.facade.app import engine_of


@pytest.fixture(scope="session")
def reused_api() -> ReusedApi:
    return ReusedApi()


@pytest.fixture
async def client(home: Home, reused_api: ReusedApi) -> AsyncIterator[Client]:
    store = await home.open()
    key = await new_key(store)
    await store.close()
    async with in_process(reused_api.on(home), **bearer(key)) as http:
        yield Client("http://t", key=key, transport=InProcess(http))


@pytest.fixture
async def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    monkeypatch.setenv("TICKWORK_SECRET_KEY", b64encode(bytes(32)).decode())
    app = Tickwork("sqlite:///unused.db", tenant="one")
    store = await home.open()
    with engine_of(app).stores.using(store):
        yield app
    await store.close()
