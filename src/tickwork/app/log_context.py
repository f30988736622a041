"""What a handler's own log lines are about.

```python
handler.addFilter(lambda record: record.__dict__.update(log_context()) or True)   # logging
processors = [lambda _, __, event: event | log_context(), …]                       # structlog
```

It is looked up when a line is written, and costs a message that writes none nothing.
"""

from __future__ import annotations

from tickwork.app.handling import current_handling
from tickwork.app.messages import Message, MessageBatch


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
