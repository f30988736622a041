"""`app.schedules` and `@app.schedule`: the doors to an app's schedules.

Each of the former is done when it returns, also inside a handler: a schedule is no message, and
does not wait for an ack. Give an `idempotency_key` where a handler may come twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any
from uuid import UUID

from tickwork.app.declarations import ScheduleDeclaration
from tickwork.app.firing import Firing
from tickwork.app.handlers import shape_fault
from tickwork.app.message import ClaimedMessage
from tickwork.core import when
from tickwork.core.fields import Choice, Reader
from tickwork.core.model import Scope
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.schedule.model import (
    Calendar,
    Schedule,
    ScheduleOrder,
    ScheduleSelection,
    ScheduleStatus,
)
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.schedules import calendars
from tickwork.ops.schedules import change as schedules
from tickwork.ops.schedules import create as schedule_making
from tickwork.ops.schedules.lookup import get_schedule, list_schedules
from tickwork.ops.schedules.preview import preview
from tickwork.ops.schedules.views import Position, list_firings
from tickwork.ops.schedules.why import Why, why
from tickwork.ops.stores import Store

Reference = UUID | str


class Schedules:
    """The schedules of an app, by id or name."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        scope: Scope,
        limits: Callable[[], when.Limits],
    ) -> None:
        self._open, self._scope, self._limits = open_store, scope, limits

    async def create(self, **fields: Any) -> Schedule:
        """Makes a schedule: one timing, a target, and policies."""
        store = await self._open()
        return await schedule_making.create(store, self._scope, fields, limits=self._limits())

    async def create_many(self, bodies: Sequence[Mapping[str, Any]]) -> tuple[Schedule, ...]:
        """Makes up to 1,000 schedules, all or none."""
        store = await self._open()
        return await schedule_making.create_many(store, self._scope, bodies, limits=self._limits())

    async def create_bulk(
        self,
        bodies: Iterable[Mapping[str, Any]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Makes any number of schedules, in pieces that are each all or none."""
        store = await self._open()
        return await schedule_making.create_bulk(
            store, self._scope, bodies, limits=self._limits(), on_progress=on_progress
        )

    async def get(self, reference: Reference) -> Schedule:
        """One schedule."""
        return await get_schedule(await self._open(), self._scope, reference)

    async def list(
        self,
        *,
        status: ScheduleStatus | str | None = None,
        order: ScheduleOrder | str = ScheduleOrder.CREATED,
        after: UUID | None = None,
        limit: int = 100,
    ) -> tuple[Schedule, ...]:
        """Schedules in order; without a status all but the deleted."""
        store = await self._open()
        selection = ScheduleSelection(
            status=None if status is None else _chosen(ScheduleStatus, "status", status),
            order=_chosen(ScheduleOrder, "order", order),
            after=after,
        )
        return await list_schedules(store, self._scope, selection, limit=limit)

    async def update(self, reference: Reference, **patch: Any) -> Schedule:
        """Lays a patch over a schedule: None removes, naming a timing replaces the old one."""
        store = await self._open()
        return await schedules.update(store, self._scope, reference, patch, limits=self._limits())

    async def pause(self, reference: Reference) -> Schedule:
        """Stops it."""
        return await schedules.pause(await self._open(), self._scope, reference)

    async def resume(self, reference: Reference) -> Schedule:
        """Starts it again, from now on."""
        return await schedules.resume(await self._open(), self._scope, reference)

    async def delete(self, reference: Reference) -> Schedule:
        """Ends it for good; its history stays."""
        return await schedules.delete(await self._open(), self._scope, reference)

    async def trigger(self, reference: Reference) -> Schedule:
        """Fires it now, once."""
        return await schedules.trigger(await self._open(), self._scope, reference)

    async def backfill(
        self, reference: Reference, *, since: datetime, until: datetime, force: bool = False
    ) -> tuple[datetime, ...]:
        """Fires it for slots of the past that did not succeed; `force`: for all."""
        store = await self._open()
        return await schedules.backfill(
            store, self._scope, reference, since=since, until=until, force=force
        )

    async def preview(self, **fields: Any) -> when.Preview:
        """The coming fires of a schedule that need not exist."""
        store = await self._open()
        return await preview(store, self._scope, fields, limits=self._limits())

    async def firings(
        self,
        reference: Reference,
        *,
        limit: int = 100,
        status: FiringStatus | str | None = None,
        before: Position | None = None,
    ) -> tuple[FiringRecord, ...]:
        """What became of its slots, newest first; before them what is planned or running. The next
        page: `before=(last.finished_at, last.id)`."""
        store = await self._open()
        wanted = None if status is None else _chosen(FiringStatus, "status", status)
        return await list_firings(
            store, self._scope, reference, limit=limit, status=wanted, before=before
        )

    async def why(self, reference: Reference, at: datetime | None = None) -> Why:
        """Why it fired, or did not, at an instant; without one: at its latest slot."""
        return await why(await self._open(), self._scope, reference, at)


def _chosen(kind: type[Choice], field: str, value: object) -> Choice:
    faults: list[FieldError] = []
    chosen = Reader({field: value}, faults).choice(field, next(iter(kind)))
    if faults:
        raise InvalidInput(faults)
    return chosen


class Calendars:
    """The calendars of an app: days off by name."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]], scope: Scope) -> None:
        self._open, self._scope = open_store, scope

    async def put(self, name: str, days: Iterable[date | str]) -> Calendar:
        """Creates a calendar or replaces its days, dates or ISO texts; schedules that use it
        follow."""
        store = await self._open()
        calendar, _ = await calendars.put_calendar(store, self._scope, name, days)
        return calendar

    async def put_ics(self, name: str, text: str | bytes) -> Calendar:
        """As `put`, with the days of an ICS file."""
        store = await self._open()
        calendar, _ = await calendars.put_ics_calendar(store, self._scope, name, text)
        return calendar

    async def list(self) -> tuple[Calendar, ...]:
        """All, by name."""
        return await calendars.list_calendars(await self._open(), self._scope)

    async def delete(self, name: str) -> None:
        """Removes one that no schedule uses."""
        await calendars.delete_calendar(await self._open(), self._scope, name)


FUNCTIONS_QUEUE = "schedules"
"""Where the slots of functions go, each with the name of its schedule as the type."""

HANDLER_OPTIONS = ("isolation", "max_concurrency")


def wrapped(
    function: Callable[..., Any], name: str, isolation: object = None
) -> Callable[..., Any]:
    """A handler of messages that gives the function the firing that a message carries."""
    if isolation == "process":
        fault = "of a function on a schedule is task or thread; from there send to a queue"
        raise InvalidInput([FieldError(f"{name}.isolation", fault)])
    if (misshapen := shape_fault(function)) is not None:
        raise InvalidInput([FieldError(name, misshapen)])
    if iscoroutinefunction(function):

        @wraps(function)
        async def fire(message: ClaimedMessage[Any]) -> Any:
            return await function(Firing(message, name))

        return fire

    @wraps(function)
    def fire_plainly(message: ClaimedMessage[Any]) -> Any:
        return function(Firing(message, name))

    return fire_plainly


def declaration(name: str, fields: dict[str, Any]) -> ScheduleDeclaration:
    """A schedule of the code: like every other one, but for its target."""
    if "target" in fields:
        fault = "is the function itself; for a queue use app.schedules.create(…)"
        raise InvalidInput([FieldError(f"{name}.target", fault)])
    target = {"type": "queue", "queue": FUNCTIONS_QUEUE, "message_type": name}
    return ScheduleDeclaration(name, {**fields, "target": target, "name": name})
