"""A thread that notices when the event loop stands still while handlers run.

A coroutine that computes, or calls what blocks, keeps every other handler from going on, and no
coroutine can see that. So a thread asks the loop for a sign of life, again and again. If there is
none for too long it says so, once for each time, with the place where the loop's thread is and the
messages that are under way; the one whose handler has the loop comes first.

Code that never lets go of the interpreter's lock stops this thread too; it is told then as soon as
it is over. A process that was stopped as a whole (a signal, a machine asleep) is not told: it used
no processor time.

A worker, and those who watch it: numbers, and a thread that sees the event loop stand still.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from types import FrameType
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tickwork.clock import cpu_seconds, monotonic
from tickwork.service.observe.log_events import MULTILINE_FIELD, LogEvent
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.service.worker.permits import Invocation
from tickwork.service.worker.worker import Worker

BLOCKED_SECONDS = 1.0
LOOKS_PER_LIMIT = 4
LISTED_MAX = 10
"""So many of the messages under way are named."""

FRAMES_MAX = 20
_LATE = 1.25
"""Who wakes later than this, measured by what was to be waited, had no turn."""

_BUSY_SHARE = 0.2
"""Who used less of a processor than this did not compute: it was stopped."""

_log = logging.getLogger("tickwork")

RunningInvocations = Callable[[], Mapping[asyncio.Task[None], Invocation]]
"""What runs now."""


class Watchdog:
    """Watches the event loop in which it was entered."""

    def __init__(
        self, under_way: RunningInvocations, *, limit_seconds: float = BLOCKED_SECONDS
    ) -> None:
        self._under_way, self._limit_seconds = under_way, limit_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._turned, self._is_over = threading.Event(), threading.Event()
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
        self._turned.set()
        self._thread.join()

    def blocked_seconds(self) -> float:
        """How long it stood still, all times together, up to now."""
        since = self._blocked_since
        return self._blocked_seconds + (0.0 if since is None else monotonic() - since)

    def _watch(self) -> None:
        while not self._is_over.wait(self._limit_seconds / LOOKS_PER_LIMIT):
            self._look()

    def _look(self) -> None:
        asked, used = monotonic(), cpu_seconds()
        self._turned.clear()
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._turned.set)
        except RuntimeError:  # It is closed.
            self._is_over.set()
            return
        is_in_time = self._turned.wait(self._limit_seconds)
        waited = monotonic() - asked
        if self._is_over.is_set() or (is_in_time and waited <= self._limit_seconds):
            return
        had_no_turn = is_in_time or waited > _LATE * self._limit_seconds
        if had_no_turn and cpu_seconds() - used < waited * _BUSY_SHARE:
            return  # We were stopped ourselves, with all the rest.
        self._blocked(asked)

    def _blocked(self, since: float) -> None:
        under_way = self._under_way()
        if not under_way:
            return
        self.times_blocked += 1
        self._blocked_since = since
        self._tell(under_way, monotonic() - since)
        self._turned.wait()
        self._blocked_since = None
        self._blocked_seconds += monotonic() - since

    def _tell(self, under_way: Mapping[asyncio.Task[None], Invocation], seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 (there is no other way)
        blocking = under_way.get(asyncio.current_task(self._loop))  # type: ignore[arg-type]
        others = [each for each in under_way.values() if each is not blocking]
        ids = [str(each.id) for one in others for each in one.messages[:LISTED_MAX]]
        _log.warning(
            LogEvent(
                "the event loop stands still",
                seconds=round(seconds, 3),
                at=_place(frame),
                blocking=_named(blocking),
                under_way=sum(len(each.messages) for each in under_way.values()),
                others=ids[:LISTED_MAX] or None,
                **{MULTILINE_FIELD: _stack(frame)},
            )
        )


def running_invocations_of(consumers: Sequence[QueueConsumer]) -> RunningInvocations:
    """What runs in all of these."""

    def under_way() -> Mapping[asyncio.Task[None], Invocation]:
        return {task: each for one in consumers for task, each in one.running_invocations().items()}

    return under_way


def _named(invocation: Invocation | None) -> str | None:
    """The messages of an invocation, some of them."""
    if invocation is None:
        return None
    ids = [str(each.id) for each in invocation.messages]
    more = f" and {len(ids) - LISTED_MAX} more" if len(ids) > LISTED_MAX else ""
    return ", ".join(ids[:LISTED_MAX]) + more


def _place(frame: FrameType | None) -> str | None:
    if frame is None:
        return None
    code = frame.f_code
    return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"


def _stack(frame: FrameType | None) -> str | None:
    if frame is None:
        return None
    return "".join(traceback.format_stack(frame, limit=FRAMES_MAX)).rstrip()


class WatchedWorker(NamedTuple):
    """A worker that is not at work yet."""

    worker: Worker
    collectors: Sequence[Collector]
    watchdog: Watchdog

    @asynccontextmanager
    async def running(
        self, *, drain_seconds: float, registry: CollectorRegistry | None
    ) -> AsyncIterator[Worker]:
        """At work meanwhile, and watched to the end; its numbers are in the registry. Raises
        `HeartbeatEnded` if it can no longer keep its lease."""
        with ExitStack() as watching:
            if registry is not None:
                for each in self.collectors:
                    registry.register(each)
                    watching.callback(registry.unregister, each)
            watching.enter_context(self.watchdog)
            await self.worker.start()
            try:
                async with self.worker.guarded():
                    yield self.worker
            finally:
                await self.worker.stop(drain_seconds)
