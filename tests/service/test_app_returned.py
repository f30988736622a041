"""What a handler returns: one that returns work which nobody does has not succeeded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.service.workplace import Workplace
from tickwork.core.schedule.firing import FiringStatus
from tickwork.facade.app import Tickwork
from tickwork.testing import HandlerFailed, harness

ran: list[str] = []


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as it is written for plain functions."""

    @wraps(function)
    def inner(given: Any) -> Any:
        return function(given)

    return inner


def without_await(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that forgets to await."""

    @wraps(function)
    async def inner(given: Any) -> Any:
        return function(given)

    return inner


async def working(_: Any) -> None:
    ran.append("coroutine")


async def several(_: Any) -> AsyncIterator[int]:
    ran.append("async generator")
    yield 1


def generating(_: Any) -> Iterator[int]:
    ran.append("generator")
    yield 1


class Later:
    """Something to await that is no coroutine."""

    def __init__(self, _: Any) -> None: ...

    def __await__(self) -> Iterator[None]:
        ran.append("awaitable")
        yield


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("decorator", [plainly, without_await])
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (working, "a coroutine"),
        (several, "an async generator"),
        (generating, "a generator"),
        (Later, r"an awaitable \(Later\)"),
    ],
)
async def test_work_that_a_handler_only_returns_is_no_success(
    app: Tickwork, database: str | None, decorator: Any, function: Any, kind: str
) -> None:
    app.queue("single", max_retries=0)
    app.queue("several", max_retries=0, max_batch_timeout=0)
    app.on("single")(decorator(function))
    app.consumer("several")(decorator(function))
    async with harness(app, database=database, raise_errors=True) as h:
        for queue in ("single", "several"):
            await app.queue(queue).send("a")
            with pytest.raises(HandlerFailed, match=f"returned {kind}, which never runs"):
                await h.drain()
            (dead,) = await h.dead(queue)
            assert dead.error is not None
            assert "await the call there" in dead.error
    assert ran == []


async def test_a_slot_whose_work_is_only_returned_has_failed(
    app: Tickwork, database: str | None
) -> None:
    app.schedule(interval_minutes=5, name="report", retry={"max_attempts": 1})(plainly(working))
    async with harness(app, database=database, raise_errors=True) as h:
        with pytest.raises(HandlerFailed, match="returned a coroutine"):
            await h.advance(minutes=6)
        (firing,) = await app.schedules.firings("report")
    assert firing.status is FiringStatus.DEAD
    assert ran == []


async def test_what_is_done_may_be_returned(app: Tickwork, database: str | None) -> None:
    app.queue("out")
    queues = [app.queue(name, max_retries=0) for name in ("noted", "begun", "value")]

    @app.on("noted")
    def noted(message: Any) -> Any:
        return message.transaction().execute("SELECT 1")

    @app.on("begun")  # type: ignore[type-var]
    async def begun(_: Any) -> asyncio.Task[Any]:
        async def send() -> None:
            await asyncio.sleep(0)
            await app.queue("out").send("sent")

        return app.background(send())

    @app.on("value")  # type: ignore[type-var]
    def value(_: Any) -> list[int]:
        return [1]

    async with harness(app, database=database, raise_errors=True) as h:
        for queue in queues:
            await queue.send("a")
        await h.drain()
        assert [message.body for message in await h.sent("out")] == ["sent"]
        assert [await h.dead(queue.name) for queue in queues] == [[], [], []]


def returns_a_coroutine(message: Any) -> Any:
    """For a process of its own."""
    return working(message)


async def test_a_process_that_only_returns_its_work_has_failed(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.handle(returns_a_coroutine, isolation="process")
    await place.send("a")
    async with place.app.running():
        (error,) = await place.until_dead()
    assert "returned a coroutine, which never runs" in error
