"""The slots of one queue: handlers under way, how many may be, and what is stopped.

Every invocation runs in a task, in a copy of the context in which the worker was started. What a
handler sets there (a `ContextVar`) ends with it: neither the next message nor what settles this one
sees it.

A task costs more than many a handler, and is needed only by one that waits. So there is one scout:
it runs one handler after the other, for a moment, and for as long as they end without waiting for
anything and leave nothing behind in the context. The first that waits keeps the task to itself, and
then all that fits begins at once, each in its own, until one ends again without having waited.

Awaiting something, and noticing whether it really waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import copy_context
from itertools import takewhile
from types import coroutine
from typing import Any, TypeVar

from msgspec import Struct

from tickwork.app.declarations import Consumer, HandlerDeclaration
from tickwork.app.message import ClaimedMessage, seconds_text
from tickwork.clock import monotonic
from tickwork.core.message.outcome import Failed, Outcome, Snoozed
from tickwork.core.model import Queue
from tickwork.core.queue.rate_limit import AUTO_CONCURRENCY_MIN, Load, next_concurrency
from tickwork.service.isolation import auto_permits_max
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.invoke import (
    CANCELLED_BY_HANDLER,
    HandlerArgument,
    InvocationResult,
    describe,
    is_task_closing,
    report_safely,
    result_when_stopped,
)

T = TypeVar("T")
Told = TypeVar("Told")


@coroutine
def notify_first_wait(
    work: Coroutine[Any, Any, T], waits: Callable[[Told], None], told: Told
) -> Generator[Any, Any, T]:
    """Awaits; calls `waits(told)` before it waits for the first time, if it ever does."""
    try:
        wanted = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    waits(told)
    while True:
        sent: Any = None
        error: BaseException | None = None
        try:
            sent = yield wanted
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:  # Whatever it is, it is meant for the one who waits.
            error = thrown
        try:
            wanted = work.send(sent) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            error = None  # It knows this frame; were it known here, nobody would let go of it.


CANCEL_GRACE_SECONDS = 5.0
"""So long a handler that is stopped may take to end; then it is left behind."""

LOOK_SECONDS = 1.0
"""Who waits for handlers to end looks so often: one that is left behind meanwhile never does."""

SCOUT_SECONDS_MAX = 0.002
"""So long handlers that do not wait may follow each other in one task, before anybody else has a
turn."""

RELEASED = Snoozed(0.0)
"""It comes back at once, and at no cost."""


class Work(Struct, frozen=True):
    """What is to be done by one invocation."""

    handler: HandlerDeclaration
    messages: Sequence[ClaimedMessage[Any]]
    given: HandlerArgument


class Invocation(Struct, frozen=True):
    """A handler under way."""

    messages: Sequence[ClaimedMessage[Any]]
    given: HandlerArgument
    started: float


class Permits:
    """Runs handlers. `next_work` is asked for what a free slot may begin with; `end` is called with
    what came of each and when it began, and `on_permit_freed` when there may be a free slot."""

    def __init__(
        self,
        context: WorkerContext,
        consumer: Consumer,
        queue: Queue,
        *,
        next_work: Callable[[], Work | None],
        end: Callable[[InvocationResult, float], None],
        on_permit_freed: Callable[[], None],
    ) -> None:
        self._isolator, self._now = context.isolator, context.monotonic
        self._queue, self._limit_seconds = queue.name, queue.settings.timeout_seconds
        self._next_work, self._on_finished, self._on_permit_freed = next_work, end, on_permit_freed
        self._running: dict[asyncio.Task[None], Invocation] = {}
        self._stopped: dict[asyncio.Task[None], Outcome] = {}
        self._scout: asyncio.Task[None] | None = None
        self._waited: set[asyncio.Task[None]] = set()
        self._last_waited = False
        self._base_context = copy_context()
        self._is_auto = consumer.max_concurrency is None
        self._wanted = consumer.max_concurrency or AUTO_CONCURRENCY_MIN
        self._auto_max = auto_permits_max(consumer)
        self._ended = self._failed = 0
        self._was_full = False
        self.started_count = 0

    def __len__(self) -> int:
        return len(self._running)

    @property
    def allowed(self) -> int:
        """How many invocations may run at a time."""
        return self._wanted - self._isolator.abandoned.permits_lost(self._queue)

    @property
    def free(self) -> int:
        """How many more; below 0 if there are too many now."""
        return self.allowed - len(self._running)

    def running_invocations(self) -> dict[asyncio.Task[None], Invocation]:
        """What runs now; may be asked from any thread."""
        return self._running.copy()

    def messages(self) -> list[ClaimedMessage[Any]]:
        """What they have in hand."""
        return [each for one in self._running.values() for each in one.messages]

    def start_waiting(self) -> None:
        """Begins what there is, as far as slots are free."""
        if self._scout is not None and not self._scout.done():
            return
        while self.free > 0 and (work := self._next_work()) is not None:
            task = self.start(work)
            if not self._last_waited:
                self._scout = task
                return

    def start(self, work: Work) -> asyncio.Task[None]:
        """One invocation, in a task of its own."""
        # Not by the loop's own way of making tasks: that may run it before we know of it.
        task = asyncio.Task(self._run(work), context=self._base_context.copy())
        self._record_start(task, work)
        return task

    def _record_start(self, task: asyncio.Task[None], work: Work) -> None:
        self.started_count += 1
        self._running[task] = Invocation(work.messages, work.given, self._now())
        self._was_full = self._was_full or self.free <= 0

    async def _run(self, work: Work | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        turn_ends = monotonic() + SCOUT_SECONDS_MAX
        try:
            while work is not None:
                try:
                    invoked = await self._invoke(task, work)
                except GeneratorExit as error:
                    if is_task_closing(task, error):
                        raise
                    invoked = self._result_of_generator_exit(task, work, error)
                invocation = self._running.pop(task, None)
                if self._scout is not task or task.cancelling() or not self._is_context_unchanged():
                    self._base_context.copy().run(self._finish, invocation, invoked)
                    break
                self._finish(invocation, invoked)
                if monotonic() >= turn_ends:
                    break
                work = self._next_work() if self.free > 0 else None
                if work is not None:
                    self._record_start(task, work)
        finally:
            self._waited.discard(task)
            self._release_scout(task)

    async def _invoke(self, task: asyncio.Task[None], work: Work) -> InvocationResult:
        try:
            invocation = self._isolator.invoke(work.handler, work.given)
            invoked = await notify_first_wait(invocation, self._on_first_wait, task)
        except asyncio.CancelledError:
            invoked = result_when_stopped(work.given, self._stopped.get(task, CANCELLED_BY_HANDLER))
        else:
            if task in self._stopped:  # It took no notice, and went on until it was done.
                invoked = result_when_stopped(work.given, self._stopped[task])
        self._stopped.pop(task, None)
        if task not in self._waited:
            self._last_waited = False
        return invoked

    def _result_of_generator_exit(
        self, task: asyncio.Task[None], work: Work, error: GeneratorExit
    ) -> InvocationResult:
        """A handler awaited a task that had raised this: everything between it and its own task is
        closed by then, and only here it can be told."""
        return result_when_stopped(work.given, self._stopped.pop(task, Failed(describe(error))))

    def _on_first_wait(self, task: asyncio.Task[None]) -> None:
        """A handler waits for something, for the first time."""
        self._waited.add(task)
        self._last_waited = True
        if self._scout is task:
            self._release_scout(task)

    def _release_scout(self, task: asyncio.Task[None]) -> None:
        """From here on the task is no scout: others begin what there is, if a slot is free."""
        if self._scout is task:
            self._scout = None
        self._base_context.copy().run(self._on_permit_freed)

    def _is_context_unchanged(self) -> bool:
        """Whether the context of this task is as it was before its handler."""
        context, clean = copy_context(), self._base_context
        if len(context) != len(clean):
            return False
        return all(context.get(variable) is value for variable, value in clean.items())

    def _finish(self, invocation: Invocation | None, invoked: InvocationResult) -> None:
        if invocation is None:
            self._isolator.abandoned.remove(self._queue)
        else:
            self._count(invoked, invocation.started)

    def _count(self, invoked: InvocationResult, started: float) -> None:
        self._ended += 1
        self._failed += invoked.is_failed
        report_safely(self._on_finished, invoked, started)

    # Stopping

    def stop_overdue(self) -> None:
        """Stops what has run for longer than the queue allows; what will not be stopped is left
        behind a little later."""
        limit = self._limit_seconds
        late = Failed(f"took longer than {seconds_text(limit)}, and was stopped")
        began = self._now() - limit
        # They stand in the order in which they began.
        overdue = takewhile(lambda each: each[1].started <= began, self._running.items())
        for task, invocation in list(overdue):
            if task not in self._stopped:
                self._stop(task, late)
            elif invocation.started <= began - CANCEL_GRACE_SECONDS:
                self._abandon(task)

    def overdue_at(self) -> float | None:
        """When `stop_overdue` will next have something to do, if what runs goes on."""
        ends = (
            each.started
            + self._limit_seconds
            + (CANCEL_GRACE_SECONDS if task in self._stopped else 0.0)
            for task, each in self._running.items()
        )
        return min(ends, default=None)

    async def finish(self, seconds: float) -> None:
        """Lets what runs come to its end, for so long; then it is stopped, and given back."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        for task in self._running:
            self._stop(task, RELEASED)
        if self._running:
            await asyncio.wait(self._running, timeout=CANCEL_GRACE_SECONDS)
        for task in [*self._running]:
            self._abandon(task)

    def _stop(self, task: asyncio.Task[None], outcome: Outcome) -> None:
        self._stopped.setdefault(task, outcome)
        task.cancel()

    def _abandon(self, task: asyncio.Task[None]) -> None:
        """Ends an invocation without its handler, which goes on; nothing of that counts."""
        invocation, outcome = self._running.pop(task), self._stopped.pop(task)
        if not task.done():  # Else it was stopped before it began.
            self._isolator.abandoned.add(self._queue)
        self._count(result_when_stopped(invocation.given, outcome), invocation.started)

    # Waiting

    async def wait_until_idle(self, seconds: float) -> bool:
        """Waits, for at most so long, until nothing runs; whether nothing does."""
        until = monotonic() + seconds
        while self._running and (left := until - monotonic()) > 0:
            await asyncio.wait(self._running, timeout=min(left, LOOK_SECONDS))
        return not self._running

    async def wait_until_quiet(self, seconds: float) -> bool:
        """The same, but for as long as one after the other ends within so many seconds."""
        while self._running:
            done, _ = await asyncio.wait(self._running, timeout=seconds)
            if not done:
                return False
        return True

    # How many at a time

    def scale(self, *, waiting: bool, more_waiting: bool) -> None:
        """Gives the queue more slots, or less, by what became of the last ones; `waiting` is what
        is in hand, `more_waiting` what is in the store."""
        if self._ended < self._wanted or not self._is_auto:
            return  # Not all slots have been round yet; or by hand.
        load = Load(
            finished=self._ended,
            failed=self._failed,
            all_busy=self._was_full or waiting,
            more_waiting=more_waiting or waiting,
        )
        self._wanted = min(next_concurrency(self._wanted, load), self._auto_max)
        self._ended = self._failed = 0
        self._was_full = self.free <= 0
