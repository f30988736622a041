"""Consumers that come and go while a worker runs: those of queues that push to an endpoint, and of
versions of workflows that no node has.

Somebody may set `push_to` of a queue at any time, change its settings, or delete it. A consumer
keeps the settings with which it started; when they change it ends, and another one starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from tickwork.app.declarations import Consumer, push_fault
from tickwork.core.model import Scope, StoredQueue
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.consumer import QueueConsumer

RETIRE_SECONDS = 30.0
"""Seconds that the running handlers of a consumer may take that ends before its worker."""


class FoundConsumer(NamedTuple):
    """A consumer that the app does not declare, and its queue."""

    consumer: Consumer
    queue: StoredQueue
    scope: Scope


class FoundNow(NamedTuple):
    """The consumers that should run now, and when that changes by itself, if it does."""

    consumers: Sequence[FoundConsumer]
    until: datetime | None


FindConsumers = Callable[[], Awaitable[FoundNow]]

StartConsumer = Callable[[QueueConsumer], list[asyncio.Task[None]]]
"""Starts the loops of a consumer."""


class FoundConsumers:
    """Adds the consumers that `find` returns to those of a worker, and removes them again."""

    def __init__(
        self,
        context: WorkerContext,
        consumers: list[QueueConsumer],
        find: Sequence[FindConsumers],
    ) -> None:
        # These queues are not the app's, which creates its own again when they are gone.
        self._context = context._replace(declare_again=_declare_nothing)
        self._consumers, self._find = consumers, find
        self._loops: dict[QueueConsumer, list[asyncio.Task[None]]] = {}
        self._retiring: dict[QueueConsumer, asyncio.Task[None]] = {}

    def __contains__(self, consumer: QueueConsumer) -> bool:
        return consumer in self._loops or consumer in self._retiring

    async def refresh(self, start: StartConsumer | None) -> datetime | None:
        """Starts consumers that are new and retires those that are gone; returns when to look again
        at the latest. Without `start` the caller runs the consumers itself."""
        found_now = [await find() for find in self._find]
        consumers = [found for now in found_now for found in now.consumers]
        until = min((now.until for now in found_now if now.until is not None), default=None)
        wanted = {consumer.queue.id: consumer for consumer in consumers}
        for own in [*self._loops]:
            found = wanted.get(own.queue.id)
            if found is None or found.queue.settings != own.queue.settings:
                await self._retire(own, is_running=start is not None)
        present = {consumer.queue.id: consumer for consumer in self._consumers}
        for consumer in consumers:
            known = present.get(consumer.queue.id)
            if known is None:
                made = QueueConsumer(self._context, *consumer)
                self._loops[made] = []
                self._consumers.append(made)
            elif known not in self._loops and known not in self._retiring:
                faults = pushed_faults(known.consumer, consumer.queue)
                self._context.observer.error_occurred("push", InvalidInput(faults))
        if start is not None:
            for own, loops in self._loops.items():
                if not loops:
                    loops += start(own)
        return until

    async def _retire(self, consumer: QueueConsumer, *, is_running: bool) -> None:
        """Ends a consumer. While the worker runs it does not wait for the handlers: until they have
        finished, no other consumer of this queue starts."""
        loops = self._loops.pop(consumer)
        for loop in loops:
            loop.cancel()

        async def end() -> None:
            if loops:
                await asyncio.wait(loops)
            await consumer.retire(RETIRE_SECONDS)
            self._consumers.remove(consumer)
            self._retiring.pop(consumer, None)

        if is_running:
            self._retiring[consumer] = asyncio.create_task(end())
        else:
            await end()


async def _declare_nothing() -> None:
    pass


def pushed_faults(consumer: Consumer, queue: StoredQueue) -> list[FieldError]:
    """The error of a queue that an app consumes and that pushes, too."""
    if queue.settings.push_to is None:
        return []
    handlers = [consumer.batch] if consumer.batch else [*consumer.by_type.values()]
    return [push_fault(queue.name, queue.settings.push_to, handlers[0].name)]
