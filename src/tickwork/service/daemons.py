"""The executor of a process of ours: its threads keep nobody from ending.

`asyncio.to_thread` in a handler goes to the event loop's executor. A thread cannot be stopped, and
those of the standard library's executor are waited for when a process ends, however long they take.
These are daemons: what they do when the process ends is cut off, as by a kill.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

THREADS_MAX = 32


class DaemonThreads(ThreadPoolExecutor):
    """As many threads as there is work for, up to a limit; the rest waits its turn."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        super().__init__(threads_max)
        self._threads_max = threads_max
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = self._idle = 0
        self._is_closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls soon."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls.put(partial(_call, future, partial(fn, *args, **kwargs)))
            if self._idle > 0:
                self._idle -= 1
            elif self._started < self._threads_max:
                self._started += 1
                name = f"tickwork-executor-{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Takes no more; never waits."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._started):
                self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call
            with self._lock:
                if self._calls.empty():
                    self._idle += 1


def _call(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
