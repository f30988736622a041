"""Who leads which shards: the protocol, as a node of the role `scheduler` sees it.

Schedules fall into 64 shards; a shard is led by one node, under a token. Nobody is asked for
leave and nobody is elected: the shards' rows say who leads, a node's lease says who is alive, and
every node makes the same shares of the same facts (`core.sharing`).

```
                     hold: taken, or kept            a plan is refused: another leads it
     ┌──────────┐ ──────────────────────▶ ┌───────┐ ────────────────────────────────────┐
 ──▶ │ not ours │                         │ leads │ ──▶ our event loop does not turn    │
     └──────────┘ ◀────────────────────── └───────┘     for a time to live │            │
       ▲ ▲  ▲       hold: beyond our share  │   ▲                          ▼            │
       │ │  │       give_up: we stop        │   │ a beat came back:    ┌───────┐        │
       │ │  │                 trust ran out │   │ trusted again        │ aside │        │
       │ │  │                               ▼   │                      └───────┘        │
       │ │  │       the lease is lost:    ┌────────┐   no role and no share │           │
       │ │  └──── a new identity ──────── │ silent │                        │           │
       │ │                                └────────┘                        │           │
       │ │             still ours by the rows; we plan                      │           │
       │ │             nothing that we cannot prove                         │           │
       │ └────────────────── it turns: the role again, in a new term ◀──────┘           │
       └────────────────────────────────────────────────────────────────────────────────┘
```

1. **Hold** every second, and at once on start, on a wake-up and when something was lost: one
   transaction gives up what is beyond our share and takes what nobody alive leads. A shard that
   is taken gets a higher token. Nobody takes from the living.
2. **Lead** only while the lease is trusted: until the time to live after the moment *before* the
   last heartbeat was sent, on the monotonic clock. A leader without its database falls silent
   by itself, and before anybody may take its shards.
3. **Every write carries its token**, compared and locked in the writing statement. Trust saves
   useless work; it is the token that makes a stale leader harmless, however long it was frozen.
4. **Refused by token**: that shard is led by another. It is dropped at once, and we hold again.
5. **A lost lease is a new identity.** Everything held under the old one is forgotten; an answer to
   a request made under it counts for nothing.
6. **Older zone data is owned up to.** Who takes a shard whose times are from newer zone data than
   its own notes its own version there before it plans anything (`zones`).
7. **A clock that was set is followed** before anything is planned: the intervals of a shard that
   is behind the jumps that are known are moved, once (`core.clock_jumps`).
8. **Stopping** gives up all shards and the role, before what runs is drained and the node leaves,
   and the others are woken: they need not wait for a lease to run out, and share out all of them.
9. **Standing aside.** The heartbeat has a thread of its own: it keeps the lease of a node whose
   event loop is blocked by a handler, too, and nobody takes from the living. So the thread watches
   the loop: after a time to live without a turn it gives up the shards and the role (as in 8; what
   the node claimed stays its own), and takes the role again when the loop turns. That is a new
   term: grants of an earlier one count for nothing, nor does an answer to a request made in it.
   Who has not the role takes nothing, so a request on its way is harmless, as is a plan (3).
10. **A stall is told by whoever sees it**: every scheduler looks at all shards, led or not, every
   few seconds (`scheduler`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from uuid import UUID

from msgspec import structs

from tickwork.core.model import SYSTEM
from tickwork.core.schedule.shards import Grant
from tickwork.errors import NodeExpired
from tickwork.store.contract import Store

MOVE_BATCH_MAX = 5_000
"""After so many intervals that followed a clock, what may be planned is planned first."""

HOLD_SECONDS = 1.0
"""So often we look who is alive, and what is ours."""


class Leadership:
    """The shards that this node leads. `lost` counts those that were taken from it: by a lease
    that ran out, or found out by a refused plan; not those that it gave up.

    `term` rises when the node gave up what it led without asking us, because our event loop stood
    still: what is known from before counts for nothing, and is not lost, either.

    `moved` counts intervals that followed a clock that was set; `is_behind`: there are more.
    `zones` is the tzdata version of this process, if known, and `newer_tzdata` one
    that a shard was planned under before."""

    def __init__(
        self,
        store: Store,
        node: Callable[[], UUID],
        *,
        is_trusted: Callable[[], bool],
        term: Callable[[], int] = lambda: 0,
        zones: str | None = None,
    ) -> None:
        self._store, self._node, self._term, self._is_trusted = store, node, term, is_trusted
        self._granted_to: tuple[UUID, int] | None = None
        self._grants: dict[int, Grant] = {}
        self.lost = self.moved = 0
        self.is_behind = False
        self.zones = zones
        self.newer_tzdata: str | None = None

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What may be planned now: nothing while the lease is not trusted, or is another's, nor
        what was given up for us."""
        if self._granted_to != self._who() or not self._is_trusted():
            return ()
        return tuple(self._grants.values())

    @property
    def held(self) -> int:
        """How many shards it leads."""
        return len(self._grants)

    async def hold(self, clock: int | None = None) -> bool:
        """Asks for what is ours; whether that changed. `clock` is the sum of the jumps of the clock
        that are known: what has not followed them does, and is ours only then."""
        who, before = self._who(), self._grants
        node, _ = who
        try:
            granted = await self._record_older_tzdata(await self._store.shards.hold(SYSTEM, node))
            if clock is not None:
                granted = [each async for each in self._follow_clock(granted, clock)]
        except NodeExpired:
            self.forget(node)
            return False
        if who != self._who():
            return False  # It was asked by somebody who we are not any more.
        self._granted_to = who
        self._grants = {grant.shard: grant for grant in granted}
        return self._grants != before

    def _who(self) -> tuple[UUID, int]:
        return self._node(), self._term()

    async def _record_older_tzdata(self, granted: Sequence[Grant]) -> Sequence[Grant]:
        """Notes our zone data where it is older: from now on times may be from that."""
        own = self.zones
        if own is None:
            return granted
        newer = [each for each in granted if each.tzdata is not None and each.tzdata > own]
        if not newer:
            return granted
        self.newer_tzdata = max(each.tzdata or own for each in newer)
        await self._store.shards.note_zones(SYSTEM, newer, own)
        return [structs.replace(each, tzdata=own) if each in newer else each for each in granted]

    async def _follow_clock(self, granted: Iterable[Grant], clock: int) -> AsyncIterator[Grant]:
        """Lets the intervals of shards follow the clock; those that are lost meanwhile are not
        among them any more, and those that take too long are left for the next time."""
        before, self.is_behind = self.moved, False
        for each in sorted(granted, key=lambda grant: grant.clock != clock):
            if each.clock == clock:
                yield each
                continue
            if self.moved - before >= MOVE_BATCH_MAX:
                self.is_behind = True
                return
            followed = await self._store.shards.follow_clock(SYSTEM, each)
            if followed is not None:
                self.moved += followed.moved
                yield structs.replace(each, clock=followed.clock)

    def set_tzdata(self, grants: Iterable[Grant], version: str) -> None:
        """The times of these shards are from this version of the zone data now."""
        for each in grants:
            if self._grants.get(each.shard) == each:
                self._grants[each.shard] = structs.replace(each, tzdata=version)

    def drop_shards(self, refused: Iterable[int]) -> None:
        """These shards are led by others."""
        for shard in {*refused}:
            self.lost += self._grants.pop(shard, None) is not None

    def forget(self, node: UUID) -> None:
        """An identity is lost, and all that was led under it."""
        if self._granted_to is not None and self._granted_to[0] == node:
            self.lost += len(self._grants)
            self._grants, self._granted_to = {}, None

    async def give_up(self) -> None:
        """Leads nothing any more; others may, at once."""
        node, self._grants, self._granted_to = self._node(), {}, None
        await self._store.shards.give_up(SYSTEM, node)
