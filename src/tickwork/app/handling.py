"""The work under way: what a handler sends, writes and starts belongs to it until it ends.

Inside a handler nothing goes out by itself. What it sends is kept here, and commits with the
end of its message or not at all. The context carries it, so that a plain `queue.send(…)` deep
inside a handler knows where it belongs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar, Token
from inspect import isawaitable
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from tickwork.core.hashing import derived_id
from tickwork.core.limits import ENDING_ITEMS_MAX, check_ending_items, check_message
from tickwork.core.model import BatchWithItems, Message, Send
from tickwork.errors import FieldError, InvalidInput, TickworkError

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


class BatchNotStored(TickworkError):
    """A batch that a handler made, asked for before it is there."""

    code = "batch_not_stored"

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"batch {batch_id} commits with the message that is being handled, and is not there "
            "before; look at it later, by its id, or use app.batch(…, detached=True)"
        )

    def _made_of(self) -> tuple[object, ...]:
        return (self.batch_id,)


NOTHING_AWAITED = (
    "on PostgreSQL a function for rows must be `async def`, or return what is to be awaited: what "
    "nobody awaits writes nothing"
)


class Write(NamedTuple):
    """A write of the caller's own: the how manyeth, by which block, and what is to be done."""

    number: int
    rows: Rows
    what: Any


class Written:
    """What a handler wants written with the end of a message, by all its blocks, in order."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.noted = 0
        self.has_ended = False

    def end(self) -> None:
        """Nothing can be added any more."""
        self.has_ended = True

    @property
    def is_empty(self) -> bool:
        return not self.writes

    def joined(self, connection: Any) -> Awaitable[None] | None:
        """All of them, in order, as the store calls them."""
        if hasattr(connection, "fetchrow"):
            return self._await_all(connection)
        for write in self.writes:
            wanted = write.what(connection)
            if isawaitable(wanted):
                _refuse(wanted)
        return None

    async def _await_all(self, connection: Any) -> None:
        for write in self.writes:
            wanted = write.what(connection)
            if not isawaitable(wanted):
                raise TypeError(NOTHING_AWAITED)
            await wanted
            if not connection.is_in_transaction():
                return  # It ended what it is in: the store says so; more would stand by itself.


class Noted:
    """What a write is while its handler runs. Whoever awaits it takes it for done, and would look
    for its result or its error here; so it is told."""

    def __await__(self) -> NoReturn:
        raise TypeError(
            "there is nothing to await: rows are noted here, and written with the message's ack, "
            "after the handler. Write rows.execute(…) without await; a statement that fails then "
            "makes the message fail"
        )


class Rows:
    """The rows of a handler's own: they commit with its message's end, or not at all.

    Nothing is written yet when these return; it happens in one short transaction after the
    handler, behind the fence of its claim. What a `with` block (or `async with`, which is the
    same) noted is dropped if the block raises, also when its handler goes on.
    """

    def __init__(self, written: Written | None = None) -> None:
        self._written = written or Written()
        self._begun: list[int] = []

    def execute(self, statement: str, *values: Any) -> Noted:
        """One statement, in the database's own dialect and with its placeholders. One that is no
        text, or that no database can be sent, is refused here."""
        check_statement(statement)

        def write(connection: Any) -> Awaitable[None] | None:
            if hasattr(connection, "fetchrow"):  # asyncpg takes values one by one, and awaits.
                done: Awaitable[None] = connection.execute(statement, *values)
                return done
            connection.execute(statement, values)
            return None

        return self._note(write)

    def run(self, write: Callable[[Any], Awaitable[None] | None]) -> Noted:
        """A function that is given the connection: asyncpg's, awaited, or SQLite's, plain and
        on the writer's thread. It must be short, must not commit, and may be called again."""
        return self._note(write)

    def __enter__(self) -> Rows:
        self._begun.append(self._written.noted)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        begun = self._begun.pop()
        if kind is not None:
            # Of the others nothing is dropped: blocks may run side by side.
            self._written.writes[:] = [
                each
                for each in self._written.writes
                if each.rows is not self or each.number < begun
            ]

    async def __aenter__(self) -> Rows:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    def _note(self, what: Any) -> Noted:
        written = self._written
        if written.has_ended:
            raise HandlerEnded
        written.writes.append(Write(written.noted, self, what))
        written.noted += 1
        return _NOTED


_NOTED = Noted()


def check_statement(statement: object) -> None:
    """`TypeError` or `ValueError` for what a driver fails to send, with its connection."""
    if not isinstance(statement, str):
        raise TypeError(
            f"a statement is a text, not {type(statement).__name__}: write "
            'rows.execute("INSERT …", value, …), or rows.run(…) for a function'
        )
    check_text("the statement", statement)


def check_text(name: str, text: str) -> None:
    """`ValueError` for a text that is none in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has half a character at position {error.start}, {text[error.start]!r}, which "
            "no database takes; replace it, such as by text.encode(errors='replace').decode()"
        ) from None


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


class Made(NamedTuple):
    """What a handler sent, and the batches that it made."""

    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sends or self.batches)


NOTHING_MADE = Made()


class Handling:
    """One invocation of a handler; `given` is what it was given, until it ends. Without
    `has_store` it runs where no database is. Its `loop` is the one in which a coroutine is awaited,
    and with it what it starts; a plain function has none."""

    __slots__ = (
        "_background",
        "_batches",
        "_batches_named",
        "_items",
        "_items_bytes",
        "_sends",
        "given",
        "has_ended",
        "has_store",
        "loop",
    )

    def __init__(self, given: object = None, *, has_store: bool = True) -> None:
        self.given, self.has_store = given, has_store
        self._sends: list[Send] = []
        self._batches: list[BatchWithItems] = []
        self._batches_named = self._items = self._items_bytes = 0
        self._background: set[asyncio.Task[Any]] = set()
        self.has_ended = False
        self.loop: asyncio.AbstractEventLoop | None = None

    def send(self, send: Send) -> None:
        """Keeps a message until the end."""
        self._check_open()
        keep(send, self._sends)

    def batch(self, batch: BatchWithItems) -> None:
        """Keeps a batch until the end."""
        self._check_open()
        items = self._items + (len(batch.items) or 1)
        items_bytes = self._items_bytes + sum(len(item.body) for item in batch.items)
        check_ending_items(items, items_bytes)
        self._items, self._items_bytes = items, items_bytes
        self._batches.append(batch)

    @property
    def cause(self) -> Message | None:
        """The one message that is handled; None if there are several."""
        return getattr(self.given, "stored", None)

    @property
    def compose(self) -> object:
        """What makes the messages of the app whose handler it is."""
        return getattr(self.given, "compose", None)

    def room(self) -> int:
        """How many items of batches it may still make."""
        return ENDING_ITEMS_MAX - self._items

    def number_batch(self) -> int:
        """The number of one more batch that is made here, in whichever way."""
        self._check_open()
        self._batches_named += 1
        return self._batches_named

    def detached_id(self, number: int) -> UUID | None:
        """The id of a batch that is stored at once: the same one when the message is handled
        again. None if nothing stays the same then: batches of messages are put together anew."""
        if not self.has_store:
            fault = "needs the database, which is not in this process; use isolation='task'"
            raise InvalidInput([FieldError("detached", fault)])
        if self.cause is None:
            return None
        return derived_id(self.cause.id, f"batch {number}")

    def _check_open(self) -> None:
        if self.has_ended:
            raise HandlerEnded

    def background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts work that ends before the handler is settled; what it raises, the handler did."""
        if self.has_ended:
            work.close()
            raise HandlerEnded
        if self.loop is None or self.loop is not _running_loop():
            work.close()
            fault = (
                "is not possible in a plain function, nor in an event loop of your own: nobody "
                "would wait for it there. Await it, or make the handler `async def`"
            )
            raise InvalidInput([FieldError("background", fault)])
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    @property
    def has_background(self) -> bool:
        """Whether anything was started in the background."""
        return bool(self._background)

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

    def end(self) -> Made:
        """Nothing can be added any more; returns what was sent and made."""
        self.has_ended, self.given = True, None
        for task in self._background:
            task.cancel()
        if not self._sends and not self._batches:
            return NOTHING_MADE
        return Made(tuple(self._sends), tuple(self._batches))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _raised(tasks: Iterable[asyncio.Task[Any]]) -> list[BaseException]:
    """What they raised; to be cancelled is nothing raised."""
    errors = [task.exception() for task in tasks if not task.cancelled()]
    return [error for error in errors if error is not None]


_current: ContextVar[Handling | None] = ContextVar("tickwork_handling", default=None)


def current_handling() -> Handling | None:
    """The handler we are in, if we are in one."""
    return _current.get()


def enter(handling: Handling) -> Token[Handling | None]:
    """From here on, in this context, we are in this handler, until we `leave` with the answer."""
    return _current.set(handling)


def leave(before: Token[Handling | None]) -> None:
    """We are where we were before. What was started meanwhile has a context of its own."""
    _current.reset(before)
