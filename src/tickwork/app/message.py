"""What a handler gets: a `Message` or a `MessageBatch`; and what it may raise.

The first `ack` or `retry` on a message wins, and one on the message beats one on the batch.
Messages that the handler did not settle are acked when it returns and retried when it raises or is
stopped. After that every call raises `HandlerEnded`.

`Message` and `MessageBatch` are what users see. The engine creates their subclasses
`ClaimedMessage` and `ClaimedBatch`, which also show what the handler asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypedDict, overload

from tickwork.app.invocation import HandlerEnded, Handling, Rows, Written, keep
from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.message.dead_letter import Death, read_death
from tickwork.core.message.outcome import Outcome, RetryRequested, Succeeded
from tickwork.core.model import Message as Stored
from tickwork.core.model import Send
from tickwork.core.options import Given
from tickwork.core.options.message import SendOptions

if TYPE_CHECKING:
    # A default lets users write `Message` without a type argument. Type checkers know it from
    # typing_extensions; Python has it from 3.13 on.
    from typing_extensions import TypeVar, Unpack

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar, Unpack

    T = TypeVar("T")

B = TypeVar("B")


class MessageMetadata(TypedDict, total=False):
    """What a message belongs to. `run` is 0 for the slot itself, and counts its triggered,
    backfilled and replayed runs."""

    batch_id: Id
    schedule_id: Id
    slot: datetime
    run: int
    catch_up: bool


class Permanent(Exception):
    """Raise it when no attempt can succeed: the message becomes a dead letter at once."""


class Snooze(Exception):
    """Raise it to handle the message again after some seconds. It does not count as an attempt."""

    def __init__(self, seconds: float) -> None:
        self.seconds = checked_seconds(seconds)
        super().__init__(f"snoozed for {seconds_text(self.seconds)}")


def single_error(error: BaseException) -> BaseException:
    """The only error in a group, as `asyncio.TaskGroup` raises it, or the error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def checked_seconds(value: float) -> float:
    """A delay that the store accepts. Raises `TypeError` for what is not a number, `ValueError` for
    a number out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"seconds must be a number, not {type(value).__name__}")
    if not 0 <= value <= DELAY_SECONDS_MAX:
        raise ValueError(f"seconds must be from 0 to {DELAY_SECONDS_MAX}")
    return float(value)


def seconds_text(seconds: float) -> str:
    """Seconds for a sentence: `1 second`, `2.5 seconds`."""
    return f"{seconds:g} second" if seconds == 1 else f"{seconds:g} seconds"


Composer = Callable[..., Send]
"""Builds a message for a queue from the queue's name, the body and options."""


def _always(_: Stored) -> bool:
    return True


class NamedQueue(Generic[T]):
    """A queue by its name. `T` is the type of its messages' bodies."""

    def __init__(self, name: str) -> None:
        self.name = name


def queue_name(queue: NamedQueue[Any] | str) -> str:
    """The name of a queue that is given by its name or as an object."""
    return queue.name if isinstance(queue, NamedQueue) else queue


class Message(Generic[T]):
    """A message that a handler processes. `T` is the type of its body."""

    __slots__ = (
        "_compose",
        "_deadline",
        "_handling",
        "_has_ended",
        "_is_ours",
        "_make_rows",
        "_monotonic",
        "_outcome",
        "_sends",
        "_stored",
        "_written",
        "body",
    )

    def __init__(
        self,
        stored: Stored,
        body: T,
        *,
        compose: Composer,
        monotonic: Callable[[], float],
        deadline: float,
        make_rows: Callable[[Written], Rows] = Rows,
        is_ours: Callable[[Stored], bool] = _always,
    ) -> None:
        self._stored = stored
        self.body = body
        self._is_ours = is_ours
        self._outcome: Outcome | None = None
        self._handling: Handling | None = None
        self._make_rows, self._has_ended = make_rows, False
        self._compose = compose
        self._monotonic = monotonic
        self._deadline = deadline
        self._sends: list[Send] | None = None
        self._written: Written | None = None

    def ack(self) -> None:
        """Marks the message as done."""
        self._settle(Succeeded())

    def retry(self, delay_seconds: float | None = None) -> None:
        """Handles the message again, after the queue's backoff or after `delay_seconds`."""
        self._settle(RetryRequested(_seconds(delay_seconds)))

    @overload
    def send(
        self, queue: NamedQueue[B], body: Given[B], **options: Unpack[SendOptions]
    ) -> None: ...

    @overload
    def send(self, queue: str, body: Any, **options: Unpack[SendOptions]) -> None: ...

    def send(self, queue: NamedQueue[Any] | str, body: Any, **options: Unpack[SendOptions]) -> None:
        """Sends a message that commits with this message's ack, and only with it."""
        self._check_open()
        if self._sends is None:
            self._sends = []
        keep(self._compose(queue_name(queue), body, **options), self._sends)

    def transaction(self) -> Rows:
        """Your own rows in the same database. They commit with this message's ack."""
        self._check_open()
        if self._written is None:
            self._written = Written()
        return self._make_rows(self._written)

    def time_left(self) -> float:
        """Seconds until the handler is stopped."""
        return max(self._deadline - self._monotonic(), 0.0)

    @property
    def id(self) -> Id:
        """The message's id, `msg_…`."""
        return Id.of(Prefix.MESSAGE, self._stored.id)

    @property
    def attempts(self) -> int:
        """Number of this attempt, from 1."""
        return self._stored.attempts + 1

    @property
    def timestamp(self) -> datetime:
        """When the message was sent."""
        return self._stored.sent_at

    @property
    def tenant(self) -> str:
        """The tenant the message belongs to."""
        return self._stored.tenant

    @property
    def key(self) -> str | None:
        """The key that orders it: messages of one key are handled one after the other."""
        return self._stored.key

    @property
    def type(self) -> str | None:
        """The type that routes it to a handler."""
        return self._stored.type

    @property
    def source(self) -> str | None:
        """The program that sent it, if given."""
        return self._stored.source

    @property
    def event_id(self) -> str:
        """The producer's event id, or the message's own id."""
        return self._stored.event_id or self.id

    @property
    def correlation_id(self) -> str:
        """The id shared by all messages that follow from one; the first message's own id."""
        return self._stored.correlation_id or self.id

    @property
    def causation_id(self) -> str | None:
        """The id of the message whose handler sent this one."""
        return self._stored.causation_id

    @property
    def hops(self) -> int:
        """Number of handlers between the first message of the correlation and this one."""
        return self._stored.hops

    @property
    def idempotency_key(self) -> str | None:
        """The key of the schedule's slot it comes from, for calls to other systems. It is the same
        for every attempt, in copies and after a replay. None if it comes from no schedule."""
        return self._stored.idempotency_key

    @property
    def died(self) -> Death | None:
        """In a dead-letter queue: the queue in which it died, the reason, error, number of
        attempts, time and dead letter. None elsewhere."""
        return read_death(self._stored.death)

    @property
    def metadata(self) -> MessageMetadata:
        """The batch it belongs to, and the schedule, slot and run, where it has one."""
        found, stored = MessageMetadata(), self._stored
        if stored.batch_id is not None:
            found["batch_id"] = Id.of(Prefix.BATCH, stored.batch_id)
        if stored.schedule_id is not None:
            found["schedule_id"] = Id.of(Prefix.SCHEDULE, stored.schedule_id)
        if stored.slot is not None:
            found["slot"] = stored.slot
            found["run"] = stored.run
        if stored.catch_up:
            found["catch_up"] = True
        return found

    def _check_open(self) -> None:
        if self._has_ended:
            raise HandlerEnded

    def _settle(self, outcome: Outcome) -> None:
        self._check_open()
        if self._outcome is None:
            self._outcome = outcome


class ClaimedMessage(Message[T]):
    """A message as the engine handles it: what its handler asked for, and its end."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return dir(Message)  # What completion shows a user in a running handler.

    @property
    def stored(self) -> Stored:
        """The stored message."""
        return self._stored

    @property
    def is_ours(self) -> bool:
        """Whether its claim is certainly valid: the node's lease is trusted, and is still the one
        it was claimed under."""
        return self._is_ours(self._stored)

    @property
    def outcome(self) -> Outcome | None:
        """What the handler chose for it: ack, retry, or nothing."""
        return self._outcome

    def settle(self, outcome: Outcome) -> None:
        """Chooses an outcome that has no call of its own, as a built-in handler does."""
        self._settle(outcome)

    @property
    def compose(self) -> Composer:
        """Builds messages for the app of its handler."""
        return self._compose

    @property
    def handling(self) -> Handling | None:
        """The invocation that handles it, if it runs in this process."""
        return self._handling

    @handling.setter
    def handling(self, handling: Handling) -> None:
        self._handling = handling

    @property
    def sends(self) -> Sequence[Send]:
        """Messages sent with this one."""
        return self._sends or ()

    @property
    def rows(self) -> Written | None:
        """The handler's own rows, if it wrote any."""
        return None if self._written is None or self._written.is_empty else self._written

    def end(self) -> None:
        """Closes it: the handler returned, raised or was stopped."""
        self._has_ended = True
        if self._written is not None:
            self._written.end()


class MessageBatch(Generic[T]):
    """Messages of one queue for one call of a batch consumer. Never empty."""

    def __init__(self, queue: str, messages: Sequence[Message[T]]) -> None:
        self.queue, self.messages = queue, tuple(messages)
        self._outcome: Outcome | None = None
        self._handling: Handling | None = None
        self._has_ended = False

    def ack_all(self) -> None:
        """Acks every message that was not settled by itself."""
        self._settle(Succeeded())

    def retry_all(self, delay_seconds: float | None = None) -> None:
        """Retries every message that was not settled by itself."""
        self._settle(RetryRequested(_seconds(delay_seconds)))

    def __iter__(self) -> Iterator[Message[T]]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def _settle(self, outcome: Outcome) -> None:
        if self._has_ended:
            raise HandlerEnded
        if self._outcome is None:
            self._outcome = outcome


class ClaimedBatch(MessageBatch[T]):
    """A batch as the engine handles it."""

    def __dir__(self) -> list[str]:
        return [*dir(MessageBatch), "messages", "queue"]

    def __init__(self, queue: str, claimed: Sequence[ClaimedMessage[T]]) -> None:
        super().__init__(queue, claimed)
        self.claimed = tuple(claimed)

    @property
    def outcome(self) -> Outcome | None:
        """What the handler chose for the whole batch."""
        return self._outcome

    @property
    def compose(self) -> Composer:
        """Builds messages for the app of its handler."""
        return self.claimed[0].compose

    @property
    def handling(self) -> Handling | None:
        """The invocation that handles it, if it runs in this process."""
        return self._handling

    @handling.setter
    def handling(self, handling: Handling) -> None:
        self._handling = handling

    def end(self) -> None:
        """Closes it: the handler returned, raised or was stopped."""
        self._has_ended = True
        for message in self.claimed:
            message.end()


def _seconds(delay: float | None) -> float | None:
    """Checked when the handler calls, so that the error names its line."""
    return None if delay is None else checked_seconds(delay)
