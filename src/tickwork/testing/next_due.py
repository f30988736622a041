"""When the next thing is due, as far as the store knows; queried only after something was done.

Between two due times nothing changes, and the visible times of planned messages are known. So a
step of the harness needs few queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS_MAX
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.store.contract import Store


class Upcoming:
    """When a message becomes visible, a schedule must be planned, or something expires."""

    def __init__(self, store: Store, consumers: Sequence[QueueConsumer]) -> None:
        self._store, self._consumers = store, consumers
        self._waiting: list[bool] = []
        self._visible: list[datetime | None] = []
        self._plan_at: datetime | None = None
        self.expiry: datetime | None = None
        self._done = self._planned = 0
        self._known: tuple[int, int] | None = None

    @property
    def first(self) -> datetime | None:
        """The first due time."""
        return earliest(*self._visible, self._plan_at, self.expiry)

    def is_planning_due(self, now: datetime) -> bool:
        """Whether a schedule must be planned."""
        return self._plan_at is not None and self._plan_at <= now

    def visible(self, now: datetime) -> list[QueueConsumer]:
        """The consumers whose queue may have visible messages."""
        return [
            consumer
            for consumer, waits, at in zip(
                self._consumers, self._waiting, self._visible, strict=True
            )
            if waits or (at is not None and at <= now)
        ]

    def forget(self) -> None:
        """Anything may have changed: query everything again."""
        self._done += 1

    async def planned(self, first: datetime | None) -> None:
        """Schedules were planned, and nothing else changed. `first` is when the first of their
        messages becomes visible, in any queue; none expires before that."""
        self._planned += 1
        ready = await self._with_ready()
        self._visible = [
            earliest(at, first) if consumer.queue.id in ready else at
            for consumer, at in zip(self._consumers, self._visible, strict=True)
        ]

    async def refresh(self) -> None:
        """Queries what is not known."""
        version = self._done, self._planned
        if self._known is None or self._known[0] != self._done:
            await self._query_all()
        elif self._known != version:
            self._plan_at = await self._next_plan_at()
        self._known = version

    async def _query_all(self) -> None:
        self._plan_at, self.expiry, ready = await asyncio.gather(
            self._next_plan_at(),
            self._store.reaper.next_expiry(SYSTEM),
            self._with_ready(),
        )
        found = await asyncio.gather(
            *(
                self._next_of(consumer, has_ready=consumer.queue.id in ready)
                for consumer in self._consumers
            )
        )
        self._waiting, self._visible = [pair[0] for pair in found], [pair[1] for pair in found]

    async def _next_of(
        self, consumer: QueueConsumer, *, has_ready: bool
    ) -> tuple[bool, datetime | None]:
        """Whether messages of a queue are visible, and when the next one becomes visible."""
        if not has_ready:
            return False, None
        messages, queue = self._store.messages, (consumer.scope, consumer.queue.name)
        peeked, at = await asyncio.gather(
            messages.peek(*queue, 1), messages.next_visible_at(*queue)
        )
        return bool(peeked), at

    async def _with_ready(self) -> frozenset[UUID]:
        ids = [consumer.queue.id for consumer in self._consumers]
        return await self._store.messages.with_ready(SYSTEM, ids)

    async def _next_plan_at(self) -> datetime | None:
        return await self._store.schedules.next_look_at(SYSTEM, range(SHARDS_MAX))


def earliest(*times: datetime | None) -> datetime | None:
    """The earliest of these times; None if there is none."""
    return min((time for time in times if time is not None), default=None)
