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
"""Maximum number of rows in one group, unless a single call has more."""


class _Waiting(NamedTuple, Generic[Item, Answer]):
    item: Item
    rows: int
    answer: asyncio.Future[Answer]


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
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, item: Item, rows: int = 1) -> asyncio.Future[Answer]:
        """Commits the item with others that wait; returns its answer.

        A submitted item is carried out even if its caller stops waiting: that cancels its answer
        only.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(item, rows, answer))
        if len(self._tasks) < self._flights_max:
            task = asyncio.create_task(self._commit_groups())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    async def drain(self) -> None:
        """Waits until no commit is running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _commit_groups(self) -> None:
        # Waits one turn of the event loop, so that calls made together share a commit.
        await asyncio.sleep(0)
        while self._waiting:
            await self._answer(self._next_group())
        # Not in a callback, which runs a turn later: an item submitted in between would rely on
        # this task, which takes no more items, and wait for ever.
        self._tasks.discard(asyncio.current_task())

    def _next_group(self) -> list[_Waiting[Item, Answer]]:
        group: list[_Waiting[Item, Answer]] = []
        rows = 0
        while self._waiting and (not group or rows + self._waiting[0].rows <= self._rows_max):
            rows += self._waiting[0].rows
            group.append(self._waiting.popleft())
        return group

    async def _answer(self, group: list[_Waiting[Item, Answer]]) -> None:
        try:
            answers = await self._commit([each.item for each in group])
        except Exception as error:
            if not _is_caused_by_one_call(error) or len(group) == 1:
                _fail(group, error)
                return
        except BaseException:  # The event loop closes.
            for each in group:
                each.answer.cancel()
            raise
        else:
            for each, answer in zip(group, answers, strict=True):
                if isinstance(answer, Exception):
                    _fail([each], answer)
                elif not each.answer.done():
                    each.answer.set_result(answer)
            return
        middle = len(group) // 2
        await self._answer(group[:middle])
        await self._answer(group[middle:])


def _is_caused_by_one_call(error: BaseException) -> bool:
    """Whether one call caused the error, not the database: the others may succeed without it."""
    return isinstance(error, TickworkError) and not isinstance(error, StoreError)


def _fail(group: Sequence[_Waiting[Item, Answer]], error: BaseException) -> None:
    for each in group:
        if not each.answer.done():
            each.answer.set_exception(error)
            each.answer.exception()  # Marks it as retrieved, in case the caller stopped waiting.
