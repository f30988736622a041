"""Times of a recurrence on one of its days, in seconds of the day."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

from tickwork.core.when.calendar_rule import DAY_SECONDS
from tickwork.core.when.rrule.days import AllowedDays, Periods
from tickwork.core.when.rrule.text import Frequency, Parts, RecurrenceError

TIMES_PER_DAY_MAX = 96
"""Maximum number of times per day that the BY parts may list."""

_UNIT_SECONDS = {
    Frequency.DAILY: DAY_SECONDS,
    Frequency.HOURLY: 3_600,
    Frequency.MINUTELY: 60,
    Frequency.SECONDLY: 1,
}


class TimesOfDay(Protocol):
    """The times on a day that matches the date parts and the interval."""

    def on(self, day: int) -> Sequence[int]:
        """The times on a day, in order."""


def times_of(parts: Parts, start: int, days: AllowedDays, periods: Periods) -> TimesOfDay:
    """The times of a rule with implied parts added. `start` is a naive second."""
    if parts.frequency > Frequency.WEEKLY:
        return UnitTimes(parts, start)
    return PeriodTimes(_clock_times(parts), parts.positions, days, periods)


class PeriodTimes:
    """Yearly, monthly, weekly: the same times on each day, reduced by BYSETPOS."""

    __slots__ = ("_days", "_periods", "_positions", "_times")

    def __init__(
        self, times: Sequence[int], positions: Sequence[int], days: AllowedDays, periods: Periods
    ) -> None:
        self._times, self._positions = times, positions
        self._days, self._periods = days, periods

    def on(self, day: int) -> Sequence[int]:
        if not self._positions:
            return self._times
        days = list(self._days.between(*self._periods.span(day)))
        per_day = len(self._times)
        first = bisect_left(days, day) * per_day
        indexes = _selected_indexes(self._positions, len(days) * per_day)
        return [self._times[at - first] for at in indexes if first <= at < first + per_day]


class UnitTimes:
    """Daily to secondly: units of the day that match the interval, and the times within each.

    The interval of days is applied by `Periods`; only finer units are counted here.
    """

    __slots__ = ("_allowed_mod_60", "_first", "_interval", "_last", "_unit", "_windows", "_within")

    def __init__(self, parts: Parts, start: int) -> None:
        unit = _UNIT_SECONDS[parts.frequency]
        self._unit, self._first = unit, start // unit
        self._interval = parts.interval if parts.frequency > Frequency.DAILY else 1
        self._windows, self._allowed_mod_60 = _windows(parts)
        within = _within(parts)
        self._within = [within[at] for at in _selected_indexes(parts.positions, len(within))]
        if parts.positions and not self._within:
            raise RecurrenceError("never fires; its BYSETPOS selects no time of a period")
        self._last: tuple[int, Sequence[int]] = (-1, ())

    def on(self, day: int) -> Sequence[int]:
        step = (self._first - day * (DAY_SECONDS // self._unit)) % self._interval
        # Most intervals divide a day, so every day has the same times.
        known, times = self._last
        if known != step:
            times = self._in_step(step)
            self._last = (step, times)
        return times

    def _in_step(self, step: int) -> Sequence[int]:
        unit = self._unit
        interval = self._interval
        within = self._within
        if len(within) == 1 and len(self._windows) == 1 and not self._allowed_mod_60:
            low, high = self._windows[0]
            first = low + (step - low) % interval
            return range(first * unit + within[0], high * unit, interval * unit)
        return [
            number * unit + second
            for low, high in self._windows
            for number in range(low + (step - low) % interval, high, interval)
            if not self._allowed_mod_60 or number % 60 in self._allowed_mod_60
            for second in within
        ]


def _windows(parts: Parts) -> tuple[list[tuple[int, int]], frozenset[int]]:
    """The ranges of the day with allowed units, and the allowed units modulo 60."""
    hours = parts.hours or range(24)
    match parts.frequency:
        case Frequency.HOURLY if parts.hours:
            return [(hour, hour + 1) for hour in hours], frozenset()
        case Frequency.MINUTELY if parts.hours or parts.minutes:
            return [(hour * 60, hour * 60 + 60) for hour in hours], frozenset(parts.minutes)
        case Frequency.SECONDLY if parts.minutes:
            begins = [hour * 3600 + minute * 60 for hour in hours for minute in parts.minutes]
            return [(begin, begin + 60) for begin in begins], frozenset(parts.seconds)
        case Frequency.SECONDLY if parts.hours or parts.seconds:
            return [(hour * 3600, hour * 3600 + 3600) for hour in hours], frozenset(parts.seconds)
        case _:
            return [(0, DAY_SECONDS // _UNIT_SECONDS[parts.frequency])], frozenset()


def _within(parts: Parts) -> list[int]:
    """The seconds within one unit of the frequency."""
    match parts.frequency:
        case Frequency.DAILY:
            return _clock_times(parts)
        case Frequency.HOURLY:
            return [minute * 60 + second for minute in parts.minutes for second in parts.seconds]
        case Frequency.MINUTELY:
            return list(parts.seconds)
        case _:
            return [0]


def _clock_times(parts: Parts) -> list[int]:
    count = len(parts.hours) * len(parts.minutes) * len(parts.seconds)
    if count > TIMES_PER_DAY_MAX:
        raise RecurrenceError(
            f"lists {count} times a day, more than {TIMES_PER_DAY_MAX}; use a finer FREQ"
        )
    return [
        hour * 3600 + minute * 60 + second
        for hour in parts.hours
        for minute in parts.minutes
        for second in parts.seconds
    ]


def _selected_indexes(positions: Sequence[int], length: int) -> Sequence[int]:
    """The indexes that BYSETPOS selects in a list; all of them without BYSETPOS."""
    if not positions:
        return range(length)
    indexes = {position - 1 if position > 0 else length + position for position in positions}
    return sorted(index for index in indexes if 0 <= index < length)
