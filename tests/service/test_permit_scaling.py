"""A queue gets more permits while all are in use and more messages wait."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.service.workplace import Workplace
from tickwork.service.worker import permits
from tickwork.service.worker.prefetch import FIRST_THROUGHPUT_SECONDS, THROUGHPUT_SECONDS

MESSAGES = 1_000
ENOUGH = 32


@pytest.mark.parametrize("seconds", [FIRST_THROUGHPUT_SECONDS / 2, THROUGHPUT_SECONDS * 1.5])
async def test_a_backlog_gets_more_and_more_permits(tmp_path: Path, seconds: float) -> None:
    place, running, most = Workplace(tmp_path), 0, 0

    async def handle(_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(seconds)
        running -= 1

    place.handle(handle)
    queue = place.app.queue("work")
    for _ in range(MESSAGES // 100):
        await queue.send_batch([0] * 100)
    async with place.app.running(drain_seconds=60):
        await eventually(lambda: most >= ENOUGH, what="so many at a time")


async def test_a_backlog_of_slow_messages_gets_more_permits_before_one_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "AUTO_GROW_SECONDS", 0.05)
    place, running, go_on = Workplace(tmp_path), 0, asyncio.Event()

    async def handle(_: Any) -> None:
        nonlocal running
        running += 1
        await go_on.wait()

    place.handle(handle)
    await place.app.queue("work").send_batch([0] * ENOUGH)
    async with place.app.running():
        await eventually(lambda: running == ENOUGH, what="so many at a time")
        go_on.set()


async def test_slow_messages_get_no_more_permits_while_the_last_ones_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, go_on, started = Workplace(tmp_path), asyncio.Event(), list[Any]()

    async def handle(message: Any) -> None:
        started.append(message.body)
        if message.body == "fails":
            raise ValueError
        await go_on.wait()

    place.handle(handle)
    await place.app.queue("work").send_batch(["fails", *["slow"] * 10])
    async with place.app._engine.running() as worker:
        [consumer] = [candidate for candidate in worker.consumers if candidate.queue.name == "work"]
        await eventually(lambda: started == ["fails", "slow"], what="a slow one")
        monkeypatch.setattr(permits, "AUTO_GROW_SECONDS", 0.0)
        for _ in range(10):
            consumer.stop_overdue()
        assert (consumer.permits.limit, len(started)) == (1, 2)
        go_on.set()
        await eventually(lambda: len(started) == 11, what="all of them")


async def test_permits_that_are_free_or_a_queue_that_is_empty_get_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "AUTO_GROW_SECONDS", 0.0)
    place, go_on, running = Workplace(tmp_path), asyncio.Event(), 0

    async def handle(_: Any) -> None:
        nonlocal running
        running += 1
        await go_on.wait()

    place.handle(handle)
    await place.send("only")
    async with place.app._engine.running() as worker:
        [consumer] = [candidate for candidate in worker.consumers if candidate.queue.name == "work"]
        await eventually(lambda: running, what="the only one")
        for _ in range(10):
            consumer.stop_overdue()
        assert consumer.permits.limit <= 2  # It asks once whether there is more.
        go_on.set()
