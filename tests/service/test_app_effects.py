"""What a handler does through the app happens with its message's ack, or not at all."""

import asyncio
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any

import pytest

from tests.service.own_rows import OwnRows
from tickwork.app.invocation import SENDS_MAX, HandlerEnded
from tickwork.app.message import Message, MessageBatch
from tickwork.core.limits import BODY_BYTES_MAX
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.body import Outgoing
from tickwork.core.model import (
    DEFAULT,
    REASON_MAX_RETRIES,
    SYSTEM,
    NewMessage,
    QueueSettings,
    Scope,
    Tenant,
)
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness


async def bodies(h: Harness, queue: str = "out") -> list[Any]:
    return [message.body for message in await h.sent(queue)]


# Sends


async def test_a_send_in_a_handler_commits_with_its_ack(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work"), app.queue("out")
    before: list[list[Any]] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        await out.send("kept")
        message.send("out", "own")
        before.append(await bodies(h))

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert before == [[]]
        assert sorted(await bodies(h)) == ["kept", "own"]


async def test_the_sends_of_a_handler_that_raises_do_not_happen(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work", backoff=Fixed(10)), app.queue("out")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        await out.send(f"bare {message.attempts}")
        message.send("out", f"own {message.attempts}")
        if message.attempts == 1:
            raise ValueError("no")
        if message.attempts == 2:
            message.retry()

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(minutes=1)
        assert sorted(await bodies(h)) == ["bare 3", "own 3"]


async def test_a_send_that_cannot_be_stored_fails_where_it_is_said(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work", max_retries=0), app.queue("out")
    caught: list[str] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        for body, options in (
            ("x" * BODY_BYTES_MAX, {}),
            ("x", {"delay_seconds": -1}),
            ("x", {"colour": "red"}),
            ({1, object()}, {}),
        ):
            with pytest.raises(InvalidInput) as refused:
                await out.send(body, **options)
            caught.append(refused.value.errors[0].field)
        with pytest.raises(InvalidInput) as refused:
            message.send("out", "x", priority=77)
        caught.append(refused.value.errors[0].field)

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert caught == ["body", "delay_seconds", "colour", "body", "priority"]
        assert await bodies(h) == []
        assert await h.dead("work") == []


async def test_a_send_that_is_refused_when_it_commits_fails_its_message(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", max_retries=0)
    full = app.queue("full", backlog_bytes_max=BODY_BYTES_MAX)

    @app.on("work", max_concurrency=5)
    async def handle(message: Message[Any]) -> None:
        if message.body == "to nowhere":
            message.send("nowhere", 1)
        if message.body == "too much":
            message.send("full", "y" * 1000)

    async with harness(app, database=database) as h:
        await full.send("x" * (BODY_BYTES_MAX - 500))
        for body in ("to nowhere", "fine", "too much"):
            await work.send(body)
        await h.drain()
        found = {letter.body: letter.error or "" for letter in await h.dead("work")}
        assert found.keys() == {"to nowhere", "too much"}
        assert "there is no queue 'nowhere'; " in found["to nowhere"]
        assert "queue full is at its limit" in found["too much"]


async def test_a_handler_sends_at_most_so_many(app: Tickwork) -> None:
    work = app.queue("work", max_retries=0)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        for _ in range(SENDS_MAX + 1):
            message.send("work", 1)

    async with harness(app) as h:
        await work.send("x")
        await h.drain()
        (dead,) = await h.dead("work")
        assert f"at most {SENDS_MAX} messages" in (dead.error or "")


async def test_a_send_after_its_handler_belongs_to_nothing(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work"), app.queue("out")
    gate, tasks = asyncio.Event(), list[asyncio.Task[str]]()

    async def late() -> str:
        await gate.wait()
        return await out.send("late")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        tasks.append(asyncio.create_task(late()))

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        gate.set()
        with pytest.raises(HandlerEnded):
            await tasks[0]
        assert await bodies(h) == []


@pytest.mark.parametrize("how", ["to_thread", "executor", "executor with the context"])
async def test_a_send_from_a_thread_is_kept_where_the_context_of_the_handler_is(
    app: Tickwork, database: str | None, how: str
) -> None:
    work, out = app.queue("work", max_retries=0), app.queue("out")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        loop = asyncio.get_running_loop()

        def send() -> None:
            asyncio.run_coroutine_threadsafe(out.send(how), loop).result()

        if how == "to_thread":
            await asyncio.to_thread(send)
        elif how == "executor":
            await loop.run_in_executor(None, send)
        else:
            await loop.run_in_executor(None, copy_context().run, send)
        raise ValueError("after the send")

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert await bodies(h) == (["executor"] if how == "executor" else [])


async def test_what_a_handler_sends_is_its_messages_tenants(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work", shared=True)
    out = app.queue("out", shared=True)
    seen: list[tuple[str, Any]] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        await out.send(f"bare {message.body}")
        message.send("out", f"own {message.body}")

    @app.on("out")
    async def note(message: Message[Any]) -> None:
        seen.append((message.tenant, message.body))

    async with harness(app, database=database) as h:
        for tenant in ("acme", "default"):
            await h.store.tenants.put(SYSTEM, Tenant(id=tenant))
            message = NewMessage(id=new_id(), body=f'"{tenant}"'.encode())
            await h.store.messages.send(Scope(tenant), "work", message)
        await h.drain()
        assert sorted(seen) == [
            ("acme", "bare acme"),
            ("acme", "own acme"),
            ("default", "bare default"),
            ("default", "own default"),
        ]


# Rows of the handler's own


async def test_own_rows_commit_with_the_ack(app: Tickwork, database: str | None) -> None:
    work, own = app.queue("work"), OwnRows(app, database)
    app.queue("out")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        with message.transaction() as rows:
            own.insert(rows, message.body)
            own.insert(rows, f"{message.body} again")
        message.send("out", message.body)

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("x")
        await h.drain()
        assert await own.all(h) == ["x", "x again"]
        assert await bodies(h) == ["x"]


@pytest.mark.parametrize("how", ["raises", "retries"])
async def test_own_rows_are_not_written_without_the_ack(
    app: Tickwork, database: str | None, how: str
) -> None:
    work, own = app.queue("work", max_retries=0), OwnRows(app, database)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        own.insert(message.transaction(), message.body)
        if how == "retries":
            message.retry()
        else:
            raise ValueError("no")

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("x")
        await h.drain()
        assert await own.all(h) == []
        assert len(await h.dead("work")) == 1


async def test_a_statement_that_fails_makes_its_message_fail(
    app: Tickwork, database: str | None
) -> None:
    work, own = app.queue("work", max_retries=1, backoff=Fixed(10)), OwnRows(app, database)
    app.queue("out")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        rows = message.transaction()
        own.insert(rows, f"{message.body} {message.attempts}")
        if message.body == "twice" or message.attempts == 1:
            own.insert(rows, None)
        message.send("out", f"{message.body} {message.attempts}")

    async with harness(app, database=database) as h:
        await own.make(h)
        for body in ("once", "twice"):
            await work.send(body)
        await h.advance(minutes=1)
        assert await own.all(h) == ["once 2"]
        assert await bodies(h) == ["once 2"]
        (dead,) = await h.dead("work")
        assert (dead.body, dead.reason, dead.attempts) == ("twice", REASON_MAX_RETRIES, 2)
        assert "null" in (dead.error or "").lower()


async def test_a_double_in_own_rows_is_the_handlers_failure_and_nobody_elses(
    app: Tickwork, database: str | None
) -> None:
    work, own = app.queue("work", max_retries=0), OwnRows(app, database)

    @app.on("work", max_concurrency=4)
    async def handle(message: Message[Any]) -> None:
        own.insert(message.transaction(), message.body)

    async with harness(app, database=database) as h:
        await own.make(h)
        for body in ("a", "b", "a", "c"):
            await work.send(body)
        await h.drain()
        assert await own.all(h) == ["a", "b", "c"]
        assert [letter.body for letter in await h.dead("work")] == ["a"]


async def test_own_rows_of_a_claim_that_is_lost_are_refused(
    app: Tickwork, database: str | None
) -> None:
    work, own = app.queue("work"), OwnRows(app, database)
    app.queue("out")
    seen: list[int] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.attempts)
        own.insert(message.transaction(), f"{message.body} {len(seen)}")
        message.send("out", len(seen))
        if len(seen) == 1:  # As when this process is taken for dead, and another has the message.
            await h.store.nodes.leave(SYSTEM, message._stored.current_claim.holder)

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("x")
        await h.drain()
        assert seen == [1, 1]
        assert await own.all(h) == ["x 2"]
        assert await bodies(h) == [2]
        assert await h.dead("work") == []


async def test_own_rows_in_a_batch_belong_to_their_message(
    app: Tickwork, database: str | None
) -> None:
    work, own = app.queue("work", max_batch_size=3, max_retries=0), OwnRows(app, database)

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        for message in batch:
            own.insert(message.transaction(), message.body)
        batch.messages[1].retry()

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send_batch(["a", "b", "c"])
        await h.drain()
        assert await own.all(h) == ["a", "c"]
        assert [letter.body for letter in await h.dead("work")] == ["b"]


async def test_a_function_is_given_the_connection(app: Tickwork, database: str | None) -> None:
    work, own = app.queue("work"), OwnRows(app, database)

    def insert(connection: Any) -> Awaitable[None] | None:
        statement = "INSERT INTO own (value) VALUES ('by hand')"
        done: Awaitable[None] | Any = connection.execute(statement)
        return done if hasattr(connection, "fetchrow") else None

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.transaction().run(insert)

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("x")
        await h.drain()
        assert await own.all(h) == ["by hand"]


async def test_on_sqlite_a_coroutine_is_no_write(app: Tickwork) -> None:
    work = app.queue("work", max_retries=0)

    async def insert(connection: Any) -> None:
        connection.execute("INSERT INTO own (value) VALUES ('never')")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.transaction().run(insert)

    async with harness(app) as h:
        await work.send("x")
        await h.drain()
        (dead,) = await h.dead("work")
        assert "plain function" in (dead.error or "")


@pytest.mark.parametrize("where", ["task", "thread"])
async def test_what_was_done_before_an_ack_and_an_error_happens_as_a_whole(
    app: Tickwork, database: str | None, where: str
) -> None:
    work, out = app.queue("work", max_retries=0), app.queue("out")
    own = OwnRows(app, database)

    def said(message: Message[Any]) -> None:
        message.send("out", "own")
        own.insert(message.transaction(), "row")
        if message.body == "acked":
            message.ack()
        raise ValueError("after all")

    async def handle(message: Message[Any]) -> None:
        await out.send("plain")
        await app.batch("out", ["item"])
        said(message)

    def handle_plainly(message: Message[Any]) -> None:
        asyncio.run(handle(message))

    app.on("work")(handle if where == "task" else handle_plainly)
    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("failed")
        await h.drain()
        assert (await bodies(h), await own.all(h)) == ([], [])
        assert len(await h.dead("work")) == 1
        await work.send("acked")
        await h.drain()
        assert sorted(await bodies(h)) == ["item", "own", "plain"]
        assert await own.all(h) == ["row"]
        assert len(await h.dead("work")) == 1


# Work in the background


async def test_what_runs_in_the_background_ends_before_the_settlement(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work"), app.queue("out")

    async def slowly(depth: int) -> None:
        await asyncio.sleep(0)
        await out.send(depth)
        if depth:
            app.background(slowly(depth - 1))

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        app.background(slowly(2))

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert sorted(await bodies(h)) == [0, 1, 2]


async def test_what_fails_in_the_background_fails_the_handler(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work", max_retries=0), app.queue("out")
    ended: list[str] = []

    async def failing() -> None:
        raise ValueError("in the background")

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    @app.on("work")
    async def handle(_: Message[Any]) -> None:
        await out.send("never")
        app.background(waiting())
        await asyncio.sleep(0)
        app.background(failing())

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert ended == ["waiting"]
        (dead,) = await h.dead("work")
        assert "ValueError: in the background" in (dead.error or "")
        assert await bodies(h) == []


async def test_background_work_is_refused_where_nobody_waits_for_it(
    app: Tickwork, database: str | None
) -> None:
    out, refused = app.queue("out"), list[str]()
    for name in ("plain", "thread", "task"):
        app.queue(name, max_retries=0)

    async def slowly() -> None:
        await asyncio.sleep(0)
        await out.send("late")

    async def in_a_loop() -> None:
        app.background(slowly())

    @app.on("plain")
    def plain(_: Message[Any]) -> None:
        app.background(slowly())

    @app.on("thread")
    def own_loop(_: Message[Any]) -> None:
        asyncio.run(in_a_loop())

    @app.on("task")
    async def own_loop_in_a_thread(_: Message[Any]) -> None:
        await asyncio.to_thread(lambda: asyncio.run(in_a_loop()))

    async with harness(app, database=database) as h:
        for name in ("plain", "thread", "task"):
            await app.queue(name).send("a")
            await h.drain()
            refused += [letter.error or "" for letter in await h.dead(name)]
        assert not await h.sent("out")
    assert ["make the handler `async def`" in error for error in refused] == [True] * 3


async def test_outside_a_handler_background_work_is_a_plain_task(app: Tickwork) -> None:
    async def seven() -> int:
        return 7

    assert await app.background(seven()) == 7


async def test_a_send_to_an_unknown_queue_is_refused_where_the_handler_calls_it(
    app: Tickwork, database: str | None
) -> None:
    work, reached = app.queue("work", max_retries=0), list[str]()
    app.queue("emails")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.send("emials", 1)
        reached.append("an effect outside the database")

    async with harness(app, database=database) as h:
        await work.send("typo")
        await h.drain()
        (dead,) = await h.dead("work")
    assert reached == []
    assert "queue: there is no queue 'emials'; did you mean 'emails'?" in (dead.error or "")


async def test_a_handler_sends_to_a_queue_by_its_name_or_to_the_queue_itself(
    app: Tickwork, database: str | None
) -> None:
    work, emails = app.queue("work"), app.queue("emails", payload=int)
    done = app.queue("done")

    @app.on(work)
    async def handle(message: Message[Any]) -> None:
        message.send("emails", 1)
        message.send(emails, 2, priority=3)
        await app.batch(emails, [3, Outgoing(4, priority=2)], completion_queue=done)

    async with harness(app, database=database) as h:
        await work.send("go")
        await h.drain()
        assert sorted(message.body for message in await h.sent("emails")) == [1, 2, 3, 4]


async def test_a_queue_that_another_app_made_meanwhile_is_found_by_the_next_attempt(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", backoff=Fixed(60))

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.send("later", message.attempts)

    async with harness(app, database=database) as h:
        await h.store.queues.put(DEFAULT, "later", QueueSettings())
        await work.send(1)
        await h.advance(minutes=2)
        assert [message.body for message in await h.sent("later")] == [2]
