"""Ends into settlements: many in one call, two calls under way at a time.

Plain ends travel together. One that sends goes by itself into the store's own grouping, so that
a fault of its own (a full queue, one that is gone) is its own. One with rows of its handler's own
has a transaction of its own. Whatever cannot be settled as it should is settled as a failure.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec import structs

from tickwork.app.handling import Rows
from tickwork.core import decide
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Queue, Send, Settlement
from tickwork.core.outcome import Failed
from tickwork.errors import ClaimLost, EventDone, StoreError, StoreUnavailable, TickworkError
from tickwork.service.invoking import describe
from tickwork.service.observing import Observer
from tickwork.store.contract import Store

SETTLED_AT_ONCE = 500
FLIGHTS_MAX = 2
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0


class End(NamedTuple):
    """A message, how it ends, and the rows that its handler wants along."""

    message: Message
    ending: Ending
    rows: Rows | None = None


def with_sends(ends: list[End], sends: Sequence[Send]) -> list[End]:
    """The ends of one invocation, with what it sent as a whole: that goes with the first that is
    done, or with the first if none is."""
    if not sends:
        return ends
    done = (place for place, end in enumerate(ends) if end.ending.fate is Fate.ACK)
    place = next(done, 0)
    message, ending, _ = ends[place]
    caused = tuple(Send(each.queue, decide.caused_by(message, each.message)) for each in sends)
    ending = structs.replace(ending, sends=ending.sends + caused)
    return [*ends[:place], ends[place]._replace(ending=ending), *ends[place + 1 :]]


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

    @property
    def waiting(self) -> int:
        """How many ends are not settled yet."""
        return len(self._ends) + sum(len(ends) for ends in self._under_way.values())

    def unsettled(self) -> list[Message]:
        """The messages of those."""
        ends = [*self._ends, *(end for ends in self._under_way.values() for end in ends)]
        return [end.message for end in ends]

    def add(self, end: End) -> None:
        """Settles soon."""
        self._ends.append(end)
        self._fly()

    async def drain(self) -> None:
        """Returns when all are settled."""
        while self._under_way:
            await asyncio.wait(self._under_way)

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
        plain = [end for end in ends if not end.ending.sends and end.rows is None]
        special = [end for end in ends if end.ending.sends or end.rows is not None]
        if not special:
            await self._settle_plain(plain)
            return
        alone = (
            self._settle_sending(end) if end.rows is None else self._settle_jointly(end, end.rows)
            for end in special
        )
        await asyncio.gather(self._settle_plain(plain), *alone)

    async def _settle_plain(self, ends: Sequence[End]) -> None:
        if ends:
            endings = tuple(end.ending for end in ends)
            await self._patiently(lambda: self._told(Settlement(endings)))

    async def _settle_sending(self, end: End) -> None:
        settlement = Settlement((end.ending,))
        try:
            await self._patiently(lambda: self._told(settlement), although=StoreUnavailable)
        except TickworkError as error:
            await self._settle_failed(end, str(error))

    async def _settle_jointly(self, end: End, rows: Rows) -> None:
        settlement = Settlement((end.ending,))
        try:
            await self._patiently(
                lambda: self._store.messages.settle_jointly(SYSTEM, settlement, rows.joined),
                although=StoreUnavailable,
            )
        except ClaimLost:
            self._observer.refused([end.ending.held])
        except EventDone:
            plain = Ending(held=end.ending.held, fate=Fate.ACK)
            await self._settle_plain([End(end.message, plain)])
        except Exception as error:
            await self._settle_failed(end, describe(error))

    async def _settle_failed(self, end: End, error: str) -> None:
        ending = decide.settle(end.message, Failed(error), self._queue.settings)
        self._observer.handled(end.message, self._queue, ending)
        await self._settle_plain([End(end.message, ending)])

    async def _told(self, settlement: Settlement) -> None:
        result = await self._store.messages.settle(SYSTEM, settlement)
        if result.refused:
            self._observer.refused(result.refused)

    async def _patiently(
        self, settle: Callable[[], Awaitable[None]], *, although: type[StoreError] = StoreError
    ) -> None:
        """Again and again while the database is away: what is held is held, or is refused.

        A plain end has no other way; what carries more may itself be what the database refuses.
        """
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                await settle()
            except although as error:
                self._observer.trouble("settle", error)
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
