"""What a scheduled function gets: the slot it runs for. And `log_context` for log lines.

```python
handler.addFilter(lambda record: record.__dict__.update(log_context()) or True)   # logging
processors = [lambda _, __, event: event | log_context(), …]                       # structlog
```

`log_context` looks the message up when a line is written; it costs nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, overload
from uuid import UUID

from tickwork.app.handlers import shape_fault
from tickwork.app.invocation import Rows, current_handling
from tickwork.app.message import ClaimedBatch, ClaimedMessage, Message, NamedQueue, queue_name
from tickwork.core.answers.ids import Prefix, optional_id
from tickwork.core.options import Given
from tickwork.core.options.message import SendOptions
from tickwork.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar, Unpack

    T = TypeVar("T")

B = TypeVar("B")


class Firing(Generic[T]):
    """One attempt at a slot. `T` is the type of the schedule's payload."""

    __slots__ = ("_message", "schedule")

    def __init__(self, message: ClaimedMessage[T], schedule: str) -> None:
        self._message, self.schedule = message, schedule

    @property
    def message(self) -> Message[T]:
        """The message that carries the slot."""
        return self._message

    @property
    def payload(self) -> T:
        """The schedule's payload."""
        return self._message.body

    @property
    def schedule_id(self) -> UUID | None:
        """The schedule's id. None in the replay of a dead letter whose schedule was deleted."""
        return self._message.stored.schedule_id

    @property
    def slot(self) -> datetime:
        """The nominal time. In a replay, if its schedule was deleted: when it was sent."""
        return self._message.stored.slot or self._message.stored.sent_at

    @property
    def due_at(self) -> datetime:
        """The slot plus its jitter or its offset in the fire window."""
        return self._message.stored.due_at or self.slot

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._message.attempts

    @property
    def catch_up(self) -> bool:
        """Whether the slot was missed and runs late."""
        return self._message.stored.catch_up

    @property
    def run(self) -> int:
        """0 for a slot of the rule; the number of the run for a trigger, a backfill or a replay."""
        return self._message.stored.run

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt at this slot, also after a replay, and differs
        from any other: `{idempotency key or id of the schedule}:{slot}`, and `:{run}` for a trigger
        or a backfill."""
        return self._message.idempotency_key or self._message.id

    @overload
    def send(
        self, queue: NamedQueue[B], body: Given[B], **options: Unpack[SendOptions]
    ) -> None: ...

    @overload
    def send(self, queue: str, body: Any, **options: Unpack[SendOptions]) -> None: ...

    def send(self, queue: NamedQueue[Any] | str, body: Any, **options: Unpack[SendOptions]) -> None:
        """Sends a message that commits with the end of this firing, and only with it."""
        self._message.send(queue_name(queue), body, **options)

    def transaction(self) -> Rows:
        """Your own rows in the same database. They commit with the end of this firing."""
        return self._message.transaction()

    def time_left(self) -> float:
        """Seconds until the function is stopped."""
        return self._message.time_left()


def log_context() -> dict[str, str | int]:
    """Fields for a log line of the current handler: the message's id, correlation id, attempt, type
    and batch; in a batch consumer the queue and the number of messages. Empty outside a handler."""
    handling = current_handling()
    given = None if handling is None else handling.given
    if isinstance(given, ClaimedBatch):
        return {"queue": given.queue, "messages": len(given.messages)}
    if not isinstance(given, ClaimedMessage):
        return {}
    stored = given.stored
    known: dict[str, str | int | None] = {
        "message_id": given.id,
        "correlation_id": given.correlation_id,
        "attempt": stored.attempts + 1,
        "type": stored.type,
        "batch_id": optional_id(Prefix.BATCH, stored.batch_id),
    }
    return {name: value for name, value in known.items() if value is not None}


def firing_handler(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A message handler that calls a scheduled function with the firing its message carries; the
    function is its `__wrapped__`."""
    if (misshapen := shape_fault(function)) is not None:
        raise InvalidInput([FieldError(name, misshapen)])
    if iscoroutinefunction(function):

        @wraps(function)
        async def fire(message: ClaimedMessage[Any]) -> Any:
            return await function(Firing(message, name))

        return fire

    @wraps(function)
    def fire_plain(message: ClaimedMessage[Any]) -> Any:
        return function(Firing(message, name))

    return fire_plain
