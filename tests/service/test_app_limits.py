"""Limits that queues and endpoints share by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.channel.receiver import allow_local_deliveries, receiver
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Tickwork
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.errors import InvalidInput, NotFound
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SHOP = "https://shop.example.com/work"


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    async with harness(app, database=database, start=START) as made:
        yield made


async def test_limits_are_put_shown_and_deleted(app: Tickwork, h: Harness) -> None:
    assert h.now == START
    made = await app.limits.put("partner", rate=100, period_seconds=60, concurrency=5)
    assert made == NamedLimit(name="partner", rate=100, period_seconds=60, concurrency=5)
    assert await app.limits.get("partner") == made
    assert await app.limits.list() == (made,)
    await app.limits.delete("partner")
    with pytest.raises(NotFound, match="limit partner"):
        await app.limits.get("partner")


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("name", "fields", "fault"),
    [
        ("partner", {}, "rate: is missing; give rate, concurrency or both"),
        ("", {"rate": 1}, "name: "),
        (7, {"rate": 1}, "name: "),
        ("partner", {"rate": 0}, "rate: must be a number of messages"),
        ("partner", {"rate": 1, "period_seconds": 86_401}, "period_seconds: must be a number"),
        ("partner", {"rate": 1, "period_seconds": 86_400}, "rate: must be from 0.001"),
        ("partner", {"concurrency": 0}, "concurrency: "),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(
    app: Tickwork, h: Harness, name: Any, fields: dict[str, Any], fault: str
) -> None:
    assert h.now == START
    with pytest.raises(InvalidInput, match=fault):
        await app.limits.put(name, **fields)
    assert await app.limits.list() == ()


async def test_a_limit_paces_the_handlers_of_a_queue(app: Tickwork, database: str | None) -> None:
    app.queue("work", limit="partner")
    handled: list[datetime] = []

    @app.on("work")
    async def handle(_message: Any) -> None:
        handled.append(app.now())

    async with harness(app, database=database, start=START) as own:
        await app.limits.put("partner", rate=6, period_seconds=60)
        for _ in range(4):
            await app.queue("work").send({})
        await own.drain()
        assert [(at - START).total_seconds() for at in handled] == [0, 10, 20, 30]


async def test_endpoints_share_the_rate_of_a_limit(app: Tickwork, h: Harness) -> None:
    await app.limits.put("partner", rate=1)
    for name in ("a", "b"):
        await app.endpoints.create(name, url=SHOP, types=["*"], limit="partner")
    for _ in range(5):
        await app.events.publish("order.paid", {})
    await h.advance(seconds=3)
    assert 1 <= len(h.deliveries.webhooks) <= 4
    await h.advance(minutes=2)
    assert len(h.deliveries.webhooks) == 10
    assert (await app.endpoints.get("a")).limit == "partner"
    changed = await app.endpoints.update("a", limit=None)
    assert changed.limit is None


async def test_an_endpoint_whose_limit_does_not_exist_is_not_limited(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("a", url=SHOP, types=["*"], limit="unknown")
    for _ in range(5):
        await app.events.publish("order.paid", {})
    await h.drain()
    assert len(h.deliveries.webhooks) == 5


async def test_endpoints_share_the_concurrency_of_a_limit(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_local_deliveries(monkeypatch)
    own = Tickwork(home.url)
    async with receiver() as server, own.running(drain_seconds=0.0):
        await own.limits.put("partner", concurrency=3)
        for name in ("a", "b"):
            await own.endpoints.create(name, url=server.url + "/hang", types=["*"], limit="partner")
        await own.endpoints.create("c", url=server.url + "/free", types=["*"])
        for _ in range(10):
            await own.events.publish("order.paid", {})

        def arrived(path: str) -> int:
            return sum(1 for request, _ in server.requests if request.path == path)

        await eventually(lambda: arrived("/free") == 10, what="what is not limited")
        await eventually(lambda: arrived("/hang") == 3, what="as many as the limit allows")
        assert arrived("/hang") == 3
