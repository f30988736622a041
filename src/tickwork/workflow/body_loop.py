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
from contextvars import Context, copy_context
from typing import Any, NoReturn, Protocol, cast

from msgspec import Struct

TURNS_MAX = 200
"""Maximum number of callbacks that a body runs before other tasks of the process have a turn."""

NO_STEP = "the body of a workflow awaits only its steps; do this in step.do(…)"

NO_ASYNCIO_SLEEP = (
    "the body of a workflow cannot await asyncio.sleep, whose end is not recorded; use "
    "step.sleep(…), or sleep inside a step"
)

OTHER_LOOP = "attached to a different loop"
"""What asyncio says when a body awaits something that runs in the loop of the worker."""

_END_OF_SLEEP = "_set_result_unless_cancelled"
"""The name of the callback with which `asyncio.sleep` ends."""


class Dropped(BaseException):
    """Raised in a body that calls a step after it was dropped, or while its steps are undone."""


class NoStepError(RuntimeError, AttributeError):
    """A body does what belongs into a step."""


class Turn(Struct):
    """A callback that is to run: what is used of `asyncio.Handle`, at a fraction of its price."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Keeps it from running."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class Owner(Protocol):
    """What wants to know when a body waits."""

    def on_idle(self) -> None:
        """All tasks of the body wait, or have ended."""


class BodyLoop:
    """Runs the tasks of one body, and notifies its owner when all of them wait.

    It has what tasks, futures and the tools of asyncio ask of a loop, and nothing for I/O."""

    def __init__(self, owner: Owner) -> None:
        self._outer = asyncio.get_running_loop()
        self._owner: Owner | None = owner
        self._ready: deque[Turn] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._first: asyncio.Task[Any] | None = None
        self._all_ended: asyncio.Event | None = None
        self.is_busy = False
        self.is_dropped = False
        self.has_branches = False

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a body in a task."""
        # Not `create_task`: a body that creates no tasks of its own has no branches.
        task = asyncio.Task(coroutine, loop=self._as_loop)
        self._add(task)
        self._first = task
        return task

    def current_task(self) -> asyncio.Task[Any] | None:
        """The task of the body that runs."""
        return asyncio.current_task() if self.has_branches else self._first

    def cancel_tasks(self) -> None:
        """Cancels what still waits, as a body that is dropped does."""
        self.is_dropped = True
        for task in self._tasks:
            task.cancel()

    async def end(self, seconds: float) -> None:
        """Waits until the tasks of a dropped body have ended, some seconds at most."""
        self._owner = self._first = None
        if self._tasks:
            self._all_ended = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._all_ended.wait()

    @property
    def _as_loop(self) -> asyncio.AbstractEventLoop:
        return self  # type: ignore[return-value]

    def _add(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        is_over = not task.cancelled() and isinstance(task.exception(), Dropped)
        if self.is_dropped and not task.cancelled() and not is_over:
            task.exception()  # What a dropped body raises says nothing.

    def run_after(self, wake: Callable[..., None], *args: Any) -> None:
        """Wakes tasks of the body, and runs them at once. Only a callback of the outer loop may
        call this: in one of its tasks no other task can run."""
        is_idle, self.is_busy = not self.is_busy, True
        wake(*args)
        if is_idle:
            self._run()

    def _run(self) -> None:
        """Runs what is ready. New callbacks are added behind it, until there are no more."""
        ready, left = self._ready, TURNS_MAX
        # Made for event loops, such as this one.
        asyncio._set_running_loop(self._as_loop)  # noqa: SLF001
        try:
            while ready and left:
                turn = ready.popleft()
                left -= 1
                if not turn.is_cancelled:
                    try:
                        turn.context.run(turn.callback, *turn.args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self._on_error(turn, error)
        finally:
            asyncio._set_running_loop(self._outer)  # noqa: SLF001
        if ready:
            self._outer.call_soon(self._run)
            return
        self.is_busy = False
        if self._owner is not None:
            self._owner.on_idle()
        elif self._all_ended is not None and not self._tasks:
            self._all_ended.set()

    def _on_error(self, turn: Turn, error: BaseException) -> None:
        text = f"a callback in the body of a workflow failed: {turn.callback!r}"
        self.call_exception_handler({"message": text, "exception": error})

    # What asyncio asks of a loop

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        turn = Turn(callback, args, context or copy_context())
        self._ready.append(turn)
        if not self.is_busy:
            self.is_busy = True
            self._outer.call_soon(self._run)
        return cast(asyncio.Handle, turn)

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
        if getattr(callback, "__name__", "") == _END_OF_SLEEP:
            # The body would wait for what is no step, and could not be told from one that diverges.
            raise NoStepError(NO_ASYNCIO_SLEEP)

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
