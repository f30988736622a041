"""Slot sources: a compiled rule that answers which slot comes next.

Three kinds cover every timing: a wall clock (cron, daily, weekly, monthly, rrule), elapsed time
(intervals) and a single instant (once). `slots` applies the bounds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol, assert_never

from tickwork.core.when.calendar_rule import LAST, CalendarRule, DayPattern, Times
from tickwork.core.when.cron import compile_cron
from tickwork.core.when.excluded_days import exclude_days
from tickwork.core.when.interval import NEVER, ClosedDays, FixedDelaySource, FixedRateSource
from tickwork.core.when.model import (
    EPOCH,
    Cron,
    Daily,
    Dst,
    Interval,
    IntervalMode,
    Monthly,
    Once,
    Recurrence,
    Roll,
    Rule,
    ShortMonth,
    Weekly,
)
from tickwork.core.when.wall_clock import (
    AROUND_THE_CLOCK_DST,
    NaiveRule,
    SingleTimeRule,
    count_between,
    next_after,
    resolve,
)
from tickwork.core.when.zone import (
    Timeline,
    instant_of,
    local_date,
    naive_seconds,
    seconds_of,
    timeline,
)


class SlotSource(Protocol):
    """Slots without bounds, as instants."""

    def next_after(self, after: datetime) -> datetime | None:
        """The first slot strictly after."""

    def count_between(self, after: datetime, until: datetime) -> int:
        """Number of slots in `(after, until]`."""


class WallClockSource:
    """Slots of a naive rule in a zone."""

    __slots__ = ("dst", "line", "rule")

    def __init__(self, rule: NaiveRule, line: Timeline, dst: Dst) -> None:
        self.rule = rule
        self.line = line
        self.dst = dst

    def next_after(self, after: datetime) -> datetime | None:
        if after >= NEVER:
            return None
        found = next_after(self.rule, self.line, self.dst, seconds_of(after))
        return None if found is None else instant_of(found)

    def count_between(self, after: datetime, until: datetime) -> int:
        last = seconds_of(min(until, NEVER))
        return count_between(self.rule, self.line, self.dst, seconds_of(after), last)


class OnceSource:
    """A single instant, or none if it is on an excluded day."""

    __slots__ = ("_at",)

    def __init__(self, at: datetime | None) -> None:
        self._at = at

    def next_after(self, after: datetime) -> datetime | None:
        return self._at if self._at is not None and self._at > after else None

    def count_between(self, after: datetime, until: datetime) -> int:
        return int(self._at is not None and after < self._at <= until)


@lru_cache(maxsize=4096)
def source_of(rule: Rule) -> SlotSource:
    """The source of a rule's slots, compiled once per rule."""
    line = timeline(rule.timezone)
    timing, excluded = rule.timing, rule.excluded_days
    if isinstance(timing, Interval):
        step, closed = timedelta(seconds=timing.seconds), ClosedDays(excluded, line)
        if timing.mode is IntervalMode.FIXED_DELAY:
            return FixedDelaySource(rule.anchor, step, closed)
        return FixedRateSource(rule.anchor, step, closed)
    if isinstance(timing, Once):
        return OnceSource(_once(timing.at, line, rule))
    naive, around_the_clock = naive_rule(rule, line)
    if excluded or rule.pinned:
        naive = exclude_days(naive, excluded, rule.roll, rule.pinned)
    return WallClockSource(naive, line, AROUND_THE_CLOCK_DST if around_the_clock else rule.dst)


def naive_rule(rule: Rule, line: Timeline) -> tuple[NaiveRule, bool]:
    """A wall-clock timing as a naive rule, and whether it runs around the clock."""
    match rule.timing:
        case Cron(expr=expr):
            calendar = compile_cron(expr, rule.seed)
            return calendar, calendar.times.runs_around_the_clock()
        case Daily(hour=hour, minute=minute):
            return CalendarRule(DayPattern(), Times((hour,), (minute,))), False
        case Weekly(days_of_week=days, hour=hour, minute=minute):
            pattern = DayPattern(weekdays=frozenset(days))
            return CalendarRule(pattern, Times((hour,), (minute,))), False
        case Monthly(day=day, hour=hour, minute=minute, short_month=short):
            pattern = DayPattern(
                days=frozenset({LAST if day is None else day}),
                clamp=short is ShortMonth.LAST_DAY,
            )
            return CalendarRule(pattern, Times((hour,), (minute,))), False
        case Recurrence(text=text):
            start = naive_seconds(rule.start_at or rule.anchor, line)
            # Imported here because dateutil slows down start-up and few rules need it.
            from tickwork.core.when.rrule import RecurrenceRule

            recurrence = RecurrenceRule(text, start, line)
            return recurrence, recurrence.runs_around_the_clock
        case Interval() | Once():
            raise TypeError("an interval or a single instant has no wall-clock rule")
        case _:
            assert_never(rule.timing)


def resolve_local(moment: datetime, zone: str, dst: Dst) -> datetime | None:
    """The instant of a local time in a zone; None if the policy skips it."""
    naive = seconds_of(moment.replace(tzinfo=UTC))
    seconds = resolve(naive, timeline(zone), dst)
    if seconds is None:
        return None
    return instant_of(seconds) + timedelta(microseconds=moment.microsecond)


def _once(at: datetime, line: Timeline, rule: Rule) -> datetime | None:
    if local_date(at, line) not in rule.excluded_days:
        return at
    if rule.roll is Roll.SKIP:
        return None
    moved = exclude_days(SingleTimeRule(naive_seconds(at, line)), rule.excluded_days, rule.roll)
    instant = next_after(moved, line, rule.dst, seconds_of(EPOCH))
    return None if instant is None else instant_of(instant)
