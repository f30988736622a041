"""A handler's own log lines have the fields of its message, in tasks, threads and processes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.kit.waiting import eventually
from tests.service.workplace import Workplace
from tickwork import log_context
from tickwork.app.message import Message, MessageBatch

LATE_SECONDS = 90.0


async def until(condition: Any) -> None:
    await eventually(condition, timeout_seconds=LATE_SECONDS)


@pytest.mark.parametrize("isolation", ["task", "thread"])
async def test_a_line_in_a_handler_knows_its_message(tmp_path: Path, isolation: str) -> None:
    work, seen = Workplace(tmp_path), dict[str, Any]()

    def note(message: Message[Any]) -> None:
        seen[message.id] = log_context()

    async def note_later(message: Message[Any]) -> None:
        await asyncio.sleep(0.01)
        note(message)

    work.handle(note if isolation == "thread" else note_later, isolation=isolation)
    queue = work.app.queue("work")
    first = await queue.send(1, type="a", correlation_id="c")
    second = await queue.send(2)
    batch = await work.app.batch("work", [3])
    async with work.app.running():
        await until(lambda: len(seen) == 3)
    assert seen.pop(first) == {
        "message_id": first,
        "correlation_id": "c",
        "attempt": 1,
        "type": "a",
    }
    assert seen.pop(second) == {"message_id": second, "correlation_id": second, "attempt": 1}
    ((third, context),) = seen.items()
    assert (context["message_id"], context["batch_id"]) == (third, batch.id)


async def test_a_batch_is_known_by_its_queue(tmp_path: Path) -> None:
    work, seen = Workplace(tmp_path, max_batch_timeout=0), list[Any]()

    @work.app.consumer("work")
    async def handle(_: MessageBatch[Any]) -> None:
        seen.append(log_context())

    await work.app.queue("work").send_batch([1, 2])
    async with work.app.running():
        await until(lambda: seen)
    assert seen == [{"queue": "work", "messages": 2}]


async def test_outside_and_after_a_handler_there_is_none(tmp_path: Path) -> None:
    work, go_on, later = Workplace(tmp_path), asyncio.Event(), list[Any]()

    async def after() -> None:
        await go_on.wait()
        later.append(log_context())

    async def handle(message: Message[Any]) -> None:
        if message.body == 1:
            tasks.append(asyncio.create_task(after()))

    tasks: list[asyncio.Task[None]] = []
    work.handle(handle)
    await work.send(1)
    assert log_context() == {}
    async with work.app._engine.running() as worker:
        await until(lambda: tasks and len(worker.consumers[0].running) == 0)
        go_on.set()
        await until(lambda: later)
    assert later == [{}]


async def test_as_a_library_it_sets_up_no_logging(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = ([*root.handlers], root.level, structlog.is_configured())
    work = Workplace(tmp_path)
    work.handle(lambda _: None)
    async with work.app.running():
        assert ([*root.handlers], root.level, structlog.is_configured()) == before
    assert logging.getLogger("tickwork").handlers == []
