"""The invocations of one queue that run: stopping them, and waiting for them.

A handler that exceeds its timeout is cancelled. If it does not stop in time it is abandoned: its
message is settled without it, and whatever the handler still does has no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from itertools import takewhile
from typing import Any

from msgspec import Struct

from tickwork.app.message import ClaimedMessage, seconds_text
from tickwork.clock import monotonic
from tickwork.core.message.outcome import Failed, Outcome, Snoozed
from tickwork.service.worker.invoke import HandlerArgument

CANCEL_GRACE_SECONDS = 5.0
"""Seconds a cancelled handler may take to finish; then it is abandoned."""

CHECK_SECONDS = 1.0
"""Seconds between two checks while waiting for handlers; an abandoned handler never finishes."""

RELEASED = Snoozed(0.0)
"""The outcome of a handler stopped by a shutdown: its message is available again at once."""


class Invocation(Struct, frozen=True):
    """A running handler."""

    messages: Sequence[ClaimedMessage[Any]]
    argument: HandlerArgument
    started: float


Abandon = Callable[[asyncio.Task[None], Invocation, Outcome], None]
"""Finishes an invocation without its handler, with this outcome."""


class RunningInvocations(dict[asyncio.Task[None], Invocation]):
    """The running invocations by their task, in the order of their start. `stopped` has the outcome
    of each one that was stopped and has not finished yet. A dict, because each message enters and
    leaves it: `copy` may be called from any thread."""

    def __init__(self, now: Callable[[], float], limit_seconds: float, abandon: Abandon) -> None:
        self._now = now
        self._limit_seconds = limit_seconds
        self._abandoned = abandon
        self.stopped: dict[asyncio.Task[None], Outcome] = {}

    def messages(self) -> list[ClaimedMessage[Any]]:
        """The messages of all running invocations."""
        return [message for invocation in self.values() for message in invocation.messages]

    def is_any_of(self, tasks: Set[asyncio.Task[None]]) -> bool:
        """Whether one of these tasks runs and was not abandoned."""
        return not tasks.isdisjoint(self)

    # Stopping

    def stop_overdue(self) -> None:
        """Stops handlers that exceed the queue's timeout, and abandons those that do not stop in
        time."""
        limit = self._limit_seconds
        timed_out = Failed(f"took longer than {seconds_text(limit)}, and was stopped")
        started_before = self._now() - limit
        overdue = takewhile(lambda running: running[1].started <= started_before, self.items())
        for task, invocation in list(overdue):
            if task not in self.stopped:
                self._stop(task, timed_out)
            elif invocation.started <= started_before - CANCEL_GRACE_SECONDS:
                self._abandon(task)

    def overdue_at(self) -> float | None:
        """When `stop_overdue` next has something to do, if no handler finishes before."""
        times = (
            invocation.started
            + self._limit_seconds
            + (CANCEL_GRACE_SECONDS if task in self.stopped else 0.0)
            for task, invocation in self.items()
        )
        return min(times, default=None)

    async def finish(self, seconds: float) -> None:
        """Lets handlers finish for `seconds`, then stops them and releases their messages."""
        if self:
            await asyncio.wait(self, timeout=seconds)
        for task in self:
            self._stop(task, RELEASED)
        if self:
            await asyncio.wait(self, timeout=CANCEL_GRACE_SECONDS)
        for task in [*self]:
            self._abandon(task)

    def _stop(self, task: asyncio.Task[None], outcome: Outcome) -> None:
        self.stopped.setdefault(task, outcome)
        task.cancel()

    def _abandon(self, task: asyncio.Task[None]) -> None:
        self._abandoned(task, self.pop(task), self.stopped.pop(task))

    # Waiting

    async def wait_until_idle(self, seconds: float) -> bool:
        """Waits up to `seconds` until nothing runs; returns whether nothing runs."""
        until = monotonic() + seconds
        while self and (left := until - monotonic()) > 0:
            await asyncio.wait(self, timeout=min(left, CHECK_SECONDS))
        return not self

    async def wait_until_finished(self, tasks: Set[asyncio.Task[None]], seconds: float) -> bool:
        """The same for some tasks, whatever else runs."""
        until = monotonic() + seconds
        while self.is_any_of(tasks) and (left := until - monotonic()) > 0:
            await asyncio.wait(tasks, timeout=min(left, CHECK_SECONDS))
        return not self.is_any_of(tasks)

    async def wait_until_quiet(self, seconds: float) -> bool:
        """Waits until nothing runs; False if no handler finishes for `seconds`."""
        while self:
            done, _ = await asyncio.wait(self, timeout=seconds)
            if not done:
                return False
        return True
