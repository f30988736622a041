"""Settles finished messages: many in one call, two calls at a time.

Plain settlements are stored together. A message whose handler sent messages is settled by its own
call, which the store groups, so that an error of it (a full or deleted queue) concerns only itself.
The same holds for a message whose handler writes its own rows. What cannot be settled as it should
be is settled as a failure.

What a batch handler sends for its invocation as a whole is stored together with one of its
messages, the carrier, which is settled first. If the carrier's claim was lost, or its event was
processed before, the next message becomes the carrier. So it is stored once if any of the messages
is acked, and not at all if none is. While the result of a carrier is unknown (`settle_retry`), no
other message may carry it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from msgspec import Struct, structs

from tickwork.app.invocation import Made, Written
from tickwork.clock import monotonic
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Settlement, SettleResult, StoredQueue
from tickwork.errors import ClaimLost, EventDone, TickworkError
from tickwork.service.observe import Observer
from tickwork.service.worker.invoke import describe
from tickwork.service.worker.settle_retry import CannotSettle, SettleRetry
from tickwork.store.contract import Store

SETTLE_BATCH_MAX = 1_000
"""Maximum number of messages in one settlement."""

CONCURRENT_SETTLES_MAX = 2
"""Maximum number of concurrent calls for plain settlements."""

CHECK_SECONDS = 1.0
"""Seconds between two checks of the deadline while draining, and seconds that abandoned calls may
take to finish."""

HOPS_WARNED = 3
"""Number of hops above which a chain of messages is reported, once per type."""

TYPES_WARNED_MAX = 1_000
"""Maximum number of types that are reported."""


class FinishedMessage(Struct, frozen=True):
    """A message to settle, its ending, and the rows that its handler writes with it.

    `started` is when its handler started, on the worker's clock; None if no handler was started.
    """

    message: Message
    ending: Ending
    rows: Written | None = None
    started: float | None = None
    took_seconds: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether it stores nothing else that could be refused."""
        ending = self.ending
        if self.rows is not None or ending.sends or ending.batches:
            return False
        return not any(effect.MAY_BE_REFUSED for effect in ending.effects)

    def carrying(self, made: Made) -> FinishedMessage:
        """The same, with what the whole invocation sends."""
        return structs.replace(self, ending=decide.with_effects(self.message, self.ending, *made))


class SettleOutcome(NamedTuple):
    """The result of settling one message: stored as intended (`is_stored`), stored as a failure
    (`error`), or neither because the claim was lost."""

    is_stored: bool
    error: Exception | None = None


class Settler:
    """Settles the finished messages of one consumer."""

    def __init__(
        self,
        store: Store,
        queue: StoredQueue,
        observer: Observer,
        on_settled: Callable[[], None],
    ) -> None:
        self._store = store
        self._queue = queue
        self._observer = observer
        self._on_settled = on_settled
        self._retry = SettleRetry(store.nodes, observer.error_occurred)
        self._queued: deque[FinishedMessage] = deque()
        self._settling: dict[asyncio.Task[None], Sequence[FinishedMessage]] = {}
        self._invocations: dict[asyncio.Task[None], Sequence[FinishedMessage]] = {}
        self._types_warned: set[str | None] = set()

    @property
    def unsettled(self) -> int:
        """Number of finished messages that are not settled yet."""
        in_progress = [*self._settling.values(), *self._invocations.values()]
        return len(self._queued) + sum(map(len, in_progress))

    def unsettled_messages(self) -> list[Message]:
        """The finished messages that are not settled yet."""
        in_progress = [*self._settling.values(), *self._invocations.values()]
        return [message.message for part in (self._queued, *in_progress) for message in part]

    def add(self, *finished: FinishedMessage) -> None:
        """Queues messages to be settled soon."""
        self._report_chains(finished)
        self._queued.extend(finished)
        self._start_settling()

    def add_invocation(self, finished: Sequence[FinishedMessage], made: Made) -> None:
        """Settles the messages of one invocation soon, with what it sends as a whole."""
        if not made:
            self.add(*finished)
            return
        self._report_chains(finished)
        task = asyncio.create_task(self._settle_invocation(finished, made))
        self._invocations[task] = finished
        task.add_done_callback(self._invocations.pop)

    async def drain(self, until: float = inf) -> None:
        """Returns when all messages are settled, or at the deadline `until` (monotonic). The rest
        is not lost: it is delivered again when the lease has expired."""
        while tasks := [*self._settling, *self._invocations]:
            left = until - monotonic()
            if left <= 0:
                await self._abandon(tasks)
                return
            await asyncio.wait(tasks, timeout=min(left, CHECK_SECONDS))

    async def _abandon(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        self._observer.settling_abandoned(self._queue, self.unsettled)
        self._queued.clear()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CHECK_SECONDS)

    def _start_settling(self) -> None:
        # A running task also settles what is queued later.
        if self._queued and len(self._settling) < CONCURRENT_SETTLES_MAX:
            task = asyncio.Task(
                self._settle_batches()
            )  # Unlike create_task, it never starts before it is registered.
            self._settling[task] = ()
            task.add_done_callback(self._on_settling_done)

    def _on_settling_done(self, task: asyncio.Task[None]) -> None:
        self._settling.pop(task, None)
        self._start_settling()

    async def _settle_batches(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while self._queued:
            count = min(len(self._queued), SETTLE_BATCH_MAX)
            batch = [self._queued.popleft() for _ in range(count)]
            self._settling[task] = batch
            await self._settle(batch)
            self._settling[task] = ()
            self._on_settled()

    async def _settle(self, finished: Sequence[FinishedMessage]) -> None:
        special = [message for message in finished if not message.is_plain]
        if not special:
            await self._settle_plain(finished)
            return
        plain = [message for message in finished if message.is_plain]
        await asyncio.gather(self._settle_plain(plain), *map(self._settle_special, special))

    async def _settle_invocation(self, finished: Sequence[FinishedMessage], made: Made) -> None:
        # One after the other: if all were settled at once, no carrier would be left.
        left = deque(sorted(finished, key=_carrier_order))
        while left:
            carrier = left.popleft()
            outcome = await self._settle_special(carrier.carrying(made))
            if outcome.is_stored:
                break
            if outcome.error is not None and carrier.is_plain:
                # The carrier has nothing of its own, so `made` itself cannot be stored.
                failing = _acked(left)
                left = deque(message for message in left if message.ending.fate is not Fate.ACK)
                await asyncio.gather(*(self._fail(message, outcome.error) for message in failing))
                break
        await self._settle(left)
        self._on_settled()

    async def _settle_plain(self, finished: Sequence[FinishedMessage]) -> None:
        if finished:
            answer = await self._retry.settle(partial(self._store_settlement, finished))
            self._observer.messages_settled(self._queue, finished, answer.result)

    async def _settle_special(self, finished: FinishedMessage) -> SettleOutcome:
        """Settles a message with all that it stores; as a failure if that cannot be stored."""
        attempt = partial(self._store_settlement, [finished])
        if finished.rows is not None:
            attempt = partial(self._store_with_rows, finished, finished.rows)
        try:
            answer = await self._retry.settle_special(attempt)
        except CannotSettle as failure:
            if isinstance(failure.error, EventDone):
                plain = Ending(claim=finished.ending.claim, fate=Fate.ACK)
                await self._settle_plain([structs.replace(finished, ending=plain, rows=None)])
                return SettleOutcome(is_stored=False)
            return await self._fail(finished, failure.error, may_be_settled=failure.may_be_settled)
        self._observer.messages_settled(self._queue, [finished], answer.result)
        return SettleOutcome(is_stored=not answer.result.refused and not answer.result.duplicates)

    async def _fail(
        self, finished: FinishedMessage, error: Exception, *, may_be_settled: bool = False
    ) -> SettleOutcome:
        """Settles a message as failed, unless an earlier call has settled it as intended."""
        text = str(error) if isinstance(error, TickworkError) else describe(error)
        ending = decide.settle(finished.message, Failed(text), self._queue.settings)
        failed = structs.replace(finished, ending=ending, rows=None)
        answer = await self._retry.settle(
            partial(self._store_settlement, [failed]), may_be_settled=may_be_settled
        )
        # If this call was retried too, it may be the one that settled the message, as failed.
        # Then the message counts as failed: rather processed twice than never.
        is_stored = may_be_settled and bool(answer.settled_before) and not answer.is_retried
        settled = finished if is_stored else failed
        self._observer.messages_settled(self._queue, [settled], answer.result)
        return SettleOutcome(is_stored=is_stored, error=None if is_stored else error)

    async def _store_settlement(self, finished: Sequence[FinishedMessage]) -> SettleResult:
        settlement = Settlement(tuple([message.ending for message in finished]))
        return await self._store.messages.settle(SYSTEM, settlement)

    async def _store_with_rows(self, finished: FinishedMessage, rows: Written) -> SettleResult:
        settlement = Settlement((finished.ending,))
        try:
            await self._store.messages.settle_jointly(SYSTEM, settlement, rows.joined)
        except ClaimLost:
            return SettleResult(refused=(finished.ending.claim,))
        return SettleResult()

    def _report_chains(self, finished: Iterable[FinishedMessage]) -> None:
        for finished_message in finished:
            message = finished_message.message
            if (
                message.hops > HOPS_WARNED
                and message.type not in self._types_warned
                and len(self._types_warned) < TYPES_WARNED_MAX
            ):
                self._types_warned.add(message.type)
                self._observer.chain_found(self._queue, message)


def _acked(finished: Iterable[FinishedMessage]) -> list[FinishedMessage]:
    return [message for message in finished if message.ending.fate is Fate.ACK]


def _carrier_order(finished: FinishedMessage) -> tuple[bool, bool]:
    """Acked messages carry first, and among them those that store nothing of their own."""
    return finished.ending.fate is not Fate.ACK, not finished.is_plain
