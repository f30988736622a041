"""New zone data under a leader: stored times of wall-clock schedules are computed anew.

Each shard says which version of the zone data its stored times are from: the oldest one of all who
planned there. A leader whose own is newer goes through the shard's schedules, beside its
planning and in pages, moves those whose next slot is another instant now, and then writes down its
own version. If it stops half-way, the next one begins again, and finds what has moved already
where it should be. A leader whose zone data is older writes that down before it plans anything
(`leadership`), and moves nothing: so a fleet that is being updated goes one way only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.message.decide import clean_error
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.errors import StoreError
from tickwork.ops.schedules.change import Moved, rezone
from tickwork.service.loop import catch_async
from tickwork.service.observe.schedule_metrics import SchedulerObserver
from tickwork.service.scheduler.leadership import Leadership
from tickwork.store.contract import Store

PAGE = 200
"""Schedules that are looked at in one go: planning waits no longer than for these."""

LOOK_SECONDS = 1.0
"""So often it is looked whether a shard's times are from before."""

MOVED_LISTED_MAX = 10
"""So many of a shard's schedules that moved are told by name."""


class TzdataUpdater:
    """Keeps the stored times of the shards that are led up with the zone data of this process."""

    def __init__(
        self,
        store: Store,
        leadership: Leadership,
        observer: SchedulerObserver,
        *,
        version: str,
        monotonic: Callable[[], float],
    ) -> None:
        self._store, self._leadership, self._observer = store, leadership, observer
        self._version, self._monotonic = version, monotonic

    async def keep(self) -> float:
        """Goes through the shards that need it; how long to wait until the next look."""
        unsaid = [each for each in self._leadership.grants if each.tzdata is None]
        if unsaid:
            await self._store.shards.note_zones(SYSTEM, unsaid, self._version)
            self._leadership.set_tzdata(unsaid, self._version)
        for grant in self._leadership.grants:
            if grant.tzdata is not None and grant.tzdata < self._version:
                await self._go_through(grant, grant.tzdata)
        return LOOK_SECONDS

    async def _go_through(self, grant: Grant, before: str) -> None:
        count, first = 0, list[Moved]()
        after: tuple[datetime, UUID] | None = None
        while True:
            if grant not in self._leadership.grants:
                return  # Another one leads it, and goes through it if need be.
            began = self._monotonic()
            now = await self._store.now()
            found = await self._store.schedules.of_shard(SYSTEM, grant.shard, PAGE, after=after)
            moved = await self._rezone(grant, found, now)
            count, first = count + len(moved), [*first, *moved][:MOVED_LISTED_MAX]
            if len(found) < PAGE:
                break
            after = found[-1].look_at, found[-1].id
            # As long as this took, others have their turn.
            await asyncio.sleep(self._monotonic() - began)
        if await self._store.shards.note_zones(SYSTEM, [grant], self._version):
            self._leadership.set_tzdata([grant], self._version)
        if count:
            self._observer.rezoned(grant.shard, (before, self._version), count, first)

    async def _rezone(
        self, grant: Grant, found: Sequence[WaitingSchedule], now: datetime
    ) -> tuple[Moved, ...]:
        """Computes a page anew. What cannot be computed (its zone may be gone) is told and stays as
        it is, until its slot comes up and planning parks it."""
        moved = await catch_async(rezone(self._store, grant, found, now))
        if not isinstance(moved, Exception):
            return moved
        if isinstance(moved, StoreError):
            raise moved
        if len(found) > 1:
            half = len(found) // 2
            first = await self._rezone(grant, found[:half], now)
            return first + await self._rezone(grant, found[half:], now)
        for each in found:
            error = clean_error(f"{type(moved).__name__}: {moved}")
            self._observer.not_rezoned(each.tenant, each.id, error)
        return ()
