"""Shards: how nodes share the leadership of schedules, and the fencing token of a shard.

A shard is a range of buckets, all of the same size, so the number of shards is a power of two. When
it changes, all shards are replaced: each new one has a token higher than any before, so the leader
of an old shard changes nothing any more.

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

from tickwork.core.schedule.model import SHARDS_MAX
from tickwork.errors import Conflict, FieldError, InvalidInput


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


class NewShards(Struct, frozen=True):
    """What all shards start with after their number changed. `tzdata` and `clock` are as in
    `Grant`."""

    token: int
    tzdata: str | None
    clock: int


def check_shard_count(count: int) -> int:
    """Returns the number of shards. Raises `InvalidInput` unless it is a power of two."""
    if not 1 <= count <= SHARDS_MAX or count & (count - 1):
        text = f"must be a power of two from 1 to {SHARDS_MAX}, such as 64; you gave {count}"
        raise InvalidInput([FieldError("shards", text)])
    return count


def replace_shards(before: Iterable[Grant]) -> NewShards:
    """What replaces these shards. Raises `Conflict` while some of them have not followed a jump of
    the clock: a new shard may be parts of both."""
    old = tuple(before)
    clocks, versions = {each.clock for each in old}, [each.tzdata for each in old]
    if len(clocks) > 1:
        raise Conflict(
            "the database's clock was set, and the schedulers are still moving intervals; "
            "keep a scheduler running and try again in a minute"
        )
    known = [each for each in versions if each is not None]
    return NewShards(
        token=max(each.token for each in old) + 1,
        tzdata=min(known) if len(known) == len(versions) else None,
        clock=clocks.pop(),
    )


def shard_count_for(node: UUID, living: Iterable[UUID], shards: int) -> int:
    """Number of shards that a node may lead."""
    ranked = sorted({*living, node})
    each, left = divmod(shards, len(ranked))
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
    share = shard_count_for(node, alive, len(led_by))
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
