"""What is to come, as far as a store knows it; asked for again only when something was done.

Between two due things nothing changes, and of what was planned it is known when it becomes visible:
so a step of the harness asks little, and whatever cannot be known is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.core.schedule.plan import Plan
from tickwork.service.observe.schedule_metrics import ScheduleCounters
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.store.contract import Store


class Planned(ScheduleCounters):
    """Remembers when the first of what was planned becomes visible."""

    def __init__(self) -> None:
        super().__init__()
        self._first: datetime | None = None

    def planned(self, plans: Sequence[Plan], now: datetime) -> None:
        super().planned(plans, now)
        visible = [fire.visible_at for plan in plans for fire in plan.fires]
        self._first = earliest(self._first, *visible)

    def take_first(self) -> datetime | None:
        """Of all since the last call."""
        first, self._first = self._first, None
        return first


class Upcoming:
    """When a message becomes visible, a schedule has to be looked at, or something expires."""

    def __init__(self, store: Store, consumers: Sequence[QueueConsumer]) -> None:
        self._store, self._consumers = store, consumers
        self._waiting: list[bool] = []
        self._visible: list[datetime | None] = []
        self._look: datetime | None = None
        self.expiry: datetime | None = None
        self._done = self._looked = 0
        self._known: tuple[int, int] | None = None

    @property
    def first(self) -> datetime | None:
        """When the first of it is due."""
        return earliest(*self._visible, self._look, self.expiry)

    def is_look_due(self, now: datetime) -> bool:
        """Whether a schedule has to be looked at."""
        return self._look is not None and self._look <= now

    def visible(self, now: datetime) -> list[QueueConsumer]:
        """Whose queue has something visible, as far as is known."""
        return [
            each
            for each, waits, at in zip(self._consumers, self._waiting, self._visible, strict=True)
            if waits or (at is not None and at <= now)
        ]

    def forget(self) -> None:
        """Anything may have been done."""
        self._done += 1

    def planned(self, first: datetime | None) -> None:
        """Schedules were looked at, and nothing else was done; `first` is when the first of their
        messages becomes visible, in whichever queue. They do not expire before that."""
        self._looked += 1
        self._visible = [earliest(at, first) for at in self._visible]

    async def ask(self) -> None:
        """Asks for what is not known."""
        asked = self._done, self._looked
        if self._known is None or self._known[0] != self._done:
            await self._ask_all()
        elif self._known != asked:
            self._look = await self._next_look()
        self._known = asked

    async def _ask_all(self) -> None:
        messages, expiry = self._store.messages, self._store.reaper.next_expiry(SYSTEM)
        queues = [(each.scope, each.queue.name) for each in self._consumers]
        self._look, self.expiry, there, self._visible = await asyncio.gather(
            self._next_look(),
            expiry,
            asyncio.gather(*(messages.peek(*each, 1) for each in queues)),
            asyncio.gather(*(messages.next_visible_at(*each) for each in queues)),
        )
        self._waiting = [bool(each) for each in there]

    async def _next_look(self) -> datetime | None:
        return await self._store.schedules.next_look_at(SYSTEM, range(SHARDS))


def earliest(*times: datetime | None) -> datetime | None:
    """The first of these, if there is one."""
    return min((each for each in times if each is not None), default=None)
