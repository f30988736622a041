"""Threads for plain functions: reused, and left behind when they do not end.

They are daemons of our own and not an executor's: one that hangs keeps neither its place in the
pool nor the process from ending. A thread cannot be killed. When its handler is stopped it is left
to itself, and a new thread takes its place; when it ends after all it is not used again.

Handlers that did not end when they were stopped: counted, and bounded.

A thread cannot be killed, and a coroutine can refuse to be cancelled. Such a handler is left to
itself: its message is settled without it, its slot is free, and whatever it says later counts for
nothing. It costs memory all the same. So a queue may have some of them at no cost, and each one
beyond takes one of the queue's slots until it ends; without a slot the queue stands still.

The executor of a process of ours: its threads keep nobody from ending.

`asyncio.to_thread` in a handler goes to the event loop's executor. A thread cannot be stopped, and
those of the standard library's executor are waited for when a process ends, however long they take.
These are daemons: what they do when the process ends is cut off, as by a kill.
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
"""So many of a queue cost it no slot."""


class AbandonedHandlers:
    """How many handlers of each queue were left behind, and still run."""

    def __init__(self, free: int = ABANDONED_FREE) -> None:
        self._free = free
        self._running: Counter[str] = Counter()
        self.total = 0

    def add(self, queue: str) -> None:
        """One more, which nobody waits for any longer."""
        self._running[queue] += 1
        self.total += 1

    def remove(self, queue: str) -> None:
        """One came to its end after all."""
        self._running[queue] -= 1
        if not self._running[queue]:
            del self._running[queue]

    def of(self, queue: str) -> int:
        """How many of this queue still run."""
        return self._running[queue]

    def permits_lost(self, queue: str) -> int:
        """How many slots they cost their queue."""
        if not self._running:
            return 0
        return max(self._running[queue] - self._free, 0)


IDLE_THREADS_MAX = 32
"""So many wait for work; those beyond end when they have nothing to do."""


class Job(NamedTuple):
    """A call for a thread, and who waits for its end."""

    queue: str
    call: Callable[[], Outcome | None]
    ended: asyncio.Future[Outcome | None]


class ThreadPool:
    """Runs plain functions; belongs to one event loop."""

    def __init__(self, abandoned: AbandonedHandlers, *, idle_max: int = IDLE_THREADS_MAX) -> None:
        self._abandoned, self._idle_max = abandoned, idle_max
        self._idle: list[SimpleQueue[Job | None]] = []

    async def run(self, handler: HandlerDeclaration, given: Any) -> Outcome | None:
        """None if the function returned, else what its error means; it runs in a copy of the
        caller's context. Cancelled, this ends at once and leaves the thread behind."""
        loop = asyncio.get_running_loop()
        call = partial(copy_context().run, run_function, handler.function, given)
        job = Job(handler.queue, call, loop.create_future())
        try:
            jobs = self._idle.pop() if self._idle else self._start(loop)
        except RuntimeError as error:  # There are as many as the system allows.
            return Failed(f"no thread could be started for it: {error}")
        jobs.put(job)
        try:
            return await job.ended
        except asyncio.CancelledError:
            if job.ended.cancelled():  # Else it ended in the moment in which it was stopped.
                self._abandoned.add(job.queue)
            raise

    def stop(self) -> None:
        """Ends those that wait for work."""
        self._idle_max = 0
        while self._idle:
            self._idle.pop().put(None)

    def _start(self, loop: asyncio.AbstractEventLoop) -> SimpleQueue[Job | None]:
        jobs: SimpleQueue[Job | None] = SimpleQueue()
        work = partial(_work, jobs, loop, partial(self._ended, jobs))
        threading.Thread(target=work, name="tickwork-handler", daemon=True).start()
        return jobs

    def _ended(self, jobs: SimpleQueue[Job | None], job: Job, outcome: Outcome | None) -> None:
        """On the loop: what a thread has to say."""
        if job.ended.cancelled():
            self._abandoned.remove(job.queue)
            jobs.put(None)
            return
        job.ended.set_result(outcome)
        if len(self._idle) < self._idle_max:
            self._idle.append(jobs)
        else:
            jobs.put(None)


def _work(
    jobs: SimpleQueue[Job | None],
    loop: asyncio.AbstractEventLoop,
    ended: Callable[[Job, Outcome | None], None],
) -> None:
    """A thread's life."""
    while (job := jobs.get()) is not None:
        outcome = run_safely(job.call)
        try:
            loop.call_soon_threadsafe(ended, job, outcome)
        except RuntimeError:  # The loop is closed: nobody waits any more.
            return
        del job, outcome  # They hold a message, and the next one may be long in coming.


T = TypeVar("T")

THREADS_MAX = 32


class DaemonThreadExecutor(ThreadPoolExecutor):
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
