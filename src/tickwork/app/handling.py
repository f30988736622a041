"""The work under way: what a handler sends, writes and starts belongs to it until it ends.

Inside a handler nothing goes out by itself. What it sends is kept here, and commits with the
end of its message or not at all. The context carries it, so that a plain `queue.send(…)` deep
inside a handler knows where it belongs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, NamedTuple

from tickwork.core.limits import check_message
from tickwork.core.model import Send
from tickwork.errors import TickworkError

SENDS_MAX = 10_000
"""As many messages as one handler may send: they are one transaction."""


class HandlerEnded(TickworkError):
    """A word or a send of a handler that has ended: it belongs to nothing any more."""

    code = "handler_ended"

    def __init__(self) -> None:
        super().__init__(
            "the handler that this belongs to has ended, or was stopped because it took too "
            "long; await it there, or start it with app.background(…), which ends before its "
            "handler does"
        )

    def _made_of(self) -> tuple[object, ...]:
        return ()


class TooManySends(TickworkError):
    """A handler that sends without end."""

    code = "too_many_sends"

    def __init__(self) -> None:
        super().__init__(
            f"a handler may send at most {SENDS_MAX} messages: they commit together. "
            "Make a batch instead"
        )

    def _made_of(self) -> tuple[object, ...]:
        return ()


class Write(NamedTuple):
    """A write of the caller's own, for the transaction that ends its message."""

    run: Callable[[Any], Awaitable[None] | None]


class Rows:
    """The rows of a handler's own: they commit with its message's end, or not at all.

    Nothing is written yet when these return; it happens in one short transaction after the
    handler, behind the fence of its claim.
    """

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._has_ended = False

    def execute(self, statement: str, *values: Any) -> None:
        """One statement, in the database's own dialect and with its placeholders."""

        def write(connection: Any) -> Awaitable[None] | None:
            if hasattr(connection, "fetchrow"):  # asyncpg takes values one by one, and awaits.
                done: Awaitable[None] = connection.execute(statement, *values)
                return done
            connection.execute(statement, values)
            return None

        self.run(write)

    def run(self, write: Callable[[Any], Awaitable[None] | None]) -> None:
        """A function that is given the connection: asyncpg's, awaited, or SQLite's, plain and
        on the writer's thread. It must be short, and must not commit."""
        self.check_open()
        self._writes.append(Write(write))

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def end(self) -> None:
        """Nothing can be added any more."""
        self._has_ended = True

    def check_open(self) -> None:
        """Raises `HandlerEnded` if nothing can be added any more."""
        if self._has_ended:
            raise HandlerEnded

    @property
    def is_empty(self) -> bool:
        return not self._writes

    def joined(self, connection: Any) -> Awaitable[None] | None:
        """All of them, in order, as the store calls them."""
        if hasattr(connection, "fetchrow"):
            return self._await_all(connection)
        for write in self._writes:
            wanted = write.run(connection)
            if isawaitable(wanted):
                _refuse(wanted)
        return None

    async def _await_all(self, connection: Any) -> None:
        for write in self._writes:
            wanted = write.run(connection)
            if isawaitable(wanted):
                await wanted


def keep(send: Send, kept: list[Send]) -> None:
    """Keeps a message with others; what cannot be stored later is refused now, where it is sent."""
    if len(kept) >= SENDS_MAX:
        raise TooManySends
    check_message(send.message)
    kept.append(send)


def _refuse(wanted: Awaitable[None]) -> None:
    if isinstance(wanted, Coroutine):
        wanted.close()
    raise TypeError("on SQLite a write is a plain function: there is nothing to await")


class Handling:
    """One invocation of a handler."""

    def __init__(self) -> None:
        self._sends: list[Send] = []
        self._background: set[asyncio.Task[Any]] = set()
        self._has_ended = False

    def send(self, send: Send) -> None:
        """Keeps a message until the end."""
        if self._has_ended:
            raise HandlerEnded
        keep(send, self._sends)

    def background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts work that ends before the handler is settled; what it raises, the handler did."""
        if self._has_ended:
            work.close()
            raise HandlerEnded
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    async def finish(self) -> None:
        """Waits for what was started in the background; raises what the first of it raised."""
        while self._background:
            done, _ = await asyncio.wait(self._background, return_when=asyncio.FIRST_EXCEPTION)
            self._background -= done
            for error in _raised(done):
                raise error

    async def abandon(self) -> None:
        """Stops what still runs in the background, and waits until it has ended."""
        left, self._background = self._background, set()
        for task in left:
            task.cancel()
        if left:
            _raised((await asyncio.wait(left))[0])

    def end(self) -> tuple[Send, ...]:
        """Nothing can be added any more; returns what was sent."""
        self._has_ended = True
        for task in self._background:
            task.cancel()
        return tuple(self._sends)


def _raised(tasks: Iterable[asyncio.Task[Any]]) -> list[BaseException]:
    """What they raised; to be cancelled is nothing raised."""
    errors = [task.exception() for task in tasks if not task.cancelled()]
    return [error for error in errors if error is not None]


_current: ContextVar[Handling | None] = ContextVar("tickwork_handling", default=None)


def current_handling() -> Handling | None:
    """The handler we are in, if we are in one."""
    return _current.get()


def enter(handling: Handling) -> None:
    """From here on, in this context, we are in this handler."""
    _current.set(handling)
