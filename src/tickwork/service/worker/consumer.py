"""Consumes one queue: claims messages, runs handlers, settles the results.

```
  prefetch ──▶ a permit: one invocation ──▶ finished ──▶ settle, many at a time
     ▲                                         │
     └────── free permits, a wake-up ◀─────────┘
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
from tickwork.app.message import ClaimedBatch, ClaimedMessage
from tickwork.app.payloads import PayloadInvalid
from tickwork.clock import monotonic
from tickwork.core.message import decide
from tickwork.core.message.outcome import (
    Delivered,
    InvalidPayload,
    Outcome,
    Succeeded,
    UnhandledType,
)
from tickwork.core.model import ClaimRequest, Ending, Fate, Scope, StoredQueue
from tickwork.core.model import Message as Stored
from tickwork.errors import NodeExpired, NotFound, StoreUnavailable
from tickwork.service.worker.claim import LateMessages, WorkerContext
from tickwork.service.worker.invoke import (
    HandlerArgument,
    InvocationResult,
    MessageOutcome,
    decode_payload,
)
from tickwork.service.worker.permits import Invocation, Permits, Work
from tickwork.service.worker.prefetch import Prefetch
from tickwork.service.worker.settle import FinishedMessage, Settler
from tickwork.store.contract import Watch

TYPES_WARNED_MAX = 1_000
"""Maximum number of unhandled types that are reported."""

POLL_SECONDS_MIN = 0.05
"""Seconds between two polls of a queue that had messages."""

POLL_SECONDS_MAX = 1.0
"""Maximum number of seconds between two polls. An idle consumer also asks when the next message
becomes visible."""

POLL_SECONDS_MAX_BUILT_IN = 5.0
"""The same for the queues that every worker consumes whether an app uses them or not."""

SUSPECTS_MAX = 100
"""Maximum number of suspects that run together: if one of them kills the process, all of them have
to run alone."""

UNSETTLED_MAX = 5_000
"""Number of unsettled messages at which no more messages are claimed."""


class QueueConsumer:
    """Handles the messages of one queue."""

    def __init__(
        self, context: WorkerContext, consumer: Consumer, queue: StoredQueue, scope: Scope
    ) -> None:
        self._context, self.consumer = context, consumer
        self.queue, self.scope = queue, scope
        self._settings = queue.settings
        self._batch_seconds = queue.settings.max_batch_timeout
        self._batch_size = queue.settings.max_batch_size if consumer.batch else 1
        self._now, self._pending = context.monotonic, 0
        self._prefetch = Prefetch(self._now)
        self._permits = Permits(
            context,
            consumer,
            queue,
            next_work=self._next_work,
            on_finished=self._on_finished,
            on_permit_freed=self._dispatch,
            is_loop_closing=self._is_loop_closing,
        )
        self._claiming: asyncio.Task[Any] | None = None
        self._is_gone = False
        self._settler = Settler(context.store, queue, context.observer, self._on_settled)
        self._late = LateMessages(context.store, self._prefetch, self._settler)
        self._types_reported: set[str | None] = set()
        self._suspects: frozenset[asyncio.Task[None]] = frozenset()
        self.is_draining = self._is_paused = self._more_waiting = self._more_suspects = False
        self._has_capacity = asyncio.Event()
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
                if not await watch.wait(await self._wait_seconds(pause)):
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
            if not self._more_waiting or self._claim_limit() <= 0:
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
        request = ClaimRequest(queue=self.queue.name, holder=holder, limit=claim_limit)
        self._pending += claim_limit
        try:
            found = await self._context.claimer.claim(self.scope, request)
        finally:
            self._pending -= claim_limit
            self._has_capacity.set()
        self._context.observer.messages_claimed(self.queue, len(found))
        self._more_waiting = len(found) >= claim_limit
        # Messages of a lost identity are not mixed with those of the next one: the claims of an
        # invocation are all valid, or all lost.
        if self.is_draining or holder != self._context.holder():
            self.release(found)
        else:
            await self._late.accept(found)
        return len(found)

    def _owned_messages(self) -> list[Stored]:
        running = [message.stored for message in self._permits.messages()]
        return [
            *self._prefetch.peek(),
            *self._late.waiting,
            *running,
            *self._settler.unsettled_messages(),
        ]

    def _claim_limit(self) -> int:
        if self.is_draining or self._is_paused or self._settler.unsettled >= UNSETTLED_MAX:
            return 0
        return self._prefetch.claim_limit(
            self._free_capacity(), self._pending + len(self._late.waiting)
        )

    def _free_capacity(self) -> int:
        """Number of messages that the free permits can take."""
        return self._permits.free * self._batch_size

    def release_overdue(self) -> None:
        """Releases messages that have waited too long for a permit: another worker may have a free
        one, and more urgent messages may come first."""
        self.release(self._prefetch.take_overdue(max(self._free_capacity(), 0)))

    def _on_settled(self) -> None:
        self._has_capacity.set()

    async def _wait_seconds(self, pause: float) -> float:
        """Seconds until the next poll, or until the collected batch must start. After a while
        without messages also: until the next message becomes visible."""
        due = self.batch_due()
        if due is not None:
            pause = min(max(due - self._now(), 0.0), pause)
        if pause <= POLL_SECONDS_MIN:
            return pause
        store = self._context.store
        at = await store.messages.next_visible_at(self.scope, self.queue.name)
        if at is None:
            return pause
        return min(max((at - await store.now()).total_seconds(), 0.0), pause)

    def batch_due(self) -> float | None:
        """When the collected batch must start, if there is one and a permit is free."""
        if not (self.consumer.batch and self._prefetch and self._permits.free > 0):
            return None
        return self._now() - self._prefetch.oldest_wait_seconds() + self._batch_seconds

    # Starting handlers

    def _dispatch(self) -> None:
        """Starts as many handlers as permits allow."""
        self._permits.start_waiting()
        more = self._more_waiting or self._more_suspects
        self._permits.scale(waiting=bool(self._prefetch), more_waiting=more)

    def _next_work(self) -> Work | None:
        """The next invocation for a free permit. While the lease is not trusted nothing starts:
        either it is renewed, or the node finds that it is lost and drops its claims."""
        while self._prefetch and self._context.is_trusted():
            if self.consumer.batch is None:
                claimed = self._prefetch.take_one()
            elif self._is_batch_due():
                claimed = self._prefetch.take(self._settings.max_batch_size)
            else:
                return None
            if (work := self._make_work(claimed)) is not None:
                return work
        return None

    def _is_batch_due(self) -> bool:
        return (
            len(self._prefetch) >= self._settings.max_batch_size
            or self._prefetch.oldest_wait_seconds() >= self._batch_seconds
            or self._is_paused
        )

    def _make_work(self, claimed: Sequence[Stored]) -> Work | None:
        """One invocation with the messages that a handler may see; None if there are none."""
        deadline = self._now() + self._settings.timeout_seconds
        opened = [self._open_message(each, deadline) for each in claimed]
        messages = [message for message in opened if message is not None]
        if not messages:
            return None
        handler = self.consumer.handler_for(messages[0].stored.type)
        assert handler is not None
        is_batch = handler.is_batch
        given: HandlerArgument = (
            ClaimedBatch(self.queue.name, messages) if is_batch else messages[0]
        )
        return Work(handler, messages, given)

    def _open_message(self, stored: Stored, deadline: float) -> ClaimedMessage[Any] | None:
        """The message with its decoded payload; None if it is settled without a handler."""
        handler = self.consumer.handler_for(stored.type)
        unseen = decide.early_outcome(stored) if handler else UnhandledType()
        if handler is None or unseen is not None:
            assert unseen is not None
            self._finish_unhandled(stored, unseen)
            if isinstance(unseen, UnhandledType):
                self._report_unhandled(stored.type)
            return None
        try:
            body = decode_payload(handler, stored)
        except PayloadInvalid as error:
            self._finish_unhandled(stored, InvalidPayload(str(error)))
            return None
        return ClaimedMessage(
            stored,
            body,
            compose=self._context.compose,
            monotonic=self._now,
            deadline=deadline,
            is_ours=self._context.is_ours,
        )

    def _report_unhandled(self, type_: str | None) -> None:
        if type_ not in self._types_reported and len(self._types_reported) < TYPES_WARNED_MAX:
            self._types_reported.add(type_)
            self._context.observer.type_unhandled(self.queue, type_)

    def stop_overdue(self) -> None:
        """Stops handlers that exceed the queue's timeout, and starts others."""
        self._permits.stop_overdue()
        # An abandoned handler may have finished and returned its permit, or the lease may be
        # trusted again.
        self._has_capacity.set()
        self._dispatch()

    def overdue_at(self) -> float | None:
        """When `stop_overdue` next has something to do, if no handler finishes before."""
        return self._permits.overdue_at()

    # Settling

    def _on_finished(self, result: InvocationResult, started: float) -> None:
        self._prefetch.count_finished(len(result.outcomes))
        took = self._now() - started
        self._context.observer.handler_finished(self.queue, took)
        finished = [self._finished_message(outcome, started, took) for outcome in result.outcomes]
        self._settler.add_invocation(finished, result.made)

    def _finished_message(
        self, handled: MessageOutcome, started: float, took_seconds: float
    ) -> FinishedMessage:
        stored = handled.message.stored
        spread, (sends, batches) = self._spread(stored, handled.outcome), handled.made
        ending = decide.settle(
            stored,
            handled.outcome,
            self._settings,
            jitter=spread,
            sends=sends,
            batches=batches,
            took_seconds=took_seconds,
        )
        rows = handled.message.rows if ending.fate is Fate.ACK else None
        return FinishedMessage(stored, ending, rows, started, took_seconds)

    def _spread(self, stored: Stored, outcome: Outcome) -> float:
        # A success is never retried, and hashing each of them would be expensive.
        if isinstance(outcome, Delivered):
            outcome = outcome.outcome
        if self._context.is_virtual or isinstance(outcome, Succeeded):
            return 0.0
        return decide.jitter_of(stored)

    def _finish_unhandled(self, stored: Stored, outcome: Outcome) -> None:
        spread = self._spread(stored, outcome)
        ending = decide.settle(stored, outcome, self._settings, jitter=spread)
        self._settler.add(FinishedMessage(stored, ending))

    def release(self, messages: Sequence[Stored]) -> None:
        """Releases claimed messages; it does not count as an attempt."""
        for stored in messages:
            self._settler.add(
                FinishedMessage(stored, Ending(claim=stored.current_claim, fate=Fate.RELEASE))
            )

    # State, for metrics and the watchdog

    @property
    def permits(self) -> int:
        """Maximum number of running invocations."""
        return self._permits.limit

    @property
    def running(self) -> int:
        """Number of running invocations."""
        return len(self._permits)

    @property
    def unsettled(self) -> int:
        """Number of finished messages that are not settled yet."""
        return self._settler.unsettled

    @property
    def timeout_seconds(self) -> float:
        """Maximum number of seconds a handler may run."""
        return self._settings.timeout_seconds

    def running_invocations(self) -> dict[asyncio.Task[None], Invocation]:
        """The running invocations. May be called from any thread."""
        return self._permits.running_invocations()

    # Pausing, and running suspects

    def pause(self) -> None:
        """Stops claiming, and handles the messages it has."""
        self._is_paused = True
        self._dispatch()

    def resume(self) -> None:
        """Claims again."""
        self._is_paused = False
        self._has_capacity.set()
        self._dispatch()

    @property
    def is_working(self) -> bool:
        """Whether a handler runs or a claimed message waits for one."""
        return len(self._permits) + len(self._prefetch) + len(self._late.waiting) > 0

    @property
    def is_idle(self) -> bool:
        """Whether it has no messages and no pending claim."""
        return not self.is_working and self._pending + self._settler.unsettled == 0

    async def wait_until_idle(self, seconds: float) -> bool:
        """Waits up to `seconds` until it is idle; returns whether it is."""
        until = monotonic() + seconds
        while not self.is_idle and (left := until - monotonic()) > 0:
            if not await self._permits.wait_until_idle(left):
                return False
            self._has_capacity.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_SECONDS_MIN)):
                    await self._has_capacity.wait()
        return self.is_idle

    async def wait_until_quiet(self, seconds: float) -> bool:
        """Waits until nothing runs and all is settled; False if none finishes for `seconds`."""
        if not await self._permits.wait_until_quiet(seconds):
            return False
        await self._settler.drain()
        return True

    @property
    def started_count(self) -> int:
        """Number of invocations ever started."""
        return self._permits.started_count

    @property
    def suspects_max(self) -> int:
        """Maximum number of suspects to claim at once, so that each gets a permit."""
        permits = self._permits.free if self._permits else max(self._permits.limit, 1)
        return 0 if self.is_draining else min(permits * self._batch_size, SUSPECTS_MAX)

    @property
    def has_running_suspects(self) -> bool:
        """Whether suspects of the last `run_suspects` still run."""
        return self._permits.is_running(self._suspects)

    async def wait_for_permit(self, seconds: float) -> bool:
        """Waits up to `seconds` until a suspect may run; returns whether one may."""
        await self._permits.wait_until_free(seconds)
        return self.suspects_max > 0

    async def run_suspects(self, suspects: Sequence[Stored], seconds: float) -> bool:
        """Handles claimed suspects and waits up to `seconds`; returns whether they finished."""
        self._more_suspects = len(suspects) >= self.suspects_max
        starts = range(0, len(suspects), self._batch_size)
        parts = [self._make_work(suspects[start : start + self._batch_size]) for start in starts]
        self._suspects = frozenset(self._permits.start(work) for work in parts if work is not None)
        is_finished = await self._permits.wait_until_finished(self._suspects, seconds)
        self._more_suspects = False
        return is_finished

    # Shutdown

    async def drain(self, seconds: float, settled_until: float = inf) -> None:
        """Releases messages whose handlers have not started, and lets running handlers finish for
        `seconds`. What is not settled by `settled_until` (monotonic) stays unsettled."""
        self.is_draining = True
        self.release([*self._prefetch.take_all(), *self._late.take_all()])
        await self._permits.finish(seconds)
        await self._settler.drain(settled_until)

    async def retire(self, seconds: float) -> None:
        """Drains, for a consumer that ends before its worker does."""
        await self.drain(seconds)
        self._context.claimer.unregister(self._owned_messages)

    def _is_loop_closing(self) -> bool:
        """Whether the task that claims is being cancelled too: then whoever cancels a handler
        cancels everything, as `asyncio.run` does after Ctrl-C."""
        return self._claiming is not None and self._claiming.cancelling() > 0

    def drop_claims(self) -> None:
        """The node lost its identity and all its claims: other workers have the messages."""
        self._prefetch.take_all()
        self._late.take_all()
