"""Two apps in one process: what a handler of one sends by the other goes where that one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stores.home import Home
from tickwork.core.message.backoff import Fixed
from tickwork.core.model import SYSTEM, Scope, Tenant
from tickwork.facade.app import Tickwork
from tickwork.store.sqlite.engine.file import locate
from tickwork.testing import harness


async def waiting(app: Tickwork, queue: str) -> list[bytes]:
    store = await app._engine.open()
    return [message.body for message in await store.messages.peek(Scope(app.tenant), queue, 100)]


def fails_once(app: Tickwork, other: Tickwork) -> None:
    """A handler that sends by the other app, alone and as a batch, and fails at its first call."""
    app.queue("work", backoff=Fixed(0))
    app.queue("out")
    out = other.queue("out")

    @app.on("work")
    async def handle(message: Any) -> None:
        await out.send(message.attempts)
        await other.batch("out", [f"item {message.attempts}"])
        if message.attempts == 1:
            raise ValueError("no")


async def test_another_database_is_another_one(
    tmp_path: Path, app: Tickwork, database: str | None
) -> None:
    """It is stored there at once, whatever becomes of the handler."""
    other = Tickwork(f"sqlite:///{tmp_path / 'other.db'}")
    fails_once(app, other)
    async with harness(app, database=database) as h:
        await app.queue("work").send("x")
        await h.drain()
        assert await h.sent("out") == []
    assert sorted(await waiting(other, "out")) == [b'"item 1"', b'"item 2"', b"1", b"2"]
    await other.close()


async def test_another_tenant_is_another_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    app, other = Tickwork(url), Tickwork(url, tenant="globex")
    await (await app._engine.open()).tenants.put(SYSTEM, Tenant(id="globex"))
    fails_once(app, other)
    async with harness(app) as h:
        await app.queue("work").send("x")
        await h.drain()
        assert await h.sent("out") == []
    assert len(await waiting(other, "out")) == 4
    await app.close()
    await other.close()


async def test_two_apps_for_one_database_and_tenant_are_as_one(
    tmp_path: Path, database: str | None
) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    app, other = Tickwork(url), Tickwork(url)
    fails_once(app, other)
    async with harness(app, database=database) as h:
        await app.queue("work").send("x")
        await h.drain()
        assert sorted(str(message.body) for message in await h.sent("out")) == ["2", "item 2"]
    await other.close()


def respelt(home: Home, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another URL of the same database."""
    if home.kind == "postgres":
        return f"{home.url}{'&' if '?' in home.url else '?'}application_name=another"
    file = locate(home.url)
    monkeypatch.chdir(file.parent)
    return f"sqlite:///{file.name}"


async def test_a_database_is_the_same_however_its_url_is_spelt(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = Tickwork(home.url), Tickwork(respelt(home, monkeypatch))
    fails_once(app, other)
    async with harness(app) as h:
        await app.queue("work").send("x")
        await h.drain()
        assert sorted(str(message.body) for message in await h.sent("out")) == ["2", "item 2"]
    assert await waiting(other, "out") == []
    await other.close()


async def test_a_link_to_a_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "linked.db").symlink_to(tmp_path / "shop.db")
    app, other = (
        Tickwork(f"sqlite:///{tmp_path / name}") for name in ("shop.db", "sub/../linked.db")
    )
    assert app._engine.registry.home() == other._engine.registry.home()
