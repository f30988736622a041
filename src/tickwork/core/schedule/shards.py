"""Who leads what: shards shared out evenly among the nodes that are alive.

Every node decides for itself, from the same facts, and all come to the same shares: nodes sorted
by id, each gets its part, the first ones one more where it does not come out even. A node gives up
what it holds beyond its share, and takes what nobody holds up to its share; it never takes
what another living node holds.

The fencing token of a shard: a number that only rises, also over a failover.

```
  bit 62 ─────────── 47 46 ──────────────────────────────── 0
       epoch (16 bits)            counter (47 bits)
```

The epoch rises when the database was replaced by a copy that may lag; the counter at every
hand-over. As one signed 64-bit integer, tokens compare as numbers in every store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from tickwork.core.schedule.model import SHARDS


class Grant(Struct, frozen=True):
    """A shard that a node leads, and the token that proves it. `tzdata` is the oldest version of
    the zone data that its stored times may be from; None: nobody said. `clock` is the sum of the
    jumps of the clock that its intervals follow, in microseconds."""

    shard: int
    token: int
    tzdata: str | None = None
    clock: int = 0


class ShardState(Struct, frozen=True):
    """How a shard stands; `node` None: nobody leads it. `tzdata` as a `Grant` has it."""

    shard: int
    token: int
    node: UUID | None
    taken_at: datetime | None
    tzdata: str | None = None


class ShardMoves(Struct, frozen=True):
    """What a node should do: shards to give up, and shards to take."""

    give_up: tuple[int, ...]
    take: tuple[int, ...]


def shard_count_for(node: UUID, living: Iterable[UUID]) -> int:
    """How many shards a node may lead."""
    ranked = sorted({*living, node})
    each, left = divmod(SHARDS, len(ranked))
    return each + (ranked.index(node) < left)


def balance_shards(
    node: UUID, living: Iterable[UUID], held: Mapping[int, UUID | None]
) -> ShardMoves:
    """What a node gives up and takes; `held` says who leads each shard; the dead lead nothing."""
    alive = {*living, node}
    own = sorted(shard for shard, holder in held.items() if holder == node)
    free = sorted(shard for shard, holder in held.items() if holder not in alive)
    share = shard_count_for(node, alive)
    return ShardMoves(give_up=tuple(own[share:]), take=tuple(free[: max(share - len(own), 0)]))


COUNTER_BITS = 47
EPOCH_MAX = (1 << 16) - 1
COUNTER_MAX = (1 << COUNTER_BITS) - 1


def make_token(epoch: int, counter: int) -> int:
    """The token of an epoch and a counter."""
    if not 0 <= epoch <= EPOCH_MAX or not 0 <= counter <= COUNTER_MAX:
        raise OverflowError(f"no token for epoch {epoch} and counter {counter}")
    return epoch << COUNTER_BITS | counter


def split_token(value: int) -> tuple[int, int]:
    """The epoch and the counter of a token."""
    return value >> COUNTER_BITS, value & COUNTER_MAX
