"""The states of a message, and which may follow which.

```
            claim                    ack, dead
  ready ───────────▶ claimed ────────────────────▶ (gone)
   ▲ ▲                  │
   │ └──────────────────┘ retry, release, the holder is gone
   │
  held: behind an earlier message with the same key; becomes ready when that one is gone
```

A delayed message is `ready` with a `visible_at` in the future. What nobody has in hand, ready or
held, may also expire, be deleted, purged or cancelled. What is gone has left the table: on
success nothing stays, otherwise a dead letter. A message begins as `ready` or, behind another of
its key, as `held`; no message becomes `held` later, so the earliest of a key is never held.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a message stands."""

    READY = "ready"
    CLAIMED = "claimed"
    HELD = "held"


LEGAL: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.CLAIMED}),
    State.CLAIMED: frozenset({State.READY}),
    State.HELD: frozenset({State.READY}),
}
