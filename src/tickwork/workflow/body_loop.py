"""The event loop of one body: it runs inside the event loop of the worker, and knows when it waits.

A body may create tasks, gather them and wait for them in any way. It waits when its loop has
nothing left to run, however many turns that takes, because nothing but a step can wake it. The
order in which its tasks run depends on nothing else in the process.

Steps run in the loop of the worker. A body cannot use a connection, a thread or a subprocess: what
it reads there would not be recorded, and may be different when the body runs again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, NoReturn, cast

TURNS_MAX = 200
"""Maximum number of callbacks that a body runs before other tasks of the process have a turn."""

NO_STEP = "the body of a workflow awaits only its steps; do this in step.do(…)"

OTHER_LOOP = "attached to a different loop"
"""What asyncio says when a body awaits something that runs in the loop of the worker."""


class Dropped(BaseException):
    """Raised in a body that calls a step after it was dropped, or while its steps are undone."""


class NoStepError(RuntimeError, AttributeError):
    """A body does what belongs into a step."""


class BodyLoop:
    """Runs the tasks of one body. `on_idle` is called when all of them wait.

    It has what tasks, futures and the tools of asyncio ask of a loop, and nothing for I/O."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._outer = asyncio.get_running_loop()
        self.on_idle = on_idle
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_busy = False
        self.is_dropped = False
        self.has_branches = False

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a body in a task."""
        # Not `create_task`: a body that creates no tasks of its own has no branches.
        task = asyncio.Task(coroutine, loop=self._as_loop)
        self._add(task)
        return task

    def cancel_tasks(self) -> None:
        """Cancels what still waits, as a body that is dropped does."""
        self.is_dropped = True
        for task in self._tasks:
            task.cancel()

    async def end(self, seconds: float) -> None:
        """Waits until the tasks of a dropped body have ended, some seconds at most."""
        self.on_idle = _do_nothing
        if self._tasks:
            ended = asyncio.Event()
            self.on_idle = lambda: None if self._tasks else ended.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
            self.on_idle = _do_nothing

    @property
    def _as_loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)

    def _add(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        is_over = not task.cancelled() and isinstance(task.exception(), Dropped)
        if self.is_dropped and not task.cancelled() and not is_over:
            task.exception()  # What a dropped body raises says nothing.

    def _run(self) -> None:
        """Runs what is ready. New callbacks are added behind it, until there are no more."""
        ready = self._ready
        # Made for event loops, such as this one.
        asyncio._set_running_loop(self._as_loop)  # noqa: SLF001
        try:
            for _ in range(TURNS_MAX):
                if not ready:
                    break
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001
        finally:
            asyncio._set_running_loop(self._outer)  # noqa: SLF001
        if ready:
            self._outer.call_soon(self._run)
            return
        self.is_busy = False
        self.on_idle()

    # What asyncio asks of a loop

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._as_loop, context)
        self._ready.append(handle)
        if not self.is_busy:
            self.is_busy = True
            self._outer.call_soon(self._run)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        def run() -> None:
            self.call_soon(callback, *args, context=context)

        return self._outer.call_at(when, run)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        def run() -> None:
            self.call_soon(callback, *args, context=context)

        return self._outer.call_soon_threadsafe(run)

    def time(self) -> float:
        return self._outer.time()

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._as_loop)

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        self.has_branches = True
        task = asyncio.Task(coroutine, loop=self._as_loop, **options)
        self._add(task)
        return task

    def get_task_factory(self) -> None:
        return None

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._outer.call_exception_handler({**context, "loop": self})

    def __getattr__(self, name: str) -> NoReturn:
        raise NoStepError(f"{NO_STEP} (it asks the event loop for {name})")


def _do_nothing() -> None:
    """Nobody asks whether a dropped body waits."""
