"""Waiting within a process: wake-up events, and calls that must not block a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar
from uuid import UUID


class EventWatch:
    """One waiting consumer. A wake-up between two waits is kept for the second."""

    def __init__(self, queue_ids: Sequence[UUID]) -> None:
        self.queue_ids = frozenset(queue_ids)
        self.event = asyncio.Event()

    async def wait(self, timeout_seconds: float) -> bool:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.event.wait()
        except TimeoutError:
            return False
        self.event.clear()
        return True


class Watchers:
    """The waiting consumers of this process."""

    def __init__(self) -> None:
        self._watches: set[EventWatch] = set()

    @contextmanager
    def added(self, queue_ids: Sequence[UUID]) -> Iterator[EventWatch]:
        watch = EventWatch(queue_ids)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    def wake(self, queue_ids: Iterable[UUID]) -> None:
        queue_ids = frozenset(queue_ids)
        for watch in self._watches:
            if not watch.queue_ids.isdisjoint(queue_ids):
                watch.event.set()

    def wake_all(self) -> None:
        for watch in self._watches:
            watch.event.set()

    def __bool__(self) -> bool:
        return bool(self._watches)


T = TypeVar("T")


async def run_in_own_thread(call: Callable[..., T], *values: object) -> T:
    """Calls a function in a thread of its own. The event loop's executor may be full of an app's
    work, and a shutdown must not wait for that; when the interpreter ends no executor takes any.
    Some versions of Python start no thread then, either: it is called here."""
    done: Future[T] = Future()

    def work() -> None:
        done.set_running_or_notify_cancel()
        try:
            done.set_result(call(*values))
        except BaseException as error:
            done.set_exception(error)

    try:
        Thread(target=work, name="tickwork-own").start()
    except RuntimeError:
        work()
    return await asyncio.wrap_future(done)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """Returns the result, or None if it takes longer. Then the work is cancelled without
    waiting, because a driver may take until its server answers to cancel."""
    task = asyncio.create_task(work)
    task.add_done_callback(_mark_retrieved)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    return task.result() if done else None


def _mark_retrieved(task: asyncio.Task[Any]) -> None:
    """Marks an exception as retrieved: no one waits for it."""
    if not task.cancelled():
        task.exception()
