"""A rule made ready: where its slots come from.

Three sources cover every timing: a wall clock (cron, daily, weekly, monthly, rrule), elapsed
time (intervals) and a single instant (once). Bounds are applied above them, in `slots`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Protocol, assert_never

from tickwork.core.when.calendar_rule import CalendarRule, Times
from tickwork.core.when.cron import compile_cron
from tickwork.core.when.days import LAST, DayPattern
from tickwork.core.when.excluded import ExcludedDays, day_start
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
from tickwork.core.when.recurrence import RecurrenceRule
from tickwork.core.when.wall import (
    THROUGH_THE_DAY,
    NaiveRule,
    Point,
    count_between,
    next_after,
    resolve,
)
from tickwork.core.when.zone import Timeline, timeline

_NEVER = datetime(9990, 1, 1, tzinfo=UTC)


class Source(Protocol):
    """Slots without bounds, as instants."""

    def next_after(self, after: datetime) -> datetime | None:
        """The first slot strictly after."""

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many slots lie in `(after, until]`."""


class WallSource:
    """Slots of a naive rule on a zone's clock."""

    __slots__ = ("dst", "line", "rule")

    def __init__(self, rule: NaiveRule, line: Timeline, dst: Dst) -> None:
        self.rule, self.line, self.dst = rule, line, dst

    def next_after(self, after: datetime) -> datetime | None:
        if after >= _NEVER:
            return None
        found = next_after(self.rule, self.line, self.dst, seconds_of(after))
        return None if found is None else EPOCH + timedelta(seconds=found)

    def count_between(self, after: datetime, until: datetime) -> int:
        last = seconds_of(min(until, _NEVER))
        return count_between(self.rule, self.line, self.dst, seconds_of(after), last)


class ElapsedSource:
    """Slot k at anchor + k · step, k ≥ 0, but none on an excluded local day."""

    __slots__ = ("_anchor", "_excluded", "_line", "_step")

    def __init__(
        self, anchor: datetime, step: timedelta, line: Timeline, excluded: frozenset[date]
    ) -> None:
        self._anchor, self._step, self._line = anchor, step, line
        self._excluded = excluded

    def next_after(self, after: datetime) -> datetime | None:
        for _ in range(len(self._excluded) + 1):
            if after >= _NEVER:
                return None
            k = max((after - self._anchor) // self._step + 1, 0)
            slot = self._anchor + k * self._step
            day = local_date(slot, self._line)
            if day not in self._excluded:
                return slot
            after = self._day_begins(day + timedelta(days=1)) - timedelta.resolution
        return None

    def count_between(self, after: datetime, until: datetime) -> int:
        count = self._count(after, until)
        for day in self._excluded:
            begins, ends = self._day_begins(day), self._day_begins(day + timedelta(days=1))
            low = max(after, begins - timedelta.resolution)
            high = min(until, ends - timedelta.resolution)
            if low < high:
                count -= self._count(low, high)
        return count

    def _count(self, after: datetime, until: datetime) -> int:
        first = max((after - self._anchor) // self._step + 1, 0)
        return max((until - self._anchor) // self._step + 1 - first, 0)

    def _day_begins(self, day: date) -> datetime:
        instant = resolve(day_start(day), self._line, Dst())
        if instant is None:  # A zone that left this day out begins it with the next.
            return self._day_begins(day + timedelta(days=1))
        return EPOCH + timedelta(seconds=instant)


class DelaySource:
    """Fixed delay: each slot follows the end of the run before it by one step."""

    __slots__ = ("_excluded", "_line", "_step")

    def __init__(self, step: timedelta, line: Timeline, excluded: frozenset[date]) -> None:
        self._step, self._line, self._excluded = step, line, excluded

    def next_after(self, after: datetime) -> datetime | None:
        if after >= _NEVER:
            return None
        ahead = ElapsedSource(after + self._step, self._step, self._line, self._excluded)
        return ahead.next_after(after)

    def count_between(self, after: datetime, until: datetime) -> int:
        """As if every run took no time."""
        if not self._excluded:
            return (until - after) // self._step
        count = 0
        slot = self.next_after(after)
        while slot is not None and slot <= until:
            count += 1
            slot = self.next_after(slot)
        return count


class OnceSource:
    """A single instant, or none where an excluded day took it."""

    __slots__ = ("_at",)

    def __init__(self, at: datetime | None) -> None:
        self._at = at

    def next_after(self, after: datetime) -> datetime | None:
        return self._at if self._at is not None and self._at > after else None

    def count_between(self, after: datetime, until: datetime) -> int:
        return int(self._at is not None and after < self._at <= until)


@lru_cache(maxsize=4096)
def source_of(rule: Rule) -> Source:
    """The source of a rule's slots, made once per rule."""
    line = timeline(rule.timezone)
    timing, excluded = rule.timing, rule.excluded_days
    if isinstance(timing, Interval):
        step = timedelta(seconds=timing.seconds)
        if timing.mode is IntervalMode.FIXED_DELAY:
            return DelaySource(step, line, excluded)
        return ElapsedSource(rule.anchor, step, line, excluded)
    if isinstance(timing, Once):
        return OnceSource(_once(timing.at, line, rule))
    naive, through = naive_rule(rule, line)
    if excluded:
        naive = ExcludedDays(naive, excluded, rule.roll)
    return WallSource(naive, line, THROUGH_THE_DAY if through else rule.dst)


def naive_rule(rule: Rule, line: Timeline) -> tuple[NaiveRule, bool]:
    """A wall-clock timing as a naive rule, and whether it runs through the day."""
    match rule.timing:
        case Cron(expr=expr):
            calendar = compile_cron(expr, rule.seed)
            return calendar, calendar.times.runs_through_the_day()
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
            recurrence = RecurrenceRule(text, start, line)
            return recurrence, recurrence.runs_through_the_day
        case Interval() | Once():
            raise TypeError("an interval or a single instant has no wall clock")
        case _:
            assert_never(rule.timing)


def _once(at: datetime, line: Timeline, rule: Rule) -> datetime | None:
    if local_date(at, line) not in rule.excluded_days:
        return at
    if rule.roll is Roll.SKIP:
        return None
    moved = ExcludedDays(Point(naive_seconds(at, line)), rule.excluded_days, rule.roll)
    instant = next_after(moved, line, rule.dst, seconds_of(EPOCH))
    return None if instant is None else EPOCH + timedelta(seconds=instant)


def seconds_of(instant: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    since = instant - EPOCH
    return since.days * 86_400 + since.seconds


def naive_seconds(instant: datetime, line: Timeline) -> int:
    """What a clock on the wall shows at an instant."""
    seconds = seconds_of(instant)
    return seconds + line.stretch(seconds).offset


def local_date(instant: datetime, line: Timeline) -> date:
    """The date on the wall at an instant."""
    return (EPOCH + timedelta(seconds=naive_seconds(instant, line))).date()
