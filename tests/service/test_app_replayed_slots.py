"""Replayed slots of schedules: their outcome is in the history and on the schedule; both stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork import Firing, Message, Permanent
from tickwork.core.answers.ids import without_prefix
from tickwork.facade.app import Tickwork
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAY = timedelta(days=1)


async def test_a_successful_replay_is_the_last_outcome_of_its_slot(
    app: Tickwork, database: str | None
) -> None:
    seen: list[tuple[datetime, int]] = []

    @app.schedule(cron_expr="0 9 * * *", name="report", queue="functions")
    async def report(firing: Firing[Any]) -> None:
        seen.append((firing.slot, firing.run))
        if len(seen) < 3:
            raise Permanent("the printer is on fire")

    async with harness(app, database=database, start=START) as h:
        await h.advance(hours=1)
        made = await app.schedules.get("report")
        assert (made.last_status, (await app.schedules.why("report")).code) == ("dead", "dead")
        for status in ("dead", "succeeded"):
            await app.dead_letters.replay("functions")
            (waiting, *_) = await app.schedules.firings("report")
            assert (waiting.status, waiting.slot) == ("planned", NINE)
            await h.drain()
            made = await app.schedules.get("report")
            assert made.last_status == status
            assert (await app.schedules.why("report", NINE)).code == status
        assert (made.last_error, made.error_count, made.fired) == (None, 0, 1)
        found = await app.schedules.firings("report")
        assert [(firing.run, firing.status) for firing in found if firing.slot == NINE] == [
            (2, "succeeded"), (1, "dead"), (0, "dead"),
        ]  # fmt: skip
        assert await app.dead_letters.list("functions") == ()
        await h.advance(days=1)
    assert seen == [(NINE, 0), (NINE, 1), (NINE, 2), (NINE + DAY, 0)]


@pytest.mark.parametrize("target", ["queue", "function"])
async def test_a_successful_replay_completes_a_parked_one_shot(
    app: Tickwork, database: str | None, target: str
) -> None:
    app.queue("work")
    is_broken, seen = [True], list[str | None]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.idempotency_key)
        if is_broken[0]:
            raise Permanent("no")

    @app.schedule(once_at=NINE, name="declared", queue="functions")
    async def once(firing: Firing[Any]) -> None:
        seen.append(firing.idempotency_key)
        if is_broken[0]:
            raise Permanent("no")

    name, queue = ("made", "work") if target == "queue" else ("declared", "functions")
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(
            name="made", once_at=NINE, target={"type": "queue", "queue": "work"}
        )
        await h.advance(hours=1)
        assert (await app.schedules.get(name)).status == "parked"
        # An extra run by hand is no answer to the dead slot.
        is_broken[0] = False
        await app.schedules.trigger(name)
        await h.drain()
        assert (await app.schedules.get(name)).status == "parked"
        # Nor is a replay that fails.
        is_broken[0] = True
        await app.dead_letters.replay(queue)
        await h.drain()
        assert (await app.schedules.get(name)).status == "parked"
        is_broken[0] = False
        await app.dead_letters.replay(queue)
        await h.drain()
        done = await app.schedules.get(name)
        assert (done.status, done.last_status, done.last_error) == ("completed", "succeeded", None)
    assert len(seen) == 5
    assert len({*seen}) == 3


async def test_replays_of_several_slots_are_runs_of_their_own(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")
    is_broken, seen = [True], list[tuple[Any, str | None]]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        if is_broken[0]:
            raise Permanent("no")
        seen.append((message.metadata["run"], message.idempotency_key))

    async with harness(app, database=database, start=START) as h:
        made = await app.schedules.create(cron_expr="0 9 * * *", target={"queue": "work"})
        await h.advance(days=2)
        await app.schedules.trigger(made.id)
        await h.drain()
        is_broken[0] = False
        assert (await app.dead_letters.replay("work")).replayed == 3
        await h.drain()
        found = await app.schedules.firings(made.id)
        done = {firing.run: firing.slot for firing in found if firing.status == "succeeded"}
        keys = {
            f"{without_prefix(made.id)}:2026-03-02T09:00:00Z",
            f"{without_prefix(made.id)}:2026-03-03T09:00:00Z",
        }
        assert ({*done}, done[2], done[3]) == ({2, 3, 4}, NINE, NINE + DAY)
        assert keys < {key for _, key in seen}
        assert {run for run, _ in seen} == {2, 3, 4}
        assert await app.schedules.backfill(made.id, since=NINE, until=h.now) == ()


async def test_a_replay_for_a_deleted_schedule_is_an_ordinary_message(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work", max_retries=0)
    seen: list[Any] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.metadata.get("slot"))
        if len(seen) == 1:
            raise ValueError("no")

    async with harness(app, database=database, start=START) as h:
        made = await app.schedules.create(cron_expr="0 9 * * *", target={"queue": "work"})
        await h.advance(hours=1)
        await app.schedules.delete(made.id)
        await app.dead_letters.replay("work")
        await h.drain()
    assert seen == [NINE, None]
