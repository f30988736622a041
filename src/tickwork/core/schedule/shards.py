"""Shards: how nodes share the leadership of schedules, and the fencing token of a shard.

A shard is a range of buckets, all of the same size, so the number of shards is a power of two. When
it changes, all shards are replaced: each new one has a token higher than any before, so the leader
of an old shard changes nothing any more.

Every node decides for itself from the same facts, and all nodes compute the same shares. Nodes are
sorted by id; each gets an equal number of shards, and the first ones get one more if the division
leaves a rest. A node gives up shards beyond its share and takes free shards up to its share. It
never takes a shard from a living node.

A living node may be too slow to take its share. So a shard that has been free for `FREE_SECONDS` is
*overdue*: any node takes it, also beyond its share, and keeps it for `KEEP_SECONDS`. And a node
whose holds take much longer than those of the fastest node is *slow* (`slow_nodes`): it has no
share and gives up what it leads, until it is as fast as the others again. The fastest node is never
slow, so a slow database does not leave shards without nodes.

A token is a number that only grows, also across a failover:

```
  bit 62 ─────────── 47 46 ──────────────────────────────── 0
       epoch (16 bits)            counter (47 bits)
```

The epoch grows when the database is replaced by a replica that may lag. The counter grows at every
change of leader. A token fits a signed 64-bit integer, so every store compares it as a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
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


class ShardFacts(Struct, frozen=True):
    """What is stored about a shard. Its `leader` may be dead: `lease_until` is the end of that
    node's lease, None if the lease was ended. `freed_at` says since when no node leads it."""

    shard: int
    token: int
    leader: UUID | None
    lease_until: datetime | None = None
    freed_at: datetime | None = None
    kept_until: datetime | None = None


class ShardMoves(Struct, frozen=True):
    """Shards that a node should give up and take. Those in `keep` are taken beyond its share, and
    kept for `KEEP_SECONDS`."""

    give_up: tuple[int, ...]
    take: tuple[int, ...]
    keep: tuple[int, ...] = ()


class ShardWrites(Struct, frozen=True):
    """What a hold writes: shards that are free, with the time since when, and shards that the node
    takes, with the time until when it keeps them. It takes its own ones again whose tokens are of
    an earlier epoch. `gave_up` if other nodes should look for free shards."""

    free: Mapping[int, datetime]
    take: Mapping[int, datetime | None]
    gave_up: bool


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
    the clock: a new shard may contain parts of both."""
    old = tuple(before)
    clocks, versions = {grant.clock for grant in old}, [grant.tzdata for grant in old]
    if len(clocks) > 1:
        raise Conflict(
            "the database's clock was set, and the schedulers are still moving intervals; "
            "keep a scheduler running and try again in a minute"
        )
    known = [version for version in versions if version is not None]
    return NewShards(
        token=max(grant.token for grant in old) + 1,
        tzdata=min(known) if len(known) == len(versions) else None,
        clock=clocks.pop(),
    )


FREE_SECONDS = 2.0
"""Seconds without a leader after which a node takes a shard beyond its share."""

KEEP_SECONDS = 30.0
"""Seconds for which a node keeps a shard that it took beyond its share. Within them a heartbeat
shows whether the node whose share it is has become slow."""

SLOW_SECONDS = 1.0
"""Seconds that a hold takes at least on a slow node: it cannot hold once a second."""

SLOW_FACTOR = 4.0
"""Number of times that a hold on a slow node takes longer than on the fastest one."""


def slow_nodes(living: Mapping[UUID, float | None]) -> frozenset[UUID]:
    """The nodes that cannot hold shards in time, by the seconds that their holds take, if known."""
    known = {node: seconds for node, seconds in living.items() if seconds is not None}
    limit_seconds = max(SLOW_SECONDS, SLOW_FACTOR * min(known.values(), default=0.0))
    return frozenset(node for node, seconds in known.items() if seconds > limit_seconds)


def shard_count_for(node: UUID, sharing: Iterable[UUID], shards: int) -> int:
    """Number of shards that is a node's share; 0 if it is not one of those that share."""
    ranked = sorted({*sharing})
    if node not in ranked:
        return 0
    count, left = divmod(shards, len(ranked))
    return count + (ranked.index(node) < left)


def balance_shards(
    node: UUID,
    living: Mapping[UUID, float | None],
    led_by: Mapping[int, UUID | None],
    *,
    overdue: Collection[int] = (),
    kept: Collection[int] = (),
) -> ShardMoves:
    """Shards for a node to give up and take. `living` maps each living node to the seconds that its
    holds take, if known; `led_by` each shard to its leader. `overdue` shards have been free for
    `FREE_SECONDS`; `kept` ones were taken beyond a share not long ago.

    A shard whose leader is not alive counts as free.
    """
    alive = {node: None, **living}
    sharing = alive.keys() - slow_nodes(alive)
    own = sorted(shard for shard, leader in led_by.items() if leader == node)
    free = sorted(shard for shard, leader in led_by.items() if leader not in alive)
    share = shard_count_for(node, sharing, len(led_by))
    take = free[: max(share - len(own), 0)]
    keep = [shard for shard in free[len(take) :] if node in sharing and shard in overdue]
    excess = max(len(own) - share, 0)
    movable = [shard for shard in own if node not in sharing or shard not in kept]
    give_up = movable[max(len(movable) - excess, 0) :]
    return ShardMoves(give_up=tuple(give_up), take=(*take, *keep), keep=tuple(keep))


def hold_shards(
    node: UUID,
    living: Mapping[UUID, float | None],
    shards: Iterable[ShardFacts],
    *,
    now: datetime,
    token_min: int,
) -> ShardWrites:
    """What a node writes to hold its shards; the arguments are as in `balance_shards`. It also
    notes since when shards of dead nodes are free."""
    facts = {fact.shard: fact for fact in shards}
    since = _free_since(facts, living, now)
    free_before = now - timedelta(seconds=FREE_SECONDS)
    moves = balance_shards(
        node,
        living,
        {shard: fact.leader for shard, fact in facts.items()},
        overdue={shard for shard, at in since.items() if at <= free_before},
        kept={
            shard
            for shard, fact in facts.items()
            if fact.kept_until is not None and fact.kept_until > now
        },
    )
    kept_until = now + timedelta(seconds=KEEP_SECONDS)
    take = {shard: kept_until if shard in moves.keep else None for shard in moves.take}
    for shard, fact in facts.items():
        if fact.leader == node and fact.token < token_min and shard not in moves.give_up:
            take[shard] = fact.kept_until
    unnoted = {
        shard: at
        for shard, at in since.items()
        if shard not in take and facts[shard].freed_at is None
    }
    free = unnoted | dict.fromkeys(moves.give_up, now)
    return ShardWrites(free=free, take=take, gave_up=bool(moves.give_up))


def _free_since(
    facts: Mapping[int, ShardFacts], living: Collection[UUID], now: datetime
) -> dict[int, datetime]:
    """The shards without a living leader, and since when they have none."""
    return {
        shard: fact.freed_at or fact.lease_until or now
        for shard, fact in facts.items()
        if fact.leader not in living
    }


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
