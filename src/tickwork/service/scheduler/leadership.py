"""Which node leads which shards: the protocol, from the view of a node with the role `scheduler`.

Schedules are divided into 64 shards. Each shard is led by one node, under a token. There is no
election and no coordinator: the shards' rows record who leads, a node's lease says whether it is
alive, and every node computes the same shares from the same rows (`core.schedule.shards`).

```
                     hold: taken, or kept            a plan is refused: another node leads it
     ┌──────────┐ ──────────────────────▶ ┌───────┐ ────────────────────────────────────┐
 ──▶ │ not ours │                         │ leads │ ──▶ our event loop is blocked       │
     └──────────┘ ◀────────────────────── └───────┘     for a TTL          │            │
       ▲ ▲  ▲       hold: beyond our share  │   ▲                          ▼            │
       │ │  │       give_up: shutdown       │   │ a heartbeat         ┌──────────────┐  │
       │ │  │                 trust expired │   │ succeeded           │ stepped down │  │
       │ │  │                               ▼   │                     └──────────────┘  │
       │ │  │       the lease is lost:    ┌────────┐   no role and no share │           │
       │ │  └──── a new identity ──────── │ silent │                        │           │
       │ │                                └────────┘                        │           │
       │ │             the rows still name us; we plan                      │           │
       │ │             nothing that we cannot prove                         │           │
       │ └────────────── the loop responds: the role again, new term ◀──────┘           │
       └────────────────────────────────────────────────────────────────────────────────┘
```

1. **Hold** every second, and at once on start, on a wake-up and after a loss. One statement gives
   up shards beyond our share and takes shards without a live leader. Taking a shard raises its
   token. A shard is never taken from a live node. A shard that has been free for two seconds is
   taken also beyond our share, and kept for a while: the node whose share it is may be too slow.
2. **Lead only while the lease is trusted**: for one TTL after the moment *before* the last
   successful heartbeat was sent, on the monotonic clock. A leader that loses its database falls
   silent by itself, before any other node may take its shards.
3. **Every write carries its token**, which the writing statement compares and locks. Trust avoids
   useless work; the token is what makes a stale leader harmless, however long it was frozen.
4. **Refused by token** means that another node leads the shard. It is dropped at once, and we hold
   again.
5. **A lost lease means a new identity.** All shards of the old identity are forgotten, and answers
   to its requests are ignored.
6. **Older tzdata is recorded.** A node that takes a shard whose times were computed with newer
   tzdata than its own records its own version there before it plans anything (`tzdata`).
7. **Clock jumps come first.** Before anything is planned, the intervals of a shard that is behind
   the recorded jumps of the database's clock are moved, once (`core.schedule.clock_change`).
8. **Shutdown** gives up all shards and the role before handlers are drained and the node leaves,
   and wakes the other nodes: they share out the shards without waiting for a lease to expire.
9. **Stepping down.** The heartbeat has its own thread, so it also keeps the lease of a node whose
   event loop is blocked by a handler, and a shard is never taken from a live node. So the thread
   watches the loop: after a TTL without a response it gives up the shards and the role (as in 8;
   the node keeps its claims), and takes the role again when the loop responds. That starts a new
   term: grants of an earlier term, and answers to its requests, are ignored. A node without the
   role takes nothing, so a request that is still on its way is harmless, and so is a plan (3).
10. **A slow node leads nothing beside faster ones.** A heartbeat reports how long the node's holds
    take (`HoldTimes`). All nodes compute from it which of them are slow; these have no share. What
    a node leads does not change how long its holds take, so it does not alternate.
11. **Any scheduler reports a stall**: each one checks all shards every few seconds, whoever leads
    them (`scheduler`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from uuid import UUID

from msgspec import structs

from tickwork.core.model import SYSTEM
from tickwork.core.schedule.shards import Grant
from tickwork.errors import NodeExpired
from tickwork.store.contract import Store

MOVE_BATCH_MAX = 5_000
"""Number of intervals moved after a clock jump before other shards are planned."""

HOLD_SECONDS = 1.0
"""Seconds between two holds."""

HOLDS_COMPARED = 5
"""Number of holds whose median says how long a hold takes: a single slow one says little."""

SLOW_HOLD_SECONDS = 30.0
"""Seconds for which a node stays as slow as it was."""

_HOLDS_MAX = 256
"""Maximum number of holds whose seconds are remembered."""


class HoldTimes:
    """How long the holds of this node take. Read by the thread of the heartbeat."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._took: deque[float] = deque(maxlen=HOLDS_COMPARED)
        self._medians: deque[tuple[float, float]] = deque(maxlen=_HOLDS_MAX)
        self._began: float | None = None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measures a hold. One that fails does not count."""
        self._began = began = self._monotonic()
        try:
            yield
            ended = self._monotonic()
            self._took.append(ended - began)
            if len(self._took) == HOLDS_COMPARED:
                self._medians.append((ended, median(self._took)))
        finally:
            self._began = None

    def seconds(self) -> float | None:
        """Seconds that a hold takes, by the slowest median of the last half minute, or has taken by
        now; None if too few are known."""
        now, began = self._monotonic(), self._began
        recent = [seconds for at, seconds in tuple(self._medians) if now - at <= SLOW_HOLD_SECONDS]
        if began is not None and recent:
            recent.append(now - began)
        return max(recent, default=None)


class Leadership:
    """The shards that this node leads.

    `lost` counts shards that other nodes took, noticed by an expired lease or a refused plan; not
    those that this node gave up. `term` rises when the node stepped down because the event loop was
    blocked: grants from before are ignored, and do not count as lost. `moved` counts intervals
    moved after clock jumps, and `has_more_to_move` says that some are left. `tzdata` is the tzdata
    version of this process, if known, and `newer_tzdata` a newer one that a shard was planned with.
    """

    def __init__(
        self,
        store: Store,
        node: Callable[[], UUID],
        *,
        is_trusted: Callable[[], bool],
        term: Callable[[], int] = lambda: 0,
        tzdata: str | None = None,
    ) -> None:
        self._store = store
        self._node = node
        self._term = term
        self._is_trusted = is_trusted
        self._granted_to: tuple[UUID, int] | None = None
        self._grants: dict[int, Grant] = {}
        self.lost = self.moved = 0
        self.has_more_to_move = False
        self.tzdata = tzdata
        self.newer_tzdata: str | None = None

    @property
    def grants(self) -> tuple[Grant, ...]:
        """The shards that may be planned now: none while the lease is not trusted, or after the
        identity or term changed."""
        if self._granted_to != self._identity() or not self._is_trusted():
            return ()
        return tuple(self._grants.values())

    @property
    def shard_count(self) -> int:
        """Number of shards this node leads."""
        return len(self._grants)

    @property
    def leads_first(self) -> bool:
        """Whether this node leads the first shard. What one node does for all, that one does."""
        return any(grant.shard == 0 for grant in self.grants)

    async def hold(self, clock: int | None = None) -> bool:
        """Takes our share of the shards; returns whether it changed. `clock` is the sum of the
        recorded clock jumps: a shard whose intervals have not followed them is moved first, and is
        led only then."""
        identity, before = self._identity(), self._grants
        node, _ = identity
        try:
            granted = await self._record_older_tzdata(await self._store.shards.hold(SYSTEM, node))
            if clock is not None:
                granted = [grant async for grant in self._follow_clock(granted, clock)]
        except NodeExpired:
            self.forget_node(node)
            return False
        if identity != self._identity():
            return False  # The identity or term changed during the request.
        self._granted_to = identity
        self._grants = {grant.shard: grant for grant in granted}
        return self._grants != before

    def _identity(self) -> tuple[UUID, int]:
        return self._node(), self._term()

    async def _record_older_tzdata(self, granted: Sequence[Grant]) -> Sequence[Grant]:
        """Records our tzdata version where it is older: from now on times may come from it."""
        own = self.tzdata
        if own is None:
            return granted
        newer = [grant for grant in granted if grant.tzdata is not None and grant.tzdata > own]
        if not newer:
            return granted
        self.newer_tzdata = max(grant.tzdata or own for grant in newer)
        await self._store.shards.note_zones(SYSTEM, newer, own)
        return [
            structs.replace(grant, tzdata=own) if grant in newer else grant for grant in granted
        ]

    async def _follow_clock(self, granted: Iterable[Grant], clock: int) -> AsyncIterator[Grant]:
        """Moves the intervals of shards with the clock and yields the shards that are up to date.
        Shards lost meanwhile are left out; shards beyond the batch limit are left for the next
        hold."""
        before, self.has_more_to_move = self.moved, False
        for grant in sorted(granted, key=lambda grant: grant.clock != clock):
            if grant.clock == clock:
                yield grant
                continue
            if self.moved - before >= MOVE_BATCH_MAX:
                self.has_more_to_move = True
                return
            followed = await self._store.shards.follow_clock(SYSTEM, grant)
            if followed is not None:
                self.moved += followed.moved
                yield structs.replace(grant, clock=followed.clock)

    def set_tzdata(self, grants: Iterable[Grant], version: str) -> None:
        """Remembers that the times of these shards were computed with this tzdata version."""
        for grant in grants:
            if self._grants.get(grant.shard) == grant:
                self._grants[grant.shard] = structs.replace(grant, tzdata=version)

    def drop_shards(self, refused: Iterable[int]) -> None:
        """Other nodes lead these shards."""
        for shard in {*refused}:
            self.lost += self._grants.pop(shard, None) is not None

    def forget_node(self, node: UUID) -> None:
        """The node lost this identity and all shards led under it."""
        if self._granted_to is not None and self._granted_to[0] == node:
            self.lost += len(self._grants)
            self._grants, self._granted_to = {}, None

    async def give_up(self) -> None:
        """Gives up all shards; other nodes may lead them at once."""
        node = self._node()
        self._grants = {}
        self._granted_to = None
        await self._store.shards.give_up(SYSTEM, node)
