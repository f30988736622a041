"""One queue: messages into slots, ends into settlements.

```
  claim ahead ──▶ intake ──▶ a slot: one invocation ──▶ ended ──▶ settle, many at a time
       ▲                                                  │
       └──────────── free slots, a wake-up ◀──────────────┘
```

Claiming, handling and settling overlap; while there is more than a claim takes, so do two claims:
the store finds the next messages while we take in the last ones. Everything in hand is bounded:
slots, what is claimed ahead of them, and what waits to be settled.

Messages of a type that nobody handles here: told once for each type.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

from tickwork.app.declarations import Consumer
from tickwork.app.message import ClaimedBatch, ClaimedMessage
from tickwork.app.payloads import PayloadInvalid
from tickwork.clock import monotonic
from tickwork.core.message import decide
from tickwork.core.message.outcome import InvalidPayload, Outcome, Succeeded, UnhandledType
from tickwork.core.model import ClaimRequest, Ending, Fate, Queue, Scope
from tickwork.core.model import Message as Stored
from tickwork.errors import NodeExpired, StoreUnavailable
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
"""Of so many types somebody is told."""

_log = logging.getLogger("tickwork")


class UnhandledTypes:
    """The types of one queue that were met without a handler."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._known: set[str | None] = set()

    def warn(self, type_: str | None) -> None:
        """Tells of a type, if nobody was told of it yet."""
        if type_ in self._known or len(self._known) >= TYPES_WARNED_MAX:
            return
        self._known.add(type_)
        _log.warning(
            "queue %s: no handler here for %s; it is left to other workers for some ten "
            "minutes, and is then a dead letter. Add @app.on(%r%s) (told once for each type)",
            self._queue,
            "a message without a type" if type_ is None else f"the type {type_!r}",
            self._queue,
            "" if type_ is None else f", type={type_!r}",
        )


POLL_SECONDS_MIN = 0.05
POLL_SECONDS_MAX = 1.0
"""So often we look by ourselves; sooner if a message's time comes, which we ask for when idle."""

SUSPECTS_MAX = 100
"""So many at a time run apart: if one of them is deadly, so many have to run alone."""

UNSETTLED_MAX = 5_000
"""With so many ends that are not settled yet, nothing new is begun."""


class QueueConsumer:
    """Handles the messages of one queue."""

    def __init__(
        self, context: WorkerContext, consumer: Consumer, queue: Queue, scope: Scope
    ) -> None:
        self._context, self._consumer = context, consumer
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
            end=self._on_finished,
            on_permit_freed=self._dispatch,
        )
        self._settler = Settler(context.store, queue, context.observer, self._on_settled)
        self._late = LateMessages(context.store, self._prefetch, self._settler)
        self._unhandled = UnhandledTypes(queue.name)
        self._is_draining = self._is_paused = self._more_waiting = self._more_suspects = False
        self._has_capacity = asyncio.Event()
        context.claims.add(self._in_hand)

    # What it takes in

    async def run(self, watch: Watch) -> None:
        """Claims and handles, for good; when it is told to drain it claims no more."""
        pause = POLL_SECONDS_MIN
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
                    pause = min(pause * 2, POLL_SECONDS_MAX)
            except NodeExpired:
                # The node takes a new identity by itself; a moment later the claim is its.
                await asyncio.sleep(POLL_SECONDS_MIN)
            except StoreUnavailable as error:
                self._context.observer.trouble("claim", error)
                await asyncio.sleep(POLL_SECONDS_MAX)
            self._dispatch()

    async def run_second_claims(self) -> None:
        """Claims beside `run`, for good, while there is more than one claim takes."""
        while True:
            if not self._more_waiting or self._claim_limit() <= 0:
                self._has_capacity.clear()
                await self._has_capacity.wait()
                continue
            try:
                await self.step()
            except (NodeExpired, StoreUnavailable):
                self._more_waiting = False  # `run` meets the same, and tells.

    async def step(self) -> int:
        """Claims as much as there is room for, and begins what fits; how much it claimed."""
        claim_limit = self._claim_limit()
        claimed = await self._claim(claim_limit) if claim_limit > 0 else 0
        self._dispatch()
        return claimed

    async def _claim(self, claim_limit: int) -> int:
        holder = self._context.holder()
        request = ClaimRequest(queue=self.queue.name, holder=holder, limit=claim_limit)
        self._pending += claim_limit
        try:
            found = await self._context.claims.claim(self.scope, request)
        finally:
            self._pending -= claim_limit
            self._has_capacity.set()
        self._context.observer.claimed(self.queue, len(found))
        self._more_waiting = len(found) >= claim_limit
        # What a lost identity claimed is not mixed with the next one's: an invocation's messages
        # are all held, or all lost.
        if self._is_draining or holder != self._context.holder():
            self.give_back(found)
        else:
            await self._late.accept(found)
        return len(found)

    def _in_hand(self) -> list[Stored]:
        running = [each.stored for each in self._permits.messages()]
        return [*self._prefetch.peek(), *self._late.waiting, *running, *self._settler.unsettled()]

    def _claim_limit(self) -> int:
        if self._is_draining or self._is_paused or self._settler.waiting >= UNSETTLED_MAX:
            return 0
        return self._prefetch.claim_limit(
            self._free_capacity(), self._pending + len(self._late.waiting)
        )

    def _free_capacity(self) -> int:
        """How many messages would find a free slot."""
        return self._permits.free * self._batch_size

    def release_overdue(self) -> None:
        """Gives back what has waited too long for a slot: somebody else may have one, and what
        is more urgent may come first."""
        self.give_back(self._prefetch.take_overdue(max(self._free_capacity(), 0)))

    def _on_settled(self, _: int) -> None:
        self._has_capacity.set()

    async def _wait_seconds(self, pause: float) -> float:
        """Until the next look; until the batch that is being gathered must go; or, when nothing
        came for a while, until the time of the next message comes."""
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
        """When the batch that is being gathered must go, if there is one and a slot for it."""
        if not (self._consumer.batch and self._prefetch and self._permits.free > 0):
            return None
        return self._now() - self._prefetch.oldest_wait_seconds() + self._batch_seconds

    # Into slots

    def _dispatch(self) -> None:
        """Begins what fits."""
        self._permits.start_waiting()
        more = self._more_waiting or self._more_suspects
        self._permits.scale(waiting=bool(self._prefetch), more_waiting=more)

    def _next_work(self) -> Work | None:
        """What a free slot may begin with. While the lease is not trusted nothing begins: it is
        renewed, or the node finds that it is lost and forgets."""
        while self._prefetch and self._context.is_trusted():
            if self._consumer.batch is None:
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
        """One invocation with these, as far as a handler may see them."""
        deadline = self._now() + self._settings.timeout_seconds
        opened = [self._open_message(each, deadline) for each in claimed]
        messages = [message for message in opened if message is not None]
        if not messages:
            return None
        handler = self._consumer.handler_for(messages[0].stored.type)
        assert handler is not None
        is_batch = handler.is_batch
        given: HandlerArgument = (
            ClaimedBatch(self.queue.name, messages) if is_batch else messages[0]
        )
        return Work(handler, messages, given)

    def _open_message(self, stored: Stored, deadline: float) -> ClaimedMessage[Any] | None:
        """The message with its payload; None if no handler may see it."""
        handler = self._consumer.handler_for(stored.type)
        unseen = decide.early_outcome(stored) if handler else UnhandledType()
        if handler is None or unseen is not None:
            assert unseen is not None
            self._finish_unhandled(stored, unseen)
            if isinstance(unseen, UnhandledType):
                self._unhandled.warn(stored.type)
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
        )

    def stop_overdue(self) -> None:
        """Stops what has run for longer than the queue allows, and goes on."""
        self._permits.stop_overdue()
        self._has_capacity.set()  # What was left behind may have ended, and its slot be back;
        self._dispatch()  # or the lease is trusted again.

    def overdue_at(self) -> float | None:
        """When `stop_overdue` will next have something to do, if what runs goes on."""
        return self._permits.overdue_at()

    # Into settlements

    def _on_finished(self, invoked: InvocationResult, started: float) -> None:
        self._prefetch.count_finished(len(invoked.said))
        took = self._now() - started
        self._context.observer.handled(self.queue, took)
        ends = [self._finished_message(said, started, took) for said in invoked.said]
        self._settler.add_invocation(ends, invoked.made)

    def _finished_message(
        self, said: MessageOutcome, started: float, took_seconds: float
    ) -> FinishedMessage:
        stored = said.message.stored
        spread, (sends, batches) = self._spread(stored, said.outcome), said.made
        ending = decide.settle(
            stored,
            said.outcome,
            self._settings,
            jitter=spread,
            sends=sends,
            batches=batches,
            took_seconds=took_seconds,
        )
        rows = said.message.rows if ending.fate is Fate.ACK else None
        return FinishedMessage(stored, ending, rows, started, took_seconds)

    def _spread(self, stored: Stored, outcome: Outcome) -> float:
        # Most are done and never come back; a hash for each of them would be dear.
        if self._context.is_virtual or isinstance(outcome, Succeeded):
            return 0.0
        return decide.jitter_of(stored)

    def _finish_unhandled(self, stored: Stored, outcome: Outcome) -> None:
        spread = self._spread(stored, outcome)
        ending = decide.settle(stored, outcome, self._settings, jitter=spread)
        self._settler.add(FinishedMessage(stored, ending))

    def give_back(self, given: Sequence[Stored]) -> None:
        """Somebody else is to have them, at no cost."""
        for stored in given:
            self._settler.add(
                FinishedMessage(stored, Ending(claim=stored.current_claim, fate=Fate.RELEASE))
            )

    # What is to be seen of it

    @property
    def permits(self) -> int:
        """How many invocations may run at a time."""
        return self._permits.allowed

    @property
    def running(self) -> int:
        """How many do."""
        return len(self._permits)

    @property
    def unsettled(self) -> int:
        """How many messages have ended, and are not settled."""
        return self._settler.waiting

    @property
    def timeout_seconds(self) -> float:
        """How long a handler may run."""
        return self._settings.timeout_seconds

    def running_invocations(self) -> dict[asyncio.Task[None], Invocation]:
        """What runs now; may be asked from any thread."""
        return self._permits.running_invocations()

    # With nothing beside it

    def pause(self) -> None:
        """Claims nothing more, and does what it has in hand."""
        self._is_paused = True
        self._dispatch()

    def resume(self) -> None:
        """Goes on."""
        self._is_paused = False
        self._has_capacity.set()
        self._dispatch()

    @property
    def is_working(self) -> bool:
        """Whether something runs, or waits for that."""
        return len(self._permits) + len(self._prefetch) + len(self._late.waiting) > 0

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing, and nothing is coming."""
        return not self.is_working and self._pending + self._settler.waiting == 0

    async def wait_until_idle(self, seconds: float) -> bool:
        """Waits, for so long, until it has nothing in hand; whether it has nothing."""
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
        """Waits, for so long, until nothing runs and all is settled; False if something runs."""
        if not await self._permits.wait_until_quiet(seconds):
            return False
        await self._settler.drain()
        return True

    @property
    def started_count(self) -> int:
        """How many invocations have begun since it is there."""
        return self._permits.started_count

    @property
    def suspects_max(self) -> int:
        """How many suspects to claim at a time: no handler waits for another one."""
        return min(max(self._permits.allowed, 1) * self._batch_size, SUSPECTS_MAX)

    async def run_suspects(self, suspects: Sequence[Stored], limit: int, seconds: float) -> None:
        """Handles what was claimed for that, at most so many, and waits for it for so long."""
        self._more_suspects = len(suspects) >= limit
        for start in range(0, len(suspects), self._batch_size):
            work = self._make_work(suspects[start : start + self._batch_size])
            if work is not None:
                self._permits.start(work)
        await self._permits.wait_until_idle(seconds)
        self._more_suspects = False

    # The end

    async def drain(self, seconds: float, settled_until: float = inf) -> None:
        """Gives back what has not begun, and lets what runs finish, for so long; what is not
        settled by a time of the local clock is left as it is."""
        self._is_draining = True
        self.give_back([*self._prefetch.take_all(), *self._late.take_all()])
        await self._permits.finish(seconds)
        await self._settler.drain(settled_until)

    def forget(self) -> None:
        """The node's identity is lost, and with it all that was claimed: somebody else has it."""
        self._prefetch.take_all()
        self._late.take_all()
