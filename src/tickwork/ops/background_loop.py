"""The event loop of calls without `await`: one in a process, in a thread of its own.

It starts with the first call, and any number of threads call it. A forked child starts a new one,
and so opens its own connections: a store belongs to its event loop (`ops.stores`). When the
interpreter ends the loop ends, which closes its stores.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Coroutine
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from tickwork.store.ports.callers_thread import CallersThread

T = TypeVar("T")

CLOSE_SECONDS_MAX = 5.0
"""Seconds that closing the stores of the loop may take at exit."""


class BackgroundLoop:
    """An event loop in a thread, which starts with the first call."""

    def __init__(self) -> None:
        self._starting = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """The loop, which is running."""
        with self._starting:
            if self._loop is None:
                self._loop, is_running = asyncio.new_event_loop(), Event()
                self._loop.call_soon(is_running.set)
                # A daemon, so that a program may end; `close` waits for it.
                self._thread = Thread(
                    target=self._loop.run_forever, name="tickwork-sync", daemon=True
                )
                self._thread.start()
                is_running.wait()
            return self._loop

    def close(self) -> None:
        """Ends the loop, if it was started, and closes its stores."""
        with self._starting:
            loop, self._loop = self._loop, None
            if loop is None or self._thread is None:
                return
            closing = asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop)
            with suppress(TimeoutError):
                closing.result(CLOSE_SECONDS_MAX)
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(CLOSE_SECONDS_MAX)
            if not loop.is_running():
                loop.close()


class _Process:
    """The loop of this process."""

    loop = BackgroundLoop()


def wait_for(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None = None) -> T:
    """Runs a coroutine in the background, or in a loop of another thread, in the context of the
    caller, and returns its result. The caller's thread must have no event loop."""
    return CallersThread().wait_for(coroutine, loop or _Process.loop.get())


def has_event_loop() -> bool:
    """Whether an event loop runs in this thread, which waiting would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _begin_child() -> None:
    # The loop of the parent has no thread here. It stays referenced by its stores, whose
    # connections are the parent's and must not be closed.
    _Process.loop = BackgroundLoop()


os.register_at_fork(after_in_child=_begin_child)
atexit.register(lambda: _Process.loop.close())
