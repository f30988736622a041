"""Threads for plain functions: reused, and left behind when they do not end.

They are daemons of our own and not an executor's: one that hangs keeps neither its place in the
pool nor the process from ending. A thread cannot be killed. When its handler is stopped it is left
to itself, and a new thread takes its place; when it ends after all it is not used again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from tickwork.app.declarations import HandlerDeclaration
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.service.invoking import run_plain, run_safely
from tickwork.service.left_behind import LeftBehind

IDLE_THREADS_MAX = 32
"""So many wait for work; those beyond end when they have nothing to do."""


class Job(NamedTuple):
    """A call for a thread, and who waits for its end."""

    queue: str
    call: Callable[[], Outcome | None]
    ended: asyncio.Future[Outcome | None]


class ThreadPool:
    """Runs plain functions; belongs to one event loop."""

    def __init__(self, left_behind: LeftBehind, *, idle_max: int = IDLE_THREADS_MAX) -> None:
        self._left_behind, self._idle_max = left_behind, idle_max
        self._idle: list[SimpleQueue[Job | None]] = []

    async def run(self, handler: HandlerDeclaration, given: Any) -> Outcome | None:
        """None if the function returned, else what its error means; it runs in a copy of the
        caller's context. Cancelled, this ends at once and leaves the thread behind."""
        loop = asyncio.get_running_loop()
        call = partial(copy_context().run, run_plain, handler.function, given)
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
                self._left_behind.add(job.queue)
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
            self._left_behind.remove(job.queue)
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
