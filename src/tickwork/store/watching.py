"""Waiting for messages within a process: events that remember."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID


class EventWatch:
    """One waiter. A wake-up between two waits is kept for the second."""

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
    """The waiters of this process."""

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
