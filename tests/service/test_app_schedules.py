"""Schedules of an app: declared in code, run in virtual time, on both stores."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork.app.firing import Firing
from tickwork.app.message import Message
from tickwork.core.answers.ids import without_prefix
from tickwork.core.model import DEFAULT
from tickwork.core.options import QueueTargetFields
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


async def test_a_function_runs_on_its_schedule_and_knows_its_slot(
    app: Tickwork, database: str | None
) -> None:
    seen: list[Firing[Any]] = []

    @app.schedule(cron_expr="0 9 * * *", name="report", payload={"team": "ops"})
    async def report(firing: Firing[Any]) -> None:
        seen.append(firing)

    async with harness(app, database=database, start=START) as h:
        await h.advance(days=2)
        made = await app.schedules.get("report")
    assert [firing.slot for firing in seen] == [NINE, NINE + timedelta(days=1)]
    first = seen[0]
    assert (first.attempt, first.catch_up, first.run, first.schedule) == (1, False, 0, "report")
    assert first.payload == {"team": "ops"}
    assert first.idempotency_key == f"{without_prefix(made.id)}:2026-03-02T09:00:00Z"


async def test_a_plain_function_may_run_on_a_schedule(app: Tickwork, database: str | None) -> None:
    slots: list[datetime] = []

    @app.schedule(daily_time={"hour": 9, "minute": 0})
    def plain(firing: Firing[Any]) -> None:
        slots.append(firing.slot)

    async with harness(app, database=database, start=START) as h:
        await h.advance(hours=1)
        assert (await app.schedules.get("plain")).fired == 1
    assert slots == [NINE]


async def test_what_a_function_sends_commits_with_its_end(
    app: Tickwork, database: str | None
) -> None:
    app.queue("out")

    @app.schedule(cron_expr="0 9 * * *", retry={"max_attempts": 2})
    async def report(firing: Firing[Any]) -> None:
        firing.send("out", {"attempt": firing.attempt})
        if firing.attempt == 1:
            raise RuntimeError("not yet")

    async with harness(app, database=database, start=START) as h:
        await h.advance(hours=2)
        assert [message.body for message in await h.sent("out")] == [{"attempt": 2}]
        records = await app.schedules.firings("report")
    assert [(record.attempt, record.status) for record in records] == [
        (2, "succeeded"),
        (1, "failed"),
    ]


async def test_to_declare_again_changes_only_what_differs(
    app: Tickwork, database: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def report(_: Firing[Any]) -> None:
        pass

    async with harness(app, database=database, start=START) as h:
        first, second, third = (Tickwork() for _ in range(3))
        first.schedule(interval_minutes=10, name="tick")(report)
        first.schedule(cron_expr="0 9 * * *", name="old")(report)
        async with first._engine.using(h.store):
            made = await first.schedules.pause("tick")
        await h.outage(minutes=3)
        second.schedule(interval_minutes=10, name="tick")(report)
        second.schedule(cron_expr="0 9 * * *", name="old")(report)
        async with second._engine.using(h.store):
            same = await second.schedules.get("tick")
        assert same == made
        third.schedule(interval_minutes=20, name="tick", priority=7)(report)
        with caplog.at_level(logging.WARNING, "tickwork"):
            async with third._engine.using(h.store):
                changed = await third.schedules.get("tick")
        assert changed.id == made.id
        assert (changed.priority, changed.status) == (7, ScheduleStatus.PAUSED)
        assert "old" in caplog.text
        assert await h.store.schedules.find(DEFAULT, "old") is not None


def test_what_cannot_be_is_refused_where_it_is_written() -> None:
    app = Tickwork("sqlite:///never.db")

    async def report(_: Firing[Any]) -> None:
        pass

    with pytest.raises(InvalidInput, match="function itself"):
        app.schedule(cron_expr="@daily", target={"queue": "x"})(report)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="works only with isolation='process'"):
        app.schedule(cron_expr="@daily", cpu_seconds=1)(report)
    app.schedule(cron_expr="@daily")(report)
    with pytest.raises(InvalidInput, match="another name"):
        app.schedule(cron_expr="@daily")(report)
    assert f"{app.name}.functions" in app._engine.registry.queues


async def test_an_app_may_allow_shorter_intervals(database: str | None) -> None:
    quick = Tickwork(min_interval_seconds=1)
    ticks: list[datetime] = []

    @quick.schedule(interval_seconds=1)
    async def tick(firing: Firing[Any]) -> None:
        ticks.append(firing.slot)

    async with harness(quick, database=database, start=START) as h:
        await h.advance(seconds=5)
    assert len(ticks) == 5


async def test_owners_keep_their_interval_where_the_app_may_use_shorter_ones(
    database: str | None,
) -> None:
    quick = Tickwork(min_interval_seconds=1)
    quick.queue("work")
    target: QueueTargetFields = {"type": "queue", "queue": "work"}
    async with harness(quick, database=database, start=START):
        await quick.schedules.create(interval_seconds=1, target=target)
        with pytest.raises(InvalidInput, match="the minimum here is 60 s"):
            await quick.schedules.create(interval_seconds=1, target=target, owner="ada")
        made = await quick.schedules.create(interval_seconds=60, target=target, owner="ada")
        with pytest.raises(InvalidInput, match="the minimum here is 60 s"):
            await quick.schedules.update(made.id, interval_seconds=1)


async def test_the_slots_of_a_schedule_are_copied_to_subscribers_when_they_are_due(
    app: Tickwork, database: str | None
) -> None:
    app.queue("reports")
    app.queue("audit")
    seen: list[tuple[str, datetime, str | None]] = []

    @app.on("reports")
    @app.on("audit")
    async def note(message: Message[Any]) -> None:
        seen.append((message.body, h.now, message.idempotency_key))

    async with harness(app, database=database, start=START) as h:
        store = await app._engine.open()
        await store.subscriptions.put(DEFAULT, "report.*", "audit")
        made = await app.schedules.create(
            cron_expr="0 9 * * *",
            target={"queue": "reports", "message_type": "report.wanted"},
            payload="x",
        )
        await h.advance(days=1)
    assert seen == [("x", NINE, f"{without_prefix(made.id)}:2026-03-02T09:00:00Z")] * 2
