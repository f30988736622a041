"""Handlers for separate processes: `end` does what the body of a message says."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from tickwork.app.message import Permanent, Snooze

ROW = (None, True, -7, 1.5, "text", b"bytes")
KINDS = (
    *ROW,
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    UUID(int=7),
    date(2026, 1, 2),
    timedelta(days=1, microseconds=1),
    time(12, 30, tzinfo=UTC),
    datetime(2026, 1, 2),  # noqa: DTZ001 (some columns hold no zone)
    Decimal("1.10"),
)
"""One value of each kind that crosses."""


def burn() -> None:
    """Uses up processor time without end."""
    while True:
        pass


def allocate() -> None:
    """Uses up memory without end."""
    kept = []
    while True:
        kept.append(bytearray(1024 * 1024))


def crash() -> None:
    """Reads where nothing is."""
    ctypes.string_at(0)


def hang() -> None:
    """Never returns."""
    threading.Event().wait()


def fork_and_leave() -> None:
    """Leaves a child behind that holds all that this process had open."""
    if os.fork() == 0:
        hang()
    os._exit(5)


def fail() -> None:
    raise ValueError("no luck \udc80")


def cancel() -> None:
    """As if somebody had stopped it."""
    raise asyncio.CancelledError


ENDS: dict[str, Callable[[], object]] = {
    "raise": fail,
    "cancel": cancel,
    "exit": functools.partial(sys.exit, "that is all"),
    "burn": burn,
    "allocate": allocate,
    "_exit": functools.partial(os._exit, 3),
    "crash": crash,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "abort": os.abort,
    "hang": hang,
    "fork": fork_and_leave,
}


def end(message: Any) -> None:
    """Ends as it is told; else it says so, and in which process."""
    if message.body in ENDS:
        message.send("out", "never")
        ENDS[message.body]()
    message.send("out", message.body)


async def end_later(message: Any) -> None:
    """Ends as it is told, in a coroutine."""
    await asyncio.sleep(0)
    end(message)


def tell_pid(message: Any) -> None:
    message.send("out", os.getpid())


async def tell_pid_later(message: Any) -> None:
    await asyncio.sleep(0)
    message.send("out", os.getpid())


def tell_time_left(message: Any) -> None:
    message.send("out", message.time_left())


def start_a_program(message: Any) -> None:
    """Starts something that outlives it, tells its number, and hangs."""
    wait = "import threading; threading.Event().wait()"
    program = subprocess.Popen([sys.executable, "-c", wait])
    Path(message.body).write_text(str(program.pid))
    hang()


def speak(message: Any) -> None:
    """Says of the message what its body says."""
    match message.body:
        case "ack twice":
            message.ack()
            message.retry()
            raise ValueError("too late")
        case "retry":
            message.retry(delay_seconds=3600)
        case "snooze":
            raise Snooze(3600)
        case "permanent":
            raise Permanent("never")


def write(message: Any) -> None:
    """Rows of its own, and a message, with its ack."""
    with message.transaction() as rows:
        rows.execute(message.body, *ROW)
        rows.execute(message.body, *ROW)
    message.send("out", "written")


def write_kinds(message: Any) -> None:
    """Writes a value of each kind."""
    message.transaction().execute(message.body, *KINDS)


def write_by_itself(message: Any) -> None:
    """Wants the connection."""
    message.transaction().run(lambda connection: connection.commit())


def write_anything(message: Any) -> None:
    """Wants to write what is no value."""
    message.transaction().execute(message.body, object())


def send_too_much(message: Any) -> None:
    """Sends more than can cross at once."""
    for _ in range(700):
        message.send("out", "x" * 100_000)


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that keeps the name of what it decorates."""

    @functools.wraps(function)
    def wrapped(*given: Any) -> None:
        function(*given)
        function(*given)

    return wrapped


def plain(message: Any) -> None:
    message.ack()


wrapped = twice(plain)


class Group:
    """Functions may stand in a class."""

    @staticmethod
    def handle(message: Any) -> None:
        message.send("out", "grouped")


def burn_for(message: Any) -> None:
    """Uses up so many seconds of processor time."""
    until = sum(os.times()[:2]) + message.body
    while sum(os.times()[:2]) < until:
        pass


_seen: ContextVar[Any] = ContextVar("seen", default=None)


def see(message: Any) -> None:
    """Says what it finds in its context, and leaves something there."""
    message.send("out", [message.body, _seen.get()])
    _seen.set(message.body)


async def see_in_a_task(message: Any) -> None:
    """The same."""
    see(message)
