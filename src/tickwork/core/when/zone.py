"""A zone's local time as stretches of constant offset.

Everything about daylight saving follows from where the offset changes. A `Timeline` finds
those instants once (the standard library does not tell them) and answers from memory:
which stretch an instant lies in, and what the offsets before and after it are.

Instants are whole seconds since 1970 UTC; *naive* seconds are the same count on a local
clock: `naive = instant + offset`.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

_DAY = 86_400
_MARGIN_SECONDS = 400 * _DAY
_EARLIEST = -2_208_988_800  # 1900-01-01
_LATEST = 253_370_764_800  # 9999-01-01


class Stretch(NamedTuple):
    """`[start, end)` with one offset, and the offsets on either side of it."""

    start: int
    end: int
    offset_before: int
    offset: int
    offset_after: int


class _Known(NamedTuple):
    """The part of a timeline found so far; replaced whole, so that readers need no lock."""

    low: int
    high: int
    starts: list[int]
    stretches: list[Stretch]


class Timeline:
    """One zone's stretches, found on demand and kept."""

    __slots__ = ("_known", "zone")

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._known = _Known(0, 0, [], [])

    def stretch(self, instant: int) -> Stretch:
        """The stretch that holds `instant`."""
        known = self._known
        if not known.low <= instant < known.high:
            known = self._grow(instant)
        return known.stretches[bisect_right(known.starts, instant) - 1]

    def _grow(self, instant: int) -> _Known:
        known = self._known
        low, high = instant - _MARGIN_SECONDS, instant + _MARGIN_SECONDS
        if known.stretches:
            low, high = min(low, known.low), max(high, known.high)
        low, high = max(low // _DAY * _DAY, _EARLIEST), min(high // _DAY * _DAY, _LATEST)
        changes = [
            *self._changes(low, known.low if known.stretches else high),
            *(stretch.start for stretch in known.stretches[1:]),
            *(self._changes(known.high, high) if known.stretches else ()),
        ]
        bounds = [low, *changes, high]
        offsets = [self._read(start) for start in bounds[:-1]]
        around = [offsets[0], *offsets, offsets[-1]]
        stretches = [
            Stretch(bounds[i], bounds[i + 1], around[i], around[i + 1], around[i + 2])
            for i in range(len(offsets))
        ]
        self._known = _Known(low, high, bounds[:-1], stretches)
        return self._known

    def _changes(self, low: int, high: int) -> list[int]:
        """The instants in `(low, high]` at which the offset becomes another; probed daily."""
        changes: list[int] = []
        before = self._read(low)
        for day in range(low + _DAY, high + 1, _DAY):
            after = self._read(day)
            if after != before:
                changes.append(self._bisect(day - _DAY, day))
                before = after
        return changes

    def _bisect(self, low: int, high: int) -> int:
        target = self._read(high)
        while high - low > 1:
            middle = (low + high) // 2
            if self._read(middle) == target:
                high = middle
            else:
                low = middle
        return high

    def _read(self, instant: int) -> int:
        offset = datetime.fromtimestamp(instant, UTC).astimezone(self.zone).utcoffset()
        assert offset is not None
        return offset.days * _DAY + offset.seconds


@lru_cache(maxsize=1024)
def timeline(name: str) -> Timeline:
    """The timeline of an IANA zone; raises `KeyError` or `ValueError` for an unknown name."""
    return Timeline(ZoneInfo(name))
