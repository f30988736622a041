"""One queue: messages into slots, ends into settlements.

```
  claim ahead ──▶ intake ──▶ a slot: one invocation ──▶ ended ──▶ settle, many at a time
       ▲                                                  │
       └──────────── free slots, a wake-up ◀──────────────┘
```

Claiming, handling and settling overlap. Everything in hand is bounded: slots, what is claimed ahead
of them, and what waits to be settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import takewhile
from math import inf
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.app.declarations import Consumer, HandlerDeclaration
from tickwork.app.messages import Composer, Message, MessageBatch
from tickwork.app.payloads import PayloadInvalid
from tickwork.clock import monotonic
from tickwork.core import decide
from tickwork.core.model import ClaimRequest, Ending, Fate, Queue, Scope
from tickwork.core.model import Message as Stored
from tickwork.core.outcome import Failed, InvalidPayload, Outcome, Snoozed, Succeeded, UnhandledType
from tickwork.core.policy.scaling import AUTO_MIN, Load, next_concurrency
from tickwork.errors import NodeExpired, StoreUnavailable
from tickwork.service.claims import Claims
from tickwork.service.intake import Intake
from tickwork.service.invoking import CANCELLED_WITHIN, Given, Invoked, Said, payload_of, stopped
from tickwork.service.isolating import Isolator, auto_slots_max
from tickwork.service.observing import Observer
from tickwork.service.settling import End, Settler
from tickwork.store.contract import Store, Watch

POLL_SECONDS_MIN = 0.05
POLL_SECONDS_MAX = 1.0
"""So often we look by ourselves; sooner if a message's time comes, which we ask for when idle."""

UNSETTLED_MAX = 5_000
"""With so many ends that are not settled yet, nothing new is begun."""

STOP_SECONDS = 5.0
"""So long a handler that is stopped may take to end; then it is left behind."""

GIVEN_BACK = Snoozed(0.0)
"""It comes back at once, and at no cost."""


class Invocation(NamedTuple):
    """A handler under way."""

    messages: Sequence[Message[Any]]
    given: Given
    started: float


class Context(NamedTuple):
    """What all consumers of a worker share. With `is_virtual` every delay is exact, and time is
    what `monotonic` says. After `trusted_until` what was claimed may be somebody else's."""

    store: Store
    claims: Claims
    holder: Callable[[], UUID]
    compose: Composer
    isolator: Isolator
    observer: Observer
    is_virtual: bool = False
    monotonic: Callable[[], float] = monotonic
    trusted_until: Callable[[], float] = lambda: inf


class QueueConsumer:
    """Handles the messages of one queue."""

    def __init__(self, context: Context, consumer: Consumer, queue: Queue, scope: Scope) -> None:
        self._context, self._consumer = context, consumer
        self.queue, self.scope = queue, scope
        self._settings = queue.settings
        self._batch_seconds = queue.settings.max_batch_timeout_seconds
        self._now = context.monotonic
        self._intake = Intake(self._now)
        self._running: dict[asyncio.Task[None], Invocation] = {}
        self._stopped: dict[asyncio.Task[None], Outcome] = {}
        self._settler = Settler(context.store, queue, context.observer, self._room_again)
        self._is_auto = consumer.max_concurrency is None
        self._slots = consumer.max_concurrency or AUTO_MIN
        self._auto_max = auto_slots_max(consumer)
        self._ended = self._failed = 0
        self._is_draining = self._is_paused = self._more_waiting = False
        self._has_room = asyncio.Event()
        context.claims.add(self._in_hand)

    # What it takes in

    async def run(self, watch: Watch) -> None:
        """Claims and handles, for good; when it is told to drain it claims no more."""
        pause = POLL_SECONDS_MIN
        while True:
            if self._room() <= 0:
                self._has_room.clear()
                await self._has_room.wait()
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

    async def step(self) -> int:
        """Claims as much as there is room for, and begins what fits; how much it claimed."""
        found: tuple[Stored, ...] = ()
        if (room := self._room()) > 0:
            request = ClaimRequest(queue=self.queue.name, holder=self._context.holder(), limit=room)
            found = await self._context.claims.claim(self.scope, request)
            self._context.observer.claimed(self.queue, len(found))
            self._more_waiting = len(found) >= room
            if self._is_draining:
                self._release(found)
            else:
                self._intake.add(found)
        self._dispatch()
        return len(found)

    def _in_hand(self) -> list[Stored]:
        running = [each.stored for one in self._running.values() for each in one.messages]
        return [*self._intake.peek(), *running, *self._settler.unsettled()]

    def _room(self) -> int:
        if self._is_draining or self._is_paused or self._settler.waiting >= UNSETTLED_MAX:
            return 0
        per_slot = self._settings.max_batch_size if self._consumer.batch else 1
        return self._intake.room((self.slots - len(self._running)) * per_slot)

    def _room_again(self, messages: int) -> None:
        self._intake.count_ended(messages)
        self._has_room.set()

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
        if not (self._consumer.batch and self._intake and len(self._running) < self.slots):
            return None
        return self._now() - self._intake.waits_seconds() + self._batch_seconds

    # Into slots

    def _dispatch(self) -> None:
        """Begins what fits."""
        if self._now() > self._context.trusted_until():
            return  # The lease is renewed, or the node finds that it is lost and forgets.
        slots = self.slots
        while self._intake and len(self._running) < slots and not self._is_paused:
            if self._consumer.batch is None:
                self._begin_next(self._intake.take(1))
            elif self._is_batch_due():
                self._begin_next(self._intake.take(self._settings.max_batch_size))
            else:
                break
        self._scale()

    def _is_batch_due(self) -> bool:
        return (
            len(self._intake) >= self._settings.max_batch_size
            or self._intake.waits_seconds() >= self._batch_seconds
        )

    def _begin_next(self, claimed: Sequence[Stored]) -> None:
        """One invocation with these, as far as a handler may see them."""
        now = self._now()
        opened = [self._opened(each, now) for each in claimed]
        messages = [message for message in opened if message is not None]
        if not messages:
            return
        handler = self._consumer.handler_for(messages[0].type)
        assert handler is not None
        is_batch = handler.is_batch
        given: Given = MessageBatch(self.queue.name, messages) if is_batch else messages[0]
        task = asyncio.create_task(self._handle(handler, given))
        self._running[task] = Invocation(messages, given, now)

    def _opened(self, stored: Stored, now: float) -> Message[Any] | None:
        """The message with its payload; None if no handler may see it."""
        handler = self._consumer.handler_for(stored.type)
        unseen = decide.unseen(stored) if handler else UnhandledType()
        if handler is None or unseen is not None:
            assert unseen is not None
            self._end_unseen(stored, unseen)
            return None
        try:
            body = payload_of(handler, stored)
        except PayloadInvalid as error:
            self._end_unseen(stored, InvalidPayload(str(error)))
            return None
        return Message(
            stored,
            body,
            compose=self._context.compose,
            monotonic=self._now,
            deadline=now + self._settings.timeout_seconds,
        )

    async def _handle(self, handler: HandlerDeclaration, given: Given) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            invoked = await self._context.isolator.invoke(handler, given)
        except asyncio.CancelledError:
            invoked = stopped(given, self._stopped.get(task, CANCELLED_WITHIN))
        else:
            if task in self._stopped:  # It took no notice, and went on until it was done.
                invoked = stopped(given, self._stopped[task])
        self._stopped.pop(task, None)
        invocation = self._running.pop(task, None)
        if invocation is None:
            self._context.isolator.left_behind.remove(self.queue.name)
        else:
            self._end(invoked, invocation.started)
        self._dispatch()

    def stop_overdue(self) -> None:
        """Stops what has run for longer than the queue allows; what will not be stopped is left
        behind a little later."""
        limit = self._settings.timeout_seconds
        late = Failed(f"took longer than {limit} seconds, and was stopped")
        began = self._now() - limit
        # They stand in the order in which they began.
        overdue = takewhile(lambda each: each[1].started <= began, self._running.items())
        for task, invocation in list(overdue):
            if task not in self._stopped:
                self._stop(task, late)
            elif invocation.started <= began - STOP_SECONDS:
                self._leave_behind(task)
        self._has_room.set()  # What was left behind may have ended, and its slot be back;
        self._dispatch()  # or the lease is trusted again.

    def overdue_at(self) -> float | None:
        """When `stop_overdue` will next have something to do, if what runs goes on."""
        limit = self._settings.timeout_seconds
        ends = (
            each.started + limit + (STOP_SECONDS if task in self._stopped else 0.0)
            for task, each in self._running.items()
        )
        return min(ends, default=None)

    def _stop(self, task: asyncio.Task[None], outcome: Outcome) -> None:
        self._stopped.setdefault(task, outcome)
        task.cancel()

    def _leave_behind(self, task: asyncio.Task[None]) -> None:
        """Ends an invocation without its handler, which goes on; nothing of that counts."""
        invocation, outcome = self._running.pop(task), self._stopped.pop(task)
        if not task.done():  # Else it was stopped before it began.
            self._context.isolator.left_behind.add(self.queue.name)
        self._end(stopped(invocation.given, outcome), invocation.started)

    # Into settlements

    def _end(self, invoked: Invoked, started: float) -> None:
        self._ended += 1
        self._failed += invoked.is_failed
        took = self._now() - started
        self._context.observer.handled(self.queue, took)
        ends = [self._ended_so(said, started, took) for said in invoked.said]
        self._settler.add_together(ends, invoked.made)

    def _ended_so(self, said: Said, started: float, took_seconds: float) -> End:
        stored = said.message.stored
        spread, (sends, batches) = self._spread(stored, said.outcome), said.made
        ending = decide.settle(
            stored, said.outcome, self._settings, spread=spread, sends=sends, batches=batches
        )
        rows = said.message.rows if ending.fate is Fate.ACK else None
        return End(stored, ending, rows, started, took_seconds)

    def _spread(self, stored: Stored, outcome: Outcome) -> float:
        # Most are done and never come back; a hash for each of them would be dear.
        if self._context.is_virtual or isinstance(outcome, Succeeded):
            return 0.0
        return decide.spread_of(stored)

    def _end_unseen(self, stored: Stored, outcome: Outcome) -> None:
        spread = self._spread(stored, outcome)
        ending = decide.settle(stored, outcome, self._settings, spread=spread)
        self._settler.add(End(stored, ending))

    def _release(self, given: Sequence[Stored]) -> None:
        for stored in given:
            self._settler.add(End(stored, Ending(held=stored.held, fate=Fate.RELEASE)))

    # How many at a time

    def _scale(self) -> None:
        if self._ended < self._slots or not self._is_auto:
            return  # Not all slots have been round yet; or by hand.
        load = Load(
            ended=self._ended,
            failed=self._failed,
            all_busy=len(self._running) >= self.slots or bool(self._intake),
            more_waiting=self._more_waiting or bool(self._intake),
        )
        self._slots = min(next_concurrency(self._slots, load), self._auto_max)
        self._ended = self._failed = 0

    @property
    def slots(self) -> int:
        """How many invocations may run at a time."""
        return self._slots - self._context.isolator.left_behind.slots_lost(self.queue.name)

    @property
    def running(self) -> int:
        """How many do."""
        return len(self._running)

    @property
    def unsettled(self) -> int:
        """How many messages have ended, and are not settled yet."""
        return self._settler.waiting

    def under_way(self) -> dict[asyncio.Task[None], Invocation]:
        """What runs now; may be asked from any thread."""
        return self._running.copy()

    # With nothing beside it

    def pause(self) -> None:
        """Begins nothing more."""
        self._is_paused = True

    def resume(self) -> None:
        """Goes on."""
        self._is_paused = False
        self._has_room.set()
        self._dispatch()

    async def idle(self) -> None:
        """Returns when nothing runs."""
        while self._running:
            # Not longer: one that is left behind meanwhile would never end.
            await asyncio.wait(self._running, timeout=POLL_SECONDS_MAX)

    async def quiet(self, seconds: float) -> bool:
        """Waits, for so long, until nothing runs and all is settled; False if something runs."""
        while self._running:
            done, _ = await asyncio.wait(self._running, timeout=seconds)
            if not done:
                return False
        await self._settler.drain()
        return True

    async def run_alone(self, stored: Stored) -> None:
        """Handles one message that somebody claimed to run alone."""
        self._begin_next([stored])
        await self.idle()

    # The end

    async def drain(self, seconds: float) -> None:
        """Gives back what has not begun, and lets what runs finish, for so long."""
        self._is_draining = True
        self._release(self._intake.give_up())
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        for task in self._running:
            self._stop(task, GIVEN_BACK)
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_SECONDS)
        for task in [*self._running]:
            self._leave_behind(task)
        await self._settler.drain()

    def forget(self) -> None:
        """The node's identity is lost, and with it all that was claimed: somebody else has it."""
        self._intake.give_up()
