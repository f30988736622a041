"""Plain functions in threads that are stopped when nobody waits for them any more.

A thread cannot be killed. But the interpreter raises an exception in it before its next bytecode,
if asked to: a function that computes ends at once, one that waits in a system call when that
returns. Each call has a thread of its own, so that the exception never meets another call.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class HandlerStopped(BaseException):
    """Raised in a function whose time is over. Handlers do not catch it: it is no `Exception`."""


async def run_stoppable(function: Callable[..., T], *args: Any) -> T:
    """Runs a function in a thread, in a copy of the caller's context. Cancelling it stops the
    function."""
    loop, call = asyncio.get_running_loop(), partial(copy_context().run, function, *args)
    finished: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        try:
            settle = partial(_return, finished, call())
        except HandlerStopped:
            return
        except BaseException as error:
            settle = partial(_raise, finished, error)
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(settle)

    thread = threading.Thread(target=work, name="tickwork-request", daemon=True)
    thread.start()
    try:
        return await finished
    except asyncio.CancelledError:
        _stop(thread)
        raise


def _stop(thread: threading.Thread) -> None:
    """Raises `HandlerStopped` in a thread; does nothing if it has ended."""
    if thread.ident is not None and thread.is_alive():
        number, stopped = ctypes.c_ulong(thread.ident), ctypes.py_object(HandlerStopped)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, stopped)


def _return(finished: asyncio.Future[T], value: T) -> None:
    if not finished.done():
        finished.set_result(value)


def _raise(finished: asyncio.Future[Any], error: BaseException) -> None:
    if not finished.done():
        finished.set_exception(error)
