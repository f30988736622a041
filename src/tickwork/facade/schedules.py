"""`app.schedules`, `app.firings`, `app.calendars`, and what `@app.schedule` declares.

Each call is done when it returns, also inside a handler: a schedule is not a message and does not
wait for an ack. Pass an `idempotency_key` where a handler may run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, TypeVar, Unpack

from tickwork.app.declarations import ScheduleDeclaration
from tickwork.app.payloads import Payload
from tickwork.core import when
from tickwork.core.answers.ids import GivenId
from tickwork.core.answers.schedule import (
    CalendarAnswer,
    ChangedCalendar,
    CompletedFiring,
    FiringAnswer,
    ScheduleAnswer,
    UpcomingFire,
    Why,
)
from tickwork.core.fields import Choice, Reader, read_id, read_instant
from tickwork.core.options import RuleFields, ScheduleFields, SchedulePatch
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.forecast import FORECAST_HOURS, Forecast
from tickwork.core.schedule.model import (
    Schedule,
    ScheduleOrder,
    ScheduleSelection,
    ScheduleStatus,
)
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.forecast import forecast
from tickwork.ops.schedules import calendars, change, create, lookup, views
from tickwork.ops.schedules.complete import complete_firing
from tickwork.ops.schedules.declare import checked_declaration, stored_name
from tickwork.ops.schedules.next_fires import UPCOMING_LIMIT
from tickwork.ops.schedules.next_fires import upcoming as upcoming_fires
from tickwork.ops.schedules.preview import preview
from tickwork.ops.schedules.public import show_stored
from tickwork.ops.schedules.views import Position
from tickwork.ops.schedules.why import why

Reference = GivenId
OptionalReference = TypeVar("OptionalReference", GivenId, GivenId | None)


class Schedules:
    """The schedules of an app, or of one owner, by id or name."""

    def __init__(self, engine: AppEngine, owner: str | None = None) -> None:
        self._engine = engine
        self._owner = owner

    async def _context(self) -> Context:
        return await self._engine.context(owner=self._owner)

    async def create(
        self, *, connection: object = None, **fields: Unpack[ScheduleFields]
    ) -> ScheduleAnswer:
        """Creates a schedule: exactly one timing, a target, and policies.

        With an `idempotency_key` the same call returns the same schedule; another body under the
        same key raises `Conflict`. With your own `connection` it is created if the transaction that
        is open on it commits; so it is for `update` and `delete`.

        Timing, one of: `cron_expr`, `interval_seconds`, `interval_minutes`, `daily_time`,
        `weekly_time`, `monthly_time`, `once_at`, `rrule`. With it: `interval_mode`, `timezone`,
        `dst`, `missed`, `start_at`, `end_at`, `max_firings`, `exclude`, `calendar`, `roll`,
        `jitter_seconds`, `fire_window_seconds`. The rest: `target`, `target_url`,
        `payload`, `name`, `owner`, `idempotency_key`, `delivery`, `overlap`, `retry`, `on_dead`,
        `on_success`, `on_failure`, `priority`, `expires_after_seconds`, `metadata`.
        """
        async with self._engine.verb_context(connection, owner=self._owner) as context:
            made = await create.create(context, fields)
            return await _shown(context, made)

    async def create_many(self, bodies: Sequence[ScheduleFields]) -> tuple[ScheduleAnswer, ...]:
        """Creates up to 1,000 schedules, all or none."""
        context = await self._context()
        found = await create.create_many(context, bodies)
        return await show_stored(context, found)

    async def create_bulk(
        self,
        bodies: Iterable[ScheduleFields],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Creates any number of schedules in pieces, each all or none; returns how many.
        `on_progress` is called with the number created so far."""
        context = await self._context()
        return await create.create_bulk(context, bodies, on_progress=on_progress)

    async def get(self, reference: Reference) -> ScheduleAnswer:
        """One schedule. Raises `NotFound`."""
        context, own = await self._find(reference)
        return await _shown(context, await lookup.get_schedule(context, own))

    async def list(
        self,
        *,
        status: ScheduleStatus | str | None = None,
        name_prefix: str | None = None,
        metadata: Mapping[str, str | int | bool] | None = None,
        owner: str | None = None,
        calendar: str | None = None,
        order: ScheduleOrder | str = ScheduleOrder.CREATED,
        after: Reference | None = None,
        limit: int = 100,
    ) -> tuple[ScheduleAnswer, ...]:
        """Schedules in order; without a status all but the deleted ones. The next page:
        `after=schedules[-1].id`.

        `metadata` finds schedules whose metadata has these values; it reads the tenant's schedules
        until the page is full, so prefer `owner` or `name_prefix` where there are many.
        """
        context = await self._context()
        selection = ScheduleSelection(
            status=None if status is None else _chosen(ScheduleStatus, "status", status),
            name_prefix=name_prefix,
            metadata=None if metadata is None else lookup.metadata_filter(metadata),
            owner=owner,
            calendar=calendar,
            order=_chosen(ScheduleOrder, "order", order),
            after=None if after is None else read_id("after", after),
        )
        found = await lookup.list_schedules(context, selection, limit=limit)
        return await show_stored(context, found)

    async def update(
        self, reference: Reference, *, connection: object = None, **patch: Unpack[SchedulePatch]
    ) -> ScheduleAnswer:
        """Changes a schedule. Fields you pass replace the old values, None removes a field, a new
        timing replaces the old one. Slots that are due or running run as planned."""
        async with self._engine.verb_context(connection, owner=self._owner) as context:
            own = await self._stored_name(context, reference)
            changed = await change.update(context, own, patch)
            return await _shown(context, changed)

    async def pause(self, reference: Reference) -> ScheduleAnswer:
        """Pauses it. Withdraws every slot that no worker has started."""
        context, own = await self._find(reference)
        return await _shown(context, await change.pause(context, own))

    async def resume(self, reference: Reference) -> ScheduleAnswer:
        """Resumes it with the next slot."""
        context, own = await self._find(reference)
        return await _shown(context, await change.resume(context, own))

    async def delete(self, reference: Reference, *, connection: object = None) -> ScheduleAnswer:
        """Deletes it. Its history stays for its retention."""
        async with self._engine.verb_context(connection, owner=self._owner) as context:
            own = await self._stored_name(context, reference)
            return await _shown(context, await change.delete(context, own))

    async def trigger(self, reference: Reference) -> ScheduleAnswer:
        """Fires it once, now."""
        context, own = await self._find(reference)
        return await _shown(context, await change.trigger(context, own))

    async def backfill(
        self,
        reference: Reference,
        *,
        since: datetime | str,
        until: datetime | str,
        force: bool = False,
    ) -> tuple[datetime, ...]:
        """Fires the past slots that did not succeed, and returns them. With `force`: all."""
        faults: list[FieldError] = []
        reader = Reader({"since": since, "until": until}, faults)
        first, last = reader.instant("since"), reader.instant("until")
        if first is None or last is None:
            raise InvalidInput(faults)
        context, own = await self._find(reference)
        with _python_names():
            return await change.backfill(context, own, since=first, until=last, force=force)

    async def preview(
        self,
        *,
        limit: int | None = None,
        since: datetime | str | None = None,
        **fields: Unpack[RuleFields],
    ) -> when.Preview:
        """The next fires of a schedule that need not exist, strictly after `since` (default:
        now)."""
        body: dict[str, Any] = {**fields, "limit": limit, "from": since}
        with _python_names():
            return await preview(await self._context(), body)

    async def upcoming(
        self,
        reference: Reference | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        owner: str | None = None,
        limit: int = UPCOMING_LIMIT,
    ) -> tuple[UpcomingFire, ...]:
        """The next fires of one schedule or of all, soonest first: from `since` (default: now) to
        `until`, of one `owner`. Computes at most 1,000 of the schedules that are due before then,
        such as those that are overdue while no scheduler runs."""
        context, own = await self._find(reference)
        found = await upcoming_fires(
            context,
            own,
            limit=limit,
            since=read_instant("since", since),
            until=read_instant("until", until),
            owner=owner,
        )
        return found.fires

    async def forecast(
        self, *, hours: int = FORECAST_HOURS, window_seconds: int | None = None
    ) -> Forecast:
        """The firings of each minute of the coming hours, the crowded minutes, and what a fire
        window would make of the busiest one."""
        return await forecast(
            await self._context(),
            hours=hours,
            window_seconds=window_seconds,
        )

    async def firings(
        self,
        reference: Reference,
        *,
        limit: int = 100,
        status: FiringStatus | str | None = None,
        before: Position | None = None,
    ) -> tuple[FiringAnswer, ...]:
        """The history, newest first; planned and running slots come before it. The next page:
        `before=(last.finished_at, last.id)`."""
        wanted = None if status is None else _chosen(FiringStatus, "status", status)
        context, own = await self._find(reference)
        return await views.list_firings(
            context,
            own,
            limit=limit,
            status=wanted,
            before=before,
        )

    async def why(self, reference: Reference, at: datetime | str | None = None) -> Why:
        """Explains why it fired, or did not, at an instant; by default at its latest slot."""
        context, own = await self._find(reference)
        return await why(context, own, read_instant("at", at))

    async def _find(self, reference: OptionalReference) -> tuple[Context, OptionalReference]:
        """The context, and the reference as it is stored."""
        context = await self._context()
        return context, await self._stored_name(context, reference)

    async def _stored_name(
        self, context: Context, reference: OptionalReference
    ) -> OptionalReference:
        """The reference; the name of a function of this app means its schedule."""
        registry = self._engine.registry
        if isinstance(reference, str) and reference in registry.schedules:
            return await stored_name(context, registry.app_name, reference)
        return reference


async def _shown(context: Context, stored: Schedule) -> ScheduleAnswer:
    (shown,) = await show_stored(context, [stored])
    return shown


@contextmanager
def _python_names() -> Iterator[None]:
    """Names fields in errors as our arguments: `from` is a word of the language here."""
    try:
        yield
    except InvalidInput as error:
        names = {"from": "since", "to": "until"}
        renamed = [
            FieldError(names.get(fault.field, fault.field), fault.message) for fault in error.errors
        ]
        raise InvalidInput(renamed) from None


def _chosen(kind: type[Choice], field: str, value: object) -> Choice:
    faults: list[FieldError] = []
    chosen = Reader({field: value}, faults).choice(field, next(iter(kind)))
    if faults:
        raise InvalidInput(faults)
    return chosen


class Firings:
    """Firings that their receivers complete."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def complete(
        self, token: str, *, failed: bool = False, error: str | None = None
    ) -> CompletedFiring:
        """Completes a firing that its receiver accepted with 202 (`completion: "callback"`). The
        token is that of the header `Tickwork-Complete-Token`.

        With `failed` the attempt failed, with this error, and is retried as usual. Raises
        `Conflict` if the token is stale: it is good for one attempt, until its time is over.
        """
        fields = {"status": "failed" if failed else "succeeded", "error": error}
        return await complete_firing(await self._engine.open(), token, fields)


class Calendars:
    """The calendars of an app: named lists of days off."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def put(self, name: str, days: Iterable[date | str]) -> ChangedCalendar:
        """Creates a calendar or replaces its days. Schedules that use it follow."""
        context = await self._engine.context()
        return await calendars.put_calendar(context, name, days)

    async def put_ics(self, name: str, text: str | bytes) -> ChangedCalendar:
        """As `put`, with the days of an ICS file."""
        context = await self._engine.context()
        return await calendars.put_ics_calendar(context, name, text)

    async def get(self, name: str) -> CalendarAnswer:
        """One calendar. Raises `NotFound`."""
        return await calendars.get_calendar(await self._engine.context(), name)

    async def list(self) -> tuple[CalendarAnswer, ...]:
        """All calendars, by name."""
        return await calendars.list_calendars(await self._engine.context())

    async def delete(self, name: str) -> None:
        """Deletes a calendar. Raises `Conflict` while a schedule uses it."""
        await calendars.delete_calendar(await self._engine.context(), name)


def declare_function(
    name: str, queue: str, fields: Mapping[str, Any], payload: Payload[Any]
) -> ScheduleDeclaration:
    """The schedule of a function; its target is the function's queue. Raises `InvalidInput` for
    what is wrong whatever the database contains."""
    if "target" in fields:
        fault = "is the function itself; for a queue use app.schedules.create(…)"
        raise InvalidInput([FieldError(f"{name}.target", fault)])
    target = {"type": "queue", "queue": queue, "message_type": name}
    declared = {**fields, "target": target, "name": name}
    try:
        return ScheduleDeclaration(name, checked_declaration(declared, payload))
    except InvalidInput as error:
        faults = [
            FieldError(f"{name}.{field_error.field}", field_error.message)
            for field_error in error.errors
        ]
        raise InvalidInput(faults) from None
