"""Recomputes the stored times of wall-clock schedules when this node has newer tzdata.

Each shard records the tzdata version of its stored times: the oldest version of all nodes that
planned there. A leader with a newer version goes through the shard's schedules in pages, beside its
planning, moves those whose next slot is a different instant now, and then records its own version.
If it stops half-way, the next leader starts again and finds the moved schedules unchanged. A leader
with an older version records that before it plans anything (`leadership`) and moves nothing. So a
fleet that is being updated moves in one direction only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.answers.schedule import MovedSchedule
from tickwork.core.message.decide import clean_error
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.errors import StoreError
from tickwork.ops.schedules.change import rezone
from tickwork.service.loop import catch_async
from tickwork.service.observe import Observer
from tickwork.service.scheduler.leadership import Leadership
from tickwork.store.contract import Store

PAGE = 200
"""Number of schedules recomputed at once; planning waits for at most one page."""

LOOK_SECONDS = 1.0
"""Seconds between two checks for shards with older tzdata."""

MOVED_LISTED_MAX = 10
"""Maximum number of moved schedules of a shard that are logged by name."""


class TzdataUpdater:
    """Keeps the stored times of led shards up to date with the tzdata of this process."""

    def __init__(
        self,
        store: Store,
        leadership: Leadership,
        observer: Observer,
        *,
        version: str,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._observer = observer
        self._version, self._monotonic = version, monotonic

    async def update_shards(self) -> float:
        """Updates the shards that need it; returns the seconds until the next check."""
        without_version = [grant for grant in self._leadership.grants if grant.tzdata is None]
        if without_version:
            await self._store.shards.note_zones(SYSTEM, without_version, self._version)
            self._leadership.set_tzdata(without_version, self._version)
        for grant in self._leadership.grants:
            if grant.tzdata is not None and grant.tzdata < self._version:
                await self._update_shard(grant, grant.tzdata)
        return LOOK_SECONDS

    async def _update_shard(self, grant: Grant, before: str) -> None:
        count, first = 0, list[MovedSchedule]()
        after: tuple[datetime, UUID] | None = None
        while True:
            if grant not in self._leadership.grants:
                return  # Another node leads it now, and updates it if needed.
            began = self._monotonic()
            now = await self._store.now()
            found = await self._store.schedules.of_shard(SYSTEM, grant.shard, PAGE, after=after)
            moved = await self._rezone(grant, found, now)
            count, first = count + len(moved), [*first, *moved][:MOVED_LISTED_MAX]
            if len(found) < PAGE:
                break
            after = found[-1].look_at, found[-1].id
            # Planning gets at least half of the time.
            await asyncio.sleep(self._monotonic() - began)
        if await self._store.shards.note_zones(SYSTEM, [grant], self._version):
            self._leadership.set_tzdata([grant], self._version)
        if count:
            self._observer.tzdata_applied(grant.shard, (before, self._version), count, first)

    async def _rezone(
        self, grant: Grant, found: Sequence[WaitingSchedule], now: datetime
    ) -> tuple[MovedSchedule, ...]:
        """Recomputes a page. A schedule that cannot be computed (its zone may be gone) is reported
        and keeps its next slot, until it is due and planning parks it."""
        moved = await catch_async(rezone(self._store, grant, found, now))
        if not isinstance(moved, Exception):
            return moved
        if isinstance(moved, StoreError):
            raise moved
        if len(found) > 1:
            half = len(found) // 2
            first = await self._rezone(grant, found[:half], now)
            return first + await self._rezone(grant, found[half:], now)
        for schedule in found:
            error = clean_error(f"{type(moved).__name__}: {moved}")
            self._observer.tzdata_failed(schedule.tenant, schedule.id, error)
        return ()
