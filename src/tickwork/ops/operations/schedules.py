"""Operations on schedules: pause, resume. They begin with the oldest schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.fields import Reader
from tickwork.core.schedule.model import Schedule, ScheduleSelection, ScheduleStatus
from tickwork.ops.context import Context
from tickwork.ops.operations.items import Canary, Item, OnItems, Which, read_limit
from tickwork.ops.schedules.change import pause, resume
from tickwork.ops.schedules.lookup import list_schedules


class SchedulesSelection(Which, frozen=True, kw_only=True, omit_defaults=True):
    """The schedules that match each field."""

    name_prefix: str | None = None
    owner: str | None = None
    calendar: str | None = None


class _OnSchedules(OnItems):
    """What the kinds have in common."""

    selection = SchedulesSelection
    has_canaries = False

    def __init__(
        self, verb: Callable[[Context, UUID], Awaitable[Schedule]], status: ScheduleStatus
    ) -> None:
        self._verb, self._status = verb, status

    def read(self, reader: Reader, until: datetime) -> SchedulesSelection:
        names = ("name_prefix", "owner", "calendar")
        texts = {name: reader.text(name) if reader.has(name) else None for name in names}
        return SchedulesSelection(until=until, limit=read_limit(reader), **texts)

    async def list(
        self, context: Context, which: SchedulesSelection, position: str | None, limit: int
    ) -> Sequence[Item]:
        selection = ScheduleSelection(
            status=self._status,
            name_prefix=which.name_prefix,
            owner=which.owner,
            calendar=which.calendar,
            after=None if position is None else UUID(position),
        )
        found = await list_schedules(context, selection, limit=limit)
        return [
            Item(known.id, known.id, str(known.id), is_new=known.created_at > which.until)
            for known in found
        ]

    async def change(self, context: Context, item: Item) -> None:
        await self._verb(context, item.uid)

    async def canaries(self, _: Context, uids: Sequence[UUID]) -> Sequence[Canary]:
        raise AssertionError(f"{uids}: a schedule that is paused has nothing to wait for")


PAUSE = _OnSchedules(pause, ScheduleStatus.ACTIVE)
RESUME = _OnSchedules(resume, ScheduleStatus.PAUSED)
