"""The fencing token of a shard: a number that only rises, also over a failover.

```
  bit 62 ─────────── 47 46 ──────────────────────────────── 0
       epoch (16 bits)            counter (47 bits)
```

The epoch rises when the database was replaced by a copy that may lag; the counter at every
hand-over. As one signed 64-bit integer, tokens compare as numbers in every store.
"""

from __future__ import annotations

COUNTER_BITS = 47
EPOCH_MAX = (1 << 16) - 1
COUNTER_MAX = (1 << COUNTER_BITS) - 1


def token(epoch: int, counter: int) -> int:
    """The token of an epoch and a counter."""
    if not 0 <= epoch <= EPOCH_MAX or not 0 <= counter <= COUNTER_MAX:
        raise OverflowError(f"no token for epoch {epoch} and counter {counter}")
    return epoch << COUNTER_BITS | counter


def parts(value: int) -> tuple[int, int]:
    """The epoch and the counter of a token."""
    return value >> COUNTER_BITS, value & COUNTER_MAX
