"""All queue consumers of an app in one process, and the maintenance of its store.

A worker has one node: one identity for all its claims. It claims from every queue that has a
handler, stops handlers that exceed their timeout, and on shutdown releases the messages whose
handlers have not started.

A scheduler may run next to the consumers, on the same node. On shutdown it gives up its shards
before anything else stops.

Suspects: when a worker process dies, all messages it had claimed become suspects, because one of
them may have killed it. Most are innocent. A suspect runs only together with other suspects;
those that survive are cleared, many at once. A suspect whose worker dies again runs all alone.
The worker polls for suspects. When a queue has some, the worker stops claiming, waits until its
running handlers finish, claims as many suspects as it has permits, runs them, and resumes. So
neither suspects nor other messages pay for a message that kills its worker.

Other messages must not wait long for suspects:

- A busy worker first defers suspects for a while, each worker for a different time: an idle
  worker may take them, and the workers do not all pause at once.
- After `SUSPECT_WAIT_SECONDS` without getting idle it resumes. Nothing was claimed, and an idle
  worker can take the suspects. The next time it waits twice as long, up to
  `SUSPECT_WAIT_SECONDS_MAX`.
- If even that is too short, it runs the suspects beside the handlers that still run. If their
  queue has no free permit, that queue alone claims nothing until it has one, for up to 30 seconds
  at a time.
- Suspects have `SUSPECT_ALONE_SECONDS` for themselves. If they run longer, everything else resumes
  beside them, and the worker logs that. It claims no other suspects until they finish: two that
  were lost too often would both become dead letters if one of them kills the process.
- For `SUSPECT_REST_FACTOR` times as long as it was paused it does not poll again, if it has other
  work.
- While the lease is not trusted nothing starts: the claims may belong to another worker.

So a pause takes at most `SUSPECT_WAIT_SECONDS_MAX` and `SUSPECT_ALONE_SECONDS`. The price: a
message that kills its process after that, or beside a longer handler, takes others along. They run
again, and the message is dead after `LOST_CLAIMS_MAX` processes at the latest.

Some queues have no handler in the app's code: they push to an endpoint. The worker looks for them
every few seconds, and starts and stops their consumers while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import datetime
from functools import partial
from math import inf
from uuid import UUID

from tickwork.app.declarations import Consumer
from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, ClaimRequest, Message, Scope
from tickwork.errors import FieldError, InvalidInput, NodeExpired
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

SUSPECT_POLL_SECONDS = 1.0
"""Seconds between two polls for suspects."""

SUSPECT_WAIT_SECONDS = 5.0
"""Seconds the worker stays paused to get idle, at first."""

SUSPECT_WAIT_SECONDS_MAX = 30.0
"""The same at most. A worker that does not get idle then runs suspects beside other handlers."""

SUSPECT_ALONE_SECONDS = 30.0
"""Seconds that suspects run before the other messages resume beside them."""

SUSPECT_REST_FACTOR = 4.0
"""Multiple of a pause that must pass before the next one: at most a fifth of the time is paused."""

SUSPECT_DEFER_FACTORS = (1.0, 10.0)
"""Range of the multiple of `SUSPECT_POLL_SECONDS` for which a busy worker defers suspects."""

REST_CHECK_SECONDS = 0.05
"""Seconds between two checks whether the worker had other work since the pause."""


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
        self._context, self._node, self._consumers = context, node, [*consumers]
        self.scheduler, self._is_started = scheduler, False
        self._found = FoundConsumers(context, self._consumers, find) if find else None
        self._is_changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = AsyncExitStack()
        self._suspect_wait_seconds = SUSPECT_WAIT_SECONDS
        self._is_stopping = self._is_hurried = False
        self._draining: asyncio.Task[None] | None = None
        self._last_suspect_index, self._paused_seconds = 0, 0.0
        self._rest_until, self._started_before = -inf, 0

    @property
    def consumers(self) -> Sequence[QueueConsumer]:
        """One consumer per queue. The list changes while the worker runs."""
        return self._consumers

    @property
    def running(self) -> int:
        """Number of running handlers."""
        return sum(consumer.running for consumer in self._consumers)

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
            watches = [
                await opening.enter_async_context(store.wakeups.watch([consumer.queue.id]))
                for consumer in self._consumers
            ]
            await self._node.start()
            self._open = opening.pop_all()
        for consumer, watch in zip(self._consumers, watches, strict=True):
            self._start_consumer(consumer, partial(consumer.run, watch))
        self._is_started = True
        if self._found is not None:
            self._start_loop("push queues", self._look_for_consumers)
        self._start_loop("time limits", self._enforce_time_limits)
        self._start_loop("suspects", self._poll_suspects)
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

    async def run_suspects(self, alone_seconds: float) -> int:
        """Runs the suspects of one queue, each queue in turn, and lets nothing else start for up to
        `alone_seconds`; returns their number."""
        if self._is_stopping or not self._consumers:
            return 0
        if any(consumer.has_running_suspects for consumer in self._consumers):
            return 0
        suspected = await self._queues_with_suspects()
        if suspected and any(consumer.is_working for consumer in self._consumers):
            await asyncio.sleep(self._defer_seconds())
            suspected = await self._queues_with_suspects()
        if not suspected:
            self._suspect_wait_seconds = SUSPECT_WAIT_SECONDS
            return 0
        indexes = [
            index
            for index, consumer in enumerate(self._consumers)
            if consumer.queue.id in suspected
        ]
        if not indexes:  # Their consumers ended meanwhile.
            return 0
        self._last_suspect_index = next(
            (i for i in indexes if i > self._last_suspect_index), indexes[0]
        )
        return await self._run_suspects_of(self._consumers[self._last_suspect_index], alone_seconds)

    async def _run_suspects_of(self, consumer: QueueConsumer, alone_seconds: float) -> int:
        try:
            if self._is_last_wait:
                consumer.pause()
                if not await consumer.wait_for_permit(SUSPECT_WAIT_SECONDS_MAX):
                    return 0
            async with self._is_changing:
                return await self._pause_for(consumer, alone_seconds)
        finally:
            consumer.resume()

    async def _pause_for(self, consumer: QueueConsumer, alone_seconds: float) -> int:
        """Pauses all consumers and runs the suspects of one; returns their number."""
        paused_at = monotonic()
        for each in self._consumers:
            each.pause()
        try:
            is_alone = await self._wait_until_idle()
            if not is_alone and not self._is_last_wait:
                longer = self._suspect_wait_seconds * 2
                self._suspect_wait_seconds = min(longer, SUSPECT_WAIT_SECONDS_MAX)
                return 0
            self._suspect_wait_seconds = SUSPECT_WAIT_SECONDS
            found = await self._claim_suspects(consumer)
            if found and not is_alone:
                self._report_not_alone(consumer, "this worker was not idle in time")
            if not await consumer.run_suspects(found, alone_seconds):
                self._report_not_alone(consumer, "they take long")
            return len(found)
        finally:
            for each in self._consumers:
                each.resume()
            self._paused_seconds = monotonic() - paused_at

    @property
    def _is_last_wait(self) -> bool:
        """Whether the suspects run after this wait, idle or not."""
        return self._suspect_wait_seconds >= SUSPECT_WAIT_SECONDS_MAX

    async def _poll_suspects(self) -> float:
        has_more = self._started_count() > self._started_before or not self._is_idle
        if monotonic() < self._rest_until and has_more:
            return REST_CHECK_SECONDS
        ran, self._paused_seconds = 0, 0.0
        with suppress(NodeExpired):  # The node takes a new identity by itself.
            ran = await self.run_suspects(SUSPECT_ALONE_SECONDS)
        rest_seconds = self._paused_seconds * SUSPECT_REST_FACTOR
        self._rest_until, self._started_before = monotonic() + rest_seconds, self._started_count()
        return REST_CHECK_SECONDS if ran else max(rest_seconds, SUSPECT_POLL_SECONDS)

    async def _claim_suspects(self, consumer: QueueConsumer) -> Sequence[Message]:
        limit = consumer.suspects_max
        if not self._may_start() or limit <= 0 or consumer not in self._consumers:
            return ()
        holder = self._context.holder()
        request = ClaimRequest(queue=consumer.queue.name, holder=holder, limit=limit, separate=True)
        found = await self._context.claimer.claim(consumer.scope, request)
        is_ending = not self._may_start() or consumer.is_draining
        if is_ending or holder != self._context.holder():
            consumer.release(found)
            return ()
        return found

    def _report_not_alone(self, consumer: QueueConsumer, why: str) -> None:
        self._context.observer.suspects_not_alone(consumer.queue, why)

    async def _queues_with_suspects(self) -> frozenset[UUID]:
        """The ids of the queues that have suspects and whose consumers may start some."""
        queue_ids = [consumer.queue.id for consumer in self._consumers if not consumer.is_draining]
        return await self._context.store.messages.suspects(SYSTEM, queue_ids)

    def _defer_seconds(self) -> float:
        """Seconds to leave suspects to other workers; differs from node to node."""
        least, most = SUSPECT_DEFER_FACTORS
        fraction = self._context.holder().int % 1_000 / 1_000
        return (least + (most - least) * fraction) * SUSPECT_POLL_SECONDS

    @property
    def _is_idle(self) -> bool:
        return all(consumer.is_idle for consumer in self._consumers)

    def _started_count(self) -> int:
        return sum(consumer.started_count for consumer in self._consumers)

    def _may_start(self) -> bool:
        return not self._is_stopping and self._context.is_trusted()

    async def _wait_until_idle(self) -> bool:
        """Waits until all consumers are idle; False if that takes too long."""
        until = monotonic() + self._suspect_wait_seconds
        for consumer in [*self._consumers]:
            if not await consumer.wait_until_idle(until - monotonic()):
                return False
        return True


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
