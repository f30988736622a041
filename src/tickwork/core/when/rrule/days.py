"""Days of a recurrence, by its date parts and its interval.

Days are numbered from 1970-01-01, a Thursday.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any

from dateutil import rrule as engine

from tickwork.core.when.calendar_rule import EPOCH_ORDINAL
from tickwork.core.when.rrule.text import Frequency, Parts

_CYCLE_YEARS = 400
_EVERY_DAY = tuple(range(1, 32))
# Intervals longer than the calendar, so that dateutil stops after the first period.
_ONE_YEAR, _ONE_MONTH = 10_000, 120_000


class AllowedDays:
    """The days that the date parts allow, regardless of the interval, cached by year.

    The calendar repeats every 400 years, so the cache holds at most 400 years.
    """

    __slots__ = ("_by", "_every_day", "_monthly", "_wkst", "_years")

    def __init__(self, parts: Parts) -> None:
        self._monthly = parts.frequency is Frequency.MONTHLY
        self._wkst = parts.wkst
        self._by: dict[str, Any] = {
            "bymonth": parts.months or None,
            "bymonthday": parts.month_days or None,
            "byyearday": parts.year_days or None,
            "byweekno": parts.week_numbers or None,
            "byweekday": [engine.weekday(day, n) for day, n in parts.weekdays] or None,
        }
        self._every_day = not any(self._by.values())
        if not any(value for name, value in self._by.items() if name != "bymonth"):
            self._by["bymonthday"] = _EVERY_DAY
        self._years: dict[int, Sequence[int]] = {}

    def between(self, start: int, end: int) -> Iterable[int]:
        """The allowed days in `[start, end)`, in order; a range if every day is allowed."""
        return range(start, end) if self._every_day else self._some_between(start, end)

    def _some_between(self, start: int, end: int) -> Iterator[int]:
        for year in range(_date(start).year, _date(end).year + 1):
            begin = _number(year, 1, 1)
            days = self._of_year(year)
            for at in range(bisect_left(days, start - begin), len(days)):
                if begin + days[at] >= end:
                    return
                yield begin + days[at]

    def _of_year(self, year: int) -> Sequence[int]:
        """The allowed days of a year, counted from its first day."""
        year = 2000 + year % _CYCLE_YEARS
        if year not in self._years:
            self._years[year] = tuple(self._ask(year))
        return self._years[year]

    def _ask(self, year: int) -> Iterator[int]:
        first = date(year, 1, 1).toordinal()
        for month in range(1, 13 if self._monthly else 2):
            rule = engine.rrule(
                engine.MONTHLY if self._monthly else engine.YEARLY,
                dtstart=datetime(year, month, 1),  # noqa: DTZ001 (naive local time, on purpose)
                interval=_ONE_MONTH if self._monthly else _ONE_YEAR,
                wkst=self._wkst,
                **self._by,
            )
            for match in rule:
                yield match.toordinal() - first


class Periods:
    """Years, months, weeks or days that an interval counts in. `times` handles finer units."""

    __slots__ = ("_first", "_frequency", "_interval", "_wkst")

    def __init__(self, parts: Parts, start: int) -> None:
        self._frequency, self._wkst = parts.frequency, parts.wkst
        self._interval = parts.interval if parts.frequency <= Frequency.DAILY else 1
        self._first = self._period(start)

    def in_step(self, days: Iterable[int]) -> Iterable[int]:
        """The days whose period matches the interval."""
        if self._interval == 1:
            return days
        if self._frequency is Frequency.DAILY and isinstance(days, range):
            return days[(self._first - days.start) % self._interval :: self._interval]
        return filter(self._is_in_step, days)

    def span(self, day: int) -> tuple[int, int]:
        """The period that contains a day, as days `[start, end)`."""
        period = self._period(day)
        match self._frequency:
            case Frequency.YEARLY:
                return _number(period, 1, 1), _number(period + 1, 1, 1)
            case Frequency.MONTHLY:
                return _month_start(period), _month_start(period + 1)
            case _:
                start = period * 7 + self._wkst - 3
                return start, start + 7

    def _is_in_step(self, day: int) -> bool:
        return not (self._period(day) - self._first) % self._interval

    def _period(self, day: int) -> int:
        match self._frequency:
            case Frequency.YEARLY:
                return _date(day).year
            case Frequency.MONTHLY:
                on = _date(day)
                return on.year * 12 + on.month - 1
            case Frequency.DAILY:
                return day
            case _:
                return (day + 3 - self._wkst) // 7


def _date(day: int) -> date:
    return date.fromordinal(day + EPOCH_ORDINAL)


def _number(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def _month_start(period: int) -> int:
    return _number(period // 12, period % 12 + 1, 1)
