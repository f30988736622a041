"""All queue consumers of an app in one process, and the maintenance of its store.

A worker has one node: one identity for all its claims. It claims from every queue that has a
handler, stops handlers that exceed their timeout, and on shutdown releases the messages whose
handlers have not started.

A scheduler may run next to the consumers, on the same node. On shutdown it gives up its shards
before anything else stops.

Messages that may have killed their worker run separately (`suspects`).

Some queues have no handler in the app's code: they push to an endpoint. The worker looks for them
every few seconds, and starts and stops their consumers while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from functools import partial
from uuid import UUID

from tickwork.app.declarations import Consumer
from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, Scope
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.loop import Step, run_forever
from tickwork.service.maintenance import maintenance_tasks
from tickwork.service.node import SCHEDULER_ROLE, Node
from tickwork.service.process_lifecycle import check_may_run
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.service.worker.found_consumers import (
    FindConsumers,
    FoundConsumers,
    pushed_faults,
)
from tickwork.service.worker.suspects import Suspects
from tickwork.store.shared.watches import within

LEAVE_SECONDS = 10.0
"""Seconds after the drain to stop handlers, settle finished messages and leave the cluster. What is
not settled then is not lost: the lease expires, and other workers get the messages."""

LEAVE_SECONDS_MIN = 2.0
"""Seconds of `LEAVE_SECONDS` reserved for the node to leave, so that others need not wait for its
lease to expire."""

HAND_OVER_SECONDS = 3.0
"""Seconds to wait for the scheduler to give up its shards; after that it is retried during the
drain."""

OVERDUE_SECONDS = 0.2
"""Seconds between two checks for handlers that exceed their timeout."""

NEVER_AGAIN_SECONDS = 86_400.0
"""Seconds that a stopping process does not outlive."""

FIND_SECONDS = 5.0
"""Seconds between two looks for queues that push."""


class Worker:
    """Runs consumers, maintenance and, if there is one, a scheduler, on one node. `find` returns
    consumers that may come and go."""

    def __init__(
        self,
        context: WorkerContext,
        node: Node,
        consumers: Iterable[QueueConsumer],
        scheduler: Scheduler | None = None,
        find: Sequence[FindConsumers] = (),
    ) -> None:
        self._context = context
        self._node = node
        self._consumers = [*consumers]
        self.scheduler = scheduler
        self._found = FoundConsumers(context, self._consumers, find) if find else None
        self._is_changing = asyncio.Lock()
        self.suspects = Suspects(context, self._consumers, self._is_changing)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = AsyncExitStack()
        self._is_started = False
        self._is_stopping = self._is_hurried = False
        self._draining: asyncio.Task[None] | None = None

    @property
    def consumers(self) -> Sequence[QueueConsumer]:
        """One consumer per queue. The list changes while the worker runs."""
        return self._consumers

    @property
    def running(self) -> int:
        """Number of running handlers."""
        return sum(len(consumer.running) for consumer in self._consumers)

    async def start(self) -> None:
        """Starts all loops. Raises `InvalidInput` for a handler that cannot run. If it fails or is
        cancelled, everything is stopped again: a node that nobody stops would lead forever."""
        check_may_run()
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.stop, 0.0)
            await self._start()
            on_failure.pop_all()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()

        def on_lease_lost(node_id: UUID) -> None:
            loop.call_soon_threadsafe(self.drop_claims)
            if self.scheduler is not None:
                loop.call_soon_threadsafe(self.scheduler.forget_node, node_id)

        self._node.on_lease_lost(on_lease_lost)
        store = self._context.store
        if self._consumers:
            await store.make_ready()
            # Before the first message: without the offset its pickup delay is unknown.
            await self._context.clock_offset.measure(store)
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._context.isolator)
            # Those that were found start with the first look for others.
            found = self._found
            declared = [own for own in self._consumers if found is None or own not in found]
            watches = [
                await opening.enter_async_context(store.wakeups.watch([consumer.queue.id]))
                for consumer in declared
            ]
            await self._node.start()
            self._open = opening.pop_all()
        for consumer, watch in zip(declared, watches, strict=True):
            self._start_consumer(consumer, partial(consumer.run, watch))
        self._is_started = True
        if self._found is not None:
            self._start_loop("push queues", self._look_for_consumers)
        self._start_loop("time limits", self._enforce_time_limits)
        self._start_loop("suspects", self.suspects.poll)
        context = self._context
        tasks = maintenance_tasks(store, context.observer, context.clock_offset, context.archive)
        for task in tasks:
            self._start_loop(*task)
        if self.scheduler is not None:
            await self.scheduler.start()

    async def stop(self, drain_seconds: float) -> None:
        """Lets running handlers finish for `drain_seconds` and releases all other messages. Takes
        at most `LEAVE_SECONDS` longer, whatever the database and the handlers do. If cancelled or
        hurried, it does not wait for handlers but still leaves the cluster."""
        self._is_stopping = True
        self.suspects.stop()
        began, is_drained = monotonic(), False
        try:
            if self.scheduler is not None:
                await self._hand_over(self.scheduler)
            seconds = 0.0 if self._is_hurried else drain_seconds
            until = began + seconds + LEAVE_SECONDS
            is_drained = await self._drain_unless_hurried(seconds, until)
        finally:
            await self._leave(until if is_drained else monotonic() + LEAVE_SECONDS, is_drained)

    def hurry(self) -> bool:
        """Makes `stop` cancel running handlers at once instead of waiting for them; their messages
        are released. Returns whether it has begun to stop."""
        self._is_hurried = True
        if self._draining is not None:
            self._draining.cancel()
        return self._is_stopping

    async def _drain_unless_hurried(self, seconds: float, until: float) -> bool:
        """Drains; returns False if it was not finished because of `hurry`."""
        self._draining = asyncio.create_task(self._drain(seconds, until))
        try:
            await self._draining
        except asyncio.CancelledError:
            if not self._is_hurried:
                raise
            return False
        return True

    async def _drain(self, seconds: float, until: float) -> None:
        settled_until = until - LEAVE_SECONDS_MIN
        await asyncio.gather(
            *(consumer.drain(seconds, settled_until) for consumer in self._consumers)
        )

    async def _leave(self, until: float, is_drained: bool) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            if not is_drained:
                await self._drain(0.0, until)
            if self._tasks:
                await asyncio.wait(
                    self._tasks, timeout=_remaining_seconds(until - LEAVE_SECONDS_MIN)
                )
            await within(_remaining_seconds(until - LEAVE_SECONDS_MIN), self._open.aclose())
        finally:
            await self._node.stop(_remaining_seconds(until))

    async def _hand_over(self, scheduler: Scheduler) -> None:
        """Gives up all shards. If the database is unavailable, retries in the background: this node
        lives as long as its handlers run, and no other node would take its shards."""
        self._node.drop_role(SCHEDULER_ROLE)
        if not await within(HAND_OVER_SECONDS, scheduler.stop()):
            self._start_loop("hand-over", partial(_once, scheduler.leadership.give_up))

    def _start_consumer(
        self, consumer: QueueConsumer, run: Callable[[], Awaitable[None]]
    ) -> list[asyncio.Task[None]]:
        name = consumer.queue.name
        second = _endless(consumer.run_second_claims)
        return [
            self._start_loop(f"consumer of {name}", _endless(run)),
            self._start_loop(f"second claims of {name}", second),
        ]

    def run_beside(self, name: str, step: Step) -> None:
        """Runs a step in a loop until the worker stops."""
        self._start_loop(name, step)

    def _start_loop(self, name: str, step: Step) -> asyncio.Task[None]:
        report = self._context.observer.error_occurred
        task = asyncio.create_task(run_forever(name, step, report=report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def find_consumers(self) -> datetime | None:
        """Starts the consumers that are new, and stops those that are gone; returns when to look
        again at the latest, if that is known."""
        # None starts while suspects run alone.
        async with self._is_changing:
            if self._found is not None and not self._is_stopping:
                start = self._start_found if self._is_started else None
                return await self._found.refresh(start)
        return None

    async def _look_for_consumers(self) -> float:
        await self.find_consumers()
        return FIND_SECONDS

    def _start_found(self, consumer: QueueConsumer) -> list[asyncio.Task[None]]:
        async def run() -> None:
            async with self._context.store.wakeups.watch([consumer.queue.id]) as watch:
                await consumer.run(watch)

        return self._start_consumer(consumer, run)

    def drop_claims(self) -> None:
        """The node lost its identity and all its claims."""
        for consumer in self._consumers:
            consumer.drop_claims()

    def guarded(self) -> AbstractAsyncContextManager[None]:
        """Raises `HeartbeatEnded` in the calling task if the heartbeat thread ends."""
        return self._node.guarded()

    async def _enforce_time_limits(self) -> float:
        for consumer in self._consumers:
            consumer.stop_overdue()
            consumer.release_overdue()
        return OVERDUE_SECONDS


async def open_worker(
    context: WorkerContext,
    node: Node,
    consumers: Iterable[Consumer],
    scope_of: Callable[[str], Scope],
    scheduler: Scheduler | None = None,
    find: Sequence[FindConsumers] = (),
) -> Worker:
    """A worker for these consumers. Their queues must exist in the store. `find` returns others,
    which may come and go. Raises `InvalidInput` for a queue that also pushes to an endpoint."""
    opened, faults = [], list[FieldError]()
    for consumer in consumers:
        scope = SYSTEM if consumer.queue.is_shared else scope_of(consumer.queue.name)
        queue = await context.store.queues.get(scope, consumer.queue.name)
        faults += pushed_faults(consumer, queue)
        opened.append(QueueConsumer(context, consumer, queue, scope))
    if faults:
        raise InvalidInput(faults)
    worker = Worker(context, node, opened, scheduler, find)
    await worker.find_consumers()
    return worker


def _remaining_seconds(until: float) -> float:
    return max(until - monotonic(), LEAVE_SECONDS_MIN)


async def _once(do: Callable[[], Awaitable[None]]) -> float:
    await do()
    return NEVER_AGAIN_SECONDS


def _endless(run: Callable[[], Awaitable[None]]) -> Step:
    async def step() -> float:
        await run()
        return 0.0

    return step
