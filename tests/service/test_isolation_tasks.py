"""Handlers in tasks: however one ends, its message ends as documented and others continue."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.service.workplace import WAIT_SECONDS, Workplace
from tickwork.app.invocation import HandlerEnded, Handling, current_handling
from tickwork.core.message.body import decode_body
from tickwork.service.worker import invocations
from tickwork.service.worker.invoke import run_coroutine


class Unlucky(BaseException):
    """An error that is no `Exception`."""


async def raises(_: Any) -> None:
    raise ValueError("no luck")


async def raises_unusually(_: Any) -> None:
    raise Unlucky("no luck")


async def exits(_: Any) -> None:
    sys.exit("that is all")


async def leaves_like_a_generator(_: Any) -> None:
    raise GeneratorExit("all given")


async def awaits_one_that_leaves_so(message: Any) -> None:
    handling = current_handling()
    assert handling is not None
    handling.background(asyncio.Event().wait())
    await asyncio.create_task(leaves_like_a_generator(message))


async def cancels_itself(_: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


async def awaits_something_cancelled(_: Any) -> None:
    other = asyncio.create_task(asyncio.Event().wait())
    other.cancel()
    await other


ENDS: dict[str, tuple[Callable[[Any], Awaitable[None]], str]] = {
    "raises": (raises, "ValueError: no luck"),
    "raises unusually": (raises_unusually, "Unlucky: no luck"),
    "exits": (exits, "SystemExit: that is all"),
    "leaves": (leaves_like_a_generator, "GeneratorExit: all given"),
    "awaits one that leaves": (awaits_one_that_leaves_so, "GeneratorExit: all given"),
    "cancels itself": (cancels_itself, "cancelled from within"),
    "awaits what is cancelled": (awaits_something_cancelled, "cancelled from within"),
}


async def test_a_handler_that_fails_costs_its_own_message(tmp_path: Path) -> None:
    place = Workplace(tmp_path)

    async def handle(message: Any) -> None:
        if message.body in ENDS:
            await ENDS[message.body][0](message)
        message.send("out", message.body)

    place.handle(handle)
    await place.send("a", *ENDS, "b")
    async with place.app.running():
        await place.until_dead(len(ENDS))
        assert sorted(await place.until_out(2)) == ["a", "b"]
        errors = await place.errors_by_body()
    assert errors.keys() == ENDS.keys()
    for body, (_, error) in ENDS.items():
        assert error in errors[body], body


async def test_a_handler_that_hangs_is_stopped_at_its_wall_limit(tmp_path: Path) -> None:
    place = Workplace(tmp_path, timeout_seconds=1)
    left: list[float] = []

    async def handle(message: Any) -> None:
        left.append(message.time_left())
        if message.body == "bad":
            await asyncio.Event().wait()
        message.send("out", message.body)

    place.handle(handle, max_concurrency=1)
    await place.send("bad", "a")
    async with place.running() as worker:
        await eventually(lambda: left)
        place.pass_seconds(1)
        assert await place.until_dead() == ["took longer than 1 second, and was stopped"]
        assert await place.until_out() == ["a"]
        assert len(worker.consumers[0].running) == 0
    assert all(0 < seconds <= 1 for seconds in left)


async def test_who_will_not_be_cancelled_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocations, "CANCEL_GRACE_SECONDS", 0.05)
    place = Workplace(tmp_path, timeout_seconds=1)
    began, let_go, said = asyncio.Event(), asyncio.Event(), list[type[Exception]]()

    async def handle(message: Any) -> None:
        began.set()
        while message.body == "bad" and not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        try:
            message.send("out", message.body)
            message.transaction()
            message.ack()
        except HandlerEnded as error:
            said.append(type(error))
            raise

    place.handle(handle, max_concurrency=1)
    await place.send("bad", "a")
    async with place.running() as worker:
        await began.wait()
        place.pass_seconds(1)
        behind = worker._context.isolator.abandoned
        assert await place.until_dead() == ["took longer than 1 second, and was stopped"]
        assert await place.until_out() == ["a"]  # In the only slot there is.
        assert (behind.count("work"), behind.total, said) == (1, 1, [])
        let_go.set()
        await eventually(lambda: behind.count("work") == 0)
        assert said == [HandlerEnded]
        assert await place.out() == ["a"]


async def test_who_takes_no_notice_of_the_limit_and_returns_has_failed(tmp_path: Path) -> None:
    place, began = Workplace(tmp_path, timeout_seconds=1), asyncio.Event()

    async def handle(message: Any) -> None:
        began.set()
        message.send("out", "never")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    place.handle(handle)
    await place.send("bad")
    async with place.running():
        await began.wait()
        place.pass_seconds(1)
        assert await place.until_dead() == ["took longer than 1 second, and was stopped"]
        assert await place.out() == []


async def test_what_was_said_before_the_limit_counts(tmp_path: Path) -> None:
    place = Workplace(tmp_path, timeout_seconds=1, max_batch_size=2, max_batch_timeout=0)
    hangs = asyncio.Event()

    @place.app.consumer("work")
    async def handle(batch: Any) -> None:
        for message in batch:
            if message.body == "bad":
                hangs.set()
                await asyncio.Event().wait()
            message.send("out", message.body)
            message.ack()

    await place.send("a", "bad")
    async with place.running():
        await hangs.wait()
        place.pass_seconds(1)
        await place.until_dead()
        assert await place.until_out() == ["a"]
        assert [decode_body(letter.body, letter.content_type) for letter in await place.dead()] == [
            "bad"
        ]


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_what_was_done_before_an_ack_and_the_limit_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stubborn: bool
) -> None:
    monkeypatch.setattr(invocations, "CANCEL_GRACE_SECONDS", 0.05)
    place, let_go = Workplace(tmp_path, timeout_seconds=1), asyncio.Event()
    acked, refused = asyncio.Event(), list[type[Exception]]()

    async def handle(message: Any) -> None:
        await place.app.queue("out").send("plain")
        message.send("out", "own")
        message.ack()
        acked.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                if not is_stubborn:
                    raise
        try:
            await place.app.queue("out").send("too late")
        except HandlerEnded as error:
            refused.append(type(error))

    place.handle(handle)
    await place.send("a")
    async with place.running():
        await acked.wait()
        place.pass_seconds(1)
        assert sorted(await place.until_out(2)) == ["own", "plain"]
        let_go.set()
        if is_stubborn:
            await eventually(lambda: refused == [HandlerEnded])
        assert await place.waiting() == ()
    assert await place.errors() == []


async def test_the_first_outcome_that_a_handler_declares_counts(tmp_path: Path) -> None:
    place = Workplace(tmp_path, max_retries=3)

    async def handle(message: Any) -> None:
        message.send("out", message.attempts)
        message.ack()
        message.ack()
        message.retry()
        raise ValueError("too late")

    place.handle(handle)
    await place.send("a")
    async with place.app.running():
        assert await place.until_out() == [1]
        assert await place.waiting() == ()


async def test_a_handler_that_blocks_the_loop_holds_the_others_up_and_no_more(
    tmp_path: Path,
) -> None:
    place = Workplace(tmp_path)

    async def handle(message: Any) -> None:
        if message.body == "bad":
            threading.Event().wait(0.1)
        message.send("out", message.body)

    place.handle(handle)
    await place.send("a", "bad", "b")
    async with place.app.running():
        assert sorted(await place.until_out(3)) == ["a", "b", "bad"]
        assert await place.errors() == []


async def test_stopping_the_worker_gives_back_what_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocations, "CANCEL_GRACE_SECONDS", 0.1)
    place = Workplace(tmp_path)
    begun, let_go = list[str](), asyncio.Event()

    async def handle(message: Any) -> None:
        begun.append(message.body)
        while message.body == "stubborn" and not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        await let_go.wait()

    place.handle(handle, max_concurrency=2)
    await place.send("stubborn", "meek")
    async with asyncio.timeout(WAIT_SECONDS):
        async with place.app._engine.running(drain_seconds=0) as worker:
            await eventually(lambda: len(begun) == 2)
        assert worker._context.isolator.abandoned.count("work") == 1
    waiting = await place.waiting()
    assert [(message.attempts, message.holder) for message in waiting] == [(0, None)] * 2
    await place.app.close()
    let_go.set()
    await eventually(lambda: worker._context.isolator.abandoned.count("work") == 0)


async def test_who_is_closed_is_not_taken_for_one_who_failed() -> None:
    went_on = list[Any]()

    async def wait_for_ever(_: Any) -> None:
        await asyncio.Event().wait()

    async def invoked() -> None:
        given: Any = None
        went_on.append(await run_coroutine(wait_for_ever, Handling(given), given))

    invocation = invoked()
    task = asyncio.create_task(invocation)
    await asyncio.wait([task], timeout=0)
    invocation.close()
    assert went_on == []
    task.cancel()
    await asyncio.wait([task])
    assert isinstance(task.exception(), RuntimeError)  # Nothing is left that could be stopped.
