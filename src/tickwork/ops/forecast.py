"""The forecast: reads the schedules page by page and counts their firings per minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TypeVar

from msgspec import structs

from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.forecast import (
    FORECAST_HOURS,
    FORECAST_HOURS_MAX,
    WINDOW_SECONDS_MAX,
    AlikeSchedules,
    Forecast,
    Tally,
    Target,
    TooManyDueTimes,
)
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import all_holidays, rule_with
from tickwork.store.contract import Store

T = TypeVar("T")

WAITS_AT_MOST = timedelta(days=2)
"""Longest time that a planned slot waits for its due time: a day of jitter and a day of window."""

PAGE_SCHEDULES = 1_000
"""Number of schedules that are read at a time. Their rules are decoded in the event loop, which
must not stand still for long."""

Progress = Callable[[int], None]


async def forecast(
    context: Context,
    *,
    hours: int = FORECAST_HOURS,
    window_seconds: int | None = None,
    on_progress: Progress | None = None,
    due_times_max: int | None = None,
) -> Forecast:
    """Returns the firings of each minute of the coming hours, of one tenant or in the system scope
    of all. `window_seconds` asks for the effect of a fire window of that length.
    `InvalidInput` if that takes more than `due_times_max`."""
    faults = _faults(context, hours)
    if window_seconds is not None and not 1 <= window_seconds <= WINDOW_SECONDS_MAX:
        fault = f"must be from 1 to {WINDOW_SECONDS_MAX}, not {window_seconds}"
        faults.append(FieldError("window_seconds", fault))
    if faults:
        raise InvalidInput(faults)
    return await _counted(
        context,
        hours,
        lambda tally: tally.forecast(window_seconds),
        on_progress=on_progress,
        due_times_max=due_times_max,
    )


async def firings_by_target(
    context: Context, *, hours: int = FORECAST_HOURS, due_times_max: int | None = None
) -> tuple[datetime, dict[Target, tuple[int, ...]]]:
    """Returns the first minute, and the firings of each minute from it on by target. `InvalidInput`
    if that takes more than `due_times_max`."""
    if faults := _faults(context, hours):
        raise InvalidInput(faults)
    return await _counted(
        context,
        hours,
        lambda tally: (tally.start, tally.minutes_of_targets()),
        due_times_max=due_times_max,
    )


def _faults(context: Context, hours: int) -> list[FieldError]:
    faults = []
    if context.scope.owner is not None:
        fault = "cannot be forecast alone: a forecast is that of a tenant; use app.schedules"
        faults.append(FieldError("owner", fault))
    if not 1 <= hours <= FORECAST_HOURS_MAX:
        fault = f"must be from 1 to {FORECAST_HOURS_MAX}, not {hours}"
        faults.append(FieldError("hours", fault))
    return faults


async def _counted(
    context: Context,
    hours: int,
    counts_of: Callable[[Tally], T],
    *,
    on_progress: Progress | None = None,
    due_times_max: int | None = None,
) -> T:
    now = await context.store.now()
    widened = await context.store.nodes.widened_seconds(SYSTEM)
    tally = Tally(now, hours, widened_seconds=widened, due_times_max=due_times_max)
    try:
        await _add_all(context, tally, now, hours, on_progress)
        return await asyncio.to_thread(counts_of, tally)
    except TooManyDueTimes:
        fault = (
            f"has more than {due_times_max:,} firings to compute in {hours} hours; ask for fewer"
        )
        other = "or run `tickwork forecast` beside the database"
        raise InvalidInput([FieldError("hours", f"{fault}, {other}")]) from None


async def _add_all(
    context: Context, tally: Tally, now: datetime, hours: int, on_progress: Progress | None
) -> None:
    """Adds the schedules of the scope, page by page."""
    days = _Days(context.store)
    after = None
    done = 0
    is_complete = False
    while not is_complete:
        page = await context.store.schedules.alike(
            context.scope,
            PAGE_SCHEDULES,
            since=now - WAITS_AT_MOST,
            until=now + timedelta(hours=hours),
            after=after,
        )
        found = [await days.added(alike) for alike in page]
        # Counting takes long if rules differ: other requests go on meanwhile.
        await asyncio.to_thread(tally.add, found)
        number = sum(alike.count for alike in page)
        is_complete, done = number < PAGE_SCHEDULES, done + number
        if page:
            after = (page[-1].tenant, page[-1].last_id)
        if on_progress is not None:
            on_progress(done)


class _Days:
    """The days of the calendars of the tenant that was asked for last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tenant: str | None = None
        self._days: dict[str, frozenset[date]] = {}

    async def added(self, alike: AlikeSchedules) -> AlikeSchedules:
        """The schedules with the days of their calendar in their rule."""
        if alike.rule.calendar is None:
            return alike
        if alike.tenant != self._tenant:
            self._days = await all_holidays(Context(self._store, Scope(alike.tenant)))
            self._tenant = alike.tenant
        return structs.replace(alike, rule=rule_with(alike.rule, self._days))
