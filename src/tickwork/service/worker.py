"""All consumers of an app in one process, and the keepers of its store.

A worker has one node: one identity for everything it holds. It claims for every queue that has a
handler, stops what is overdue, and when it is told to stop gives back what has not begun.

A scheduler may work beside the consumers, on the same node: it gives up what it leads before
anything else stops.

A message that cost other workers their life is a suspect, and runs with nothing beside it but its
like: the worker claims some, as many as it has slots, begins nothing else, lets what runs come to
its end, runs them, and goes on. For a worker takes down all that it had claimed, and most of that
is innocent: who lives through it is cleared, with many others at once. Who cost another worker its
life there runs all alone. The worker does not stand still for long: what others have to do must not
wait for the longest handler.

- After `APART_WAIT_SECONDS` the suspects are given back, at no cost, and the worker goes on. A
  worker that is idle, or gets idle sooner, takes them.
- For `APART_REST` times as long as it stood still it does not look for any again. After some that
  ran it rests as long, but no longer than `APART_SECONDS`: there may be many more.
- Then it waits twice as long as before, and so on. So a busy worker that is the only one runs them
  in the end: at the latest when it waits longer than a handler may run.
- Nothing is run that may be somebody else's: if the lease was lost, or may have been, while it
  waited, nothing is begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from uuid import UUID

from tickwork.app.declarations import Consumer
from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, ClaimRequest, Message, Scope
from tickwork.errors import NodeExpired
from tickwork.service.consumer import QueueConsumer
from tickwork.service.context import Context
from tickwork.service.keeping import keepers
from tickwork.service.loop import forever
from tickwork.service.node import Node
from tickwork.service.running import check_running
from tickwork.service.scheduler import ROLE, Scheduler

LEAVE_SECONDS = 10.0
"""So long after the drain it may take to stop what has not ended, to settle what has, and to
leave. What is not settled then is not lost: the lease ends, and others have it."""

LEAVE_SECONDS_MIN = 2.0
"""Of that, what is kept for the node: if it can leave, others need not wait for its lease."""

OVERDUE_SECONDS = 0.2
"""So often we look for what is overdue."""

LONG_SECONDS = 86_400.0
"""Until a process that stops has surely stopped."""

APART_SECONDS = 1.0
"""So often we look for suspects, when there were none."""

APART_WAIT_SECONDS = 5.0
"""So long we stand still for them, at first."""

APART_REST = 4.0
"""So many times as long we go on afterwards: we stand still for a fifth of the time at most."""

Step = Callable[[], Awaitable[float]]


class Worker:
    """Consumers at work."""

    def __init__(
        self,
        context: Context,
        node: Node,
        consumers: Sequence[QueueConsumer],
        scheduler: Scheduler | None = None,
    ) -> None:
        self._context, self._node, self._consumers = context, node, consumers
        self.scheduler = scheduler
        self._tasks: list[asyncio.Task[None]] = []
        self._open = AsyncExitStack()
        self._suspects: tuple[Message, ...] = ()
        self._apart_wait_seconds = APART_WAIT_SECONDS
        self._is_stopping = self._has_given_back = False
        context.claims.add(lambda: self._suspects)

    @property
    def consumers(self) -> Sequence[QueueConsumer]:
        """One for each queue."""
        return self._consumers

    async def start(self) -> None:
        """Begins to claim; raises `InvalidInput` for a handler that cannot run."""
        check_running()
        loop = asyncio.get_running_loop()

        def lost(node_id: UUID) -> None:
            loop.call_soon_threadsafe(self.forget)
            if self.scheduler is not None:
                loop.call_soon_threadsafe(self.scheduler.forget, node_id)

        self._node.on_lost(lost)
        store = self._context.store
        if self._consumers:
            await store.make_ready()
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._context.isolator)
            watches = [
                await opening.enter_async_context(store.wakeups.watch([each.queue.id]))
                for each in self._consumers
            ]
            await self._node.start()
            self._open = opening.pop_all()
        for each, watch in zip(self._consumers, watches, strict=True):
            self._begin(f"consumer of {each.queue.name}", _without_end(partial(each.run, watch)))
            self._begin(f"second claims of {each.queue.name}", _without_end(each.run_beside))
        self._begin("time limits", self._keep_time_limits)
        self._begin("suspects", self._look_for_suspects)
        for keeper in keepers(store, self._context.observer):
            self._begin(*keeper)
        if self.scheduler is not None:
            await self.scheduler.start()

    async def stop(self, drain_seconds: float) -> None:
        """Finishes what has begun, for so long, and gives back the rest; whatever the database
        and the handlers do, it takes `LEAVE_SECONDS` longer at most."""
        self._is_stopping = True
        until = monotonic() + drain_seconds + LEAVE_SECONDS
        settled_until = until - LEAVE_SECONDS_MIN
        if self.scheduler is not None:
            await self._hand_over(self.scheduler, settled_until)
        draining = (each.drain(drain_seconds, settled_until) for each in self._consumers)
        await asyncio.gather(*draining)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_left(settled_until))
        with suppress(TimeoutError):
            async with asyncio.timeout(_left(settled_until)):
                await self._open.aclose()
        await self._node.stop(_left(until))

    async def _hand_over(self, scheduler: Scheduler, until: float) -> None:
        """Others lead from now on; if the database is away, as soon as it is back: this node lives
        on for as long as its handlers run, and nobody would take what it leads."""
        self._node.drop_role(ROLE)
        is_given_up = False
        with suppress(TimeoutError):
            async with asyncio.timeout(_left(until)):
                is_given_up = await scheduler.stop()
        if not is_given_up:
            self._begin("hand-over", partial(_once, scheduler.leadership.give_up))

    def _begin(self, name: str, step: Step) -> None:
        tell = self._context.observer.trouble
        self._tasks.append(asyncio.create_task(forever(name, step, tell=tell)))

    def forget(self) -> None:
        """The node lost its identity, and all it held."""
        self._suspects = ()
        for each in self._consumers:
            each.forget()

    def guarded(self) -> AbstractAsyncContextManager[None]:
        """Ends what goes on meanwhile, with `HeartbeatEnded`, should there be no heartbeat."""
        return self._node.guarded()

    async def _keep_time_limits(self) -> float:
        for each in self._consumers:
            each.stop_overdue()
            each.give_back_waiting()
        return OVERDUE_SECONDS

    async def run_apart(self) -> int:
        """Runs suspects, of each queue as many as it has slots; how many they were."""
        ran = 0
        for each in self._consumers:
            request = ClaimRequest(
                queue=each.queue.name,
                holder=self._context.holder(),
                limit=each.suspects_max,
                apart=True,
            )
            found = await self._context.claims.claim(each.scope, request)
            if found:
                self._suspects = found
                ran += await self._run_with_nothing_beside(each, found)
        return ran

    async def _look_for_suspects(self) -> float:
        began = monotonic()
        ran = 0
        with suppress(NodeExpired):  # The node takes a new identity by itself.
            ran = await self.run_apart()
        rest_seconds = (monotonic() - began) * APART_REST
        if self._has_given_back:
            self._has_given_back = False
            self._apart_wait_seconds *= 2
            return max(rest_seconds, APART_SECONDS)
        self._apart_wait_seconds = APART_WAIT_SECONDS
        return min(rest_seconds, APART_SECONDS) if ran else APART_SECONDS

    async def _run_with_nothing_beside(
        self, consumer: QueueConsumer, suspects: tuple[Message, ...]
    ) -> int:
        """How many ran: all, or none."""
        for each in self._consumers:
            each.pause()
        try:
            is_idle = await self._idle()
            are_ours = self._suspects is suspects and suspects[0].holder == self._context.holder()
            self._suspects = ()
            if not are_ours or self._is_stopping:  # Then they are given back, with all we hold.
                return 0
            if not is_idle or not self._context.is_trusted():
                consumer.give_back(suspects)
                self._has_given_back = True
                return 0
            await consumer.run_apart(suspects)
            return len(suspects)
        finally:
            for each in self._consumers:
                each.resume()

    async def _idle(self) -> bool:
        """Waits until nothing runs; False if that takes too long."""
        until = monotonic() + self._apart_wait_seconds
        for each in self._consumers:
            if not await each.idle(until - monotonic()):
                return False
        return True


async def open_worker(
    context: Context,
    node: Node,
    consumers: Iterable[Consumer],
    scope_of: Callable[[str], Scope],
    scheduler: Scheduler | None = None,
) -> Worker:
    """A worker for these consumers, whose queues are in the store already."""
    opened = []
    for each in consumers:
        scope = SYSTEM if each.queue.is_shared else scope_of(each.queue.name)
        queue = await context.store.queues.get(scope, each.queue.name)
        opened.append(QueueConsumer(context, each, queue, scope))
    return Worker(context, node, opened, scheduler)


def _left(until: float) -> float:
    return max(until - monotonic(), LEAVE_SECONDS_MIN)


async def _once(do: Callable[[], Awaitable[None]]) -> float:
    await do()
    return LONG_SECONDS


def _without_end(run: Callable[[], Awaitable[None]]) -> Step:
    async def step() -> float:
        await run()
        return 0.0

    return step
