"""Ends into settlements: many in one call, two calls under way at a time.

Plain ends travel together. One that sends goes by itself into the store's own grouping, so that
a fault of its own (a full queue, one that is gone) is its own; so does one with rows of its
handler's own. Whatever cannot be settled as it should is settled as a failure.

What an invocation of several messages made as a whole is carried by one of its ends, which goes
first: if that one came too late, or its event was done before, the next one carries it. So it
happens once if any of them counts, and not at all if none does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from tickwork.app.handling import Made, Written
from tickwork.core import decide
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Queue, Settlement, SettleResult
from tickwork.core.outcome import Failed
from tickwork.errors import ClaimLost, EventDone, StoreError, StoreUnavailable, TickworkError
from tickwork.service.invoking import describe
from tickwork.service.observing import Observer
from tickwork.store.contract import Store

SETTLED_AT_ONCE = 500
FLIGHTS_MAX = 2
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0

HOPS_WARNED = 3
"""More hops than this are a chain that somebody should know of; once for each type."""

TYPES_WARNED_MAX = 1_000

T = TypeVar("T")

_log = logging.getLogger("tickwork")


class End(NamedTuple):
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
        return self._replace(ending=decide.causing(self.message, self.ending, *made))


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

    async def drain(self) -> None:
        """Returns when all are settled."""
        while under_way := [*self._under_way, *self._together]:
            await asyncio.wait(under_way)

    def _fly(self) -> None:
        # The last flight takes along whatever comes until its turn.
        if self._ends and len(self._under_way) < FLIGHTS_MAX:
            task = asyncio.create_task(self._fly_on())
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
        await asyncio.gather(self._settle_plain(plain), *map(self._settle_alone, special))

    async def _settle_together(self, ends: Sequence[End], made: Made) -> None:
        # The others wait: were all of them settled, nobody would be left to carry it.
        left = deque(sorted(ends, key=_carries_last))
        while left:
            end = left.popleft()
            try:
                if await self._settle_special(end.carrying(made)):
                    break
            except Exception as error:
                # With nothing of its own, it is what all of them made that cannot be stored.
                failing = [end, *_done(left)] if end.is_plain else [end]
                await asyncio.gather(*(self._settle_failed(each, error) for each in failing))
                if end.is_plain:
                    left = deque(each for each in left if each.ending.fate is not Fate.ACK)
                    break
        await self._settle(left)
        self._settled(len(ends))

    async def _settle_plain(self, ends: Sequence[End]) -> None:
        if ends:
            await self._patiently(lambda: self._told(ends))

    async def _settle_alone(self, end: End) -> None:
        try:
            await self._settle_special(end)
        except Exception as error:
            await self._settle_failed(end, error)

    async def _settle_special(self, end: End) -> bool:
        """Settles an end with all that comes with it; False if it did not count, and nothing of
        that happened. Raises why it cannot be stored."""
        if end.rows is not None:
            return await self._settle_jointly(end, end.rows)
        result = await self._patiently(lambda: self._told([end]), although=StoreUnavailable)
        return not result.refused and not result.duplicates

    async def _settle_jointly(self, end: End, rows: Written) -> bool:
        settlement = Settlement((end.ending,))
        try:
            await self._patiently(
                lambda: self._store.messages.settle_jointly(SYSTEM, settlement, rows.joined),
                although=StoreUnavailable,
            )
        except ClaimLost:
            self._observer.settled(self._queue, [end], SettleResult(refused=(end.ending.held,)))
        except EventDone:
            plain = Ending(held=end.ending.held, fate=Fate.ACK)
            await self._settle_plain([end._replace(ending=plain, rows=None)])
        else:
            self._observer.settled(self._queue, [end], SettleResult())
            return True
        return False

    async def _settle_failed(self, end: End, error: Exception) -> None:
        told = str(error) if isinstance(error, TickworkError) else describe(error)
        ending = decide.settle(end.message, Failed(told), self._queue.settings)
        await self._settle_plain([end._replace(ending=ending, rows=None)])

    async def _told(self, ends: Sequence[End]) -> SettleResult:
        settlement = Settlement(tuple([end.ending for end in ends]))
        result = await self._store.messages.settle(SYSTEM, settlement)
        self._observer.settled(self._queue, ends, result)
        return result

    async def _patiently(
        self, settle: Callable[[], Awaitable[T]], *, although: type[StoreError] = StoreError
    ) -> T:
        """Again and again while the database is away: what is held is held, or is refused.

        A plain end has no other way; what carries more may itself be what the database refuses.
        """
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                return await settle()
            except although as error:
                self._observer.trouble("settle", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

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
