"""A running app creates its queues and schedules again if its database was created anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.firing import Firing
from tickwork.app.message import Message
from tickwork.core.model import DEFAULT
from tickwork.facade.app import Tickwork
from tickwork.service import node
from tickwork.wiring import Settings, migrate


def shop(url: str, seen: list[Any]) -> Tickwork:
    app = Tickwork(url, name="shop", min_interval_seconds=1)
    app.queue("work", max_retries=7)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    @app.schedule(interval_seconds=1)
    async def tick(_: Firing[Any]) -> None:
        seen.append("tick")

    return app


async def create_anew(url: str) -> None:
    """Deletes everything and migrates, as an operator does who wants to start from scratch."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        for name in ("", "-wal", "-shm"):
            path.with_name(path.name + name).unlink(missing_ok=True)
    else:
        connection = await asyncpg.connect(url)
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await connection.close()
    await migrate(Settings(database=url))


async def test_a_file_created_anew_gets_the_queues_and_schedules_of_a_running_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_recovery(f"sqlite:///{tmp_path}/tickwork.db", monkeypatch)


async def test_a_database_created_anew_gets_the_queues_and_schedules_of_a_running_app(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(Settings(database=postgres_url))
    await check_recovery(postgres_url, monkeypatch)


async def check_recovery(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "BEATS_PER_TTL", 50)
    seen: list[Any] = []
    app = shop(url, seen)
    async with app.running():
        await eventually(lambda: "tick" in seen)
        await create_anew(url)
        seen.clear()
        await eventually(lambda: "tick" in seen)
        await app.queue("work").send("again")
        await eventually(lambda: "again" in seen)
        store = await app._engine.open()
        assert (await store.queues.get(DEFAULT, "work")).settings.max_retries == 7


async def test_a_queue_that_was_deleted_is_created_again_by_the_app_that_declares_it(
    home: Home,
) -> None:
    seen: list[Any] = []
    app = shop(home.url, seen)
    async with app.running(roles="worker"):
        store = await app._engine.open()
        before = await store.queues.get(DEFAULT, "work")
        await store.queues.delete(DEFAULT, "work")

        async def is_back() -> bool:
            names = [queue.name for queue in await store.queues.list(DEFAULT)]
            return "work" in names

        await eventually(is_back)
        assert (await store.queues.get(DEFAULT, "work")).id != before.id
        await app.queue("work").send("again")
        await eventually(lambda: seen == ["again"])
