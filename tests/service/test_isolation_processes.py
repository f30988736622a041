"""Handlers in processes: whatever one does, only its own message fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.service.programs import handlers
from tests.service.workplace import WAIT_SECONDS, Workplace
from tickwork.core.model import DEFAULT
from tickwork.service.worker.worker import Worker

MEMORY_BYTES = 128 * 1024 * 1024


def is_alive(pid: int) -> bool:
    """Whether it runs: what is dead and not buried does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def pids(worker: Worker) -> list[int]:
    return worker._context.isolator.processes.pids


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("raise", "ValueError: no luck"),
        ("cancel", "cancelled from within"),
        ("exit", "SystemExit: that is all"),
        ("burn", "used more than 0.2 seconds of CPU time, and was stopped"),
        ("allocate", "used more than 128 MiB of memory"),
        ("_exit", "its process exited with code 3"),
        ("crash", "its process was ended by SIGSEGV"),
        ("kill", "its process was killed from outside"),
        ("abort", "its process was ended by SIGABRT"),
        ("hang", "took longer than 6 seconds, and was stopped"),
        ("fork", "its process exited with code 5"),
    ],
)
async def test_whatever_a_handler_does_only_its_message_fails(
    tmp_path: Path, bad: str, error: str
) -> None:
    place = Workplace(tmp_path, timeout_seconds=6 if bad == "hang" else WAIT_SECONDS)
    place.handle(
        handlers.end,
        isolation="process",
        max_concurrency=2,
        cpu_seconds=0.2,
        memory_bytes=MEMORY_BYTES,
    )
    async with place.running() as worker:
        await place.send("a", bad, "b", "c")
        await place.until_out(3)
        if bad == "hang":
            place.pass_seconds(6)
        (dead,) = await place.until_dead()
        assert error in dead
        await place.send("d")  # The pool has healed.
        assert sorted(await place.until_out(4)) == ["a", "b", "c", "d"]
        started = pids(worker)
        assert len(started) <= 3
    assert pids(worker) == []
    assert not any(map(is_alive, started))


async def test_what_a_handler_started_is_killed_with_it(tmp_path: Path) -> None:
    place, told = Workplace(tmp_path, timeout_seconds=6), tmp_path / "pid"
    place.handle(handlers.start_a_program, isolation="process")
    async with place.running():
        await place.send(str(told))
        await eventually(lambda: told.exists() and told.read_text(), timeout_seconds=WAIT_SECONDS)
        started = int(told.read_text())
        place.pass_seconds(6)
        await place.until_dead()
        await eventually(lambda: not is_alive(started))


async def test_a_process_handles_many_messages_and_is_started_when_needed(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.app.queue("more")
    place.handle(handlers.tell_pid, isolation="process", max_concurrency=1)
    place.app.on("more", isolation="process", max_concurrency=1)(handlers.tell_pid_later)
    async with place.app._engine.running() as worker:
        assert len(pids(worker)) == 1  # The one that tried whether the handlers can be imported.
        await place.send(*range(20))
        assert set(await place.until_out(20)) == set(pids(worker))
        more: Any = place.app.queue("more")
        await more.send("anything")
        assert set(await place.until_out(21)) == set(pids(worker))
        assert len(pids(worker)) == 1


async def test_an_idle_process_that_is_killed_costs_no_message(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.handle(handlers.end, isolation="process")
    async with place.app._engine.running() as worker:
        (first,) = pids(worker)
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: not is_alive(first))
        await place.send("a")
        assert await place.until_out() == ["a"]
        assert await place.errors() == []
        assert first not in pids(worker)


async def test_a_process_that_dies_before_its_handler_begins_costs_no_message(
    tmp_path: Path,
) -> None:
    place = Workplace(tmp_path)
    place.handle(handlers.end, isolation="process")
    async with place.app._engine.running() as worker:
        pool = worker._context.isolator.processes
        (first,) = pids(worker)
        os.kill(first, signal.SIGSTOP)  # It is alive, so it is asked, but does not begin.
        await place.send("a")
        await eventually(lambda: not pool._idle, what="the message given to the process")
        os.kill(first, signal.SIGKILL)
        assert await place.until_out() == ["a"]
        assert await place.errors() == []
        assert pool.killed == 0


async def test_a_signal_to_all_does_not_cut_a_handler_off(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.handle(handlers.end, isolation="process")
    async with place.app._engine.running() as worker:
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            os.kill(pids(worker)[0], signal_number)
        await place.send("a")
        assert await place.until_out() == ["a"]
        assert await place.errors() == []


async def test_stopping_the_worker_kills_who_does_not_end_and_gives_the_message_back(
    tmp_path: Path,
) -> None:
    place = Workplace(tmp_path)
    place.handle(handlers.end, isolation="process")
    async with asyncio.timeout(WAIT_SECONDS):
        async with place.app._engine.running(drain_seconds=0) as worker:
            await place.send("hang")
            await eventually(lambda: len(worker.consumers[0].running) == 1)
            started = pids(worker)
    assert not any(map(is_alive, started))
    (waiting,) = await place.waiting()
    assert (waiting.attempts, waiting.holder) == (0, None)
    await place.app.close()


async def test_what_a_handler_says_crosses(tmp_path: Path) -> None:
    place = Workplace(tmp_path, max_retries=1)
    place.handle(handlers.speak, isolation="process")
    _, retried, snoozed, _ = await place.send("ack twice", "retry", "snooze", "permanent")
    async with place.app.running():
        store = await place.app._engine.open()
        (dead,) = await place.until_dead()
        assert dead == "never"

        async def delayed() -> bool:
            counts = await store.queues.counts(DEFAULT, "work")
            return (counts.delayed, counts.ready, counts.claimed) == (2, 0, 0)

        await eventually(delayed, timeout_seconds=WAIT_SECONDS)
        waiting = [
            await store.messages.get(DEFAULT, "work", message_id)
            for message_id in (retried, snoozed)
        ]
        assert [message.attempts for message in waiting] == [1, 0]


async def test_what_a_handler_sends_belongs_to_the_story_of_its_message(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.handle(handlers.Group.handle, isolation="process")
    work: Any = place.app.queue("work")
    sent_id = await work.send("anything", correlation_id="story")
    async with place.app.running():
        assert await place.until_out() == ["grouped"]
        (sent,) = await place.sent()
        assert (sent.correlation_id, sent.causation_id, sent.hops) == ("story", sent_id, 1)


async def test_the_time_that_is_left_crosses(tmp_path: Path) -> None:
    place = Workplace(tmp_path, timeout_seconds=50)
    place.handle(handlers.tell_time_left, isolation="process")
    await place.send("anything")
    async with place.app.running():
        (left,) = await place.until_out()
    assert 0 < left <= 50


async def test_rows_of_its_own_cross_and_commit_with_the_ack(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.handle(handlers.write, isolation="process")
    store = await place.app._engine.open()
    file = sqlite3.connect(tmp_path / "work.db", isolation_level=None)
    file.execute("CREATE TABLE kinds (a, b, c, d, e, f)")
    await place.send("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)", "INSERT INTO nothing")
    async with place.app.running():
        (dead,) = await place.until_dead()
        assert "OperationalError" in dead
        assert await place.until_out() == ["written"]
        assert (await store.queues.counts(DEFAULT, "work")).claimed == 0
    assert file.execute("SELECT * FROM kinds").fetchall() == [handlers.ROW] * 2
    file.close()


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (handlers.write_by_itself, "which is in another process; use execute(statement, *values)"),
        (handlers.write_anything, "value 1 is a object, which cannot be sent to another process"),
        (handlers.send_too_much, "bytes; the maximum is 67108864"),
    ],
)
async def test_what_cannot_cross_is_refused(tmp_path: Path, handler: Any, error: str) -> None:
    place = Workplace(tmp_path)
    place.handle(handler, isolation="process")
    await place.send("anything")
    async with place.app.running():
        (dead,) = await place.until_dead()
        assert error in dead
        assert await place.out() == []
