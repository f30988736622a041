"""The harness: time moves from one due thing to the next, and nothing is left out on the way."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.service.programs import virtual
from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
from tickwork.core.limits import BODY_BYTES_MAX
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_SEPARATE,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    SYSTEM,
    ClaimRequest,
    NewMessage,
)
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.store.ids import new_id
from tickwork.testing import HandlerFailed, NeverEnds, VirtualClock, harness

START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def test_a_virtual_clock_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(START)
    assert (clock.now(), clock.monotonic()) == (START, 0)
    clock.advance(seconds=1.5)
    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=1.5), 1.5)
    assert clock.at(1.5) == clock.now()
    with pytest.raises(ValueError, match="cannot move back"):
        clock.move_to(START)
    with pytest.raises(ValueError, match="must have a time zone"):
        VirtualClock(datetime(2026, 1, 1))  # noqa: DTZ001


async def test_time_begins_where_it_is_told_and_stands_still(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")
    async with harness(app, database=database, start=START) as h:
        assert h.now == await h.store.now() == START
        await h.drain()
        assert h.now == START
        await h.advance(days=1, minutes=1.5)
        assert h.now == await h.store.now() == START + timedelta(days=1, seconds=90)


async def test_everything_happens_at_its_time_and_in_order(
    app: Tickwork, database: str | None
) -> None:
    work, log = app.queue("work", backoff=Fixed(40)), list[tuple[str, float]]()
    batches = app.queue("batches", max_batch_timeout=20)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, (h.now - START).total_seconds()))
        if message.body == "fails" and message.attempts == 1:
            raise ValueError("once")
        if message.body == "sends":
            await work.send("sent", delay_seconds=7)

    @app.consumer("batches")
    async def handle_batch(_: MessageBatch[Any]) -> None:
        log.append(("batch", (h.now - START).total_seconds()))

    async with harness(app, database=database, start=START) as h:
        await work.send("late", delay_seconds=60)
        await work.send("fails")
        await work.send("sends", delay_seconds=10)
        await batches.send(1, delay_seconds=5)
        await h.advance(seconds=59)
        assert log == [("fails", 0), ("sends", 10), ("sent", 17), ("batch", 25), ("fails", 40)]
        await h.advance(seconds=1)
        assert log[5:] == [("late", 60)]


async def test_draining_leaves_what_is_to_come(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)
        if message.body < 3:
            await work.send(message.body + 1)

    async with harness(app, database=database) as h:
        await work.send(1)
        await work.send(9, delay_seconds=1)
        await h.drain()
        assert seen == [1, 2, 3]
        assert [message.body for message in await h.sent("work")] == [1, 9, 2, 3]
        await h.advance(seconds=1)
        assert seen == [1, 2, 3, 9]


async def test_a_topology_is_applied_before_anything_runs(
    app: Tickwork, database: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "topology.toml"
    file.write_text(
        '[[queues]]\nname = "orders"\nmax_retries = 0\ndead_letter_queue = "dead-orders"\n'
        '[[queues]]\nname = "audit"\n[[subscriptions]]\ntypes = "order.*"\nqueue = "audit"\n'
    )
    app.queue("orders")

    @app.on("orders")
    async def fail(_: Message[Any]) -> None:
        raise ValueError("no")

    async with harness(app, database=database, topology=file) as h:
        await app.queue("orders").send(1, type="order.new")
        await h.drain()
        for queue in ("audit", "dead-orders"):
            assert [message.body for message in await h.sent(queue)] == [1]
        assert [letter.attempts for letter in await h.dead("orders")] == [1]


async def test_six_days_take_a_moment(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work", max_retries=30, backoff=Fixed(4 * 3600)), list[datetime]()

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        seen.append(h.now)
        raise ValueError("again")

    async with harness(app, database=database, start=START) as h:
        await work.send("x")
        async with asyncio.timeout(60):
            await h.advance(days=6)
        assert seen == [START + n * timedelta(hours=4) for n in range(31)]
        (dead,) = await h.dead("work")
        assert dead.attempts == 31


async def test_what_nobody_handles_expires(app: Tickwork, database: str | None) -> None:
    work = app.queue("work", retention_seconds=86_400)
    async with harness(app, database=database) as h:
        await work.send("short", expires_after_seconds=60)
        await work.send("long")
        began = h.now
        await h.advance(hours=23)
        (dead,) = await h.dead("work")
        assert (dead.body, dead.reason) == ("short", REASON_EXPIRED)
        assert dead.letter.failed_at == began + timedelta(seconds=60)
        await h.advance(hours=2)
        assert [letter.body for letter in await h.dead("work")] == ["short", "long"]
        await h.advance(seconds=DEAD_LETTER_RETENTION_SECONDS)
        assert await h.dead("work") == []


async def test_a_lease_that_others_have_ends_in_time(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[tuple[Any, datetime]]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append((message.attempts, h.now))

    async with harness(app, database=database, start=START) as h:
        await work.send("x")
        pull = ClaimRequest(queue="work", holder=new_id(), lease_seconds=45)
        assert len(await h.store.messages.claim(DEFAULT, pull)) == 1
        await h.advance(hours=1)
        assert seen == [(2, START + timedelta(seconds=45))]


async def test_a_node_that_dies_gives_back_what_it_has(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[tuple[Any, datetime]]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append((message.attempts, h.now))

    async with harness(app, database=database, start=START) as h:
        await work.send("x")
        other = new_id()
        await h.store.nodes.join(SYSTEM, other, name="other", roles=["worker"], ttl_seconds=15)
        await h.store.messages.claim(DEFAULT, ClaimRequest(queue="work", holder=other))
        await h.advance(hours=1)
        assert seen == [(1, START + timedelta(seconds=15))]


async def test_what_cost_nodes_their_life_runs_with_nothing_beside_it(
    app: Tickwork, database: str | None
) -> None:
    work, other = app.queue("work"), app.queue("other")
    running, beside = set[Any](), dict[Any, int]()

    async def handle(message: Message[Any]) -> None:
        running.add(message.id)
        await asyncio.sleep(0.01)
        beside[message.body] = len(running) - 1
        running.discard(message.id)

    app.on("work", max_concurrency=10)(handle)
    app.on("other", max_concurrency=10)(handle)

    async with harness(app, database=database) as h:
        await work.send("poison")
        for _ in range(LOST_CLAIMS_SEPARATE):
            node = new_id()
            await h.store.nodes.join(SYSTEM, node, name="other", roles=[], ttl_seconds=15)
            request = ClaimRequest(queue="work", holder=node)
            assert len(await h.store.messages.claim(DEFAULT, request)) == 1
            h._clock.advance(seconds=15)  # Nothing happens meanwhile: it just dies.
            await h.maintain()
        await work.send_batch(["a", "b", "c"])
        await other.send("d")
        await h.drain()
        assert beside.keys() == {"poison", "a", "b", "c", "d"}
        assert beside["poison"] == 0
        assert max(beside.values()) > 0


async def test_a_queue_with_a_rate_is_handled_at_that_rate(
    app: Tickwork, database: str | None
) -> None:
    work, times = app.queue("work", rate_per_second=0.5), list[float]()

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        times.append((h.now - START).total_seconds())

    async with harness(app, database=database, start=START) as h:
        await work.send_batch([*range(10)])
        await h.drain()
        assert len(times) == 10
        assert times[-1] >= 9 * 2 - 2
        assert all(later - sooner <= 2 for sooner, later in pairwise(times))


async def test_a_paused_queue_is_left_alone(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work", rate_per_second=1), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with harness(app, database=database) as h:
        await h.store.queues.pause(DEFAULT, "work")
        await work.send(1)
        await h.drain()
        assert seen == []
        await h.store.queues.resume(DEFAULT, "work")
        await h.advance(seconds=1)
        assert seen == [1]


async def test_a_process_of_its_own_is_under_the_clock_too(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", backoff=Fixed(86_400), timeout_seconds=60)
    app.queue("out")
    app.on("work", isolation="process")(virtual.handle)
    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(hours=23)
        assert await h.sent("out") == []
        await h.advance(hours=1)
        ((pid, time_left),) = [message.body for message in await h.sent("out")]
        assert pid != os.getpid()
        assert 0 < time_left <= 60


# What goes wrong


async def test_the_first_error_of_a_handler_is_raised_if_asked_for(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")

    class OwnError(Exception):
        """An app's own."""

    @app.on("work", type="task")
    async def handle(message: Message[Any]) -> None:
        if message.body == "snooze":
            raise Snooze(60)
        raise OwnError(message.body)

    @app.on("work", type="thread")
    def plainly(message: Message[Any]) -> None:
        raise Permanent(message.body)

    async with harness(app, database=database, raise_errors=True) as h:
        await work.send("snooze", type="task")
        await h.drain()
        await work.send("first", type="task")
        with pytest.raises(OwnError, match="first"):
            await h.drain()
        await work.send("second", type="thread")
        with pytest.raises(Permanent, match="second"):
            await h.drain()
        with pytest.raises(OwnError, match="first"):
            await h.advance(seconds=30)


async def test_an_error_that_no_handler_raised_is_raised_too(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")
    full = app.queue("full", backlog_bytes_max=BODY_BYTES_MAX)

    @app.on("work")
    async def handle(message: Message[int]) -> None:
        message.send("full", "y" * 1000)

    async with harness(app, database=database, raise_errors=True) as h:
        await h.store.messages.send(DEFAULT, "work", NewMessage(id=new_id(), body=b'"seven"'))
        with pytest.raises(HandlerFailed, match="does not fit int"):
            await h.drain()
        await full.send("x" * (BODY_BYTES_MAX - 500))
        await work.send(7)
        with pytest.raises(HandlerFailed, match="queue full is at its limit"):
            await h.drain()


async def test_a_handler_that_hangs_is_stopped_at_its_limit(
    app: Tickwork, database: str | None
) -> None:
    work, other = app.queue("work", timeout_seconds=30, max_retries=0), app.queue("other")
    seen: list[float] = []

    @app.on("work")
    async def hang(_: Message[Any]) -> None:
        await asyncio.Event().wait()

    @app.on("other")
    async def handle(_: Message[Any]) -> None:
        seen.append((h.now - START).total_seconds())

    async with harness(app, database=database, start=START, patience_seconds=0.05) as h:
        await work.send("x")
        with pytest.raises(NeverEnds, match="'work'"):
            await h.drain()
        await other.send("x", delay_seconds=10)
        await h.advance(seconds=29)
        assert seen == [10]
        assert await h.dead("work") == []
        await h.advance(seconds=1)
        (dead,) = await h.dead("work")
        assert (dead.reason, dead.attempts) == (REASON_MAX_RETRIES, 1)
        assert "took longer than 30 seconds" in (dead.error or "")
        await h.drain()


async def test_work_without_end_is_noticed(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("tickwork.testing.harness"), "ROUNDS_MAX", 50)
    work = app.queue("work")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        raise Snooze(0)

    async with harness(app) as h:
        await work.send("x")
        with pytest.raises(NeverEnds, match="again and again"):
            await h.drain()


async def test_a_consumer_of_an_undeclared_queue_is_refused(app: Tickwork) -> None:
    @app.on("nowhere")
    async def handle(_: Message[Any]) -> None: ...

    with pytest.raises(InvalidInput, match="not declared"):
        async with harness(app):
            pass


# Where it is


async def test_every_harness_begins_empty_and_leaves_nothing(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")
    for _ in range(2):
        async with harness(app, database=database) as h:
            assert await h.sent("work") == []
            await work.send("x")
            assert len(await h.sent("work")) == 1
    if database is not None:
        connection = await asyncpg.connect(database)
        left = await connection.fetchval(
            "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tickwork%'"
        )
        await connection.close()
        assert left == 0


async def test_the_apps_own_database_is_not_touched(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("own") / "own.db"
    app = Tickwork(f"sqlite:///{path}")
    work = app.queue("work")
    await work.send("own")
    own = await app._engine.open()
    async with harness(app) as h:
        assert await app._engine.open() is h.store
        await work.send("under test")
        assert [message.body for message in await h.sent("work")] == ["under test"]
    assert await app._engine.open() is own
    (left,) = await own.messages.peek(DEFAULT, "work", 10)
    assert left.body == b'"own"'
    await app.close()


async def test_an_app_of_a_tenant_finds_its_tenant_there(database: str | None) -> None:
    app, seen = Tickwork(tenant="acme"), list[str]()
    work = app.queue("work")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.tenant)

    async with harness(app, database=database) as h:
        await work.send(1)
        await h.drain()
        assert seen == ["acme"]


async def test_a_database_that_is_none_is_refused(app: Tickwork) -> None:
    with pytest.raises(ValueError, match="postgresql:// URL"):
        async with harness(app, database=f"sqlite:///{os.devnull}"):
            pass


@pytest.mark.parametrize("given", [5, "program:app", Tickwork])
async def test_what_is_no_app_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"app: must be the app, what Tickwork\(…\) made"):
        async with harness(given):
            pass


async def test_a_queue_is_asked_for_by_its_name(app: Tickwork) -> None:
    work: Any = app.queue("work")
    async with harness(app) as h:
        for ask in (h.sent, h.dead):
            with pytest.raises(InvalidInput, match=r"the name of a queue, .*; give 'work'"):
                await ask(work)


async def test_a_batch_is_made_and_watched_under_the_clock(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work", max_retries=0)
    done, told = app.queue("done"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        if message.body == 3:
            raise ValueError("three")

    @app.on("done")
    async def complete(message: Message[Any]) -> None:
        told.append((message.type, message.body["completed"], message.body["failed"]))

    async with harness(app, database=database) as h:
        batch = await app.batch("work", range(10), completion_queue=done.name)
        await h.drain()
        progress = await batch.wait()
        assert (progress.completed, progress.failed, progress.total) == (9, 1, 10)
        assert told == [("batch.completed", 9, 1)]
