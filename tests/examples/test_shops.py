"""The shops on a real PostgreSQL: an order and its email commit together, or not at all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import jwt
import pytest

from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home

on_postgres = pytest.mark.parametrize("home", ["postgres"], indirect=True)

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 150


@pytest.fixture
async def database(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection to the database of the shop."""
    monkeypatch.setenv("TICKWORK_DATABASE", home.url)
    connection = await asyncpg.connect(home.url)
    yield connection
    await connection.close()


async def order_tea(
    order: Callable[[], Any],
    orders: Callable[[], Any],
    database: asyncpg.Connection[Any],
    shop: str,
) -> None:
    """Orders the last tea, and another one, which is sold out after its email was sent."""
    await database.execute(f"INSERT INTO {shop}_shop_stock VALUES ('tea', 1)")
    assert [await order(), await order()] == [201, 409]

    async def emails() -> bool:
        return [made["emails"] for made in await orders()] == [1]

    await eventually(emails, what="the email")
    handled = await database.fetchval("SELECT count(*) FROM tickwork_messages")
    assert handled == 0


@on_postgres
async def test_the_shop_with_fastapi(database: asyncpg.Connection[Any]) -> None:
    shop = import_module("examples.fastapi_shop.shop")
    headers = {
        name: {"Authorization": f"Bearer {jwt.encode({'sub': name}, shop.SECRET)}"}
        for name in ("ann", "bob")
    }
    transport = httpx.ASGITransport(shop.api)
    async with (
        shop.lifespan(shop.api),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as http,
    ):

        async def order() -> int:
            made = await http.post("/orders", json={"item": "tea"}, headers=headers["ann"])
            return made.status_code

        async def orders() -> Any:
            return (await http.get("/orders", headers=headers["ann"])).json()

        await order_tea(order, orders, database, "fastapi")
        assert (await http.get("/orders", headers=headers["bob"])).json() == []
        assert (await http.get("/orders", headers={"Authorization": "Bearer x"})).status_code == 401
        made = await http.put("/reminders/tea", params={"at": "09:00"}, headers=headers["ann"])
        path = f"/reminders/{made.json()['id']}"
        assert (await http.delete(path, headers=headers["bob"])).status_code == 404
        assert (await http.delete(path, headers=headers["ann"])).status_code == 204


@on_postgres
async def test_the_shop_with_flask(database: asyncpg.Connection[Any]) -> None:
    shop = import_module("examples.flask_shop.shop")
    await asyncio.to_thread(shop.engine)
    client = shop.web.test_client

    async def order() -> int:
        made = await asyncio.to_thread(lambda: client().post("/orders", json={"item": "tea"}))
        return int(made.status_code)

    async def orders() -> Any:
        return (await asyncio.to_thread(lambda: client().get("/orders"))).json

    async with shop.app.running():
        await order_tea(order, orders, database, "flask")
    await asyncio.to_thread(shop.app.sync.close)
    shop.engine().dispose()
    shop.engine.cache_clear()


@on_postgres
async def test_the_shop_with_django_and_its_console(
    database: asyncpg.Connection[Any], children: Children, home: Home
) -> None:
    with closing(socket.socket()) as free, closing(socket.socket()) as other:
        free.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        web, server = free.getsockname()[1], other.getsockname()[1]
    env = {
        "TICKWORK_DATABASE": home.url,
        "TICKWORK_PORT": str(server),
        "TICKWORK_SERVER": f"http://127.0.0.1:{server}",
        "SHOP_PORT": str(web),
    }
    children.spawn("examples.django_shop", env=env)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{web}", timeout=60) as http:

        async def is_up() -> bool:
            try:
                return (await http.get("/login")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(is_up, what="the shop")

        async def order() -> int:
            return (await http.post("/orders", json={"item": "tea"})).status_code

        async def orders() -> Any:
            return (await http.get("/orders")).json()

        await order_tea(order, orders, database, "django")
        found = await http.get("/v1/queues")
        assert (found.status_code, found.headers["location"][:6]) == (302, "/login")
        form = {"username": "demo", "password": "demo"}
        form["csrfmiddlewaretoken"] = http.cookies["csrftoken"]
        assert (await http.post("/login", data=form)).status_code == 302
        assert "tickwork_session" not in http.cookies
        who = (await http.get("/v1/session")).json()
        pause = {"X-CSRF-Token": who["csrf_token"]}
        assert (await http.post("/v1/queues/emails/pause", headers=pause)).status_code < 300
        assert (await http.get("/console")).headers["content-type"].startswith("text/html")


def test_a_shop_is_short() -> None:
    for name in ("fastapi_shop", "flask_shop", "django_shop"):
        files = (EXAMPLES / name).rglob("*.py")
        lines = [line for path in files for line in path.read_text().splitlines() if line.strip()]
        assert len(lines) <= LINES_MAX, name
