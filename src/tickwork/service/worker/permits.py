"""The permits of one queue: how many handlers may run, and starting them.

Each invocation runs in a task, in a copy of the context in which the worker was started. What a
handler sets there (a `ContextVar`) ends with it: neither the next message nor the settlement sees
it.

Creating a task costs more than many handlers do, and only a handler that waits needs one. So there
is one scout: a task that runs one handler after another for a short time, as long as they finish
without waiting and leave the context unchanged. The first handler that waits keeps the task. From
then on each handler starts in its own task, until one finishes again without having waited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import copy_context
from types import coroutine
from typing import Any, TypeVar

from msgspec import Struct

from tickwork.app.declarations import Consumer, HandlerDeclaration
from tickwork.app.message import ClaimedMessage
from tickwork.clock import monotonic
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.core.model import StoredQueue
from tickwork.core.queue.rate_limit import (
    AUTO_CONCURRENCY_MIN,
    AUTO_GROW_SECONDS,
    Load,
    grown_concurrency,
    next_concurrency,
)
from tickwork.service.isolation import auto_permits_max
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.invocations import (
    CHECK_SECONDS,
    RELEASED,
    Invocation,
    RunningInvocations,
)
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
Argument = TypeVar("Argument")


@coroutine
def notify_first_wait(
    work: Coroutine[Any, Any, T], on_first_wait: Callable[[Argument], None], argument: Argument
) -> Generator[Any, Any, T]:
    """Awaits `work`, and calls `on_first_wait(argument)` before it waits for the first time."""
    try:
        wanted = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    on_first_wait(argument)
    return (yield from go_on(work, wanted))


@coroutine
def go_on(work: Coroutine[Any, Any, T], wanted: Any) -> Generator[Any, Any, T]:
    """Awaits `work`, which has started already and waits for `wanted`."""
    while True:
        sent: Any = None
        error: BaseException | None = None
        try:
            sent = yield wanted
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:  # It is meant for `work`.
            error = thrown
        try:
            wanted = work.send(sent) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            error = None  # It refers to this frame: a reference cycle otherwise.


SCOUT_SECONDS_MAX = 0.002
"""Maximum number of seconds the scout runs handlers before other tasks get a turn."""


class Work(Struct, frozen=True):
    """One invocation to start."""

    handler: HandlerDeclaration
    messages: Sequence[ClaimedMessage[Any]]
    argument: HandlerArgument


class Permits:
    """Runs handlers. `next_work` returns what a free permit may start. `on_finished` receives the
    result of each invocation and its start time. `on_permit_freed` is called when a permit may have
    become free. `is_loop_closing` returns whether the event loop cancels all its tasks."""

    def __init__(
        self,
        context: WorkerContext,
        consumer: Consumer,
        queue: StoredQueue,
        *,
        next_work: Callable[[], Work | None],
        on_finished: Callable[[InvocationResult, float], None],
        on_permit_freed: Callable[[], None],
        is_loop_closing: Callable[[], bool],
    ) -> None:
        self._isolator = context.isolator
        self._now = context.monotonic
        self._queue = queue.name
        self._next_work = next_work
        self._on_finished = on_finished
        self._on_permit_freed = on_permit_freed
        self._is_loop_closing = is_loop_closing
        limit_seconds = queue.settings.timeout_seconds
        self.running = RunningInvocations(self._now, limit_seconds, self._on_abandoned)
        self._stopped = self.running.stopped
        self._scout: asyncio.Task[None] | None = None
        self._waited: set[asyncio.Task[None]] = set()
        self._last_waited = False
        self._base_context = copy_context()
        self._is_auto = consumer.max_concurrency is None
        self._target = consumer.max_concurrency or AUTO_CONCURRENCY_MIN
        self._auto_max = auto_permits_max(consumer)
        self._finished = self._failed = 0
        self._last_finished = self._last_failed = 0
        self._was_full = False
        self._full_since: float | None = None
        self.started_count = 0

    @property
    def limit(self) -> int:
        """Maximum number of running invocations."""
        return self._target - self._isolator.abandoned.permits_lost(self._queue)

    @property
    def free(self) -> int:
        """Number of free permits; negative if more invocations run than the limit allows."""
        return self.limit - len(self.running)

    def start_waiting(self) -> None:
        """Starts waiting work while permits are free."""
        if self._scout is not None and not self._scout.done():
            return
        while self.free > 0 and (work := self._next_work()) is not None:
            task = self.start(work)
            if not self._last_waited:
                self._scout = task
                return

    def start(self, work: Work) -> asyncio.Task[None]:
        """Starts one invocation in its own task."""
        # Not create_task: an eager task factory would run it before it is registered.
        task = asyncio.Task(self._run(work), context=self._base_context.copy())
        self._record_start(task, work)
        return task

    def _record_start(self, task: asyncio.Task[None], work: Work) -> None:
        self.started_count += 1
        now = self._now()
        self.running[task] = Invocation(work.messages, work.argument, now)
        if self.free <= 0:
            self._was_full = True
            if self._full_since is None:
                self._full_since = now

    async def _run(self, work: Work | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        scout_until = monotonic() + SCOUT_SECONDS_MAX
        try:
            while work is not None:
                try:
                    invoked = await self._invoke(task, work)
                except GeneratorExit as error:
                    if is_task_closing(task, error):
                        raise
                    invoked = self._result_of_generator_exit(task, work, error)
                invocation = self.running.pop(task, None)
                if self._scout is not task or task.cancelling() or not self._is_context_unchanged():
                    self._base_context.copy().run(self._finish, invocation, invoked)
                    break
                self._finish(invocation, invoked)
                if monotonic() >= scout_until:
                    break
                work = self._next_work() if self.free > 0 else None
                if work is not None:
                    self._record_start(task, work)
        finally:
            self._waited.discard(task)
            self._release_scout(task)

    async def _invoke(self, task: asyncio.Task[None], work: Work) -> InvocationResult:
        try:
            invocation = self._isolator.invoke(work.handler, work.argument)
            invoked = await notify_first_wait(invocation, self._on_first_wait, task)
        except asyncio.CancelledError:
            self._note_closing(task)
            invoked = result_when_stopped(
                work.argument, self._stopped.get(task, CANCELLED_BY_HANDLER)
            )
        else:
            if task.cancelling():
                self._note_closing(task)
            if task in self._stopped:  # It ignored the cancellation and returned.
                invoked = result_when_stopped(work.argument, self._stopped[task])
        self._stopped.pop(task, None)
        if task not in self._waited:
            self._last_waited = False
        return invoked

    def _note_closing(self, task: asyncio.Task[None]) -> None:
        """A handler that is cancelled because the event loop closes counts as stopped by us."""
        if self._is_loop_closing():
            self._stopped.setdefault(task, RELEASED)

    def _result_of_generator_exit(
        self, task: asyncio.Task[None], work: Work, error: GeneratorExit
    ) -> InvocationResult:
        """A handler awaited a task that raised GeneratorExit. That has closed every coroutine
        between the handler and its task, so it can only be handled here."""
        return result_when_stopped(work.argument, self._stopped.pop(task, Failed(describe(error))))

    def _on_first_wait(self, task: asyncio.Task[None]) -> None:
        """A handler waits for the first time."""
        self._waited.add(task)
        self._last_waited = True
        if self._scout is task:
            self._release_scout(task)

    def _release_scout(self, task: asyncio.Task[None]) -> None:
        """The task is no longer the scout; other tasks may use free permits."""
        if self._scout is task:
            self._scout = None
        self._base_context.copy().run(self._on_permit_freed)

    def _is_context_unchanged(self) -> bool:
        """Whether the handler left the context of this task unchanged."""
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
        self._finished += 1
        self._failed += invoked.is_failed
        report_safely(self._on_finished, invoked, started)

    def _on_abandoned(
        self, task: asyncio.Task[None], invocation: Invocation, outcome: Outcome
    ) -> None:
        """Finishes an invocation whose handler still runs and has no more effect."""
        if not task.done():  # Otherwise it was stopped before it started.
            self._isolator.abandoned.add(self._queue)
        self._count(result_when_stopped(invocation.argument, outcome), invocation.started)

    async def wait_until_free(self, seconds: float) -> None:
        """Waits up to `seconds` until a permit is free or nothing runs."""
        until = monotonic() + seconds
        while self.free <= 0 < len(self.running) and (left := until - monotonic()) > 0:
            left = min(left, CHECK_SECONDS)
            await asyncio.wait(self.running, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    # Automatic concurrency

    def scale(self, *, waiting: bool, more_waiting: bool) -> None:
        """Raises or lowers the limit by the results of the last invocations. `waiting`: claimed
        messages wait here; `more_waiting`: the store has more."""
        if not self._is_auto:
            return
        if self.free > 0:
            self._full_since = None
        has_results = self._finished >= self._target
        if not has_results and not self._is_full_for_long:
            return
        # The last results count until there are new ones: those that all failed must not grow
        # because the next ones take their time.
        load = Load(
            finished=self._finished + (0 if has_results else self._last_finished),
            failed=self._failed + (0 if has_results else self._last_failed),
            all_busy=self._was_full or waiting,
            more_waiting=more_waiting or waiting,
        )
        decide = next_concurrency if has_results else grown_concurrency
        self._target = min(decide(self._target, load), self._auto_max)
        if has_results:
            self._last_finished, self._last_failed = self._finished, self._failed
            self._finished = self._failed = 0
        self._was_full = self.free <= 0
        self._full_since = self._now() if self._was_full else None

    @property
    def _is_full_for_long(self) -> bool:
        since = self._full_since
        return since is not None and self._now() - since >= AUTO_GROW_SECONDS
