"""Joint settlements in groups, and protection from what a caller's own writes raise.

Joint settlements that arrive during a commit share the next transaction. Any failure in it (a lost
claim, a done event, a write that raises) rolls the group back, and each settlement then runs alone.
So an error reaches only its own caller, and each caller gets all or nothing.

One failure reaches all callers: if the answer of the COMMIT is lost, its outcome is unknown. Each
caller asks again; the claim fences the repeat.

A caller's write may raise what is not an `Exception`, such as `sys.exit()` or a cancellation that
no one requested. That would end a task or a process of others, so it becomes an ordinary error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import Generic, TypeVar

from tickwork.core.model import Ending
from tickwork.errors import StoreUnavailable
from tickwork.store.message_contract import Joined

TOGETHER_MAX = 50
"""Maximum number of rows in one group. A larger settlement runs alone."""

SLOW_SECONDS = 0.5
"""Seconds after which a group counts as slow: the next group is half as large."""

ALONE_MAX = 5_000
"""Maximum number of settlements that run alone after a failed group, before the next group is
tried."""

PATIENCE_SECONDS = 0.2
"""Maximum number of seconds to wait for settlements that run alone, while others gather."""

NOT_ITS_TO_END = (
    "what joins a settlement must not begin, commit or roll back: its rows are committed with the "
    "settlement, and undone if it raises"
)


class Joint:
    """A settlement and its caller's writes."""

    def __init__(self, endings: Sequence[Ending], joined: Joined) -> None:
        self.endings, self.joined = endings, joined
        self.rows = len(endings) + sum(len(b.items) for ending in endings for b in ending.batches)
        self.context: Context = copy_context()
        loop = asyncio.get_running_loop()
        self.is_settled: asyncio.Future[bool] = loop.create_future()
        self.is_finished: asyncio.Future[None] = loop.create_future()

    def answer(self, is_settled: bool) -> None:
        """Reports to the caller that it is settled, or that it must run alone."""
        if not self.is_settled.done():
            self.is_settled.set_result(is_settled)

    def fail(self, error: BaseException) -> None:
        """Reports to the caller that the outcome is unknown."""
        if not self.is_settled.done():
            self.is_settled.set_exception(error)

    def end(self) -> None:
        """Marks that the caller is finished."""
        if not self.is_finished.done():
            self.is_finished.set_result(None)


Some = TypeVar("Some", bound=Joint)


class Gathering(Generic[Some]):
    """Forms groups of joint settlements.

    `together` carries out a group, or raises and changes nothing. If it has set the event,
    `StoreUnavailable` means that the outcome is unknown.
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
        self._alone = self._alone_next = 0

    async def settle(self, joint: Some, alone: Callable[[], Awaitable[None]]) -> None:
        """Settles in a group if possible, else calls `alone`. A caller that stops waiting before
        its turn has no effect; later it may have one."""
        self._waiting.append(joint)
        if len(self._flights) < self._flights_max:
            # In an empty context, because the group is not only the first caller's work.
            flight = asyncio.create_task(self._fly(), context=Context())
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        try:
            if not await joint.is_settled:
                await alone()
        finally:
            joint.end()

    async def drain(self) -> None:
        """Waits until no group is running."""
        while self._flights:
            await asyncio.wait(self._flights)

    async def _fly(self) -> None:
        # Waits one turn of the event loop, so that calls made together share a transaction.
        await asyncio.sleep(0)
        while self._waiting:
            group, is_alone = self._next_group()
            if len(group) > 1 and not is_alone and await self._settled_together(group):
                continue
            for joint in group:
                joint.answer(False)
            if group:
                await asyncio.wait([joint.is_finished for joint in group], timeout=PATIENCE_SECONDS)
        # Not in a callback, which runs a turn later: a settlement that arrived in between would
        # wait for ever.
        self._flights.discard(_this_task())

    def _next_group(self) -> tuple[list[Some], bool]:
        """Takes some of the waiting settlements; returns whether they run alone."""
        is_alone = self._alone > 0
        group: list[Some] = []
        rows = 0
        while self._waiting and (not group or rows + self._waiting[0].rows <= self._together_max):
            joint = self._waiting.popleft()
            if not joint.is_settled.done():  # Its caller may have stopped waiting.
                rows += joint.rows
                group.append(joint)
        self._alone = max(0, self._alone - len(group))
        return group, is_alone

    async def _settled_together(self, group: Sequence[Some]) -> bool:
        """Whether all of them have their answer. If not, nothing was changed."""
        is_committing, is_slow = asyncio.Event(), asyncio.Event()
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, is_slow.set)
        # In its own task, so that any exception reaches the waiting callers.
        task = asyncio.ensure_future(self._together(group, is_committing))
        await asyncio.wait([task])
        timer.cancel()
        wanted = len(group) // 2 if is_slow.is_set() else self._together_max * 2
        self._together_max = max(2, min(wanted, TOGETHER_MAX))
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self._alone_next //= 2
            for joint in group:
                joint.answer(True)
            return True
        self._alone = self._alone_next = min(max(2 * self._alone_next, TOGETHER_MAX), ALONE_MAX)
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
    """An ordinary error that replaces one that is not an `Exception`."""
    return RuntimeError(f"what joins a settlement raised {type(error).__name__}")


class Contained:
    """A block of a caller's own code. It raises nothing but `Exception`, except for errors that
    `passes` accepts."""

    def __init__(self, passes: Callable[[BaseException], bool] | None = None) -> None:
        self._passes = passes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        if self._passes is None or not self._passes(error):
            raise contained(error) from error
