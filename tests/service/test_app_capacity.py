"""The headroom agrees with what then happens, in virtual time on both stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork import Message, Tickwork
from tickwork.core.model import SYSTEM
from tickwork.core.queue.capacity import LaneCapacity, Verdict
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 7, 59, 30, tzinfo=UTC)


async def lane(app: Tickwork, name: str) -> LaneCapacity:
    return {lane.name: lane for lane in (await app.capacity()).lanes}[name]


async def test_an_app_is_told_what_is_not_measured_and_then_what_is(
    database: str | None,
) -> None:
    app = Tickwork(database, name="capacity")
    mail = app.queue("mail")
    app.queue("pulled")

    @app.on("mail", max_concurrency=4)
    async def handle(_message: Message) -> None: ...

    async with harness(app, database=database, start=START) as h:
        for _ in range(3):
            await app.schedules.create(
                daily_time={"hour": 9, "minute": 0}, target={"type": "queue", "queue": "mail"}
            )
        found = await app.capacity()
        assert (found.ok, found.slots, found.nodes) == (True, 3, 1)
        told = await lane(app, "mail")
        assert (told.verdict, told.permits, told.peak_slots) == (Verdict.UNKNOWN, 4, 3)
        assert told.peak_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
        assert told.words.endswith("nothing ran in the last 24 hours; configured permits 4")
        for _ in range(5):
            await mail.send({})
        await h.advance(minutes=2)
        while await h.store.performance.roll_up(SYSTEM, 100):
            pass
        told = await lane(app, "mail")
        assert (told.handled, told.busiest_per_minute, told.waiting) == (5, 5, 0)
        assert (told.verdict, told.limited_by) == (Verdict.ENOUGH, "permits")


async def test_no_worker_is_said_to_be_missing_where_permits_are_not_stored(
    database: str | None,
) -> None:
    app = Tickwork(database, name="capacity")
    app.queue("pushed", push_to="https://example.com/orders")
    app.queue("pulled")

    @app.workflow()
    async def trip(_step: Any, _params: Any) -> None: ...

    async with harness(app, database=database, start=START):
        targets: list[Any] = [
            {"type": "queue", "queue": "pushed"},
            {"type": "queue", "queue": "pulled"},
            {"type": "workflow", "workflow": "trip"},
        ]
        for target in targets:
            await app.schedules.create(daily_time={"hour": 9, "minute": 0}, target=target)
        lanes = (await app.capacity()).lanes
        missing = {lane.name for lane in lanes if "no running worker handles it" in lane.words}
        assert (len(lanes), missing) == (3, set())


async def test_slots_are_as_late_as_was_said(database: str | None) -> None:
    app = Tickwork(database, name="capacity")
    app.queue("mail", rate_per_second=0.1)
    handled: list[datetime] = []
    clock: list[Harness] = []

    @app.on("mail")
    async def handle(_message: Message) -> None:
        handled.append(clock[0].now)

    async with harness(app, database=database, start=START) as h:
        clock.append(h)
        nine = datetime(2026, 3, 2, 9, tzinfo=UTC)
        for _ in range(30):
            await app.schedules.create(
                daily_time={"hour": 9, "minute": 0}, target={"type": "queue", "queue": "mail"}
            )
        (late,) = (await app.capacity()).shortfalls
        assert (late.at, late.slots, late.per_minute) == (nine, 30, 6.0)
        assert late.limited_by == "rate_limit"
        await h.advance(minutes=75)
        assert len(handled) == 30
        assert late.late_seconds is not None
        real = (max(handled) - nine).total_seconds()
        assert real == pytest.approx(late.late_seconds, abs=20)
        assert late.caught_up_at == nine + timedelta(minutes=5)


async def test_queues_that_share_a_limit_and_an_endpoint_with_one_are_lanes(
    database: str | None,
) -> None:
    app = Tickwork(database, name="capacity")
    app.queue("mail", limit="api")
    app.queue("news", limit="api")

    @app.on("mail")
    async def mail(_message: Message) -> None: ...

    @app.on("news")
    async def news(_message: Message) -> None: ...

    async with harness(app, database=database, start=START):
        await app.limits.put("api", rate=60, period_seconds=60)
        await app.endpoints.create(
            "shop", url="https://shop.example", types=["a"], rate_per_second=0.5
        )
        targets: list[tuple[Any, int]] = [
            ({"type": "queue", "queue": "mail"}, 60),
            ({"type": "queue", "queue": "news"}, 60),
            ({"type": "webhook", "endpoint": "shop"}, 45),
        ]
        for target, number in targets:
            for _ in range(number):
                await app.schedules.create(daily_time={"hour": 9, "minute": 0}, target=target)
        found = await app.capacity()
        late = {(short.kind, short.name): short.late_seconds for short in found.shortfalls}
        assert late == {("limit", "api"): 120.0, ("endpoint", "shop"): 90.0}
        assert (found.ok, found.slots) == (False, 165)
        assert (await lane(app, "tickwork.deliveries")).slots == 45
