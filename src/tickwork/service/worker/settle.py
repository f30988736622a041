"""Ends into settlements: many in one call, two calls under way at a time.

Plain ends travel together. One that sends goes by itself into the store's own grouping, so that
a fault of its own (a full queue, one that is gone) is its own; so does one with rows of its
handler's own. Whatever cannot be settled as it should is settled as a failure.

What an invocation of several messages made as a whole is carried by one of its ends, which goes
first: if that one came too late, or its event was done before, the next one carries it. So it
happens once if any of them counts, and not at all if none does. While it is not known what became
of one that carried it (`patience.py`), there is no next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from msgspec import Struct, structs

from tickwork.app.handling import Made, Written
from tickwork.clock import monotonic
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Queue, Settlement, SettleResult
from tickwork.errors import ClaimLost, EventDone, TickworkError
from tickwork.service.observe import Observer
from tickwork.service.worker.invoke import describe
from tickwork.service.worker.settle_retry import CannotSettle, SettleRetry
from tickwork.store.contract import Store

SETTLE_BATCH_MAX = 1_000
CONCURRENT_SETTLES_MAX = 2

LOOK_SECONDS = 1.0
"""So often who drains looks at the time; and so long what is abandoned may take to end."""

HOPS_WARNED = 3
"""More hops than this are a chain that somebody should know of; once for each type."""

TYPES_WARNED_MAX = 1_000

_log = logging.getLogger("tickwork")


class FinishedMessage(Struct, frozen=True):
    """A message, how it ends, and the rows that its handler wants along.

    `started` is when its handler was begun, on the worker's clock; None if none was.
    """

    message: Message
    ending: Ending
    rows: Written | None = None
    started: float | None = None
    took_seconds: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Nothing comes with it that could be refused."""
        return self.rows is None and not self.ending.sends and not self.ending.batches

    def carrying(self, made: Made) -> FinishedMessage:
        """The same, with more that it brings about."""
        return structs.replace(self, ending=decide.with_effects(self.message, self.ending, *made))


class SettleOutcome(NamedTuple):
    """What came of an end: it counts with all that it carried, or (`error`) it is settled as
    failed, or it came to nothing."""

    counted: bool
    error: Exception | None = None


class Settler:
    """Settles the ends of one consumer."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        observer: Observer,
        settled: Callable[[int], None],
    ) -> None:
        self._store, self._queue, self._observer = store, queue, observer
        self._settled = settled
        self._retry = SettleRetry(store.nodes, observer.trouble)
        self._ends: deque[FinishedMessage] = deque()
        self._under_way: dict[asyncio.Task[None], Sequence[FinishedMessage]] = {}
        self._invocations: dict[asyncio.Task[None], Sequence[FinishedMessage]] = {}
        self._types_warned: set[str | None] = set()

    @property
    def waiting(self) -> int:
        """How many ends are not settled yet."""
        running_invocations = [*self._under_way.values(), *self._invocations.values()]
        return len(self._ends) + sum(map(len, running_invocations))

    def unsettled(self) -> list[Message]:
        """The messages of those."""
        running_invocations = [*self._under_way.values(), *self._invocations.values()]
        return [end.message for ends in (self._ends, *running_invocations) for end in ends]

    def add(self, *ends: FinishedMessage) -> None:
        """Settles soon."""
        self._warn_about_hops(ends)
        self._ends.extend(ends)
        self._start_settling()

    def add_invocation(self, ends: Sequence[FinishedMessage], made: Made) -> None:
        """Settles soon the ends of one invocation, with what it made as a whole."""
        if not made:
            self.add(*ends)
            return
        self._warn_about_hops(ends)
        task = asyncio.create_task(self._settle_invocation(ends, made))
        self._invocations[task] = ends
        task.add_done_callback(self._invocations.pop)

    async def drain(self, until: float = inf) -> None:
        """Returns when all are settled, or at a time of the local clock: then the rest is left as
        it is. Nothing of it is lost; it is handed out again when the lease has ended."""
        while running_invocations := [*self._under_way, *self._invocations]:
            left = until - monotonic()
            if left <= 0:
                await self._abandon(running_invocations)
                return
            await asyncio.wait(running_invocations, timeout=min(left, LOOK_SECONDS))

    async def _abandon(self, running_invocations: Sequence[asyncio.Task[None]]) -> None:
        _log.warning(
            "queue %s: %d messages have ended and could not be settled; they will be handed out "
            "again",
            self._queue.name,
            self.waiting,
        )
        self._ends.clear()
        for task in running_invocations:
            task.cancel()
        await asyncio.wait(running_invocations, timeout=LOOK_SECONDS)

    def _start_settling(self) -> None:
        # The last flight takes along whatever comes until its turn.
        if self._ends and len(self._under_way) < CONCURRENT_SETTLES_MAX:
            task = asyncio.Task(
                self._settle_batches()
            )  # Which does not begin before we know of it.
            self._under_way[task] = ()
            task.add_done_callback(self._on_settling_done)

    def _on_settling_done(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        self._start_settling()

    async def _settle_batches(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while self._ends:
            ends = [self._ends.popleft() for _ in range(min(len(self._ends), SETTLE_BATCH_MAX))]
            self._under_way[task] = ends
            await self._settle(ends)
            self._under_way[task] = ()
            self._settled(len(ends))

    async def _settle(self, ends: Sequence[FinishedMessage]) -> None:
        special = [end for end in ends if not end.is_plain]
        if not special:
            await self._settle_plain(ends)
            return
        plain = [end for end in ends if end.is_plain]
        await asyncio.gather(self._settle_plain(plain), *map(self._settle_special, special))

    async def _settle_invocation(self, ends: Sequence[FinishedMessage], made: Made) -> None:
        # The others wait: were all of them settled, nobody would be left to carry it.
        left = deque(sorted(ends, key=_carrier_order))
        while left:
            end = left.popleft()
            came = await self._settle_special(end.carrying(made))
            if came.counted:
                break
            if came.error is not None and end.is_plain:
                # With nothing of its own, it is what all of them made that cannot be stored.
                failing = _done(left)
                left = deque(each for each in left if each.ending.fate is not Fate.ACK)
                await asyncio.gather(*(self._fail(each, came.error) for each in failing))
                break
        await self._settle(left)
        self._settled(len(ends))

    async def _settle_plain(self, ends: Sequence[FinishedMessage]) -> None:
        if ends:
            answer = await self._retry.settle(partial(self._ask, ends))
            self._observer.settled(self._queue, ends, answer.result)

    async def _settle_special(self, end: FinishedMessage) -> SettleOutcome:
        """Settles an end with all that comes with it; as failed, if that cannot be stored."""
        ask = partial(self._ask, [end])
        if end.rows is not None:
            ask = partial(self._settle_with_rows, end, end.rows)
        try:
            answer = await self._retry.settle_special(ask)
        except CannotSettle as why:
            if isinstance(why.error, EventDone):
                plain = Ending(claim=end.ending.claim, fate=Fate.ACK)
                await self._settle_plain([structs.replace(end, ending=plain, rows=None)])
                return SettleOutcome(counted=False)
            return await self._fail(end, why.error, may_be_settled=why.may_be_settled)
        self._observer.settled(self._queue, [end], answer.result)
        return SettleOutcome(counted=not answer.result.refused and not answer.result.duplicates)

    async def _fail(
        self, end: FinishedMessage, error: Exception, *, may_be_settled: bool = False
    ) -> SettleOutcome:
        """Settles an end as failed, unless it turns out that it was settled as it should be."""
        told = str(error) if isinstance(error, TickworkError) else describe(error)
        ending = decide.settle(end.message, Failed(told), self._queue.settings)
        failed = structs.replace(end, ending=ending, rows=None)
        answer = await self._retry.settle(
            partial(self._ask, [failed]), may_be_settled=may_be_settled
        )
        # If this had no answer at first either, it may have been this: rather twice than never.
        is_done = may_be_settled and bool(answer.before) and not answer.is_repeated
        self._observer.settled(self._queue, [end if is_done else failed], answer.result)
        return SettleOutcome(counted=True) if is_done else SettleOutcome(counted=False, error=error)

    async def _ask(self, ends: Sequence[FinishedMessage]) -> SettleResult:
        settlement = Settlement(tuple([end.ending for end in ends]))
        return await self._store.messages.settle(SYSTEM, settlement)

    async def _settle_with_rows(self, end: FinishedMessage, rows: Written) -> SettleResult:
        settlement = Settlement((end.ending,))
        try:
            await self._store.messages.settle_jointly(SYSTEM, settlement, rows.joined)
        except ClaimLost:
            return SettleResult(refused=(end.ending.claim,))
        return SettleResult()

    def _warn_about_hops(self, ends: Iterable[FinishedMessage]) -> None:
        for end in ends:
            message = end.message
            if (
                message.hops > HOPS_WARNED
                and message.type not in self._types_warned
                and len(self._types_warned) < TYPES_WARNED_MAX
            ):
                self._types_warned.add(message.type)
                _log.warning(
                    "queue %s: a message of type %s has %d hops behind it; does a handler cause "
                    "what it handles? (correlation id %s; told once for each type)",
                    self._queue.name,
                    message.type,
                    message.hops,
                    message.correlation_id or message.id,
                )


def _done(ends: Iterable[FinishedMessage]) -> list[FinishedMessage]:
    return [end for end in ends if end.ending.fate is Fate.ACK]


def _carrier_order(end: FinishedMessage) -> tuple[bool, bool]:
    """What is done carries first, and of that what has nothing to be refused for itself."""
    return end.ending.fate is not Fate.ACK, not end.is_plain
