"""The idempotency key of a slot: one key, whatever becomes of the slot's message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.service.programs import virtual
from tickwork.app.firing import Firing
from tickwork.app.message import Message, Permanent
from tickwork.core.answers.ids import without_prefix
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = "2026-03-02T09:00:00Z"


async def created(app: Tickwork, **fields: Any) -> str:
    """Creates a schedule for the queue `work`, and returns the first part of its slots' keys."""
    target: Any = {"queue": "work"}
    made = await app.schedules.create(cron_expr="0 9 * * *", target=target, **fields)
    return fields.get("idempotency_key") or str(without_prefix(made.id))


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("own", [None, "reminder:ada"])
@pytest.mark.parametrize("overlap", ["allow", "buffer_all"])
async def test_every_attempt_of_a_slot_has_the_same_key_also_after_a_replay(
    app: Tickwork, database: str | None, own: str | None, overlap: Any
) -> None:
    app.queue("work")
    seen: list[str | None] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.idempotency_key)
        if len(seen) < 3:
            raise ValueError("not yet")

    async with harness(app, database=database, start=START) as h:
        retry: Any = {"max_attempts": 2}
        base = await created(app, idempotency_key=own, overlap=overlap, retry=retry)
        assert base == own or own is None
        await h.advance(hours=1)
        (letter,) = await app.dead_letters.list("work")
        await app.dead_letters.replay("work")
        await h.drain()
    assert seen == [f"{base}:{NINE}"] * 3
    assert letter.idempotency_key == f"{base}:{NINE}"


async def test_extra_runs_of_a_slot_have_keys_of_their_own(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")
    async with harness(app, database=database, start=START) as h:
        base = await created(app, idempotency_key="daily", name="daily")
        await h.advance(hours=1)
        await app.schedules.trigger("daily")
        await app.schedules.backfill(
            "daily", since=START - timedelta(days=1), until=START, force=True
        )
        keys = {message.idempotency_key for message in await waiting(h)}
    assert keys == {
        f"{base}:{NINE}",
        f"{base}:2026-03-02T09:30:00Z:1",
        f"{base}:2026-03-01T09:00:00Z:2",
    }


async def waiting(h: Harness) -> list[Any]:
    """The messages of `work`."""
    return [sent.message for sent in await h.sent("work")]


async def test_a_dead_letter_queue_gets_the_key(app: Tickwork, database: str | None) -> None:
    app.queue("work", dead_letter_queue="dead")
    app.queue("out")
    app.on("dead", isolation="process")(virtual.tell_death)

    @app.on("work")
    async def fail(_: Message[Any]) -> None:
        raise Permanent("no")

    async with harness(app, database=database, start=START) as h:
        base = await created(app)
        await h.advance(hours=1)
        (sent,) = await h.sent("out")
    assert sent.body == ["work", "permanent", 1, f"{base}:{NINE}"]


async def test_a_function_has_the_key_of_its_schedule_also_after_a_replay(
    app: Tickwork, database: str | None
) -> None:
    seen: list[str] = []

    @app.schedule(cron_expr="0 9 * * *", name="report", retry={"max_attempts": 1})
    async def report(firing: Firing[Any]) -> None:
        seen.append(firing.idempotency_key)
        if len(seen) == 1:
            raise ValueError("not yet")

    async with harness(app, database=database, start=START) as h:
        made = await app.schedules.get("report")
        await h.advance(hours=1)
        await app.dead_letters.replay(f"{app.name}.functions")
        await h.drain()
    assert seen == [f"{without_prefix(made.id)}:{NINE}"] * 2


async def test_a_message_of_no_schedule_has_no_key(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[str | None]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.idempotency_key)
        assert (await app.messages.get(message.id)).idempotency_key is None

    async with harness(app, database=database) as h:
        await work.send("x", event_id="e", key="k")
        await h.drain()
    assert seen == [None]
