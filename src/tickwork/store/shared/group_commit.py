"""Group commit: calls that arrive during a commit share the next one.

There is no timer. A single call commits at once, and groups grow with the load. If the database
refuses a group, it is halved until the faulty call is alone, so that one bad call does not fail the
others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from tickwork.errors import StoreError, TickworkError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

ROWS_MAX = 1_000
"""Maximum number of rows in one group, unless a single call has more."""


class _Waiting(Struct, Generic[Item, Answer], frozen=True):
    item: Item
    rows: int
    answer: asyncio.Future[Answer]


Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class Grouped(Protocol[Item_contra, Answer_co]):
    """Takes single calls."""

    def submit(self, item: Item_contra, rows: int = 1) -> Awaitable[Answer_co]:
        """Commits the item; returns its answer."""

    async def drain(self) -> None:
        """Waits until no commit is running."""


class Alone(Generic[Item, Answer]):
    """Calls that are not grouped: each is carried out in the task of its caller."""

    def __init__(
        self, commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
    ) -> None:
        self._commit = commit

    async def submit(self, item: Item, rows: int = 1) -> Answer:  # noqa: ARG002
        (answer,) = await self._commit([item])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def drain(self) -> None:
        """Nothing waits."""


class Coalescer(Generic[Item, Answer]):
    """Groups single calls. `commit` returns the answers of a group in order, or raises. An answer
    that is an exception is raised in its own call."""

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        flights_max: int = 1,
        rows_max: int = ROWS_MAX,
    ) -> None:
        self._commit = commit
        self._flights_max, self._rows_max = flights_max, rows_max
        self._waiting: deque[_Waiting[Item, Answer]] = deque()
        self._halves: deque[list[_Waiting[Item, Answer]]] = deque()
        self._flights = 0
        self._commits: set[asyncio.Future[Sequence[Answer | Exception]]] = set()

    def submit(self, item: Item, rows: int = 1) -> asyncio.Future[Answer]:
        """Commits the item with others that wait; returns its answer.

        A submitted item is carried out even if its caller stops waiting: that cancels its answer
        only.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(_Waiting(item, rows, answer))
        if self._flights < self._flights_max:
            self._flights += 1
            # Two turns of the event loop later, so that calls made together share a commit.
            loop.call_soon(loop.call_soon, self._start)
        return answer

    async def drain(self) -> None:
        """Waits until no commit is running."""
        while self._flights:
            await (asyncio.wait(self._commits) if self._commits else asyncio.sleep(0))

    def _start(self) -> None:
        """Starts the next commit of a flight, which ends when no call waits."""
        if not self._halves and not self._waiting:
            self._flights -= 1
            return
        group = self._halves.popleft() if self._halves else self._next_group()
        commit: asyncio.Future[Sequence[Answer | Exception]]
        try:
            commit = asyncio.ensure_future(self._commit([call.item for call in group]))
        except Exception as error:
            commit = asyncio.get_running_loop().create_future()
            commit.set_exception(error)
        self._commits.add(commit)
        commit.add_done_callback(partial(self._finish, group))

    def _next_group(self) -> list[_Waiting[Item, Answer]]:
        group: list[_Waiting[Item, Answer]] = []
        rows = 0
        while self._waiting and (not group or rows + self._waiting[0].rows <= self._rows_max):
            rows += self._waiting[0].rows
            group.append(self._waiting.popleft())
        return group

    def _finish(
        self,
        group: list[_Waiting[Item, Answer]],
        commit: asyncio.Future[Sequence[Answer | Exception]],
    ) -> None:
        """Answers the calls of a commit that has ended, and starts the next one."""
        self._commits.discard(commit)
        if commit.cancelled():  # The event loop closes.
            self._flights -= 1
            for call in group:
                call.answer.cancel()
            return
        error = commit.exception()
        if error is None:
            for call, answer in zip(group, commit.result(), strict=True):
                if isinstance(answer, Exception):
                    _fail([call], answer)
                elif not call.answer.done():
                    call.answer.set_result(answer)
        elif _is_caused_by_one_call(error) and len(group) > 1:
            middle = len(group) // 2
            self._halves.extendleft([group[middle:], group[:middle]])
        else:
            _fail(group, error)
        self._start()


def _is_caused_by_one_call(error: BaseException) -> bool:
    """Whether one call caused the error, not the database: the others may succeed without it."""
    return isinstance(error, TickworkError) and not isinstance(error, StoreError)


def _fail(group: Sequence[_Waiting[Item, Answer]], error: BaseException) -> None:
    for call in group:
        if not call.answer.done():
            call.answer.set_exception(error)
            call.answer.exception()  # Marks it as retrieved, in case the caller stopped waiting.
