"""The operator's knobs: nothing of a suspended tenant runs until it is resumed, nothing at all
while everything is paused, and widened windows spread slots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tickwork import Message, Tickwork
from tickwork.core.model import DEFAULT
from tickwork.ops.audit import list_audit
from tickwork.ops.cluster import describe_cluster, examine_processes, pause_all, resume_all
from tickwork.ops.context import Context
from tickwork.testing import harness

TO_WORK: Any = {"target": {"type": "queue", "queue": "work"}}


async def test_a_suspended_tenant_runs_nothing_until_it_is_resumed(database: str | None) -> None:
    app = Tickwork(database, name="suspended")
    work = app.queue("work")
    handled: list[object] = []

    @app.on("work")
    async def handle(message: Message) -> None:
        handled.append(message.body)

    async with harness(app, database=database) as h:
        await app.schedules.create(
            interval_minutes=60,
            target={"type": "queue", "queue": "work"},
            payload="tick",
            missed={"policy": "skip"},
        )
        await app.tenants.suspend("default")
        await work.send("sent")
        await h.advance(hours=3)
        await h.drain()
        assert handled == []
        await app.tenants.resume("default")
        await h.drain()
        assert handled.count("sent") == 1
        late = handled.count("tick")
        await h.advance(hours=2)
        assert handled.count("tick") == late + 2
        assert late <= 1  # `missed` skips slots that are late.


async def test_nothing_runs_while_everything_is_paused(database: str | None) -> None:
    app = Tickwork(database, name="paused")
    work = app.queue("work")
    handled: list[object] = []

    @app.on("work")
    async def handle(message: Message) -> None:
        handled.append(message.body)

    async with harness(app, database=database) as h:
        target: Any = {"type": "webhook", "url": "https://example.com/"}
        await app.schedules.create(name="hook", interval_minutes=60, target=target)
        since = await pause_all(h.store)
        assert await pause_all(h.store) == since == h.now
        sent = await work.send("sent")
        await h.advance(hours=2)
        await h.drain()
        assert (handled, h.deliveries.webhooks) == ([], [])
        assert (await describe_cluster(h.store)).paused_at == since
        assert "everything is paused" in str(await app.why(str(sent)))
        assert "everything is paused" in (await examine_processes(h.store))[0].says
        await resume_all(h.store)
        assert (await describe_cluster(h.store)).paused_at is None
        await h.drain()
        assert handled == ["sent"]
        assert len(h.deliveries.webhooks) == 2
        actions = [record.action for record in await list_audit(Context(h.store, DEFAULT))]
        assert [action for action in actions if action.startswith("cluster")] == [
            "cluster.resume",
            "cluster.pause",
            "cluster.pause",
        ]


async def test_widened_windows_spread_slots_until_they_are_narrowed(database: str | None) -> None:
    app = Tickwork(database, name="widened")
    app.queue("work")
    handled: dict[str, list[datetime]] = {}

    @app.on("work")
    async def handle(message: Message) -> None:
        handled.setdefault(message.body, []).append(app.now())

    start = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
    nine = datetime(2026, 3, 2, 9, tzinfo=UTC)
    async with harness(app, database=database, start=start) as h:
        for name in "abcdef":
            await app.schedules.create(name=name, cron_expr="0 * * * *", payload=name, **TO_WORK)
        exact: Any = {"fire_window_seconds": 0, **TO_WORK}
        await app.schedules.create(name="exact", cron_expr="0 * * * *", payload="exact", **exact)
        skip: Any = {"overlap": "skip", "missed": {"policy": "skip"}, **TO_WORK}
        await app.schedules.create(name="skip", cron_expr="0 * * * *", payload="skip", **skip)
        view = await app.widen_windows(600)
        assert (view.widened_seconds, (await app.cluster()).widened_seconds) == (600, 600)
        assert "the operator widened" in (await app.schedules.why("a", nine)).answer
        assert "the operator widened" not in (await app.schedules.why("exact", nine)).answer
        await h.advance(minutes=29, seconds=45)
        planned = await app.schedules.why("a", nine)
        assert (planned.code, "the operator widened" in planned.answer) == ("planned", True)
        await h.advance(minutes=15)
        assert handled["exact"] == [nine]
        spread = [handled[name][0] - nine for name in [*"abcdef", "skip"]]
        assert all(timedelta() < delay < timedelta(minutes=10) for delay in spread)
        assert len(set(spread)) == len(spread)
        await app.widen_windows(0)
        await h.advance(hours=1)
        for name, times in handled.items():
            assert times[1:] == [nine + timedelta(hours=1)], name
        actions = [record.action for record in await list_audit(Context(h.store, DEFAULT))]
        assert actions.count("cluster.widen") == 2
