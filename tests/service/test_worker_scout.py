"""Handlers that do not wait share one task; a handler that waits gets its own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.service.workplace import Workplace
from tickwork.service.worker import permits
from tickwork.service.worker.permits import notify_first_wait
from tickwork.service.worker.prefetch import Prefetch

MESSAGES = 50


@pytest.fixture(autouse=True)
def in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are in hand before their slot is free: the end of one begins the next."""
    monkeypatch.setattr(Prefetch, "claim_limit", lambda prefetch, *_: MESSAGES - len(prefetch))


_spoilt: ContextVar[bool] = ContextVar("spoilt", default=False)


async def _tasks_of(place: Workplace, handle: Callable[[], Awaitable[None]]) -> int:
    """In how many tasks so many messages are handled."""
    tasks: list[asyncio.Task[Any] | None] = []

    async def noted(_: Any) -> None:
        tasks.append(asyncio.current_task())
        await handle()

    place.handle(noted, max_concurrency=1)
    await place.send(*range(MESSAGES))
    async with place.app.running():
        await eventually(lambda: len(tasks) == MESSAGES)
    return len({*tasks})


async def test_handlers_that_do_not_wait_share_a_task(tmp_path: Path) -> None:
    async def at_once() -> None:
        pass

    assert await _tasks_of(Workplace(tmp_path), at_once) < MESSAGES / 2


async def test_a_handler_that_waits_has_a_task_to_itself(tmp_path: Path) -> None:
    async def later() -> None:
        await asyncio.sleep(0)

    assert await _tasks_of(Workplace(tmp_path), later) == MESSAGES


async def test_a_handler_that_leaves_something_in_the_context_has_a_task_to_itself(
    tmp_path: Path,
) -> None:
    async def spoil() -> None:
        assert not _spoilt.get()
        _spoilt.set(True)

    assert await _tasks_of(Workplace(tmp_path), spoil) == MESSAGES


async def test_a_cancel_that_a_handler_asks_for_is_its_own(tmp_path: Path) -> None:
    place = Workplace(tmp_path)

    async def handle(message: Any) -> None:
        if message.body % 2:
            await asyncio.sleep(0)
        else:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        message.send("out", message.body)

    place.handle(handle, max_concurrency=1)
    await place.send(*range(MESSAGES))
    async with place.app.running():
        assert sorted(await place.until_out(MESSAGES)) == [*range(MESSAGES)]
    assert await place.dead() == []


async def test_who_waits_does_not_hold_up_the_others(tmp_path: Path) -> None:
    place, last = Workplace(tmp_path), asyncio.Event()

    async def handle(message: Any) -> None:
        if message.body == MESSAGES - 1:
            last.set()
        await last.wait()
        message.send("out", message.body)

    place.handle(handle, max_concurrency=MESSAGES)
    await place.send(*range(MESSAGES))
    async with place.app.running():
        assert sorted(await place.until_out(MESSAGES)) == [*range(MESSAGES)]


async def test_handlers_that_never_wait_let_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "SCOUT_SECONDS_MAX", 0.0)
    place, handled, turns = Workplace(tmp_path), list[int](), list[int]()

    async def handle(_: Any) -> None:
        handled.append(1)

    async def beside() -> None:
        while len(handled) < MESSAGES:
            turns.append(len(handled))
            await asyncio.sleep(0)

    place.handle(handle, max_concurrency=1)
    await place.send(*range(MESSAGES))
    async with place.app.running():
        await asyncio.wait_for(beside(), timeout=60)
    assert len({*turns}) > MESSAGES / 2


# Noticing the first wait


async def _echo(value: Any) -> Any:
    return value


async def _raise(error: Exception) -> Any:
    raise error


async def _through(future: asyncio.Future[Any], log: list[str]) -> Any:
    try:
        return await future
    except ValueError:
        log.append("caught")
        return "mended"
    finally:
        log.append("closed")


async def _awaiting(work: Awaitable[Any]) -> Any:
    return await work


def _noticed(work: Coroutine[Any, Any, Any]) -> tuple[list[str], Awaitable[Any]]:
    told: list[str] = []
    return told, notify_first_wait(work, told.append, "it waits")


async def test_what_ends_at_once_is_not_noticed() -> None:
    told, awaited = _noticed(_echo(7))
    assert (await awaited, told) == (7, [])
    told, awaited = _noticed(_raise(KeyError("x")))
    with pytest.raises(KeyError):
        await awaited
    assert told == []


async def test_what_waits_is_noticed_before_it_waits_and_gets_what_comes() -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    log: list[str] = []
    told, awaited = _noticed(_through(future, log))
    task = asyncio.ensure_future(awaited)
    await asyncio.sleep(0)
    assert told == ["it waits"]
    future.set_result("there")
    assert (await task, log, told) == ("there", ["closed"], ["it waits"])


async def test_what_waits_gets_the_errors_and_the_end_meant_for_it() -> None:
    loop, log = asyncio.get_running_loop(), list[str]()
    future: asyncio.Future[Any] = loop.create_future()
    task = asyncio.ensure_future(_noticed(_through(future, log))[1])
    await asyncio.sleep(0)
    future.set_exception(ValueError("x"))
    assert (await task, log) == ("mended", ["caught", "closed"])
    task = asyncio.ensure_future(_noticed(_through(loop.create_future(), log))[1])
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["caught", "closed", "closed"]


async def test_nothing_of_what_was_cancelled_is_kept() -> None:
    seen: list[weakref.ref[Any]] = []

    async def wait() -> None:
        local = Held()
        seen.append(weakref.ref(local))
        await asyncio.get_running_loop().create_future()

    gc.disable()
    try:
        task = asyncio.ensure_future(_noticed(wait())[1])
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        del task
        await asyncio.sleep(0)
        assert seen[0]() is None
    finally:
        gc.enable()


class Held:
    """Something that can be seen to be gone."""


def test_what_is_given_up_while_it_waits_is_closed() -> None:
    loop, log = asyncio.new_event_loop(), list[str]()
    try:
        running = _awaiting(_noticed(_through(loop.create_future(), log))[1])
        running.send(None)
        running.close()
        assert log == ["closed"]
    finally:
        loop.close()
