"""Threads for plain function handlers, abandoned handlers, and a daemon thread executor.

A thread cannot be killed, and a coroutine can ignore its cancellation. When such a handler is
stopped, it is abandoned: its message is settled without it, its permit is free, and whatever it
does later has no effect. It still costs memory. So a queue may have some abandoned handlers at no
cost, and each one beyond takes a permit until it finishes; without permits the queue stops.

Handler threads are our own daemon threads instead of an executor's: a hanging one blocks neither
the pool nor the exit of the process. A new thread replaces an abandoned one, which is not reused
even if it finishes.

`DaemonThreadExecutor` is the default executor of a process of ours, used by `asyncio.to_thread` in
handlers. A process waits for the threads of the standard executor when it exits, however long they
take. These threads are daemons: on exit they are cut off, as by a kill.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from tickwork.app.declarations import HandlerDeclaration
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.service.worker.invoke import run_function, run_safely

ABANDONED_FREE = 32
"""Number of abandoned handlers of a queue that cost it no permit."""


class AbandonedHandlers:
    """Counts the abandoned handlers of each queue that still run."""

    def __init__(self, free: int = ABANDONED_FREE) -> None:
        self._free = free
        self._running: Counter[str] = Counter()
        self.total = 0

    def add(self, queue: str) -> None:
        """Counts an abandoned handler."""
        self._running[queue] += 1
        self.total += 1

    def remove(self, queue: str) -> None:
        """An abandoned handler finished."""
        self._running[queue] -= 1
        if not self._running[queue]:
            del self._running[queue]

    def count(self, queue: str) -> int:
        """Number of abandoned handlers of this queue that still run."""
        return self._running[queue]

    def permits_lost(self, queue: str) -> int:
        """Number of permits they cost their queue."""
        if not self._running:
            return 0
        return max(self._running[queue] - self._free, 0)


IDLE_THREADS_MAX = 32
"""Maximum number of threads of the executor."""
"""Maximum number of idle threads; others end when they have no work."""


class Job(NamedTuple):
    """A call for a thread, and the future of its outcome."""

    queue: str
    call: Callable[[], Outcome | None]
    finished: asyncio.Future[Outcome | None]


class ThreadPool:
    """Runs plain functions in threads; belongs to one event loop."""

    def __init__(self, abandoned: AbandonedHandlers, *, idle_max: int = IDLE_THREADS_MAX) -> None:
        self._abandoned, self._idle_max = abandoned, idle_max
        self._idle: list[SimpleQueue[Job | None]] = []

    async def run(self, handler: HandlerDeclaration, given: Any) -> Outcome | None:
        """Runs a handler in a copy of the caller's context: None if it returned, otherwise the
        outcome of its error. Cancelling it abandons the thread at once."""
        loop = asyncio.get_running_loop()
        call = partial(copy_context().run, run_function, handler.function, given)
        job = Job(handler.queue, call, loop.create_future())
        try:
            jobs = self._idle.pop() if self._idle else self._start(loop)
        except RuntimeError as error:  # The system allows no more threads.
            return Failed(f"could not start a thread: {error}")
        jobs.put(job)
        try:
            return await job.finished
        except asyncio.CancelledError:
            if job.finished.cancelled():  # Otherwise it finished just before the cancellation.
                self._abandoned.add(job.queue)
            raise

    def stop(self) -> None:
        """Stops all idle threads."""
        self._idle_max = 0
        while self._idle:
            self._idle.pop().put(None)

    def _start(self, loop: asyncio.AbstractEventLoop) -> SimpleQueue[Job | None]:
        jobs: SimpleQueue[Job | None] = SimpleQueue()
        work = partial(_work, jobs, loop, partial(self._on_finished, jobs))
        threading.Thread(target=work, name="tickwork-handler", daemon=True).start()
        return jobs

    def _on_finished(
        self, jobs: SimpleQueue[Job | None], job: Job, outcome: Outcome | None
    ) -> None:
        """Receives the outcome of a thread, in the event loop."""
        if job.finished.cancelled():
            self._abandoned.remove(job.queue)
            jobs.put(None)
            return
        job.finished.set_result(outcome)
        if len(self._idle) < self._idle_max:
            self._idle.append(jobs)
        else:
            jobs.put(None)


def _work(
    jobs: SimpleQueue[Job | None],
    loop: asyncio.AbstractEventLoop,
    on_finished: Callable[[Job, Outcome | None], None],
) -> None:
    """Runs jobs in a thread until it gets None."""
    while (job := jobs.get()) is not None:
        outcome = run_safely(job.call)
        try:
            loop.call_soon_threadsafe(on_finished, job, outcome)
        except RuntimeError:  # The loop is closed.
            return
        del job, outcome  # They refer to a message, and the next job may be a long time away.


T = TypeVar("T")

THREADS_MAX = 32
"""Maximum number of threads of the executor."""


class DaemonThreadExecutor(ThreadPoolExecutor):
    """Starts threads as needed, up to a maximum; further calls wait."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        super().__init__(threads_max)
        self._threads_max = threads_max
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = self._idle = 0
        self._is_closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Queues a call."""
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
        """Refuses further calls. Never waits."""
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
