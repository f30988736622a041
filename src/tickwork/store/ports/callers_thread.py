"""The thread of a caller without `await`, which waits for a coroutine in another thread's loop.

Connections of sqlite3 and Django belong to their thread. So the coroutine hands each use of one
back to the thread that waits for it anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_WAITING: ContextVar[CallersThread | None] = ContextVar("tickwork_callers_thread", default=None)


async def in_callers_thread(work: Callable[[], T]) -> T:
    """Runs work in the thread of the caller; here, unless one waits in another thread."""
    waiting = _WAITING.get()
    return work() if waiting is None else await waiting.do(work)


class CallersThread:
    """One call of a thread that waits."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()

    def wait_for(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
        """Runs the coroutine in a loop of another thread, and returns its result. Meanwhile it
        runs here what the coroutine hands back."""
        running = asyncio.run_coroutine_threadsafe(self._run(coroutine), loop)
        running.add_done_callback(lambda _: self._inbox.put(None))
        try:
            while (item := self._inbox.get()) is not None:
                _carry_out(*item)
        finally:
            running.cancel()  # Only if this thread was interrupted: it does nothing to the done.
        return running.result()

    async def do(self, work: Callable[[], T]) -> T:
        """Runs work in the thread that waits."""
        done: Future[T] = Future()
        self._inbox.put((work, done))
        return await asyncio.wrap_future(done)

    async def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        _WAITING.set(self)
        return await coroutine


def _carry_out(work: Callable[[], Any], done: Future[Any]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
        if not isinstance(error, Exception):
            raise
