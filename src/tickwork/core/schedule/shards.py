"""Shards: how nodes share the leadership of schedules, and the fencing token of a shard.

Every node decides for itself from the same facts, and all nodes compute the same shares. Nodes are
sorted by id; each gets an equal number of shards, and the first ones get one more if the division
leaves a rest. A node gives up shards beyond its share and takes free shards up to its share. It
never takes a shard from a living node.

A token is a number that only grows, also across a failover:

```
  bit 62 ─────────── 47 46 ──────────────────────────────── 0
       epoch (16 bits)            counter (47 bits)
```

The epoch grows when the database is replaced by a replica that may lag. The counter grows at every
change of leader. A token fits a signed 64-bit integer, so every store compares it as a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from tickwork.core.schedule.model import SHARDS


class Grant(Struct, frozen=True):
    """A shard that a node leads, and the token that proves it.

    `tzdata` is the oldest tzdata version that the shard's stored times may come from; None if
    unknown. `clock` is the sum of the clock jumps that its intervals follow, in microseconds.
    """

    shard: int
    token: int
    tzdata: str | None = None
    clock: int = 0


class ShardState(Struct, frozen=True):
    """State of a shard. `node` is None if no node leads it; `tzdata` is as in `Grant`."""

    shard: int
    token: int
    node: UUID | None
    taken_at: datetime | None
    tzdata: str | None = None


class ShardMoves(Struct, frozen=True):
    """Shards that a node should give up and take."""

    give_up: tuple[int, ...]
    take: tuple[int, ...]


def shard_count_for(node: UUID, living: Iterable[UUID]) -> int:
    """Number of shards that a node may lead."""
    ranked = sorted({*living, node})
    each, left = divmod(SHARDS, len(ranked))
    return each + (ranked.index(node) < left)


def balance_shards(
    node: UUID, living: Iterable[UUID], led_by: Mapping[int, UUID | None]
) -> ShardMoves:
    """Shards for a node to give up and take. `led_by` maps each shard to its leader.

    A shard whose leader is not alive counts as free.
    """
    alive = {*living, node}
    own = sorted(shard for shard, leader in led_by.items() if leader == node)
    free = sorted(shard for shard, leader in led_by.items() if leader not in alive)
    share = shard_count_for(node, alive)
    return ShardMoves(give_up=tuple(own[share:]), take=tuple(free[: max(share - len(own), 0)]))


COUNTER_BITS = 47
EPOCH_MAX = (1 << 16) - 1
COUNTER_MAX = (1 << COUNTER_BITS) - 1


def make_token(epoch: int, counter: int) -> int:
    """Packs an epoch and a counter into a token."""
    if not 0 <= epoch <= EPOCH_MAX or not 0 <= counter <= COUNTER_MAX:
        raise OverflowError(f"epoch {epoch} or counter {counter} is out of range")
    return epoch << COUNTER_BITS | counter


def split_token(value: int) -> tuple[int, int]:
    """Splits a token into its epoch and counter."""
    return value >> COUNTER_BITS, value & COUNTER_MAX
