"""A cache of calendar days for rules that exclude them; each calendar version is read once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from msgspec import structs

from tickwork.core.model import Scope
from tickwork.core.schedule.plan import DueSchedule
from tickwork.core.when import Rule
from tickwork.errors import NotFound
from tickwork.store.contract import Store

CALENDARS_MAX = 1_000
"""Maximum number of cached calendars; beyond it all are dropped except those in use."""

Days = frozenset[date]
_Key = tuple[str, str, int | None]


class CalendarCache:
    """The days of calendars, by tenant, name and version."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[_Key, Days | None] = {}

    async def load(self, dues: Iterable[DueSchedule]) -> None:
        """Loads the calendars of these schedules. They stay cached until the next await."""
        wanted = {key for due in dues if (key := _key(due)) is not None}
        found = {key: self._known[key] for key in wanted & self._known.keys()}
        for key in wanted - found.keys():
            found[key] = await self._days(key)
        # Another task may have loaded more meanwhile. What this call needs is never dropped.
        if len(self._known.keys() | wanted) > CALENDARS_MAX:
            self._known = found
        else:
            self._known |= found

    def with_holidays(self, due: DueSchedule) -> DueSchedule:
        """The schedule with the days of its calendar; `NotFound` if the calendar was deleted."""
        key = _key(due)
        if key is None:
            return due
        days = self._known.get(key)
        if days is None:
            raise NotFound("calendar", key[1])
        return structs.replace(due, rule=_with_days(due.rule, days))

    async def _days(self, key: _Key) -> Days | None:
        tenant, name, _ = key
        try:
            calendar = await self._store.calendars.get(Scope(tenant), name)
        except NotFound:
            return None
        return frozenset(map(date.fromisoformat, calendar.days))


def _key(due: DueSchedule) -> _Key | None:
    name = due.rule.calendar
    return None if name is None else (due.tenant, name, due.calendar_version)


@lru_cache(maxsize=16_384)
def _with_days(rule: Rule, days: Days) -> Rule:
    return structs.replace(rule, holidays=days)
