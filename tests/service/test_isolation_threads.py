"""Handlers in threads: one that does not finish is abandoned, counted and bounded."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.service.workplace import WAIT_SECONDS, Workplace
from tickwork.app.declarations import HandlerDeclaration
from tickwork.app.invocation import HandlerEnded, current_handling
from tickwork.app.isolation import Isolation
from tickwork.app.payloads import Payload
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.service.isolation.threads import AbandonedHandlers, ThreadPool


class Unlucky(BaseException):
    """An error that is no `Exception`."""


def raises() -> None:
    raise ValueError("no luck")


def raises_unusually() -> None:
    raise Unlucky("no luck")


def exits() -> None:
    sys.exit("that is all")


def stops_an_iteration() -> None:
    raise StopIteration


def is_cancelled() -> None:
    raise asyncio.CancelledError


@pytest.fixture
def doors() -> Iterator[Callable[[], threading.Event]]:
    """Doors that handlers stand before; at the end of a test all are open."""
    made: list[threading.Event] = []

    def door() -> threading.Event:
        made.append(threading.Event())
        return made[-1]

    yield door
    for event in made:
        event.set()


def declared(function: Callable[..., Any]) -> HandlerDeclaration:
    return HandlerDeclaration(
        queue="work",
        function=function,
        payload=Payload(),
        is_batch=False,
        isolation=Isolation.THREAD,
    )


def handler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tickwork-handler"]


ENDS: dict[str, tuple[Callable[[], None], str]] = {
    "raises": (raises, "ValueError: no luck"),
    "raises unusually": (raises_unusually, "Unlucky: no luck"),
    "exits": (exits, "SystemExit: that is all"),
    "stops an iteration": (stops_an_iteration, "StopIteration"),
    "is cancelled": (is_cancelled, "cancelled from within"),
}


async def test_a_function_that_fails_costs_its_own_message(tmp_path: Path) -> None:
    place = Workplace(tmp_path)

    def handle(message: Any) -> None:
        if message.body in ENDS:
            ENDS[message.body][0]()
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
    await eventually(lambda: not handler_threads())


async def test_the_first_word_counts_in_a_thread_too(tmp_path: Path) -> None:
    place = Workplace(tmp_path, max_retries=3)

    def handle(message: Any) -> None:
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


async def test_what_was_done_before_an_ack_and_the_limit_happens_in_a_thread_too(
    tmp_path: Path, doors: Callable[[], threading.Event]
) -> None:
    place, door, acked = Workplace(tmp_path, timeout_seconds=1), doors(), list[Any]()

    def handle(message: Any) -> None:
        asyncio.run(place.app.queue("out").send("plain"))
        message.send("out", "own")
        message.ack()
        acked.append(message.body)
        door.wait()

    place.handle(handle)
    await place.send("a")
    async with place.running():
        await eventually(lambda: acked)
        place.pass_seconds(1)
        assert sorted(await place.until_out(2)) == ["own", "plain"]
        assert await place.waiting() == ()


async def test_who_burns_a_processor_is_left_behind_and_holds_nobody_up(
    tmp_path: Path, doors: Callable[[], threading.Event]
) -> None:
    place, door = Workplace(tmp_path, timeout_seconds=1), doors()

    def handle(message: Any) -> None:
        while message.body == "bad" and not door.is_set():
            pass
        message.send("out", message.body)

    place.handle(handle, max_concurrency=2)
    await place.send("bad", "a", "b")
    async with place.running():
        assert sorted(await place.until_out(2)) == ["a", "b"]
        place.pass_seconds(1)
        (error,) = await place.until_dead()
        assert "took longer than 1 second" in error


async def test_functions_block_together_and_hold_nobody_up(
    tmp_path: Path, doors: Callable[[], threading.Event]
) -> None:
    place, door = Workplace(tmp_path), doors()
    together = threading.Barrier(5)

    def handle(message: Any) -> None:
        together.wait(WAIT_SECONDS)
        door.wait()
        message.send("out", message.body)

    place.handle(handle, max_concurrency=5)
    await place.send(*range(5))
    async with place.app._engine.running() as worker:
        await eventually(lambda: len(worker.consumers[0].running) == 5)
        assert await place.out() == []  # The loop is free to ask.
        door.set()
        assert sorted(await place.until_out(5)) == [*range(5)]


async def test_a_function_that_hangs_is_left_behind(
    tmp_path: Path, doors: Callable[[], threading.Event]
) -> None:
    place, door = Workplace(tmp_path, timeout_seconds=1), doors()
    begun, said = list[Any](), list[type[Exception]]()

    def handle(message: Any) -> None:
        if message.body != "bad":
            message.send("out", message.body)
            return
        rows = message.transaction()
        begun.append(message.body)
        door.wait()
        for word in (
            message.ack,
            message.retry,
            message.transaction,
            lambda: message.send("out", "never"),
            lambda: rows.execute("nonsense"),
        ):
            try:
                word()
            except HandlerEnded as error:
                said.append(type(error))

    place.handle(handle, max_concurrency=1)
    await place.send("bad", "a")
    async with place.running() as worker:
        await eventually(lambda: begun)
        place.pass_seconds(1)
        behind = worker._context.isolator.abandoned
        assert await place.until_dead() == ["took longer than 1 second, and was stopped"]
        assert await place.until_out() == ["a"]  # In the only slot there is.
        assert (behind.count("work"), behind.total) == (1, 1)
        door.set()
        await eventually(lambda: behind.count("work") == 0)
        assert said == [HandlerEnded] * 5
        assert await place.out() == ["a"]
    await eventually(lambda: not handler_threads())


async def test_a_function_is_in_its_handler_s_context() -> None:
    pool, seen = ThreadPool(AbandonedHandlers()), list[object]()
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    variable.set("here")

    def look(given: object) -> None:
        seen.extend([variable.get(), current_handling(), given])
        variable.set("there")

    assert await pool.run(declared(look), "given") is None
    assert seen == ["here", None, "given"]
    assert variable.get() == "here"
    pool.stop()


async def test_an_idle_thread_runs_the_next_handler() -> None:
    pool, seen = ThreadPool(AbandonedHandlers()), set[int]()

    def look(_: object) -> None:
        seen.add(threading.get_ident())

    for _ in range(20):
        await pool.run(declared(look), None)
    assert len(seen) == 1
    pool.stop()
    await eventually(lambda: not handler_threads())


async def test_idle_threads_are_bounded() -> None:
    pool = ThreadPool(AbandonedHandlers(), idle_max=2)
    together = threading.Barrier(6)

    def meet(_: object) -> None:
        together.wait(WAIT_SECONDS)

    await asyncio.gather(*(pool.run(declared(meet), None) for _ in range(6)))
    await eventually(lambda: len(handler_threads()) == 2)
    pool.stop()
    await eventually(lambda: not handler_threads())


async def test_whoever_is_left_behind_costs_slots_beyond_a_bound(
    doors: Callable[[], threading.Event],
) -> None:
    behind, door = AbandonedHandlers(free=2), doors()
    pool = ThreadPool(behind)

    def hang(_: object) -> None:
        door.wait()

    for left in range(1, 6):
        task = asyncio.create_task(pool.run(declared(hang), None))
        await eventually(lambda left=left: len(handler_threads()) == left)  # type: ignore[misc]
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)
        assert behind.count("work") == left
        assert behind.permits_lost("work") == max(left - 2, 0)
    assert behind.permits_lost("another") == 0
    door.set()
    await eventually(lambda: behind.count("work") == 0)
    assert behind.permits_lost("work") == 0
    await eventually(lambda: not handler_threads())


async def test_a_queue_without_a_slot_waits_until_it_has_one_again(
    tmp_path: Path, doors: Callable[[], threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, door, begun = Workplace(tmp_path, timeout_seconds=1), doors(), list[Any]()

    def handle(message: Any) -> None:
        begun.append(message.body)
        if message.body == "bad":
            door.wait()
        message.send("out", message.body)

    place.handle(handle, max_concurrency=1)
    await place.send("bad", "a")
    async with place.running() as worker:
        monkeypatch.setattr(worker._context.isolator.abandoned, "_free", 0)
        await eventually(lambda: begun)
        place.pass_seconds(1)
        await place.until_dead()
        assert worker.consumers[0].permits.limit == 0
        assert await place.out() == []
        door.set()
        assert await place.until_out() == ["a"]
        assert worker.consumers[0].permits.limit == 1


async def test_when_no_thread_can_be_started_the_message_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    outcome: Outcome | None = await ThreadPool(AbandonedHandlers()).run(declared(raises), None)
    assert outcome == Failed("could not start a thread: can't start new thread")


@pytest.mark.parametrize("kind", ["thread", "task"])
async def test_a_handler_that_hangs_does_not_keep_the_process_from_ending(
    children: Children, tmp_path: Path, kind: str
) -> None:
    child = children.spawn("tests.service.programs.hanging", kind, tmp_path)
    await child.line("hanging", WAIT_SECONDS)
    child.terminate()
    await child.succeeded(WAIT_SECONDS)
