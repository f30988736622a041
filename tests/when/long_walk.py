"""A walk through a year and more, in strides: as `reference.Walk`, for what would take it minutes.

It looks at the clock once a day. Where it shows the same time of day as the day before, it has gone
along with UTC in between; where it does not, that day is walked minute by minute, as ever. (Two
changes within a day that cancel out would be missed; see `zones.py`.) `test_long_walk.py` holds it
to the walk itself.
"""

from datetime import datetime
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tests.when.reference import (
    MARGIN_MINUTES,
    MINUTES_A_DAY,
    Gap,
    Walk,
    utc_minute,
    wall_minute,
)


class Stretch(NamedTuple):
    """UTC minutes ``first <= minute < end``, in which the wall clock was ``ahead`` of UTC."""

    first: int
    end: int
    ahead: int


class LongWalk(Walk):
    """What the wall clock showed around a window, by stretches in which it just went on."""

    def __init__(self, zone: ZoneInfo, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end
        first = utc_minute(start) - MARGIN_MINUTES
        last = utc_minute(end) + MARGIN_MINUTES
        self.stretches: list[Stretch] = []
        self.gaps = []
        began = first
        for minute in changes(zone, first, last):
            before = wall_minute(minute - 1, zone)
            self.stretches.append(Stretch(began, minute, before - (minute - 1)))
            wall = wall_minute(minute, zone)
            if wall > before + 1:
                self.gaps.append(Gap(before + 1, wall, minute))
            began = minute
        self.stretches.append(Stretch(began, last + 1, wall_minute(last, zone) - last))
        self.first_wall = min(stretch.first + stretch.ahead for stretch in self.stretches)
        self.last_wall = max(stretch.end - 1 + stretch.ahead for stretch in self.stretches)

    def instants(self, wall: int) -> list[int]:
        found = [
            wall - stretch.ahead
            for stretch in self.stretches
            if _holds(stretch, wall - stretch.ahead)
        ]
        return sorted(found)


@cache
def long_walk(zone: str, start: datetime, end: datetime) -> LongWalk:
    """One walk for all rules of a zone."""
    return LongWalk(ZoneInfo(zone), start, end)


def changes(zone: ZoneInfo, first: int, last: int) -> list[int]:
    """The minutes, after the first, at which the wall clock did not go on by one."""
    found: list[int] = []
    for day in range(first, last, MINUTES_A_DAY):
        until = min(day + MINUTES_A_DAY, last)
        if wall_minute(until, zone) - wall_minute(day, zone) == until - day:
            continue
        before = wall_minute(day, zone)
        for minute in range(day + 1, until + 1):
            wall = wall_minute(minute, zone)
            if wall != before + 1:
                found.append(minute)
            before = wall
    return found


def _holds(stretch: Stretch, minute: int) -> bool:
    return stretch.first <= minute < stretch.end
