"""One run of a handler: collects its sends, batches, rows and background tasks until it ends.

Sends of a handler are collected here and commit with the settlement of its message, or not at all.
A context variable holds the current run, so a plain `queue.send(…)` deep inside a handler finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar, Token
from inspect import isawaitable
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from tickwork.core.limits import ENDING_ITEMS_MAX, check_ending_items, check_message
from tickwork.core.message.decide import cause_name
from tickwork.core.model import BatchWithItems, Message, Send
from tickwork.core.stable_hash import derived_id
from tickwork.errors import FieldError, InvalidInput, TickworkError

SENDS_MAX = 10_000
"""Maximum number of messages one handler may send. They are stored in one transaction."""


class HandlerEnded(TickworkError):
    """A call that belongs to a handler was made after the handler had ended."""

    code = "handler_ended"

    def __init__(self) -> None:
        super().__init__(
            "the handler has ended or timed out; await this inside the handler, or start it with "
            "app.background(…)"
        )

    def _init_args(self) -> tuple[object, ...]:
        return ()


class TooManySends(TickworkError):
    """A handler sent more than `SENDS_MAX` messages."""

    code = "too_many_sends"

    def __init__(self) -> None:
        super().__init__(
            f"a handler may send at most {SENDS_MAX} messages, because they commit "
            "together; use app.batch(…) instead"
        )

    def _init_args(self) -> tuple[object, ...]:
        return ()


class BatchNotStored(TickworkError):
    """A batch made by a handler was read before it was stored."""

    code = "batch_not_stored"

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"batch {batch_id} is stored with the message's ack and cannot be read yet; read it "
            "later by its id, or use app.batch(…, detached=True)"
        )

    def _init_args(self) -> tuple[object, ...]:
        return (self.batch_id,)


NOTHING_AWAITED = (
    "on PostgreSQL a function passed to rows.run(…) must be `async def` or return an awaitable; "
    "otherwise its statements are not executed"
)


class Write(NamedTuple):
    """One write of the handler: its number, the block it belongs to, and the function."""

    number: int
    rows: Rows
    what: Any


class Written:
    """The writes to execute when a message is settled, of all blocks, in order."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.noted = 0
        self.has_ended = False

    def end(self) -> None:
        """Refuses further writes."""
        self.has_ended = True

    @property
    def is_empty(self) -> bool:
        return not self.writes

    def joined(self, connection: Any) -> Awaitable[None] | None:
        """Executes all writes in order; called by the store in its transaction."""
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
                return  # It ended the transaction; the store raises. More would commit separately.


class Noted:
    """The result of recording a write. Awaiting it raises, because the write happens later and its
    result or error is not available in the handler."""

    def __await__(self) -> NoReturn:
        raise TypeError(
            "there is nothing to await: rows are written with the message's ack, after the "
            "handler. Call rows.execute(…) without await; if the statement fails, the message fails"
        )


class Rows:
    """Rows of the handler that commit with the settlement of its message, or not at all.

    The methods only record what to write. It is written in one short transaction after the handler,
    fenced by its claim. If a `with` (or `async with`) block raises, its writes are dropped, even if
    the handler catches the error.
    """

    def __init__(self, written: Written | None = None) -> None:
        self._written = written or Written()
        self._begun: list[int] = []

    def execute(self, statement: str, *values: Any) -> Noted:
        """Records one statement, in the dialect and with the placeholders of the database. Raises
        if it is not a text or cannot be encoded."""
        check_statement(statement)

        def write(connection: Any) -> Awaitable[None] | None:
            if hasattr(connection, "fetchrow"):  # asyncpg takes values one by one and is awaited.
                done: Awaitable[None] = connection.execute(statement, *values)
                return done
            connection.execute(statement, values)
            return None

        return self._note(write)

    def run(self, write: Callable[[Any], Awaitable[None] | None]) -> Noted:
        """Records a function that takes the connection: on PostgreSQL asyncpg's, awaited; on SQLite
        a plain call in the writer's thread. It must be short, must not commit, and may be called
        again."""
        return self._note(write)

    def __enter__(self) -> Rows:
        self._begun.append(self._written.noted)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        begun = self._begun.pop()
        if kind is not None:
            # Keep the writes of other blocks: blocks may run concurrently.
            self._written.writes[:] = [
                write
                for write in self._written.writes
                if write.rows is not self or write.number < begun
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
    """Raises `TypeError` or `ValueError` for a statement that would break the connection."""
    if not isinstance(statement, str):
        raise TypeError(
            f"a statement must be a str, not {type(statement).__name__}: write "
            'rows.execute("INSERT …", value, …), or rows.run(…) for a function'
        )
    check_text("the statement", statement)


def check_text(name: str, text: str) -> None:
    """Raises `ValueError` for a text that cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has a lone surrogate at position {error.start}, {text[error.start]!r}, which "
            "cannot be stored; replace it, for example by text.encode(errors='replace').decode()"
        ) from None


def keep(send: Send, kept: list[Send]) -> None:
    """Adds a message to those kept. Raises now if it could not be stored later."""
    if len(kept) >= SENDS_MAX:
        raise TooManySends
    check_message(send.message)
    kept.append(send)


def _refuse(wanted: Awaitable[None]) -> None:
    if isinstance(wanted, Coroutine):
        wanted.close()
    raise TypeError(
        "on SQLite a function passed to rows.run(…) must be a plain function, not awaitable"
    )


class Made(NamedTuple):
    """The messages a handler sent and the batches it made."""

    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sends or self.batches)


NOTHING_MADE = Made()


class Handling:
    """One run of a handler. `given` is its argument, None after the end.

    Without `has_store` it runs in a process without a database. One that is never repeated
    (`is_repeated`) is a direct call of an entity. `loop` is the event loop of a
    coroutine handler and of its background tasks; a plain function has none.
    """

    __slots__ = (
        "_background",
        "_batches",
        "_batches_named",
        "_calls_named",
        "_items",
        "_items_bytes",
        "_sends",
        "given",
        "has_ended",
        "has_store",
        "is_repeated",
        "loop",
    )

    def __init__(
        self, given: object = None, *, has_store: bool = True, is_repeated: bool = True
    ) -> None:
        self.given = given
        self.has_store = has_store
        self.is_repeated = is_repeated
        self._sends: list[Send] = []
        self._batches: list[BatchWithItems] = []
        self._batches_named = 0
        self._items = self._items_bytes = 0
        self._calls_named = 0
        self._background: set[asyncio.Task[Any]] = set()
        self.has_ended = False
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def can_ask(self) -> bool:
        """Whether the database can be asked here: in the event loop of the worker. A function in a
        thread that runs a loop of its own would need connections of its own."""
        return self.has_store and self.loop is not None and self.loop is _running_loop()

    def send(self, send: Send) -> None:
        """Keeps a message or an event until the handler ends."""
        self._check_open()
        keep(send, self._sends)

    def batch(self, batch: BatchWithItems) -> None:
        """Keeps a batch until the handler ends."""
        self._check_open()
        items = self._items + (len(batch.items) or 1)
        items_bytes = self._items_bytes + sum(len(item.body) for item in batch.items)
        check_ending_items(items, items_bytes)
        self._items, self._items_bytes = items, items_bytes
        self._batches.append(batch)

    @property
    def cause(self) -> Message | None:
        """The message being handled; None for a batch of messages."""
        return getattr(self.given, "stored", None)

    @property
    def compose(self) -> object:
        """The object that composes messages of the handler's app."""
        return getattr(self.given, "compose", None)

    def room(self) -> int:
        """Number of batch items the handler may still add."""
        return ENDING_ITEMS_MAX - self._items

    def number_batch(self) -> int:
        """The number of the next batch made in this run, detached or not."""
        self._check_open()
        self._batches_named += 1
        return self._batches_named

    def detached_id(self, number: int) -> UUID | None:
        """The id of a detached batch: the same when the message is retried. None for a batch of
        messages, because a retry may group other messages."""
        if not self.has_store:
            fault = (
                "needs the database, which a handler process does not have; use isolation='task'"
            )
            raise InvalidInput([FieldError("detached", fault)])
        if self.cause is None:
            return None
        return derived_id(self.cause.id, f"batch {number}")

    def next_call_key(self) -> str | None:
        """The idempotency key of the next call of an entity in this run: the same when the message
        is retried. None for a batch of messages, and for a run that is never repeated."""
        self._check_open()
        self._calls_named += 1
        cause = self.cause if self.is_repeated else None
        return None if cause is None else f"{cause.event_id or cause.id}:{self._calls_named}"

    def check_effect(self, what: str) -> None:
        """Raises `InvalidInput` where an effect would be repeated: in the body of a workflow."""

    def _check_open(self) -> None:
        if self.has_ended:
            raise HandlerEnded

    def background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a task that finishes before the message is settled; its error fails the run."""
        if self.has_ended:
            work.close()
            raise HandlerEnded
        if self.loop is None or self.loop is not _running_loop():
            work.close()
            fault = (
                "works only in the event loop of an `async def` handler; await the work, or make "
                "the handler `async def`"
            )
            raise InvalidInput([FieldError("background", fault)])
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    @property
    def has_background(self) -> bool:
        """Whether background tasks were started."""
        return bool(self._background)

    async def finish(self) -> None:
        """Waits for the background tasks; raises the first error of one."""
        while self._background:
            done, _ = await asyncio.wait(self._background, return_when=asyncio.FIRST_EXCEPTION)
            self._background -= done
            for error in _raised(done):
                raise error

    async def abandon(self) -> None:
        """Cancels the remaining background tasks and waits until they have finished."""
        left, self._background = self._background, set()
        for task in left:
            task.cancel()
        if left:
            _raised((await asyncio.wait(left))[0])

    def end(self) -> Made:
        """Refuses further calls; returns the sends and batches."""
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
    """The errors of finished tasks. A cancelled task has none."""
    errors = [task.exception() for task in tasks if not task.cancelled()]
    return [error for error in errors if error is not None]


_current: ContextVar[Handling | None] = ContextVar("tickwork_handling", default=None)


def current_handling() -> Handling | None:
    """The run of the handler that called this; None outside handlers."""
    return _current.get()


def check_read() -> None:
    """Raises `InvalidInput` in the body of a workflow: what it reads may differ on every replay."""
    if (handling := current_handling()) is not None:
        handling.check_effect("uses the database")


_correlation: ContextVar[str | None] = ContextVar("tickwork_correlation", default=None)


def correlation_now() -> str | None:
    """The correlation id of the message or HTTP request that is being handled."""
    handling = _current.get()
    cause = None if handling is None else handling.cause
    return _correlation.get() if cause is None else cause.correlation


def causation_now() -> str | None:
    """What names the message that is being handled as a cause: its event id, or its id."""
    handling = _current.get()
    cause = None if handling is None else handling.cause
    return None if cause is None else cause_name(cause)


def correlate(correlation_id: str) -> None:
    """What is sent in this context, outside handlers of messages, has this correlation id."""
    _correlation.set(correlation_id)


def step_out() -> None:
    """Leaves the handler in this context: what follows is stored at once, not with the ack."""
    _current.set(None)


def enter(handling: Handling) -> Token[Handling | None]:
    """Makes a run the current one in this context; pass the result to `leave`."""
    return _current.set(handling)


def leave(before: Token[Handling | None]) -> None:
    """Restores the previous run. Tasks started meanwhile have their own context."""
    _current.reset(before)
