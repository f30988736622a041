"""The process pool: which processes are reused or stopped, and which handlers it accepts."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.core.messages import claimed_message
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.service.programs import handlers, stubborn
from tests.service.test_isolation_processes import is_alive
from tests.service.workplace import WAIT_SECONDS
from tickwork.app.declarations import Consumer, HandlerDeclaration, QueueDeclaration
from tickwork.app.invocation import HandlerEnded, Made, Written
from tickwork.app.isolation import Isolation
from tickwork.app.message import ClaimedMessage
from tickwork.app.payloads import Payload
from tickwork.clock import monotonic
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.core.model import QueueSettings, Send
from tickwork.core.queue.rate_limit import AUTO_CONCURRENCY_MAX
from tickwork.errors import InvalidInput
from tickwork.ops.send import compose
from tickwork.service.isolation import PROCESSES_PER_CORE, auto_permits_max, process_handle
from tickwork.service.isolation.process_pool import ProcessPool
from tickwork.service.isolation.protocol import BufferedRows, statements_of
from tickwork.service.worker.invoke import MessageOutcome


class Kind(StrEnum):
    """A text with a name."""

    FIRST = "first"


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def declared(function: Callable[..., Any], **options: Any) -> HandlerDeclaration:
    return HandlerDeclaration(
        queue="work",
        function=function,
        payload=Payload(),
        is_batch=False,
        isolation=Isolation.PROCESS,
        **options,
    )


def given(body: bytes = b'"anything"') -> ClaimedMessage[Any]:
    stored = claimed_message(slot=NOON, body=body)
    return ClaimedMessage(
        stored,
        None,
        compose=lambda queue, body, **options: Send(queue, compose(body, **options)),
        monotonic=monotonic,
        deadline=monotonic() + WAIT_SECONDS,
    )


async def said(
    pool: ProcessPool, handler: HandlerDeclaration, body: bytes = b"1"
) -> MessageOutcome:
    invoked = await pool.invoke(handler, given(body))
    (one,) = invoked.outcomes
    return one


async def outcome(pool: ProcessPool, handler: HandlerDeclaration, body: bytes = b"1") -> Outcome:
    return (await said(pool, handler, body)).outcome


async def pid(pool: ProcessPool) -> bytes:
    """The number of the process that handles a message now."""
    (send,) = (await said(pool, declared(handlers.tell_pid))).made.sends
    return send.message.body


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    opened = ProcessPool(messages_max=3, idle_seconds=0.05)
    yield opened
    pids = opened.pids
    await opened.stop()
    assert opened.pids == []
    assert not any(map(is_alive, pids))


async def test_a_process_is_replaced_after_so_many_messages(pool: ProcessPool) -> None:
    pids = [await pid(pool) for _ in range(7)]
    assert [pids.index(process_id) for process_id in pids] == [0, 0, 0, 3, 3, 3, 6]


async def test_as_many_run_as_are_needed_and_the_idle_ones_end(pool: ProcessPool) -> None:
    tasks = [asyncio.create_task(said(pool, declared(handlers.end), b'"hang"')) for _ in range(2)]
    tell = declared(handlers.tell_pid)
    await asyncio.gather(*(said(pool, tell) for _ in range(3)))
    assert 3 < len(pool.pids) <= 5  # One that was quick may have told twice.
    await eventually(lambda: len(pool.pids) == 3, timeout_seconds=WAIT_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await eventually(lambda: len(pool.pids) == 1)
    assert await pid(pool) == str(pool.pids[0]).encode()  # The one that was kept.


async def test_a_process_that_ran_out_of_memory_is_not_used_again(pool: ProcessPool) -> None:
    first = await pid(pool)
    handler = declared(handlers.end, memory_bytes=128 * 1024 * 1024)
    ended = await outcome(pool, handler, b'"allocate"')
    assert isinstance(ended, Failed)
    assert "used more than 128 MiB of memory" in ended.error
    assert "kept.append(bytearray(1024 * 1024))" in ended.error
    assert await pid(pool) != first


async def test_values_of_every_plain_kind_cross(pool: ProcessPool) -> None:
    message = given(b'"a statement"')
    await pool.invoke(declared(handlers.write_kinds), message)
    written: list[tuple[str, object]] = []

    class Connection:
        def execute(self, statement: str, values: tuple[object, ...]) -> None:
            written.extend((statement, value) for value in values)

    assert message.rows is not None
    message.rows.joined(Connection())
    assert written == [("a statement", kind) for kind in handlers.KINDS]
    assert [type(value) for _, value in written] == [type(kind) for kind in handlers.KINDS]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b'"burn"', "used more than 0.2 seconds of CPU time, and was stopped"),
        (b'"allocate"', "used more than 128 MiB of memory"),
        (b'"_exit"', "its process exited with code 3"),
        (b'"raise"', "ValueError: no luck"),
        (b'"cancel"', "cancelled from within"),
    ],
)
async def test_coroutines_have_the_same_limits(pool: ProcessPool, bad: bytes, error: str) -> None:
    limits: dict[str, Any] = {"cpu_seconds": 0.2, "memory_bytes": 128 * 1024 * 1024}
    invoked = await pool.invoke(declared(handlers.end_later, **limits), given(bad))
    (one,) = invoked.outcomes
    assert isinstance(one.outcome, Failed)
    assert error in one.outcome.error
    assert (invoked.is_failed, one.made) == (True, Made())


async def test_processor_time_counts_for_each_message(pool: ProcessPool) -> None:
    handler = declared(handlers.burn_for, cpu_seconds=0.2)
    for _ in range(3):
        assert not isinstance(await outcome(pool, handler, b"0.12"), Failed)
    ended = await outcome(pool, handler, b"60")
    assert ended == Failed("used more than 0.2 seconds of CPU time, and was stopped")


async def test_who_takes_the_signal_of_the_limit_for_himself_meets_another(
    pool: ProcessPool,
) -> None:
    ended = await outcome(pool, declared(stubborn.ignore_and_burn, cpu_seconds=0.2))
    assert ended == Failed("used more than 0.2 seconds of CPU time, and was stopped")


async def test_what_a_carried_row_may_hold() -> None:
    written = Written()
    rows = BufferedRows(written)
    rows.execute("a statement", Kind.FIRST)
    (statement,) = statements_of(written)
    assert statement.values == (("str", "first"),)
    with pytest.raises(TypeError, match="value 2 has more than 64 bits"):
        rows.execute("a statement", 1, 2**63)
    with suppress(ValueError), rows:
        rows.execute("dropped")
        raise ValueError
    assert statements_of(written) == (statement,)
    written.end()
    with pytest.raises(HandlerEnded):
        rows.execute("a statement")


@pytest.mark.parametrize(
    ("isolation", "most"),
    [
        (Isolation.PROCESS, PROCESSES_PER_CORE * (os.cpu_count() or 1)),
        (Isolation.THREAD, AUTO_CONCURRENCY_MAX),
    ],
)
async def test_nobody_gets_hundreds_of_processes_without_asking(
    isolation: Isolation, most: int
) -> None:
    handler = structs.replace(declared(handlers.plain), isolation=isolation)
    queue = QueueDeclaration(name="work", settings=QueueSettings(), payload=Payload())
    assert auto_permits_max(Consumer(queue, None, {None: handler})) == min(
        most, AUTO_CONCURRENCY_MAX
    )


async def test_when_no_process_can_be_started_the_message_fails(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "no more of them")

    monkeypatch.setattr(process_handle, "start_process", refuse)
    ended = await outcome(pool, declared(handlers.plain))
    assert ended == Failed("could not start a process: [Errno 11] no more of them")


async def test_a_handler_that_cannot_be_imported_is_refused(pool: ProcessPool) -> None:
    def local(_: Any) -> None: ...

    refusals: dict[Callable[..., Any], str] = {
        local: "is defined inside a function",
        handlers.ENDS["kill"]: "is defined inside a function",
        handlers.wrapped: "is not the object at tests.service.programs.handlers:plain",
    }
    with pytest.raises(InvalidInput) as refused:
        await pool.start([declared(refusal) for refusal in refusals])
    told = [error.message for error in refused.value.errors]
    assert [refusal in one for refusal, one in zip(refusals.values(), told, strict=True)] == [
        True
    ] * 3
    assert pool.pids == []


async def test_a_handler_that_only_the_worker_can_import_is_refused(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = type(sys)("made_up")
    exec("def handle(message): ...", vars(made))  # noqa: S102
    monkeypatch.setitem(sys.modules, "made_up", made)
    with pytest.raises(InvalidInput, match="No module named 'made_up'"):
        await pool.start([declared(made.handle)])
    assert pool.pids == []


async def test_a_module_that_runs_the_app_when_it_is_imported_is_refused(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tickwork.facade.app import Tickwork

    monkeypatch.setattr(Tickwork, "run", lambda _: None)  # Here it does nothing.
    from tests.service.programs import unguarded

    with pytest.raises(InvalidInput, match="put the call under `if __name__ == '__main__':`"):
        await pool.start([declared(unguarded.handle)])
    assert pool.pids == []


async def test_a_module_that_ends_the_process_is_refused(pool: ProcessPool) -> None:
    from tests.service.programs import exiting

    with pytest.raises(InvalidInput, match="exited with code 4"):
        await pool.start([declared(exiting.handle)])
    assert pool.pids == []


async def test_processes_end_with_their_worker(children: Children, tmp_path: Path) -> None:
    child = children.spawn("tests.service.programs.killed", tmp_path)
    line = await child.line("pids", WAIT_SECONDS)
    pids = [int(part) for part in line.split()[1:]]
    assert len(pids) == 2
    assert all(map(is_alive, pids))
    child.kill9()
    await eventually(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("way", ["script", "module"])
async def test_an_app_in_a_script_has_processes_too(
    children: Children, tmp_path: Path, way: str
) -> None:
    program = "tests.service.programs.script"
    path = Path(__file__).parent / "programs" / "script.py"
    child = children.spawn(path if way == "script" else program, tmp_path)
    await child.succeeded(WAIT_SECONDS)
    assert child.lines() == ["handled by another process", "sent: [1, 2]"]
