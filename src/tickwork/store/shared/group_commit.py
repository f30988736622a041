"""Group commit: calls that arrive during a commit share the next one.

There is no timer. A single call commits at once, and groups grow with the load. If the database
refuses a group, it is halved until the faulty call is alone, so that one bad call does not fail the
others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from tickwork.errors import StoreError, TickworkError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

ROWS_MAX = 1_000


class _Waiting(NamedTuple, Generic[Item, Answer]):
    item: Item
    rows: int
    answer: asyncio.Future[Answer]


class Coalescer(Generic[Item, Answer]):
    """Groups single calls. `commit` returns the answers of a group in order, or raises."""

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        flights_max: int = 1,
        rows_max: int = ROWS_MAX,
    ) -> None:
        self._commit = commit
        self._flights_max, self._rows_max = flights_max, rows_max
        self._waiting: deque[_Waiting[Item, Answer]] = deque()
        self._flights: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item, rows: int = 1) -> Answer:
        """Commits the item with others that wait, and returns its answer.

        A submitted item is carried out even if its caller stops waiting.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(item, rows, answer))
        if len(self._flights) < self._flights_max:
            flight = asyncio.create_task(self._fly())
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        return await asyncio.shield(answer)

    async def drain(self) -> None:
        """Waits until no commit is running."""
        while self._flights:
            await asyncio.wait(self._flights)

    async def _fly(self) -> None:
        # One turn of the loop, so that calls made together travel together.
        await asyncio.sleep(0)
        while self._waiting:
            await self._answer(self._next_group())
        # At once, not by a callback a turn later: whoever submits in between would find a
        # flight that takes nobody along any more, and wait for ever.
        self._flights.discard(asyncio.current_task())

    def _next_group(self) -> list[_Waiting[Item, Answer]]:
        group: list[_Waiting[Item, Answer]] = []
        rows = 0
        while self._waiting and (not group or rows + self._waiting[0].rows <= self._rows_max):
            rows += self._waiting[0].rows
            group.append(self._waiting.popleft())
        return group

    async def _answer(self, group: list[_Waiting[Item, Answer]]) -> None:
        # A task of its own, so that whatever it raises is handed to those who wait.
        committing = asyncio.ensure_future(self._commit([each.item for each in group]))
        await asyncio.wait([committing])
        error = committing.exception()
        if error is None:
            for each, answer in zip(group, committing.result(), strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)
        elif _may_be_one_of_them(error) and len(group) > 1:
            middle = len(group) // 2
            await self._answer(group[:middle])
            await self._answer(group[middle:])
        else:
            _fail(group, error)


def _may_be_one_of_them(error: BaseException) -> bool:
    """Whether one call caused the error, not the database: the others may succeed without it."""
    return isinstance(error, TickworkError) and not isinstance(error, StoreError)


def _fail(group: Sequence[_Waiting[Item, Answer]], error: BaseException) -> None:
    for each in group:
        if not each.answer.done():
            each.answer.set_exception(error)
            each.answer.exception()  # Seen, also when nobody waits for it any more.
