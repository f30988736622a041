"""All consumers of an app in one process, and the keepers of its store.

A worker has one node: one identity for everything it holds. It claims for every queue that has a
handler, stops what is overdue, and when it is told to stop gives back what has not begun.

A scheduler may work beside the consumers, on the same node: it gives up what it leads before
anything else stops.

A message that cost other workers their life is a suspect, and runs with nothing beside it but its
like. For a worker takes down all that it had claimed, and most of that is innocent: who lives
through it is cleared, with many others at once. Who cost another worker its life there runs all
alone. The worker looks for suspects now and then. If a queue has some it claims nothing else, comes
to the end of what it has in hand, claims suspects, as many as there are slots, runs them, and goes
on. So neither they nor others pay for what they have nothing to do with.

It does not stand still for long: what others have to do must not wait for the longest handler.

- A worker that is busy looks again a little later, each after another time: an idle one may have
  taken them, and not all stand still at once.
- After `APART_WAIT_SECONDS` it goes on; nothing was claimed, and a worker that is idle takes them.
- For `APART_REST` times as long as it stood still it does not look again, if there is anything else
  to do.
- If it could not get idle it waits twice as long the next time, and so on. So a busy worker that is
  the only one runs them in the end: at the latest when it waits longer than a handler may run.
- Nothing is run that may be somebody else's: while the lease is not trusted nothing is begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from math import inf
from uuid import UUID

from tickwork.app.declarations import Consumer
from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, ClaimRequest, Scope
from tickwork.errors import NodeExpired
from tickwork.service.loop import forever
from tickwork.service.maintenance import keepers
from tickwork.service.node import ROLE, Node
from tickwork.service.process_lifecycle import check_running
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.service.worker.claim import Context
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.store.shared.waiting import within

LEAVE_SECONDS = 10.0
"""So long after the drain it may take to stop what has not ended, to settle what has, and to
leave. What is not settled then is not lost: the lease ends, and others have it."""

LEAVE_SECONDS_MIN = 2.0
"""Of that, what is kept for the node: if it can leave, others need not wait for its lease."""

HAND_OVER_SECONDS = 3.0
"""So long we wait until others may lead; then it is tried again, beside what is drained."""

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

APART_LATER = (1.0, 10.0)
"""So many times as long a worker that is busy leaves them to others."""

REST_STEP_SECONDS = 0.05
"""So often we look whether anything else was there to do meanwhile."""

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
        self._apart_wait_seconds = APART_WAIT_SECONDS
        self._is_stopping = False
        self._last_apart, self._stood_seconds = 0, 0.0
        self._rest_until, self._begun_before = -inf, 0

    @property
    def consumers(self) -> Sequence[QueueConsumer]:
        """One for each queue."""
        return self._consumers

    async def start(self) -> None:
        """Begins to claim; raises `InvalidInput` for a handler that cannot run. If it fails, or is
        cancelled, nothing of it is left: a node that nobody stops would lead for good."""
        check_running()
        async with AsyncExitStack() as failed:
            failed.push_async_callback(self.stop, 0.0)
            await self._start()
            failed.pop_all()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()

        def lost(node_id: UUID) -> None:
            loop.call_soon_threadsafe(self.forget)
            if self.scheduler is not None:
                loop.call_soon_threadsafe(self.scheduler.forget, node_id)

        self._node.on_lost(lost)
        store = self._context.store
        if self._consumers:
            await store.make_ready()
            # Before the first message: what ends before anyone has looked has no delay to tell.
            await self._context.observer.look(store)
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
        and the handlers do, it takes `LEAVE_SECONDS` longer at most. Cancelled, it does not wait
        for what runs, but leaves all the same."""
        self._is_stopping = True
        until, is_drained = monotonic() + drain_seconds + LEAVE_SECONDS, False
        try:
            if self.scheduler is not None:
                await self._hand_over(self.scheduler)
            await self._drain(drain_seconds, until)
            is_drained = True
        finally:
            await self._leave(until if is_drained else monotonic() + LEAVE_SECONDS, is_drained)

    async def _drain(self, seconds: float, until: float) -> None:
        settled_until = until - LEAVE_SECONDS_MIN
        await asyncio.gather(*(each.drain(seconds, settled_until) for each in self._consumers))

    async def _leave(self, until: float, is_drained: bool) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            if not is_drained:
                await self._drain(0.0, until)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_left(until - LEAVE_SECONDS_MIN))
            await within(_left(until - LEAVE_SECONDS_MIN), self._open.aclose())
        finally:
            await self._node.stop(_left(until))

    async def _hand_over(self, scheduler: Scheduler) -> None:
        """Others lead from now on; if the database is away, as soon as it is back: this node lives
        on for as long as its handlers run, and nobody would take what it leads."""
        self._node.drop_role(ROLE)
        if not await within(HAND_OVER_SECONDS, scheduler.stop()):
            self._begin("hand-over", partial(_once, scheduler.leadership.give_up))

    def _begin(self, name: str, step: Step) -> None:
        tell = self._context.observer.trouble
        self._tasks.append(asyncio.create_task(forever(name, step, tell=tell)))

    def forget(self) -> None:
        """The node lost its identity, and all it held."""
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

    async def run_apart(self, patience_seconds: float = inf) -> int:
        """Runs suspects of one queue, each queue in turn, and waits for them for so long; how many
        they were."""
        if self._is_stopping or not self._consumers:
            return 0
        waiting = await self._suspected()
        if waiting and any(each.is_working for each in self._consumers):
            await asyncio.sleep(self._later_seconds())
            waiting = await self._suspected()
        if not waiting:
            self._apart_wait_seconds = APART_WAIT_SECONDS
            return 0
        places = [place for place, each in enumerate(self._consumers) if each.queue.id in waiting]
        self._last_apart = next((p for p in places if p > self._last_apart), places[0])
        consumer = self._consumers[self._last_apart]
        paused_at = monotonic()
        for each in self._consumers:
            each.pause()
        try:
            if not await self._idle():
                self._apart_wait_seconds *= 2
                return 0
            self._apart_wait_seconds = APART_WAIT_SECONDS
            return await self._run_with_nothing_beside(consumer, patience_seconds)
        finally:
            for each in self._consumers:
                each.resume()
            self._stood_seconds = monotonic() - paused_at

    async def _look_for_suspects(self) -> float:
        has_more = self._begun() > self._begun_before or not self._is_idle
        if monotonic() < self._rest_until and has_more:
            return REST_STEP_SECONDS
        ran, self._stood_seconds = 0, 0.0
        with suppress(NodeExpired):  # The node takes a new identity by itself.
            ran = await self.run_apart()
        rest_seconds = self._stood_seconds * APART_REST
        self._rest_until, self._begun_before = monotonic() + rest_seconds, self._begun()
        return REST_STEP_SECONDS if ran else max(rest_seconds, APART_SECONDS)

    async def _run_with_nothing_beside(
        self, consumer: QueueConsumer, patience_seconds: float
    ) -> int:
        """How many suspects ran: all that were claimed, or none."""
        if not self._may_begin():
            return 0
        holder = self._context.holder()
        limit = consumer.suspects_max
        request = ClaimRequest(queue=consumer.queue.name, holder=holder, limit=limit, separate=True)
        found = await self._context.claims.claim(consumer.scope, request)
        if not self._may_begin() or holder != self._context.holder():
            consumer.give_back(found)
            return 0
        await consumer.run_apart(found, limit, patience_seconds)
        return len(found)

    async def _suspected(self) -> frozenset[UUID]:
        """The queues that have suspects."""
        queue_ids = [each.queue.id for each in self._consumers]
        return await self._context.store.messages.suspects(SYSTEM, queue_ids)

    def _later_seconds(self) -> float:
        """How long to leave suspects to others: another time for each node."""
        least, most = APART_LATER
        chance = self._context.holder().int % 1_000 / 1_000
        return (least + (most - least) * chance) * APART_SECONDS

    @property
    def _is_idle(self) -> bool:
        return all(each.is_idle for each in self._consumers)

    def _begun(self) -> int:
        return sum(each.begun for each in self._consumers)

    def _may_begin(self) -> bool:
        return not self._is_stopping and self._context.is_trusted()

    async def _idle(self) -> bool:
        """Waits until nothing is in hand; False if that takes too long."""
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
