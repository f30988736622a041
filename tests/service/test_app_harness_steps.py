"""How the harness steps: it asks little on its way, and leaves nothing out that is due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tickwork.app.message import Message, MessageBatch
from tickwork.core.model import DEFAULT
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.store.postgres.engine.database import Database as PostgresDatabase
from tickwork.store.sqlite.engine.database import Database as SqliteDatabase
from tickwork.testing import harness

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)

FIRING_ASKS_MAX, ADVANCE_ASKS_MAX = {"sqlite": 12, "postgres": 16}, 45
"""So often a store is asked for a firing by itself, from the look at its schedule to its end; and
for an advance in which nothing happens, which puts the store in order."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of any store, from now on."""
    found: list[str] = []

    def count(owner: type, name: str) -> None:
        real = getattr(owner, name)

        async def counting(*given: Any, **named: Any) -> Any:
            found.append(name)
            return await real(*given, **named)

        monkeypatch.setattr(owner, name, counting)

    for name in ("read", "write"):
        count(SqliteDatabase, name)
    for name in ("run", "transact"):
        count(PostgresDatabase, name)
    return found


async def test_a_firing_costs_a_few_questions(
    app: Tickwork, database: str | None, asked: list[str]
) -> None:
    fired: list[datetime] = []

    @app.schedule(cron_expr="0 * * * *", name="hourly")
    async def hourly(_: Any) -> None:
        fired.append(h.now)

    async with harness(app, database=database, start=START + HOUR / 2) as h:
        await h.advance(minutes=1)
        asked.clear()
        await h.advance(minutes=1)
        quiet = len(asked)
        assert 0 < quiet <= ADVANCE_ASKS_MAX
        await h.advance(hours=10)
        assert fired == [START + n * HOUR for n in range(1, 11)]
        kind = "sqlite" if database is None else "postgres"
        assert (len(asked) - 2 * quiet) / len(fired) <= FIRING_ASKS_MAX[kind]


async def test_what_a_handler_does_with_the_store_itself_happens_at_once(
    app: Tickwork, database: str | None
) -> None:
    """Nobody is told of it but the store."""
    work, later, log = app.queue("work"), app.queue("later"), list[tuple[str, datetime]]()

    @app.on("work")
    async def handle(message: Message[str]) -> None:
        log.append((message.body, h.now))
        if message.body == "resume":
            await h.store.queues.resume(DEFAULT, "later")
        if message.body == "schedule":
            at = h.now.isoformat()
            target = {"type": "queue", "queue": "later"}
            await app.schedules.create(once_at=at, target=target, payload="scheduled")  # type: ignore[arg-type]

    @app.on("later")
    async def handle_later(message: Message[str]) -> None:
        log.append((message.body, h.now))

    async with harness(app, database=database, start=START) as h:
        await h.store.queues.pause(DEFAULT, "later")
        await later.send("paused")
        await work.send("resume", delay_seconds=3_600)
        await work.send("schedule", delay_seconds=7_200)
        await h.advance(hours=3)
        assert log == [
            ("resume", START + HOUR),
            ("paused", START + HOUR),
            ("schedule", START + 2 * HOUR),
            ("scheduled", START + 2 * HOUR),
        ]


async def test_what_a_gathered_batch_sends_is_handled_at_once(
    app: Tickwork, database: str | None
) -> None:
    """Its messages were claimed long before it begins."""
    gathered, other = app.queue("gathered", max_batch_timeout=20), app.queue("other")
    log: list[tuple[Any, datetime]] = []

    @app.consumer("gathered")
    async def handle_batch(batch: MessageBatch[Any]) -> None:
        await other.send(len(batch.messages))

    @app.on("other")
    async def handle(message: Message[int]) -> None:
        log.append((message.body, h.now))

    async with harness(app, database=database, start=START) as h:
        await gathered.send_batch([1, 2], delay_seconds=10)
        await h.advance(hours=1)
        assert log == [(2, START + timedelta(seconds=30))]


async def test_what_waits_behind_a_key_comes_when_it_is_free(
    app: Tickwork, database: str | None
) -> None:
    work, log = app.queue("work"), list[tuple[int, datetime]]()

    @app.on("work")
    async def handle(message: Message[int]) -> None:
        log.append((message.body, h.now))

    async with harness(app, database=database, start=START) as h:
        for number in range(3):
            await work.send(number, key="one", delay_seconds=60 if number == 0 else 0)
        await h.advance(minutes=2)
        assert log == [(number, START + timedelta(minutes=1)) for number in range(3)]


async def test_a_queue_that_is_held_up_hides_nothing_that_is_to_come(
    app: Tickwork, database: str | None
) -> None:
    work, other, log = app.queue("work"), app.queue("other"), list[tuple[str, datetime]]()

    @app.on("work")
    async def handle(message: Message[str]) -> None:
        log.append((message.body, h.now))

    app.on("other")(handle)
    async with harness(app, database=database, start=START) as h:
        await h.store.queues.pause(DEFAULT, "work")
        await work.send("waits")
        await other.send("in an hour", delay_seconds=3_600)
        await h.advance(hours=2)
        assert log == [("in an hour", START + HOUR)]
        await h.store.queues.resume(DEFAULT, "work")
        await h.drain()
        assert log[1:] == [("waits", START + 2 * HOUR)]


async def test_time_is_not_held_up_by_firings_that_nobody_handles(
    app: Tickwork, database: str | None
) -> None:
    app.queue("handled")
    app.queue("left")

    @app.on("handled")
    async def handle(_: Message[Any]) -> None: ...

    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(
            cron_expr="0 * * * *", target={"type": "queue", "queue": "left"}, payload=1
        )
        async with asyncio.timeout(60):
            await h.advance(days=1)
        assert len(await h.sent("left")) == 24


async def test_slots_of_one_instant_are_handled_in_order_of_priority(
    app: Tickwork, database: str | None
) -> None:
    """Also where one is planned ahead, and the other only when it is due."""
    app.queue("work")
    log: list[tuple[str, datetime]] = []

    @app.on("work", max_concurrency=1)
    async def handle(message: Message[str]) -> None:
        log.append((message.body, h.now))

    async with harness(app, database=database, start=START) as h:
        for payload, priority, overlap in (("ahead", 4, "allow"), ("when due", 9, "skip")):
            await app.schedules.create(
                cron_expr="0 * * * *",
                target={"type": "queue", "queue": "work"},
                payload=payload,
                priority=priority,
                overlap=overlap,  # type: ignore[arg-type]
            )
        await h.advance(hours=2)
        assert log == [
            (payload, START + n * HOUR) for n in (1, 2) for payload in ("when due", "ahead")
        ]


async def test_what_waits_for_a_worker_by_itself_is_refused(
    database: str | None, tmp_path: Path
) -> None:
    """It would wait for ever, and work on the app's own database."""
    own = tmp_path / "own.db"
    app = Tickwork(f"sqlite:///{own}")
    app.queue("work")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        pass

    async with harness(app, database=database) as h:
        batch = await app.batch("work", [1, 2])
        with pytest.raises(InvalidInput, match=r"batch\.wait\(\): .*h\.drain\(\)"):
            await batch.wait()
        with pytest.raises(TimeoutError):
            await batch.wait(timeout_seconds=0.01)
        await h.drain()
        assert (await batch.wait()).completed == 2
    assert not own.exists()


async def test_a_lifespan_that_runs_the_app_leaves_it_to_the_harness(
    database: str | None, tmp_path: Path
) -> None:
    own = tmp_path / "own.db"
    app = Tickwork(f"sqlite:///{own}")
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await app.open()
        async with app.running(roles="worker"):
            yield
        await app.close()

    async with harness(app, database=database) as h:
        async with lifespan():
            await work.send(1)
            await asyncio.sleep(0.05)
            assert seen == []
            await h.drain()
            assert seen == [1]
        async with lifespan():
            await work.send(2, delay_seconds=60)
            await h.advance(minutes=1)
        assert seen == [1, 2]
    assert not own.exists()


async def test_now_is_virtual_under_the_harness_and_real_outside(database: str | None) -> None:
    app, seen = Tickwork(), list[datetime]()
    work = app.queue("work")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        seen.append(app.now())

    async with harness(app, database=database) as h:
        await work.send(1, delay_seconds=3600)
        due = h.now + timedelta(hours=1)
        await h.advance(hours=2)
        assert (seen, app.now()) == ([due], h.now)
    assert app.now() - datetime.now(UTC) < timedelta(minutes=1)
    assert app.now().tzinfo is UTC
