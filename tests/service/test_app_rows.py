"""Rows of a handler's own that go wrong cost their own message, an attempt, and nothing else."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.service.own_rows import OwnRows
from tickwork.app.message import Message
from tickwork.core.message.backoff import Fixed
from tickwork.core.model import REASON_MAX_RETRIES
from tickwork.facade.app import Tickwork
from tickwork.testing import harness


def gives_up() -> None:
    raise asyncio.CancelledError


def exits() -> None:
    sys.exit("that is all")


def is_interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (gives_up, "CancelledError"),
        (exits, "SystemExit: that is all"),
        (is_interrupted, "KeyboardInterrupt"),
    ],
)
async def test_a_function_that_would_end_more_than_itself_fails_its_message(
    app: Tickwork, database: str | None, ends: Callable[[], None], told: str
) -> None:
    work, own = app.queue("work", max_retries=1, backoff=Fixed(10)), OwnRows(app, database)

    async def write(_: Any) -> None:
        ends()

    def write_plainly(connection: Any) -> Awaitable[None] | None:
        if hasattr(connection, "fetchrow"):
            return write(connection)
        ends()
        return None

    @app.on("work", max_concurrency=3)
    async def handle(message: Message[Any]) -> None:
        rows = message.transaction()
        own.insert(rows, message.body)
        if message.body == "bad":
            rows.run(write_plainly)

    async with harness(app, database=database) as h:
        await own.make(h)
        await work.send_batch(["a", "bad", "b"])
        await h.advance(minutes=1)
        assert await own.all(h) == ["a", "b"]
        (dead,) = await h.dead("work")
    assert (dead.body, dead.reason, dead.attempts) == ("bad", REASON_MAX_RETRIES, 2)
    assert told in (dead.error or "")


def execute_a_number(message: Message[Any]) -> None:
    message.transaction().execute(5)  # type: ignore[arg-type]


def execute_lone_surrogate(message: Message[Any]) -> None:
    message.transaction().execute("SELECT '\ud800'")


def write_lone_surrogate(message: Message[Any]) -> None:
    message.transaction().execute(message.body, "a\ud800")


@pytest.mark.parametrize("isolation", ["task", "process"])
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (execute_a_number, "TypeError: a statement must be a str, not int"),
        (execute_lone_surrogate, "ValueError: the statement has a lone surrogate at position 8"),
        (write_lone_surrogate, "surrogates not allowed|value 1 has a lone surrogate"),
    ],
)
async def test_what_no_database_can_be_sent_is_an_error_like_any_other(
    app: Tickwork,
    database: str | None,
    isolation: str,
    function: Callable[[Message[Any]], None],
    told: str,
) -> None:
    work = app.queue("work", max_retries=0)
    if isolation == "process":
        app.on("work", isolation=isolation)(function)  # type: ignore[call-overload]
    else:

        @app.on("work")
        async def handle(message: Message[Any]) -> None:
            function(message)

    async with harness(app, database=database) as h:
        await work.send("SELECT ?" if database is None else "SELECT $1::text")
        await h.drain()
        (dead,) = await h.dead("work")
    assert re.search(told, dead.error or "")
