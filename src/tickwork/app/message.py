"""What a handler is given, and what it says about it.

The first word on a message counts, and a word on the message beats one on the whole batch. What
nobody spoke of is acked when the handler returns, and retried when it raises or is stopped. When
a handler has ended, or was stopped, whatever it still says raises `HandlerEnded`.

What a handler raises to say more than that it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from tickwork.app.handling import HandlerEnded, Handling, Rows, Written, keep
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.message.outcome import Outcome, RetryRequested, Succeeded
from tickwork.core.model import Message as Stored
from tickwork.core.model import Send


class Permanent(Exception):
    """No attempt will ever succeed: the message is dead at once."""


class Snooze(Exception):
    """Not now: the message comes back after so many seconds, and no attempt is used up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = checked_seconds(seconds)
        super().__init__(f"snoozed for {seconds_text(self.seconds)}")


def said_by(error: BaseException) -> BaseException:
    """The error that is meant: the only one in a group, as an `asyncio.TaskGroup` raises it, or the
    error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def checked_seconds(value: float) -> float:
    """A number of seconds that a message can be delayed for; `TypeError` for what is none,
    `ValueError` for one that is too small or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number of seconds is wanted, not {type(value).__name__}")
    if not 0 <= value <= DELAY_SECONDS_MAX:
        raise ValueError(f"a number of seconds must be from 0 to {DELAY_SECONDS_MAX}")
    return float(value)


def seconds_text(seconds: float) -> str:
    """For a sentence: `1 second`, `2.5 seconds`."""
    return f"{seconds:g} second" if seconds == 1 else f"{seconds:g} seconds"


T = TypeVar("T")

Composer = Callable[..., Send]
"""Makes a message for a queue: its name, the body, and options."""


class Message(Generic[T]):
    """One message in a handler's hands. `attempts` is 1 at the first. `handling` keeps what the
    handler does beside it, if it runs here."""

    __slots__ = (
        "_deadline",
        "_has_ended",
        "_make_rows",
        "_monotonic",
        "_sends",
        "_written",
        "body",
        "compose",
        "handling",
        "said",
        "stored",
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
    ) -> None:
        self.stored, self.body = stored, body
        self.said: Outcome | None = None
        self.handling: Handling | None = None
        self._make_rows, self._has_ended = make_rows, False
        self.compose, self._monotonic, self._deadline = compose, monotonic, deadline
        self._sends: list[Send] | None = None
        self._written: Written | None = None

    def ack(self) -> None:
        """It is done."""
        self._say(Succeeded())

    def retry(self, delay_seconds: float | None = None) -> None:
        """Once more, after the queue's backoff or a delay of your own."""
        self._say(RetryRequested(_seconds(delay_seconds)))

    def send(self, queue: str, body: Any, **options: Any) -> None:
        """Sends a message with this one's ack, and only with it."""
        self._check_open()
        if self._sends is None:
            self._sends = []
        keep(self.compose(queue, body, **options), self._sends)

    def transaction(self) -> Rows:
        """Rows of your own, in the same database, that commit with this message's ack."""
        self._check_open()
        if self._written is None:
            self._written = Written()
        return self._make_rows(self._written)

    def time_left(self) -> float:
        """Seconds until the handler is stopped."""
        return max(self._deadline - self._monotonic(), 0.0)

    @property
    def id(self) -> str:
        return str(self.stored.id)

    @property
    def attempts(self) -> int:
        return self.stored.attempts + 1

    @property
    def timestamp(self) -> datetime:
        """When it was sent."""
        return self.stored.sent_at

    @property
    def tenant(self) -> str:
        return self.stored.tenant

    @property
    def key(self) -> str | None:
        return self.stored.key

    @property
    def type(self) -> str | None:
        return self.stored.type

    @property
    def source(self) -> str | None:
        return self.stored.source

    @property
    def event_id(self) -> str:
        """The producer's, or the message's own id."""
        return self.stored.event_id or str(self.stored.id)

    @property
    def correlation_id(self) -> str:
        """The story it belongs to; a message without one begins its own."""
        return self.stored.correlation_id or str(self.stored.id)

    @property
    def causation_id(self) -> str | None:
        return self.stored.causation_id

    @property
    def hops(self) -> int:
        return self.stored.hops

    @property
    def metadata(self) -> dict[str, Any]:
        """What else is known: batch, schedule, slot."""
        known = {
            "batch_id": self.stored.batch_id,
            "schedule_id": self.stored.schedule_id,
            "slot": self.stored.slot,
            "catch_up": self.stored.catch_up or None,
        }
        return {name: value for name, value in known.items() if value is not None}

    @property
    def sends(self) -> Sequence[Send]:
        """What was sent with this message."""
        return self._sends or ()

    @property
    def rows(self) -> Written | None:
        """The rows of the handler's own, if it wrote any."""
        return None if self._written is None or self._written.is_empty else self._written

    def end(self) -> None:
        """Its handler has ended, or nobody waits for it any longer."""
        self._has_ended = True
        if self._written is not None:
            self._written.end()

    def _check_open(self) -> None:
        if self._has_ended:
            raise HandlerEnded

    def _say(self, outcome: Outcome) -> None:
        self._check_open()
        if self.said is None:
            self.said = outcome


class MessageBatch(Generic[T]):
    """Several messages of one queue, for one invocation; never empty."""

    def __init__(self, queue: str, messages: Sequence[Message[T]]) -> None:
        self.queue, self.messages = queue, tuple(messages)
        self.said: Outcome | None = None
        self.handling: Handling | None = None
        self.compose = self.messages[0].compose
        self._has_ended = False

    def ack_all(self) -> None:
        """All are done of which nothing else is said."""
        self._say(Succeeded())

    def retry_all(self, delay_seconds: float | None = None) -> None:
        """Once more, all of which nothing else is said."""
        self._say(RetryRequested(_seconds(delay_seconds)))

    def __iter__(self) -> Iterator[Message[T]]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def end(self) -> None:
        """Its handler has ended, or nobody waits for it any longer."""
        self._has_ended = True
        for message in self.messages:
            message.end()

    def _say(self, outcome: Outcome) -> None:
        if self._has_ended:
            raise HandlerEnded
        if self.said is None:
            self.said = outcome


def _seconds(delay: float | None) -> float | None:
    """Checked here, where it is said: later there is nobody left to tell."""
    return None if delay is None else checked_seconds(delay)
