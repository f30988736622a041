"""An app in one event loop after the other, or in several at a time; and once at a time at work."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.store.contract import Store


def in_a_loop_of_its_own(work: Coroutine[Any, Any, Any]) -> Any:
    """As `asyncio.run` does it in a program: it begins a loop, and ends it."""
    with ThreadPoolExecutor(1) as pool:  # This test has an event loop already.
        return pool.submit(asyncio.run, work).result()


async def test_an_app_is_used_in_one_event_loop_after_the_other(home: Home) -> None:
    app, seen = Tickwork(home.url), list[Any]()
    work = app.queue("work")

    @app.on("work")
    async def handle(message: Any) -> None:
        seen.append(message.body)

    async def run() -> None:
        async with app.running():
            await eventually(lambda: len(seen) == 2)

    in_a_loop_of_its_own(work.send(1))
    in_a_loop_of_its_own(work.send(2))
    in_a_loop_of_its_own(run())
    assert sorted(seen) == [1, 2]


async def test_an_event_loop_that_ends_lets_go_of_the_database(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, closed = Tickwork(home.url), list[Store]()
    work = app.queue("work")

    async def send() -> None:
        await work.send(1)
        store = await app._engine.open()
        close = store.close

        async def noted() -> None:
            closed.append(store)
            await close()

        monkeypatch.setattr(store, "close", noted)

    in_a_loop_of_its_own(send())
    assert len(closed) == 1
    store = await app._engine.open()
    assert store is not closed[0]
    assert len(await store.messages.peek(DEFAULT, "work", 10)) == 1
    await app.close()
    assert not app._engine.stores.is_open


async def test_an_app_is_used_in_several_event_loops_at_a_time(home: Home) -> None:
    app = Tickwork(home.url)
    work = app.queue("work")
    await work.send("here")
    async with app.running(roles=["api"]):
        await asyncio.gather(
            *(asyncio.to_thread(in_a_loop_of_its_own, work.send(number)) for number in range(5))
        )
        assert (await work.stats()).counts.ready == 6
    await app.close()


async def test_an_app_that_is_to_make_an_event_loop_in_another_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"app\.run\(\): .*async with app\.running\(\)"):
        Tickwork().run()


async def test_an_app_is_at_work_once_at_a_time(home: Home) -> None:
    app = Tickwork(home.url)
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Any) -> None:
        seen.append(message.body)

    async with app.running():
        with pytest.raises(InvalidInput, match="running already"):
            async with app.running():
                pass
        await work.send(1)
        await eventually(lambda: seen == [1])
    async with app.running():
        await work.send(2)
        await eventually(lambda: seen == [1, 2])
