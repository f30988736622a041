"""All consumers of an app in one process, and the keepers of its store.

A worker has one node: one identity for everything it holds. It claims for every queue that has a
handler, stops what is overdue, and when it is told to stop gives back what has not begun.

A message that cost other workers their life runs with nothing beside it: the worker claims it,
lets everything else come to its end, runs it, and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from uuid import UUID

from tickwork.app.declarations import Consumer
from tickwork.core.model import SYSTEM, ClaimRequest, Message, Scope
from tickwork.errors import NodeExpired
from tickwork.service.consumer import Context, QueueConsumer
from tickwork.service.keeping import keepers
from tickwork.service.loop import forever
from tickwork.service.node import Node
from tickwork.service.running import check_running
from tickwork.store.contract import Watch

DRAIN_SECONDS = 30.0
OVERDUE_SECONDS = 0.2
"""So often we look for what is overdue."""

ALONE_SECONDS = 1.0
"""So often we look for what must run alone."""

Step = Callable[[], Awaitable[float]]


class Worker:
    """Consumers at work."""

    def __init__(self, context: Context, node: Node, consumers: Sequence[QueueConsumer]) -> None:
        self._context, self._node, self._consumers = context, node, consumers
        self._tasks: list[asyncio.Task[None]] = []
        self._open = AsyncExitStack()
        self._alone: Message | None = None
        self._is_stopping = False
        context.claims.add(lambda: [self._alone] if self._alone else [])

    @property
    def consumers(self) -> Sequence[QueueConsumer]:
        """One for each queue."""
        return self._consumers

    async def start(self) -> None:
        """Begins to claim; raises `InvalidInput` for a handler that cannot run."""
        check_running()
        loop = asyncio.get_running_loop()

        def lost(_: UUID) -> None:
            loop.call_soon_threadsafe(self.forget)

        self._node.on_lost(lost)
        store = self._context.store
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._context.isolator)
            watches = [
                await opening.enter_async_context(store.wakeups.watch([each.queue.id]))
                for each in self._consumers
            ]
            await self._node.start()
            self._open = opening.pop_all()
        for each, watch in zip(self._consumers, watches, strict=True):
            self._begin(f"consumer of {each.queue.name}", _claiming(each, watch))
        self._begin("overdue", self._stop_overdue)
        self._begin("alone", self._look_for_alone)
        for keeper in keepers(store, self._context.observer):
            self._begin(*keeper)

    async def stop(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Finishes what has begun, for so long, and gives back the rest."""
        self._is_stopping = True
        await asyncio.gather(*(each.drain(drain_seconds) for each in self._consumers))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._open.aclose()
        await self._node.stop()

    def _begin(self, name: str, step: Step) -> None:
        tell = self._context.observer.trouble
        self._tasks.append(asyncio.create_task(forever(name, step, tell=tell)))

    def forget(self) -> None:
        """The node lost its identity, and all it held."""
        for each in self._consumers:
            each.forget()

    async def _stop_overdue(self) -> float:
        for each in self._consumers:
            each.stop_overdue()
        return OVERDUE_SECONDS

    async def run_alone(self) -> int:
        """Runs what must run alone, of each queue at most one message; how many they were."""
        ran = 0
        for each in self._consumers:
            request = ClaimRequest(
                queue=each.queue.name, holder=self._context.holder(), limit=1, alone=True
            )
            found = await self._context.claims.claim(each.scope, request)
            if found:
                (self._alone,) = found
                await self._run_with_nothing_beside(each, self._alone)
                ran += 1
        return ran

    async def _look_for_alone(self) -> float:
        with suppress(NodeExpired):  # The node takes a new identity by itself.
            await self.run_alone()
        return ALONE_SECONDS

    async def _run_with_nothing_beside(self, consumer: QueueConsumer, message: Message) -> None:
        for each in self._consumers:
            each.pause()
        try:
            for each in self._consumers:
                await each.idle()
            self._alone = None
            if not self._is_stopping:  # Else it is given back, with all that the node holds.
                await consumer.run_alone(message)
        finally:
            for each in self._consumers:
                each.resume()


async def open_worker(
    context: Context,
    node: Node,
    consumers: Iterable[Consumer],
    scope_of: Callable[[str], Scope],
) -> Worker:
    """A worker for these consumers, whose queues are in the store already."""
    opened = []
    for each in consumers:
        scope = SYSTEM if each.queue.is_shared else scope_of(each.queue.name)
        queue = await context.store.queues.get(scope, each.queue.name)
        opened.append(QueueConsumer(context, each, queue, scope))
    return Worker(context, node, opened)


def _claiming(consumer: QueueConsumer, watch: Watch) -> Step:
    async def step() -> float:
        await consumer.run(watch)
        return 0.0

    return step
