"""Smaller promises of handlers: blocks that raise, errors as they are told, and warnings."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.service.own_rows import OwnRows
from tests.service.programs import typed_queue
from tests.stores.home import Home
from tickwork.app.message import Message, MessageBatch, Permanent
from tickwork.core.model import DEFAULT, REASON_MAX_RETRIES
from tickwork.facade.app import Tickwork
from tickwork.ops.send import BODY_BYTES_WARNED
from tickwork.testing import harness


async def test_what_a_block_noted_is_dropped_if_the_block_raises(
    app: Tickwork, database: str | None
) -> None:
    work, own = app.queue("work", max_retries=0), OwnRows(app, database)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        own.insert(message.transaction(), "before")
        rows = message.transaction()
        with rows:
            own.insert(rows, "first")
        with suppress(ValueError), rows:
            own.insert(rows, "dropped")
            with rows:
                own.insert(rows, "dropped too")
            own.insert(message.transaction(), "of another one")
            raise ValueError("caught by the handler")
        own.insert(rows, "after")

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("x")
        await h.drain()
        assert await own.all(h) == ["after", "before", "first", "of another one"]
        assert await h.dead("work") == []


async def test_an_error_is_told_from_the_apps_own_code_on(app: Tickwork) -> None:
    work, bad = app.queue("work", max_retries=0), app.queue("bad", payload=int)

    def deeper() -> None:
        raise ValueError("no luck")

    async def in_the_background() -> None:
        deeper()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        if message.body == "background":
            app.background(in_the_background())
        elif message.body == "ours":
            bad_body: Any = "no number"
            await bad.send(bad_body)
        else:
            deeper()

    async with harness(app) as h:
        for body in ("plain", "background", "ours"):
            await work.send(body)
        await h.drain()
        errors = {letter.body: letter.error or "" for letter in await h.dead("work")}
    for body, function in (("plain", "handle"), ("background", "in_the_background")):
        first = errors[body].splitlines()[1]
        assert first.startswith(f'  File "{__file__}", line '), errors[body]
        assert first.endswith(f" in {function}")
    assert errors["ours"].splitlines()[1].endswith(" in handle")
    assert "payloads.py" in errors["ours"]


async def test_a_process_knows_what_its_queue_carries(database: str | None) -> None:
    """And what it makes crosses, but for what needs the database."""
    async with harness(typed_queue.app, database=database) as h:
        await typed_queue.work.send(typed_queue.Order(3))
        await h.drain()
        assert await h.dead("work") == []
        name, caught, refused = sorted(message.body for message in await h.sent("out"))
        assert (name, caught, "isolation='task'" in refused) == ("Order", "caught", True)
        (batch,) = await h.store.batches.list(DEFAULT, 10)
        assert (batch.total, len(await h.sent("items"))) == (3, 3)


async def test_a_large_body_is_told_of_once_for_each_queue(
    app: Tickwork, caplog: pytest.LogCaptureFixture
) -> None:
    work, other = app.queue("work"), app.queue("other")
    caplog.set_level(logging.WARNING, "tickwork")
    async with harness(app):
        await work.send("x" * (BODY_BYTES_WARNED - 2))
        assert caplog.records == []
        for queue in (work, other, work):
            await queue.send("x" * BODY_BYTES_WARNED)
        await app.batch("other", ["x" * BODY_BYTES_WARNED])
    told = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in told] == ["queue work", "queue other"]
    assert all("send references" in line for line in told)


async def test_a_queue_may_be_declared_when_the_store_is_open(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path / 'work.db'}")
    await app._engine.open()
    app.queue("late")
    app.on("late")(lambda message: message.ack())
    async with app._engine.running() as worker:
        assert worker.consumers[0].queue.name == "late"


@pytest.mark.parametrize("error", [ValueError("after the ack"), Permanent("after the ack")])
async def test_an_error_after_the_ack_is_told_and_the_ack_counts(
    app: Tickwork, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    work = app.queue("work")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.ack()
        raise error

    async with harness(app) as h:
        await work.send(1)
        await h.drain()
        assert await h.dead("work") == []
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [("stays acked" in line, "after the ack" in line) for line in told] == [(True, True)]


def retry_and_raise(message: Message[Any]) -> None:
    """As one writes it who wants a delay of his own for what failed."""
    message.retry(0)
    raise Permanent("the reason") if message.body == "permanent" else ValueError("the reason")


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("body", ["failed", "permanent"])
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_an_error_after_a_retry_is_told_and_the_retry_counts(
    app: Tickwork,
    database: str | None,
    caplog: pytest.LogCaptureFixture,
    isolation: str,
    body: str,
) -> None:
    work = app.queue("work", max_retries=1)
    app.on("work", isolation=isolation)(retry_and_raise)  # type: ignore[call-overload]
    async with harness(app, database=database) as h:
        await work.send(body)
        await h.drain()
        (dead,) = await h.dead("work")
    assert (dead.reason, dead.attempts) == (REASON_MAX_RETRIES, 2)
    assert "the reason" in (dead.error or "")
    if isolation == "thread":  # Of the other the log is elsewhere.
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert ["message is retried" in line and "the reason" in line for line in told] == [
            True
        ] * 2


async def test_the_line_of_a_retry_tells_the_error_that_came_after_it(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    app = Tickwork(home.url)
    app.queue("work", max_retries=1)
    app.on("work")(retry_and_raise)
    batch = await app.batch("work", ["failed"])
    caplog.set_level(logging.INFO, "tickwork")
    async with app.running():
        await batch.wait(timeout_seconds=30)
    lines = [record.getMessage() for record in caplog.records]
    for outcome in ("retried", "dead"):
        (line,) = [candidate for candidate in lines if f"outcome={outcome}" in candidate]
        assert 'error="ValueError: the reason"' in line


async def test_an_error_after_the_acks_of_a_batch_is_told_once(
    app: Tickwork, caplog: pytest.LogCaptureFixture
) -> None:
    work = app.queue("work", max_batch_size=3)

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        for message in batch.messages[:2]:
            message.ack()
        raise ValueError("after two acks")

    async with harness(app) as h:
        await work.send_batch([1, 2, 3])
        await h.drain()
    told = [
        record.getMessage() for record in caplog.records if "stays acked" in record.getMessage()
    ]
    assert ["and 1 more" in line and "Traceback" in line for line in told] == [True]


async def test_a_block_that_is_awaited_is_the_same_as_a_plain_one(
    app: Tickwork, database: str | None
) -> None:
    work, own = app.queue("work", max_retries=0), OwnRows(app, database)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        async with message.transaction() as rows:
            own.insert(rows, message.body)
        with suppress(ValueError):
            async with message.transaction() as rows:
                own.insert(rows, "dropped")
                raise ValueError

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send("x")
        await h.drain()
        assert await own.all(h) == ["x"]


@pytest.mark.parametrize("isolation", ["task", "process"])
async def test_who_awaits_a_statement_is_told_that_nothing_is_written_yet(
    app: Tickwork, database: str | None, isolation: str
) -> None:
    work = app.queue("work", max_retries=0)
    app.on("work", isolation=isolation)(await_a_statement)  # type: ignore[call-overload]
    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        (dead,) = await h.dead("work")
        assert "Call rows.execute(…) without await" in (dead.error or "")


async def await_a_statement(message: Message[Any]) -> None:
    """As one writes it with a driver that waits."""
    async with message.transaction() as rows:
        await rows.execute("INSERT INTO nothing VALUES (1)")
