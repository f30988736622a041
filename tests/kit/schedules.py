"""Schedules on a store without an app: the verbs of `app.schedules`, with stored schedules as
answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.kit.contexts import acting
from tickwork.core import when
from tickwork.core.answers.schedule import FiringAnswer, Why
from tickwork.core.model import Scope
from tickwork.core.schedule.model import Schedule, ScheduleSelection
from tickwork.ops.context import Context
from tickwork.ops.schedules import change, create, lookup, views
from tickwork.ops.schedules.why import why
from tickwork.store.contract import Store

Reference = UUID | str


class StoreSchedules:
    """The schedules of a scope."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        scope: Scope,
        limits: Callable[[], when.Limits],
    ) -> None:
        self._open, self._scope, self._limits = open_store, scope, limits

    async def create(self, **fields: Any) -> Schedule:
        return await create.create(
            acting(await self._open(), self._scope, limits=self._limits()), fields
        )

    async def create_many(self, bodies: Sequence[Mapping[str, Any]]) -> tuple[Schedule, ...]:
        return await create.create_many(
            acting(await self._open(), self._scope, limits=self._limits()), bodies
        )

    async def create_bulk(self, bodies: Iterable[Mapping[str, Any]]) -> int:
        return await create.create_bulk(
            acting(await self._open(), self._scope, limits=self._limits()), bodies
        )

    async def get(self, reference: Reference) -> Schedule:
        return await lookup.get_schedule(Context(await self._open(), self._scope), reference)

    async def list(self, limit: int = 100) -> tuple[Schedule, ...]:
        store = await self._open()
        return await lookup.list_schedules(
            Context(store, self._scope), ScheduleSelection(), limit=limit
        )

    async def update(self, reference: Reference, **patch: Any) -> Schedule:
        return await change.update(
            acting(await self._open(), self._scope, limits=self._limits()), reference, patch
        )

    async def pause(self, reference: Reference) -> Schedule:
        return await change.pause(Context(await self._open(), self._scope), reference)

    async def resume(self, reference: Reference) -> Schedule:
        return await change.resume(Context(await self._open(), self._scope), reference)

    async def delete(self, reference: Reference) -> Schedule:
        return await change.delete(Context(await self._open(), self._scope), reference)

    async def trigger(self, reference: Reference) -> Schedule:
        return await change.trigger(Context(await self._open(), self._scope), reference)

    async def backfill(
        self, reference: Reference, *, since: datetime, until: datetime, force: bool = False
    ) -> tuple[datetime, ...]:
        return await change.backfill(
            Context(await self._open(), self._scope),
            reference,
            since=since,
            until=until,
            force=force,
        )

    async def firings(self, reference: Reference, *, limit: int = 100) -> tuple[FiringAnswer, ...]:
        return await views.list_firings(
            Context(await self._open(), self._scope), reference, limit=limit
        )

    async def why(self, reference: Reference, at: datetime | None = None) -> Why:
        return await why(Context(await self._open(), self._scope), reference, at)
