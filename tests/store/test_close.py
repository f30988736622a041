"""A store closes within a bound, whatever blocks it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.waiting import delay
from tests.store.acts import writer_held
from tests.stores.home import Home
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres import store as postgres_store
from tickwork.store.postgres.engine import database, wakeups
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite import store as sqlite_store
from tickwork.store.sqlite.engine import writer

SOON_SECONDS = 0.1
PATIENCE_SECONDS = 5.0
"""Anything that takes longer is broken."""


async def test_a_write_that_never_ends_does_not_block_close(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CLOSE_SECONDS_MAX", SOON_SECONDS)
    monkeypatch.setattr(sqlite_store, "FLUSH_SECONDS_MAX", SOON_SECONDS)
    store = await SqliteStore.open(path)
    async with writer_held(store):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await store.close()


async def test_a_file_is_closed_where_no_thread_starts_any_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(path)
    await store.now()

    def refuse(_thread: Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(Thread, "start", refuse)  # As some versions of Python do at exit.
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_server_that_stops_answering_does_not_block_close(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "CLOSE_SECONDS_MAX", SOON_SECONDS)
    monkeypatch.setattr(wakeups, "_CLOSE_SECONDS", SOON_SECONDS)
    monkeypatch.setattr(database, "_CLOSE_TIMEOUT_SECONDS", SOON_SECONDS)
    async with PostgresProxy(home.url) as proxy:
        store = await PostgresStore.open(proxy.url)
        async with store.wakeups.watch([uuid4()]):
            proxy.blackhole = True
            store.wakeups.notify([uuid4()])
            asking = asyncio.create_task(store.now())
            await delay(SOON_SECONDS)
            closing = asyncio.create_task(store.close())
            done, _ = await asyncio.wait([closing], timeout=PATIENCE_SECONDS)
        proxy.blackhole = False
        await asyncio.wait([closing, asking])
        assert done
