"""For the tests of an app: its handlers run for real, and time is a number that one sets.

```python
async with harness(app) as h:
    await emails.send({"to": "a@example.com"}, delay_seconds=3600)
    await h.advance(hours=1)
    assert [each.body for each in await h.sent("outbox")] == [...]
```

`stepping.py` moves time from one due thing to the next, `coming.py` knows what that is, `clock.py`
is the time, `places.py` says where the app's store is meanwhile.
"""

from tickwork.testing.clock import VirtualClock
from tickwork.testing.errors_seen import HandlerFailed, NeverEnds
from tickwork.testing.harness import Dead, Harness, Sent, harness

__all__ = ["Dead", "HandlerFailed", "Harness", "NeverEnds", "Sent", "VirtualClock", "harness"]
