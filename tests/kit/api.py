"""A client of the API with a key, in this process."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
from litestar import Litestar
from litestar.testing import TestClient

from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork import clock
from tickwork.api import create_api
from tickwork.api.server_state import stop_streams
from tickwork.core import when
from tickwork.core.access import Permission
from tickwork.core.jwt_issuer import Issuer
from tickwork.core.model import Scope
from tickwork.core.request_rate import RequestRates
from tickwork.ops.context import Context
from tickwork.ops.keys import create_key
from tickwork.ops.outside import Outside
from tickwork.ops.stores import Store
from tickwork.wiring import Settings, guard, open_store, secret_box, webhook_sink

Client = TestClient[Litestar]
ANY_WRONG_KEYS = RequestRates(wrong_keys_per_second=1e6)
"""Rates for tests that try wrong keys on all routes."""

ALL_SCOPES = tuple(Permission)


def bearer(token: str) -> dict[str, str]:
    """The header with a key."""
    return {"Authorization": f"Bearer {token}"}


async def new_key(
    store: Store,
    *,
    tenant: str = "default",
    scopes: Sequence[str] = ALL_SCOPES,
    owner: str | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Creates a key and returns its text."""
    fields = {"name": "test", "scopes": [*scopes], "owner": owner, "expires_at": expires_at}
    return (await create_key(Context(store, Scope(tenant)), fields)).token


def outside_of(database: str, **given: Any) -> Outside:
    """What reaches the outside, with a secret key for tests."""
    settings = Settings(database=database, secret_key=b64encode(bytes(32)).decode(), **given)
    return Outside(
        lambda url: guard(settings).check_url(url),
        lambda: settings.public_url,
        partial(secret_box, settings),
        partial(secret_box, settings, make_key=False),
        partial(webhook_sink, settings),
    )


def new_key_of(settings: Settings, **fields: Any) -> str:
    """Creates a key, by default with all scopes, in the database of some settings, and the database
    too."""

    async def create() -> str:
        store = await open_store(settings)
        try:
            return await new_key(store, **fields)
        finally:
            await store.close()

    return asyncio.run(create())


class ReusedApi:
    """An API that opens the store of the current test, with its clock or the real one: building
    its routes takes longer than most tests."""

    def __init__(self, issuers: Sequence[Issuer] = ()) -> None:
        self._home: Home | None = None
        self._clock: VirtualClock | None = None
        self._api = create_api(
            now=self._now,
            limits=when.Limits(),
            open_store=self._open,
            issuers=issuers,
            monotonic=self._monotonic,
            rates=ANY_WRONG_KEYS,
            outside=outside_of("sqlite:///:memory:"),
        )

    @property
    def routes(self) -> list[Any]:
        """All routes of the API."""
        return [*self._api.routes]

    def on(self, home: Home, clock: VirtualClock | None = None) -> Litestar:
        self._home, self._clock = home, clock
        return self._api

    def _now(self) -> datetime:
        return clock.now() if self._clock is None else self._clock.now()

    def _monotonic(self) -> float:
        return clock.monotonic() if self._clock is None else self._clock.now().timestamp()

    async def _open(self) -> Store:
        assert self._home is not None
        return await self._home.open(self._clock)


@asynccontextmanager
async def in_process(api: Litestar, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API that runs in this event loop. It reads each answer whole, so streams end
    at once."""
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
    stop_streams(api)
    transport = httpx.ASGITransport(app=cast(Any, api), raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://t", headers=headers
    ) as client:
        yield client
    stopped.set()
    await serving


@contextmanager
def api_client(
    folder: Path,
    now: Callable[[], datetime] = clock.now,
    *,
    database: str | None = None,
    **given: Any,
) -> Iterator[Client]:
    """A client with a key with all scopes, of an API on a database, or on a new SQLite file in a
    folder. Further settings are those of what reaches the outside."""
    settings = Settings(database=database or f"sqlite:///{folder / 'api.db'}")
    headers = bearer(new_key_of(settings))
    api = create_api(
        now=now,
        limits=when.Limits(),
        open_store=lambda: open_store(settings),
        outside=outside_of(settings.database, **given),
    )
    with TestClient(api, raise_server_exceptions=False) as client:
        stop_streams(api)
        client.headers.update(headers)
        yield client
