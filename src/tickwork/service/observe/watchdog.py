"""A thread that notices when the event loop is blocked while handlers run.

A coroutine that computes, or makes a blocking call, stops every other handler, and no coroutine can
notice that. So a thread pings the loop again and again. If the loop does not respond in time, the
thread reports it, once for each time, with the stack of the loop's thread and the messages that are
being handled; the message whose handler blocks the loop comes first.

Code that never releases the interpreter's lock stops this thread too; the block is reported when
the lock is released. A process that was suspended as a whole (by a signal, or because the machine
slept) is not reported: it used no CPU time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from tickwork.clock import cpu_seconds, monotonic
from tickwork.service.observe import BlockedEventLoop, Observer
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.service.worker.invocations import Invocation

BLOCKED_SECONDS = 1.0
"""Seconds without a response after which the event loop counts as blocked."""

PINGS_PER_LIMIT = 4
"""Number of pings per `BLOCKED_SECONDS`."""

LISTED_MAX = 10
"""Maximum number of messages named in a report."""

FRAMES_MAX = 20
"""Maximum number of stack frames in a report."""

_LATE_FACTOR = 1.25
"""If the wait took longer than this multiple of its timeout, this thread itself did not run."""

_BUSY_SHARE = 0.2
"""With a smaller share of CPU time than this, the process did not compute: it was suspended."""

RunningInvocations = Callable[[], Mapping[asyncio.Task[None], Invocation]]
"""Returns the invocations that run now."""


class Watchdog:
    """Watches the event loop in which it was entered."""

    def __init__(
        self,
        running_invocations: RunningInvocations,
        observer: Observer,
        *,
        limit_seconds: float = BLOCKED_SECONDS,
    ) -> None:
        self._running_invocations, self._observer = running_invocations, observer
        self._limit_seconds = limit_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._responded, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tickwork-watchdog", daemon=True)
        self._blocked_since: float | None = None
        self._blocked_seconds = 0.0
        self.times_blocked = 0

    def __enter__(self) -> Watchdog:
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._responded.set()
        self._thread.join()

    def blocked_seconds(self) -> float:
        """Total seconds the loop was blocked, up to now."""
        since = self._blocked_since
        return self._blocked_seconds + (0.0 if since is None else monotonic() - since)

    def _watch(self) -> None:
        while not self._is_over.wait(self._limit_seconds / PINGS_PER_LIMIT):
            self._ping()

    def _ping(self) -> None:
        asked, used = monotonic(), cpu_seconds()
        self._responded.clear()
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._responded.set)
        except RuntimeError:  # The loop is closed.
            self._is_over.set()
            return
        is_in_time = self._responded.wait(self._limit_seconds)
        waited = monotonic() - asked
        if self._is_over.is_set() or (is_in_time and waited <= self._limit_seconds):
            return
        did_not_run = is_in_time or waited > _LATE_FACTOR * self._limit_seconds
        if did_not_run and cpu_seconds() - used < waited * _BUSY_SHARE:
            return  # The whole process was suspended.
        self._blocked(asked)

    def _blocked(self, since: float) -> None:
        running = self._running_invocations()
        if not running:
            return
        self.times_blocked += 1
        self._blocked_since = since
        self._observer.event_loop_blocked(self._report(running, monotonic() - since))
        self._responded.wait()
        self._blocked_since = None
        self._blocked_seconds += monotonic() - since

    def _report(
        self, running: Mapping[asyncio.Task[None], Invocation], seconds: float
    ) -> BlockedEventLoop:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 (there is no other way)
        blocking = running.get(asyncio.current_task(self._loop))  # type: ignore[arg-type]
        others = [invocation for invocation in running.values() if invocation is not blocking]
        ids = [str(message.id) for one in others for message in one.messages[:LISTED_MAX]]
        return BlockedEventLoop(
            seconds=seconds,
            at=_code_location(frame),
            blocking=_message_ids(blocking),
            running_messages=sum(len(invocation.messages) for invocation in running.values()),
            others=ids[:LISTED_MAX],
            stack=_stack(frame),
        )


def running_invocations_of(consumers: Sequence[QueueConsumer]) -> RunningInvocations:
    """The running invocations of all these consumers."""

    def running() -> Mapping[asyncio.Task[None], Invocation]:
        return {
            task: invocation
            for consumer in consumers
            for task, invocation in consumer.running.copy().items()
        }

    return running


def _message_ids(invocation: Invocation | None) -> str | None:
    """The first few message ids of an invocation."""
    if invocation is None:
        return None
    ids = [str(message.id) for message in invocation.messages]
    more = f" and {len(ids) - LISTED_MAX} more" if len(ids) > LISTED_MAX else ""
    return ", ".join(ids[:LISTED_MAX]) + more


def _code_location(frame: FrameType | None) -> str | None:
    if frame is None:
        return None
    code = frame.f_code
    return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"


def _stack(frame: FrameType | None) -> str | None:
    if frame is None:
        return None
    return "".join(traceback.format_stack(frame, limit=FRAMES_MAX)).rstrip()
