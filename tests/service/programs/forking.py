"""Handlers that fork, and whose copies return from the handler."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tickwork.service.isolation.protocol import MessageHandled, encode_frame


def start_nothing() -> None:
    """As one starts a program by hand, and there is none of that name."""
    os.execv("/no/such/program", ["x"])  # noqa: S606


def fail() -> None:
    raise ValueError("the copy has no luck")


COPIES: dict[str, Callable[[], object]] = {
    "exec": start_nothing,
    "fail": fail,
    "exit": partial(sys.exit, 7),
    "exit in peace": sys.exit,
    "return": lambda: None,
}
"""What a copy does."""


def fork(message: Any) -> None:
    """Forks if it is told to, and tells how its copy ended; else it does as it is told itself."""
    if message.body not in COPIES:
        if message.body == "bad":
            raise ValueError("really failed")
        message.send("out", message.body)
        return
    copy = os.fork()
    if copy == 0:
        COPIES[message.body]()
        return
    code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    message.send("out", [message.body, code])


async def fork_in_a_task(message: Any) -> None:
    """The same, somewhere below."""
    await asyncio.sleep(0)
    await asyncio.create_task(_fork_later(message))


async def _fork_later(message: Any) -> None:
    await asyncio.sleep(0)
    fork(message)


def answer_too_much(message: Any) -> None:
    """Says by itself, on its process's socket, that all is well with some message or other."""
    if message.body == "forge":
        os.write(int(sys.argv[1]), encode_frame(MessageHandled(outcome="Succeeded"), 1))
        raise ValueError("in truth it failed")
    message.send("out", [message.body, os.getpid()])
