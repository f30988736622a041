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
from tickwork.service.worker.settle_retry import Patience, Unstorable
from tickwork.store.contract import Store

SETTLED_AT_ONCE = 1_000
FLIGHTS_MAX = 2

LOOK_SECONDS = 1.0
"""So often who drains looks at the time; and so long what is abandoned may take to end."""

HOPS_WARNED = 3
"""More hops than this are a chain that somebody should know of; once for each type."""

TYPES_WARNED_MAX = 1_000

_log = logging.getLogger("tickwork")


class End(Struct, frozen=True):
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

    def carrying(self, made: Made) -> End:
        """The same, with more that it brings about."""
        return structs.replace(self, ending=decide.with_effects(self.message, self.ending, *made))


class Came(NamedTuple):
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
        self._patience = Patience(store.nodes, observer.trouble)
        self._ends: deque[End] = deque()
        self._under_way: dict[asyncio.Task[None], Sequence[End]] = {}
        self._together: dict[asyncio.Task[None], Sequence[End]] = {}
        self._far: set[str | None] = set()

    @property
    def waiting(self) -> int:
        """How many ends are not settled yet."""
        under_way = [*self._under_way.values(), *self._together.values()]
        return len(self._ends) + sum(map(len, under_way))

    def unsettled(self) -> list[Message]:
        """The messages of those."""
        under_way = [*self._under_way.values(), *self._together.values()]
        return [end.message for ends in (self._ends, *under_way) for end in ends]

    def add(self, *ends: End) -> None:
        """Settles soon."""
        self._warn_of_far(ends)
        self._ends.extend(ends)
        self._fly()

    def add_together(self, ends: Sequence[End], made: Made) -> None:
        """Settles soon the ends of one invocation, with what it made as a whole."""
        if not made:
            self.add(*ends)
            return
        self._warn_of_far(ends)
        task = asyncio.create_task(self._settle_together(ends, made))
        self._together[task] = ends
        task.add_done_callback(self._together.pop)

    async def drain(self, until: float = inf) -> None:
        """Returns when all are settled, or at a time of the local clock: then the rest is left as
        it is. Nothing of it is lost; it is handed out again when the lease has ended."""
        while under_way := [*self._under_way, *self._together]:
            left = until - monotonic()
            if left <= 0:
                await self._abandon(under_way)
                return
            await asyncio.wait(under_way, timeout=min(left, LOOK_SECONDS))

    async def _abandon(self, under_way: Sequence[asyncio.Task[None]]) -> None:
        _log.warning(
            "queue %s: %d messages have ended and could not be settled; they will be handed out "
            "again",
            self._queue.name,
            self.waiting,
        )
        self._ends.clear()
        for task in under_way:
            task.cancel()
        await asyncio.wait(under_way, timeout=LOOK_SECONDS)

    def _fly(self) -> None:
        # The last flight takes along whatever comes until its turn.
        if self._ends and len(self._under_way) < FLIGHTS_MAX:
            task = asyncio.Task(self._fly_on())  # Which does not begin before we know of it.
            self._under_way[task] = ()
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        self._fly()

    async def _fly_on(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while self._ends:
            ends = [self._ends.popleft() for _ in range(min(len(self._ends), SETTLED_AT_ONCE))]
            self._under_way[task] = ends
            await self._settle(ends)
            self._under_way[task] = ()
            self._settled(len(ends))

    async def _settle(self, ends: Sequence[End]) -> None:
        special = [end for end in ends if not end.is_plain]
        if not special:
            await self._settle_plain(ends)
            return
        plain = [end for end in ends if end.is_plain]
        await asyncio.gather(self._settle_plain(plain), *map(self._settle_special, special))

    async def _settle_together(self, ends: Sequence[End], made: Made) -> None:
        # The others wait: were all of them settled, nobody would be left to carry it.
        left = deque(sorted(ends, key=_carries_last))
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

    async def _settle_plain(self, ends: Sequence[End]) -> None:
        if ends:
            answer = await self._patience.settle(partial(self._ask, ends))
            self._observer.settled(self._queue, ends, answer.result)

    async def _settle_special(self, end: End) -> Came:
        """Settles an end with all that comes with it; as failed, if that cannot be stored."""
        ask = partial(self._ask, [end])
        if end.rows is not None:
            ask = partial(self._ask_jointly, end, end.rows)
        try:
            answer = await self._patience.settle_special(ask)
        except Unstorable as why:
            if isinstance(why.error, EventDone):
                plain = Ending(claim=end.ending.claim, fate=Fate.ACK)
                await self._settle_plain([structs.replace(end, ending=plain, rows=None)])
                return Came(counted=False)
            return await self._fail(end, why.error, is_doubtful=why.is_doubtful)
        self._observer.settled(self._queue, [end], answer.result)
        return Came(counted=not answer.result.refused and not answer.result.duplicates)

    async def _fail(self, end: End, error: Exception, *, is_doubtful: bool = False) -> Came:
        """Settles an end as failed, unless it turns out that it was settled as it should be."""
        told = str(error) if isinstance(error, TickworkError) else describe(error)
        ending = decide.settle(end.message, Failed(told), self._queue.settings)
        failed = structs.replace(end, ending=ending, rows=None)
        answer = await self._patience.settle(partial(self._ask, [failed]), is_doubtful=is_doubtful)
        # If this had no answer at first either, it may have been this: rather twice than never.
        is_done = is_doubtful and bool(answer.before) and not answer.is_repeated
        self._observer.settled(self._queue, [end if is_done else failed], answer.result)
        return Came(counted=True) if is_done else Came(counted=False, error=error)

    async def _ask(self, ends: Sequence[End]) -> SettleResult:
        settlement = Settlement(tuple([end.ending for end in ends]))
        return await self._store.messages.settle(SYSTEM, settlement)

    async def _ask_jointly(self, end: End, rows: Written) -> SettleResult:
        settlement = Settlement((end.ending,))
        try:
            await self._store.messages.settle_jointly(SYSTEM, settlement, rows.joined)
        except ClaimLost:
            return SettleResult(refused=(end.ending.claim,))
        return SettleResult()

    def _warn_of_far(self, ends: Iterable[End]) -> None:
        for end in ends:
            message = end.message
            if (
                message.hops > HOPS_WARNED
                and message.type not in self._far
                and len(self._far) < TYPES_WARNED_MAX
            ):
                self._far.add(message.type)
                _log.warning(
                    "queue %s: a message of type %s has %d hops behind it; does a handler cause "
                    "what it handles? (correlation id %s; told once for each type)",
                    self._queue.name,
                    message.type,
                    message.hops,
                    message.correlation_id or message.id,
                )


def _done(ends: Iterable[End]) -> list[End]:
    return [end for end in ends if end.ending.fate is Fate.ACK]


def _carries_last(end: End) -> tuple[bool, bool]:
    """What is done carries first, and of that what has nothing to be refused for itself."""
    return end.ending.fate is not Fate.ACK, not end.is_plain
