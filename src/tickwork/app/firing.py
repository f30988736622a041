"""What a function on a schedule is given: the slot that it runs for.

What a handler's own log lines are about.

```python
handler.addFilter(lambda record: record.__dict__.update(log_context()) or True)   # logging
processors = [lambda _, __, event: event | log_context(), …]                       # structlog
```

It is looked up when a line is written, and costs a message that writes none nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from tickwork.app.handling import Rows, current_handling
from tickwork.app.message import Message, MessageBatch
from tickwork.core.when import iso

T = TypeVar("T")


class Firing(Generic[T]):
    """One attempt at a slot. What it sends, and its rows, commit with its end."""

    __slots__ = ("_message", "schedule")

    def __init__(self, message: Message[T], schedule: str) -> None:
        self._message, self.schedule = message, schedule

    @property
    def message(self) -> Message[T]:
        """The message that carries the slot."""
        return self._message

    @property
    def payload(self) -> T:
        """What the schedule carries."""
        return self._message.body

    @property
    def schedule_id(self) -> UUID | None:
        """None for a dead letter that is replayed: that is an ordinary message."""
        return self._message.stored.schedule_id

    @property
    def slot(self) -> datetime:
        """The nominal time; of a replayed dead letter, when it was sent."""
        return self._message.stored.slot or self._message.stored.sent_at

    @property
    def due_at(self) -> datetime:
        """The nominal time with its spread."""
        return self._message.stored.due_at or self.slot

    @property
    def attempt(self) -> int:
        """1 at the first."""
        return self._message.attempts

    @property
    def catch_up(self) -> bool:
        """Whether it was missed, and comes late."""
        return self._message.stored.catch_up

    @property
    def run(self) -> int:
        """0 for a slot of the rule; else a trigger or a backfill."""
        return self._message.stored.run

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this slot, and for no other."""
        run = f":{self.run}" if self.run else ""
        return f"{self.schedule_id or self._message.id}:{iso(self.slot)}{run}"

    def send(self, queue: str, body: Any, **options: Any) -> None:
        """Sends a message with the end of this firing, and only with it."""
        self._message.send(queue, body, **options)

    def transaction(self) -> Rows:
        """Rows of your own, in the same database, that commit with the end of this firing."""
        return self._message.transaction()

    def time_left(self) -> float:
        """Seconds until the function is stopped."""
        return self._message.time_left()


def log_context() -> dict[str, str | int]:
    """The message that is being handled here: its id, correlation id, attempt, type and batch;
    of several at once the queue and how many. Nothing outside a handler."""
    handling = current_handling()
    given = None if handling is None else handling.given
    if isinstance(given, MessageBatch):
        return {"queue": given.queue, "messages": len(given.messages)}
    if not isinstance(given, Message):
        return {}
    stored = given.stored
    known: dict[str, str | int | None] = {
        "message_id": str(stored.id),
        "correlation_id": stored.correlation_id or str(stored.id),
        "attempt": stored.attempts + 1,
        "type": stored.type,
        "batch_id": None if stored.batch_id is None else str(stored.batch_id),
    }
    return {name: value for name, value in known.items() if value is not None}
