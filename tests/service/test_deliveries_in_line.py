"""Receivers with limits in real time: what waits for one stays in the store, is claimed when the
limit lets it go, and is never put back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.channel.receiver import allow_local_deliveries, served
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.facade.app import Tickwork, engine_of

EVENTS = 60
AT_ONCE = 3
TAKES_SECONDS = 0.02
WAITING_MAX = AT_ONCE + int(AT_ONCE / TAKES_SECONDS * 0.1) + AT_ONCE
"""What runs, a tenth of a second of what ends, and a round for a throughput measured too high."""


class Slow:
    """Answers after a moment; counts the requests at once and those of a second claim."""

    def __init__(self) -> None:
        self.url = ""
        self.answered = self.repeated = self.running = self.at_once_max = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.running += 1
        self.at_once_max = max(self.at_once_max, self.running)
        self.repeated += request.headers.get("Tickwork-Fence", "1") != "1"
        await asyncio.sleep(TAKES_SECONDS)
        self.running -= 1
        self.answered += 1
        return web.Response()


@asynccontextmanager
async def slow_receiver() -> AsyncIterator[Slow]:
    made = Slow()
    async with served(made.handle) as made.url:
        yield made


@pytest.fixture
async def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind that may deliver to this machine."""
    allow_local_deliveries(monkeypatch)
    monkeypatch.setenv("TICKWORK_HOST_CONCURRENCY", str(AT_ONCE))
    app = Tickwork(home.url)
    yield app
    await app.close()


async def send(app: Tickwork, way: str, url: str) -> str:
    """So many deliveries of one kind; returns the queue in which they wait."""
    if way == "schedules":
        for _ in range(EVENTS):
            await app.schedules.create(once_at="2026-01-01T00:00:00Z", target_url=url)
        return "tickwork.deliveries"
    if way == "events":
        await app.endpoints.create("slow", url=url, types=["order.paid"])
        for number in range(EVENTS):
            await app.events.publish("order.paid", {"number": number})
        return "tickwork.endpoints"
    await app.endpoints.create("slow", url=url, types=[])
    await app.queue("work", push_to="slow").send_batch([{}] * EVENTS)
    return "work"


@pytest.mark.parametrize("way", ["push", "events", "schedules"])
async def test_a_receiver_with_a_limit_is_a_place_to_wait_in(app: Tickwork, way: str) -> None:
    """No more is claimed than its limit lets go soon, and nothing is claimed twice."""
    async with slow_receiver() as slow:
        queue = await send(app, way, slow.url)
        waiting: list[int] = []
        store = (await engine_of(app).context()).store

        async def is_done() -> bool:
            scope = (await engine_of(app).context()).scope if way == "push" else SYSTEM
            counts = (await store.stats.queue(scope, queue)).counts
            settled = EVENTS - counts.ready - counts.claimed
            waiting.append(counts.claimed - max(slow.answered - settled, 0))
            return slow.answered >= EVENTS

        async with app.running(drain_seconds=1.0):
            await eventually(is_done, what="all deliveries")
    assert (slow.answered, slow.repeated, slow.at_once_max) == (EVENTS, 0, AT_ONCE)
    assert max(waiting) <= WAITING_MAX
