"""A start that fails or is cancelled, and a stop that is cancelled, leave nothing running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.kit.waiting import delay, eventually
from tests.stores.home import Home
from tickwork.app.message import Message
from tickwork.core.model import DEFAULT, SYSTEM, Counts
from tickwork.errors import StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.service.scheduler.scheduler import Scheduler

LONG_SECONDS = 600.0


@pytest.fixture
async def began() -> asyncio.Event:
    """Set when the handler has begun."""
    return asyncio.Event()


@pytest.fixture
async def app(home: Home, began: asyncio.Event) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind, whose handler does not end by itself."""
    app = Tickwork(home.url)
    app.queue("work")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        began.set()
        await asyncio.sleep(LONG_SECONDS)

    yield app
    await app.close()


async def assert_nothing_left(app: Tickwork, counts: Counts) -> None:
    """No thread, no task, no node, no claim; what was cancelled at its very end ends by itself."""
    await eventually(
        lambda: "tickwork-node" not in {thread.name for thread in threading.enumerate()}
    )
    assert asyncio.all_tasks() == {asyncio.current_task()}
    store = await app._engine.open()
    assert await store.nodes.list(SYSTEM) == ()
    assert await store.queues.counts(DEFAULT, "work") == counts


async def test_a_start_that_is_cancelled_at_any_time_leaves_nothing(app: Tickwork) -> None:
    async with app.running(drain_seconds=0.0):
        pass  # What is made once is there.
    seconds, is_whole = 0.001, False
    while not is_whole:
        try:
            async with asyncio.timeout(seconds), app.running(drain_seconds=0.0):
                is_whole = True
        except TimeoutError:
            pass
        await app.close()
        seconds *= 1.3
    await assert_nothing_left(app, Counts())


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_start_that_ends_when_others_work_already_stops_them(
    app: Tickwork, began: asyncio.Event, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    await app.queue("work").send(1)
    entering = asyncio.create_task(run(app))

    async def start(_: Scheduler) -> None:
        await began.wait()
        if not is_cancelled:
            raise StoreUnavailable("gone")
        entering.cancel()
        await asyncio.sleep(LONG_SECONDS)

    monkeypatch.setattr(Scheduler, "start", start)
    with pytest.raises(asyncio.CancelledError if is_cancelled else StoreUnavailable):
        await entering
    await assert_nothing_left(app, Counts(ready=1))


async def test_a_stop_that_is_cancelled_does_not_wait_and_leaves_nothing(
    app: Tickwork, began: asyncio.Event
) -> None:
    await app.queue("work").send(1)
    running = asyncio.create_task(run(app, began))
    await began.wait()
    await delay(0.1)  # It drains, as long as nobody tells it otherwise.
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await assert_nothing_left(app, Counts(ready=1))


async def run(app: Tickwork, until: asyncio.Event | None = None) -> None:
    async with app.running(drain_seconds=LONG_SECONDS):
        if until is not None:
            await until.wait()
