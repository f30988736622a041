"""Consumes one queue: claims messages, runs handlers, settles the results.

```
  prefetch ──▶ intake ──▶ a permit: one invocation ──▶ endings ──▶ settle, many at a time
     ▲                                                    │
     └───────────── free permits, a wake-up ◀─────────────┘
```

Claiming, handling and settling overlap. While the store has more messages than one claim returns,
two claims overlap too: the store finds the next messages while this process starts the last ones.
Everything is bounded: permits, prefetched messages, and finished messages that are not settled yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

from tickwork.app.declarations import Consumer
from tickwork.clock import monotonic
from tickwork.core.model import ClaimRequest, Scope, StoredQueue
from tickwork.core.model import Message as Stored
from tickwork.core.queue.rooms import ClaimGate
from tickwork.errors import NodeExpired, NotFound, StoreUnavailable
from tickwork.service.worker.claim import LateMessages, WorkerContext
from tickwork.service.worker.endings import Endings
from tickwork.service.worker.intake import Intake
from tickwork.service.worker.invocations import RunningInvocations
from tickwork.service.worker.permits import Permits
from tickwork.service.worker.prefetch import Prefetch
from tickwork.service.worker.settle import Settler
from tickwork.store.cluster_contract import Watch

POLL_SECONDS_MIN = 0.05
"""Seconds between two polls of a queue that had messages."""

POLL_SECONDS_BOUND = 0.1
"""The same while a limit keeps messages back, which says when it has room."""

POLL_SECONDS_MAX = 1.0
"""Maximum number of seconds between two polls. An idle consumer also asks when the next message
becomes visible."""

POLL_SECONDS_MAX_BUILT_IN = 5.0
"""The same for the queues that every worker consumes whether an app uses them or not."""

UNSETTLED_MAX = 5_000
"""Number of unsettled messages at which no more messages are claimed."""


class QueueConsumer:
    """Handles the messages of one queue."""

    def __init__(
        self, context: WorkerContext, consumer: Consumer, queue: StoredQueue, scope: Scope
    ) -> None:
        self._context = context
        self.consumer = consumer
        self.queue = queue
        self.scope = scope
        self._batch_seconds = queue.settings.max_batch_timeout
        self.batch_size = queue.settings.max_batch_size if consumer.batch else 1
        self._now = context.monotonic
        self._has_capacity = asyncio.Event()
        self._gate, self._has_room = consumer.gate, asyncio.Event()
        if self._gate is not None:
            self._gate.on_room = self._has_room.set
        self._prefetch = Prefetch(self._now)
        self.settler = Settler(context.store, queue, context.observer, self._has_capacity.set)
        self._late = LateMessages(context.store, self._prefetch, self.settler)
        self.endings = Endings(context, queue, self.settler, self._prefetch)
        self._intake = Intake(
            context, consumer, queue, prefetch=self._prefetch, endings=self.endings
        )
        self.permits = Permits(
            context,
            consumer,
            queue,
            next_work=self._intake.next_work,
            on_finished=self.endings.finish,
            on_permit_freed=self._dispatch,
            is_loop_closing=self._is_loop_closing,
        )
        self.running = self.permits.running
        self._claiming: asyncio.Task[Any] | None = None
        self._pending = 0
        self._is_gone = False
        self._is_paused = False
        self.is_draining = False
        self._more_waiting = False
        self.has_more_suspects = False
        context.claimer.register(self._owned_messages)

    # Claiming

    async def run(self, watch: Watch) -> None:
        """Claims and handles messages in an endless loop. Claims nothing while draining."""
        self._claiming = asyncio.current_task()
        if not self._is_gone:
            await self._run(watch)
        while True:
            if self._is_gone:
                await self._create_again()
            async with self._context.store.wakeups.watch([self.queue.id]) as another:
                await self._run(another)

    async def _run(self, watch: Watch) -> None:
        """Returns if the queue is gone."""
        pause = POLL_SECONDS_MIN
        is_built_in = self.consumer.is_built_in
        pause_max = POLL_SECONDS_MAX_BUILT_IN if is_built_in else POLL_SECONDS_MAX
        while True:
            if self._claim_limit() <= 0:
                self._has_capacity.clear()
                await self._has_capacity.wait()
                continue
            try:
                if await self.step():
                    pause = POLL_SECONDS_MIN
                if self._more_waiting:
                    continue
                waited = await self._wait_seconds(pause)
                if not await _wait(watch, self._gate, self._has_room, waited):
                    pause = min(pause * 2, pause_max)
            except NotFound:
                self._is_gone = True
                return
            except NodeExpired:
                # The node takes a new identity by itself, and the next claim uses it.
                await asyncio.sleep(POLL_SECONDS_MIN)
            except StoreUnavailable as error:
                self._context.observer.error_occurred("claim", error)
                await asyncio.sleep(POLL_SECONDS_MAX)
            self._dispatch()

    async def _create_again(self) -> None:
        """The queue is gone: somebody deleted it, or created the database anew. If this fails, it
        is tried again, because only a part may have been created."""
        await self._context.declare_again()
        self.queue = await self._context.store.queues.get(self.scope, self.queue.name)
        self._is_gone = False

    async def run_second_claims(self) -> None:
        """Claims concurrently with `run` while the store has more than one claim returns."""
        while True:
            # What is under way is room that a second claim beside a gate would count again.
            if self._gate or not self._more_waiting or self._claim_limit() <= 0:
                self._has_capacity.clear()
                await self._has_capacity.wait()
                continue
            try:
                await self.step()
            except (NodeExpired, NotFound, StoreUnavailable):
                self._more_waiting = False  # `run` gets the same error and reports it.

    async def step(self) -> int:
        """Claims as much as fits and starts handlers; returns the number of claimed messages."""
        claim_limit = self._claim_limit()
        claimed = await self._claim(claim_limit) if claim_limit > 0 else 0
        self._dispatch()
        return claimed

    async def _claim(self, claim_limit: int) -> int:
        holder = self._context.holder()
        rooms = None
        if self._gate is not None:
            self._has_room.clear()
            rooms = self._gate.rooms(_unhandled(self._prefetch, self._late, self.running))
        request = ClaimRequest(queue=self.queue.name, holder=holder, limit=claim_limit, rooms=rooms)
        self._pending += claim_limit
        try:
            found = await self._context.claimer.claim(self.scope, request)
        finally:
            self._pending -= claim_limit
            self._has_capacity.set()
        self._context.observer.messages_claimed(self.queue, len(found))
        self._more_waiting = len(found) >= claim_limit
        if self._gate is not None and rooms is not None:
            self._more_waiting |= self._gate.note(rooms, found)
        # Messages of a lost identity are not mixed with those of the next one: the claims of an
        # invocation are all valid, or all lost.
        if self.is_draining or holder != self._context.holder():
            self.endings.release(found)
        else:
            await self._late.accept(found)
        return len(found)

    def _owned_messages(self) -> list[Stored]:
        return [
            *_unhandled(self._prefetch, self._late, self.running),
            *self.settler.unsettled_messages(),
        ]

    def _claim_limit(self) -> int:
        if self.is_draining or self._is_paused or self.settler.unsettled >= UNSETTLED_MAX:
            return 0
        return self._prefetch.claim_limit(
            self._free_capacity(), self._pending + len(self._late.waiting)
        )

    def _free_capacity(self) -> int:
        """Number of messages that the free permits can take."""
        return self.permits.free * self.batch_size

    def release_overdue(self) -> None:
        """Releases messages that have waited too long for a permit: another worker may have a free
        one, and more urgent messages may come first."""
        self.endings.release(self._prefetch.take_overdue(max(self._free_capacity(), 0)))

    async def _wait_seconds(self, pause: float) -> float:
        """Seconds until the next poll, or until the collected batch must start. After a while
        without messages also: until the next message becomes visible."""
        due, is_bound = self.batch_due(), self._gate is not None and self._gate.is_bound
        if due is not None:
            pause = min(max(due - self._now(), 0.0), pause)
        if pause <= (POLL_SECONDS_BOUND if is_bound else POLL_SECONDS_MIN):
            return POLL_SECONDS_BOUND if is_bound else pause
        store = self._context.store
        at = await store.messages.next_visible_at(self.scope, self.queue.name)
        if at is None:
            return pause
        return min(max((at - await store.now()).total_seconds(), 0.0), pause)

    def batch_due(self) -> float | None:
        """When the collected batch must start, if there is one and a permit is free."""
        if not (self.consumer.batch and self._prefetch and self.permits.free > 0):
            return None
        return self._now() - self._prefetch.oldest_wait_seconds() + self._batch_seconds

    # Starting handlers

    def _dispatch(self) -> None:
        """Starts as many handlers as permits allow."""
        self.permits.start_waiting()
        more = self._more_waiting or self.has_more_suspects
        self.permits.scale(waiting=bool(self._prefetch), more_waiting=more)

    def stop_overdue(self) -> None:
        """Stops handlers that exceed the queue's timeout, and starts others."""
        self.running.stop_overdue()
        # An abandoned handler may have finished and returned its permit, or the lease may be
        # trusted again.
        self._has_capacity.set()
        self._dispatch()

    def start(self, messages: Sequence[Stored]) -> frozenset[asyncio.Task[None]]:
        """Handles claimed messages at once, beside the prefetched ones; returns the tasks."""
        starts = range(0, len(messages), self.batch_size)
        parts = [messages[start : start + self.batch_size] for start in starts]
        works = [self._intake.make_work(part) for part in parts]
        return frozenset(self.permits.start(work) for work in works if work is not None)

    # Pausing

    def pause(self) -> None:
        """Stops claiming, and handles the messages it has."""
        self._is_paused = self._intake.takes_partial_batches = True
        self._dispatch()

    def resume(self) -> None:
        """Claims again."""
        self._is_paused = self._intake.takes_partial_batches = False
        self._has_capacity.set()
        self._dispatch()

    @property
    def is_working(self) -> bool:
        """Whether a handler runs or a claimed message waits for one."""
        return len(self.running) + len(self._prefetch) + len(self._late.waiting) > 0

    @property
    def is_idle(self) -> bool:
        """Whether it has no messages and no pending claim."""
        return not self.is_working and self._pending + self.settler.unsettled == 0

    async def wait_until_idle(self, seconds: float) -> bool:
        """Waits up to `seconds` until it is idle; returns whether it is."""
        until = monotonic() + seconds
        while not self.is_idle and (left := until - monotonic()) > 0:
            if not await self.running.wait_until_idle(left):
                return False
            self._has_capacity.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_SECONDS_MIN)):
                    await self._has_capacity.wait()
        return self.is_idle

    # Shutdown

    async def drain(self, seconds: float, settled_until: float = inf) -> None:
        """Releases messages whose handlers have not started, and lets running handlers finish for
        `seconds`. What is not settled by `settled_until` (monotonic) stays unsettled."""
        self.is_draining = True
        self.endings.release([*self._prefetch.take_all(), *self._late.take_all()])
        await self.running.finish(seconds)
        await self.settler.drain(settled_until)

    async def retire(self, seconds: float) -> None:
        """Drains, for a consumer that ends before its worker does."""
        await self.drain(seconds)
        if self._gate is not None:
            self._gate.leave()
        self._context.claimer.unregister(self._owned_messages)

    def _is_loop_closing(self) -> bool:
        """Whether the task that claims is being cancelled too: then whoever cancels a handler
        cancels everything, as `asyncio.run` does after Ctrl-C."""
        return self._claiming is not None and self._claiming.cancelling() > 0

    def drop_claims(self) -> None:
        """The node lost its identity and all its claims: other workers have the messages."""
        self._prefetch.take_all()
        self._late.take_all()


def _unhandled(prefetch: Prefetch, late: LateMessages, running: RunningInvocations) -> list[Stored]:
    """The claimed messages that are not handled yet."""
    handled_now = [message.stored for message in running.messages()]
    return [*prefetch.peek(), *late.waiting, *handled_now]


async def _wait(
    watch: Watch, gate: ClaimGate | None, has_room: asyncio.Event, seconds: float
) -> bool:
    """Returns True soon after a message was sent, or a limit that kept messages back has room;
    False at the timeout."""
    if gate is None:
        return await watch.wait(seconds)
    seconds_until_room = gate.seconds_until_room()
    if seconds_until_room is not None:
        seconds = min(seconds, seconds_until_room)
    if not has_room.is_set():
        waits = [asyncio.ensure_future(wait) for wait in (watch.wait(seconds), has_room.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not any(wait.done() and not wait.cancelled() and wait.result() for wait in waits):
            return False
    has_room.clear()
    return True
