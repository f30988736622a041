"""Joint settlements of one moment, put together: a short cut, and nothing more.

Whoever is ready while others are being committed goes along with the next group, in one
transaction. Whatever goes wrong on it (a claim that is lost, an event that is done, a write that
raises) undoes the whole group, and each of it goes by itself. So what a write raises reaches its
own caller only, and each caller has all or nothing.

Only a COMMIT whose answer is lost is passed on to all: nobody knows, so everybody must ask again,
behind the fence of the claim.

A caller's own code in the middle of our work: what it raises is its own error, and no more.

`sys.exit()`, or a cancellation that nobody asked of us, would go past all who can tell whose it is,
and end a task or a program that belongs to others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import Generic, TypeVar

from tickwork.core.model import Ending
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Joined

TOGETHER_MAX = 50
"""So many rows end in one group; one that is larger by itself goes by itself."""

SLOW_SECONDS = 0.5
"""A group that takes longer was too large for this line: the next one is half of it."""

APART_MAX = 5_000
"""After a group that failed so many at most go by themselves before the next one is tried."""

PATIENCE_SECONDS = 0.2
"""Who goes by himself is waited for, so that others gather meanwhile; but not for ever."""

NOT_ITS_TO_END = (
    "what joins a settlement must not begin, commit or roll back: its rows are committed with the "
    "settlement, and undone if it raises"
)


class Joint:
    """A settlement and what its caller writes; it has its turn once."""

    def __init__(self, endings: Sequence[Ending], joined: Joined) -> None:
        self.endings, self.joined = endings, joined
        self.rows = len(endings) + sum(len(b.items) for each in endings for b in each.batches)
        self.context: Context = copy_context()
        loop = asyncio.get_running_loop()
        self.is_settled: asyncio.Future[bool] = loop.create_future()
        self.is_over: asyncio.Future[None] = loop.create_future()

    def answer(self, is_settled: bool) -> None:
        """Lets its caller go on: it is done, or is to be done by itself."""
        if not self.is_settled.done():
            self.is_settled.set_result(is_settled)

    def fail(self, error: BaseException) -> None:
        """Lets its caller know that nobody knows."""
        if not self.is_settled.done():
            self.is_settled.set_exception(error)

    def end(self) -> None:
        """Its caller wants nothing any more."""
        if not self.is_over.done():
            self.is_over.set_result(None)


Some = TypeVar("Some", bound=Joint)


class Gathering(Generic[Some]):
    """Forms groups of joint settlements.

    `together` carries a group out or raises, with nothing done; unless it has set the event: then
    `StoreUnavailable` means that nobody knows.
    """

    def __init__(
        self,
        together: Callable[[Sequence[Some], asyncio.Event], Awaitable[None]],
        *,
        flights_max: int,
    ) -> None:
        self._together, self._flights_max = together, flights_max
        self._waiting: deque[Some] = deque()
        self._flights: set[asyncio.Task[None]] = set()
        self._together_max = TOGETHER_MAX
        self._apart = self._apart_next = 0

    async def settle(self, joint: Some, alone: Callable[[], Awaitable[None]]) -> None:
        """With others if that is possible, else `alone`. Whoever stops waiting before its turn has
        no effect; later it may have one."""
        self._waiting.append(joint)
        if len(self._flights) < self._flights_max:
            # In a context of nobody's: it is not the first caller's work alone.
            flight = asyncio.create_task(self._fly(), context=Context())
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        try:
            if not await joint.is_settled:
                await alone()
        finally:
            joint.end()

    async def drain(self) -> None:
        """Waits until nothing is under way."""
        while self._flights:
            await asyncio.wait(self._flights)

    async def _fly(self) -> None:
        # One turn of the loop, so that calls made together travel together.
        await asyncio.sleep(0)
        while self._waiting:
            group, is_apart = self._next_group()
            if len(group) > 1 and not is_apart and await self._settled_together(group):
                continue
            for joint in group:
                joint.answer(False)
            if group:
                await asyncio.wait([each.is_over for each in group], timeout=PATIENCE_SECONDS)
        # At once, not by a callback a turn later: whoever comes in between would wait for ever.
        self._flights.discard(_this_task())

    def _next_group(self) -> tuple[list[Some], bool]:
        """Some of those who wait, and whether they go by themselves."""
        is_apart = self._apart > 0
        group: list[Some] = []
        rows = 0
        while self._waiting and (not group or rows + self._waiting[0].rows <= self._together_max):
            joint = self._waiting.popleft()
            if not joint.is_settled.done():  # Its caller may have stopped waiting.
                rows += joint.rows
                group.append(joint)
        self._apart = max(0, self._apart - len(group))
        return group, is_apart

    async def _settled_together(self, group: Sequence[Some]) -> bool:
        """Whether all of them have their answer; if not, nothing of them happened."""
        is_committing, is_slow = asyncio.Event(), asyncio.Event()
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, is_slow.set)
        # A task of its own, so that whatever it raises is handed to those who wait.
        task = asyncio.ensure_future(self._together(group, is_committing))
        await asyncio.wait([task])
        timer.cancel()
        wanted = len(group) // 2 if is_slow.is_set() else self._together_max * 2
        self._together_max = max(2, min(wanted, TOGETHER_MAX))
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self._apart_next //= 2
            for joint in group:
                joint.answer(True)
            return True
        self._apart = self._apart_next = min(max(2 * self._apart_next, TOGETHER_MAX), APART_MAX)
        if not is_committing.is_set() or not isinstance(error, StoreUnavailable):
            return False
        for joint in group:
            joint.fail(StoreUnavailable(str(error)))
        return True


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


def contained(error: BaseException) -> RuntimeError:
    """An error like any other in place of one that is no `Exception`."""
    return RuntimeError(f"what joins a settlement raised {type(error).__name__}")


class Contained:
    """A block of a caller's own code: it raises nothing but an `Exception`, save what `passes`
    knows to be meant for us."""

    def __init__(self, passes: Callable[[BaseException], bool] | None = None) -> None:
        self._passes = passes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        if self._passes is None or not self._passes(error):
            raise contained(error) from error
