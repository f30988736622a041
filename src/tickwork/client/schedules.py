"""Schedules over HTTP: `client.schedules`, `client.firings` and `client.calendars`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from tickwork.client.answers import Items
from tickwork.client.call import (
    Call,
    M,
    Noun,
    Pages,
    Plan,
    Repeat,
    answer,
    at,
    given,
    listed,
    nothing,
    part,
    verb,
)
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.answers.schedule import (
    Backfilled,
    CalendarAnswer,
    ChangedCalendar,
    CompletedFiring,
    Fires,
    FiringAnswer,
    ScheduleAnswer,
    UpcomingFire,
    Why,
)
from tickwork.core.delivery.callback import TOKEN_HEADER, read_token
from tickwork.core.options import RuleFields, ScheduleFields, SchedulePatch
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.when import Preview

if TYPE_CHECKING:  # The rules of schedules take longer to import than the rest of the client.
    from tickwork.core.schedule.forecast import Forecast
    from tickwork.core.schedule.model import ScheduleOrder, ScheduleStatus

CREATED_AT_ONCE_MAX = 500
"""Schedules that one request of `create_bulk` carries; a body has at most 1 MB."""

_ONE = answer(ScheduleAnswer)


def _path(reference: str, *parts: str) -> str:
    return at("v1", "schedules", reference, *parts)


def _many(bodies: Sequence[ScheduleFields]) -> Call[tuple[ScheduleAnswer, ...]]:
    made = part(Items[ScheduleAnswer], lambda found: found.items)
    return Call("POST", at("v1", "schedules"), made, body=[*bodies], repeat=Repeat.KEYED)


def _bulk(bodies: Iterable[ScheduleFields], on_progress: Callable[[int], None] | None) -> Plan[int]:
    source, created = iter(bodies), 0
    while piece := [*islice(source, CREATED_AT_ONCE_MAX)]:
        yield _many(piece)
        created += len(piece)
        if on_progress is not None:
            on_progress(created)
    return created


class Schedules(Noun[M]):
    """The schedules of the tenant, by id or name."""

    @verb
    def create(self, **fields: Unpack[ScheduleFields]) -> Call[ScheduleAnswer]:
        """Creates a schedule: exactly one timing, a target, and policies.

        Timing, one of: `cron_expr`, `interval_seconds`, `interval_minutes`, `daily_time`,
        `weekly_time`, `monthly_time`, `once_at`, `rrule`. With it: `interval_mode`, `timezone`,
        `dst`, `missed`, `start_at`, `end_at`, `max_firings`, `exclude`, `calendar`, `roll`,
        `jitter_seconds`, `fire_window_seconds`. The rest: `target`, `target_url`,
        `payload`, `name`, `owner`, `idempotency_key`, `delivery`, `overlap`, `retry`, `on_dead`,
        `on_success`, `on_failure`, `priority`, `expires_after_seconds`, `metadata`.
        """
        return Call("POST", at("v1", "schedules"), _ONE, body=fields, repeat=Repeat.KEYED)

    @verb
    def create_many(self, bodies: Sequence[ScheduleFields]) -> Call[tuple[ScheduleAnswer, ...]]:
        """Creates up to 1,000 schedules, all or none."""
        return _many(bodies)

    @verb
    def create_bulk(
        self,
        bodies: Iterable[ScheduleFields],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> Plan[int]:
        """Creates any number of schedules in pieces, each all or none; returns how many.
        `on_progress` is called with the number created so far."""
        return _bulk(bodies, on_progress)

    @verb
    def get(self, reference: str) -> Call[ScheduleAnswer]:
        """One schedule. Raises `NotFound`."""
        return Call("GET", _path(reference), _ONE)

    @listed
    def list(
        self,
        *,
        status: ScheduleStatus | str | None = None,
        name: str | None = None,
        name_prefix: str | None = None,
        owner: str | None = None,
        calendar: str | None = None,
        order: ScheduleOrder | str = "created",
        before: datetime | str | None = None,
        limit: int | None = None,
    ) -> Pages[ScheduleAnswer]:
        """Schedules in order; without a status all but the deleted ones. `before` is for the order
        `next_due_at`: those that are due before a time."""
        asked = {
            "status": status,
            "name": name,
            "name_prefix": name_prefix,
            "owner": owner,
            "calendar": calendar,
            "order": order,
            "before": before,
        }
        return Pages(at("v1", "schedules"), ScheduleAnswer, limit, asked)

    @verb
    def update(self, reference: str, **patch: Unpack[SchedulePatch]) -> Call[ScheduleAnswer]:
        """Changes a schedule. Fields you pass replace the old values, None removes a field, a new
        timing replaces the old one. Slots that are due or running run as planned."""
        return Call("PATCH", _path(reference), _ONE, body=patch, repeat=Repeat.SAFE)

    @verb
    def pause(self, reference: str) -> Call[ScheduleAnswer]:
        """Pauses it. Withdraws every slot that no worker has started."""
        return Call("POST", _path(reference, "pause"), _ONE, repeat=Repeat.SAFE)

    @verb
    def resume(self, reference: str) -> Call[ScheduleAnswer]:
        """Resumes it with the next slot."""
        return Call("POST", _path(reference, "resume"), _ONE, repeat=Repeat.SAFE)

    @verb
    def delete(self, reference: str) -> Call[None]:
        """Deletes it. Its history stays for its retention."""
        return Call("DELETE", _path(reference), nothing)

    @verb
    def trigger(self, reference: str) -> Call[ScheduleAnswer]:
        """Fires it once, now."""
        return Call("POST", _path(reference, "trigger"), _ONE, repeat=Repeat.KEYED)

    @verb
    def backfill(
        self,
        reference: str,
        *,
        since: datetime | str,
        until: datetime | str,
        force: bool = False,
    ) -> Call[tuple[datetime, ...]]:
        """Fires the past slots that did not succeed, and returns them. With `force`: all."""
        return Call(
            "POST",
            _path(reference, "backfill"),
            part(Backfilled, lambda done: done.slots),
            body={"from": since, "to": until, "force": force},
            repeat=Repeat.KEYED,
        )

    @verb
    def preview(
        self,
        *,
        limit: int | None = None,
        since: datetime | str | None = None,
        **fields: Unpack[RuleFields],
    ) -> Call[Preview]:
        """The next fires of a schedule that need not exist, strictly after `since` (default:
        now)."""
        body: dict[str, Any] = given(**fields, limit=limit)
        if since is not None:
            body["from"] = since
        path = at("v1", "schedules", "preview")
        return Call("POST", path, answer(Preview), body=body, repeat=Repeat.SAFE)

    @verb
    def upcoming(
        self,
        reference: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        owner: str | None = None,
        limit: int = 10,
    ) -> Call[tuple[UpcomingFire, ...]]:
        """The next fires of one schedule or of all, soonest first; of all: from `since` (default:
        now) to `until`, of one `owner`."""
        fires = part(Fires, lambda found: found.fires)
        if reference is not None:
            return Call("GET", _path(reference, "upcoming"), fires, query={"limit": limit})
        query = {"since": since, "until": until, "owner": owner, "limit": limit}
        return Call("GET", at("v1", "upcoming"), fires, query=query)

    @verb
    def forecast(self, *, hours: int = 24, window_seconds: int | None = None) -> Call[Forecast]:
        """The firings of each minute of the coming hours, the crowded minutes, and what a fire
        window would make of the busiest one."""
        from tickwork.core.schedule.forecast import Forecast

        query = {"hours": hours, "window_seconds": window_seconds}
        return Call("GET", at("v1", "forecast"), answer(Forecast), query=query)

    @listed
    def firings(
        self,
        reference: str,
        *,
        limit: int | None = None,
        status: FiringStatus | str | None = None,
    ) -> Pages[FiringAnswer]:
        """The history, newest first; planned and running slots come before it."""
        return Pages(_path(reference, "firings"), FiringAnswer, limit, {"status": status})

    @verb
    def why(self, reference: str, at: datetime | str | None = None) -> Call[Why]:
        """Explains why it fired, or did not, at an instant; by default at its latest slot."""
        return Call("GET", _path(reference, "why"), answer(Why), query={"at": at})


class Firings(Noun[M]):
    """Firings that their receivers complete."""

    @verb
    def complete(
        self, token: str, *, failed: bool = False, error: str | None = None
    ) -> Call[CompletedFiring]:
        """Completes a firing that its receiver accepted with 202 (`completion: "callback"`). The
        token is that of the header `Tickwork-Complete-Token`; no API key is needed.

        With `failed` the attempt failed, with this error, and is retried as usual.
        """
        firing = public_id(Prefix.FIRING, read_token(token).message_id)
        return Call(
            "POST",
            at("v1", "firings", firing, "complete"),
            answer(CompletedFiring),
            body=given(status="failed" if failed else "succeeded", error=error),
            headers={TOKEN_HEADER: token},
        )


class Calendars(Noun[M]):
    """Named lists of days off."""

    @verb
    def put(self, name: str, days: Iterable[date | str]) -> Call[ChangedCalendar]:
        """Creates a calendar or replaces its days. Schedules that use it follow."""
        return Call(
            "PUT", at("v1", "calendars", name), answer(ChangedCalendar), body={"days": [*days]}
        )

    @verb
    def put_ics(self, name: str, text: str | bytes) -> Call[ChangedCalendar]:
        """As `put`, with the days of an ICS file."""
        ics = text.decode() if isinstance(text, bytes) else text
        return Call("PUT", at("v1", "calendars", name), answer(ChangedCalendar), body={"ics": ics})

    @verb
    def get(self, name: str) -> Call[CalendarAnswer]:
        """One calendar. Raises `NotFound`."""
        return Call("GET", at("v1", "calendars", name), answer(CalendarAnswer))

    @listed
    def list(self, *, limit: int | None = None) -> Pages[CalendarAnswer]:
        """All calendars, by name."""
        return Pages(at("v1", "calendars"), CalendarAnswer, limit)

    @verb
    def delete(self, name: str) -> Call[None]:
        """Deletes a calendar. Raises `Conflict` while a schedule uses it."""
        return Call("DELETE", at("v1", "calendars", name), nothing)
