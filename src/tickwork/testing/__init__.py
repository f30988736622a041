"""Test an app with real handlers and a virtual clock.

```python
async with harness(app) as h:
    await emails.send({"to": "a@example.com"}, delay_seconds=3600)
    await h.advance(hours=1)
    assert [each.body for each in await h.sent("outbox")] == [...]
```

| module | content |
|---|---|
| `harness` | an app on an empty store; moves time from one due thing to the next |
| `next_due` | when the next thing is due |
| `clock` | the virtual clock |
| `errors_seen` | records what handlers did and raised |
| `recorder`, `checkers` | records the history of schedules, and finds broken promises in it |
"""

from tickwork.testing.clock import VirtualClock
from tickwork.testing.errors_seen import HandlerFailed, NeverEnds
from tickwork.testing.harness import Dead, Harness, Sent, harness

__all__ = ["Dead", "HandlerFailed", "Harness", "NeverEnds", "Sent", "VirtualClock", "harness"]
