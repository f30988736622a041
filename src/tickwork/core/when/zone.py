"""A zone's local time as stretches of constant offset, and conversions of instants.

Daylight saving follows from where the offset changes. The standard library does not expose these
instants. A `Timeline` finds them once and caches them.

Instants are whole seconds since 1970 UTC. *Naive* seconds are the same count on a local clock:
`naive = instant + offset`.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tickwork.core.near_names import nearest
from tickwork.core.when.model import EPOCH

_DAY = 86_400
_CHUNK_SECONDS = 1_024 * _DAY
_QUIET_SECONDS = 2 * _DAY
_EARLIEST = -2_208_988_800  # 1900-01-01: earlier instants are treated as this day.
_CYCLE_SECONDS = 146_097 * _DAY  # 400 years, after which the calendar repeats.
_CYCLES_FROM = 4_102_444_800  # 2100-01-01: from here on every zone follows a fixed rule.


ZONE_NAME_LENGTH_MAX = 64
"""Maximum number of characters of a name to search a similar zone for."""


class Stretch(NamedTuple):
    """`[start, end)` with one offset, and the offsets on either side of it."""

    start: int
    end: int
    offset_before: int
    offset: int
    offset_after: int


class _Chunk(NamedTuple):
    """The stretches that overlap one fixed range of time, in order."""

    starts: list[int]
    stretches: list[Stretch]


class Timeline:
    """One zone's stretches, computed per chunk of time on demand and cached.

    A chunk depends only on its number, so threads can read without a lock. There are at most about
    two hundred chunks: times beyond the next 400-year cycle are looked up in that cycle.
    """

    __slots__ = ("_chunks", "zone")

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._chunks: dict[int, _Chunk] = {}

    def stretch(self, instant: int) -> Stretch:
        """The stretch with `instant`. It may end before a change, but not shortly before one."""
        if instant >= _CYCLES_FROM + _CYCLE_SECONDS:
            return self._later(instant)
        instant = max(instant, _EARLIEST)
        index = instant // _CHUNK_SECONDS
        chunk = self._chunks.get(index)
        if chunk is None:
            chunk = self._chunks[index] = self._explore(index)
        return chunk.stretches[bisect_right(chunk.starts, instant) - 1]

    def instants_showing(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges of instants `[from, to)` in which the local clock shows `[start, end)`."""
        spans: list[tuple[int, int]] = []
        instant = start - _QUIET_SECONDS
        while instant < end + _QUIET_SECONDS:
            stretch = self.stretch(instant)
            low = max(instant, start - stretch.offset)
            high = min(stretch.end, end - stretch.offset)
            if low < high:
                spans.append((low, high))
            instant = stretch.end
        return spans

    def _later(self, instant: int) -> Stretch:
        ahead = (instant - _CYCLES_FROM) // _CYCLE_SECONDS * _CYCLE_SECONDS
        found = self.stretch(instant - ahead)
        return found._replace(start=found.start + ahead, end=found.end + ahead)

    def _explore(self, index: int) -> _Chunk:
        """The stretches of one chunk.

        The first and last one extend to a change nearby. If a stretch ends without a change, none
        follows shortly after; otherwise an overlap across its end would be missed.
        """
        low, high = index * _CHUNK_SECONDS, (index + 1) * _CHUNK_SECONDS
        changes = self._changes(low - _QUIET_SECONDS, high + _QUIET_SECONDS)
        start = max((change for change in changes if change <= low), default=low)
        end = min((change for change in changes if change >= high), default=high)
        bounds = [start, *(change for change in changes if low < change < high), end]
        offsets = [self._read(start - 1), *map(self._read, bounds)]
        stretches = [
            Stretch(bounds[i], bounds[i + 1], *offsets[i : i + 3]) for i in range(len(bounds) - 1)
        ]
        return _Chunk(bounds[:-1], stretches)

    def _changes(self, low: int, high: int) -> list[int]:
        """The instants in `(low, high]` at which the offset changes, found by daily probes."""
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
        offset = datetime.fromtimestamp(instant, self.zone).utcoffset()
        assert offset is not None
        return offset.days * _DAY + offset.seconds


@lru_cache(maxsize=1024)
def timeline(name: str) -> Timeline:
    """The timeline of an IANA zone. Raises `KeyError` or `ValueError` for an unknown name."""
    return Timeline(ZoneInfo(name))


def seconds_of(instant: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    since = instant - EPOCH
    return since.days * 86_400 + since.seconds


def instant_of(seconds: int) -> datetime:
    """The instant that many seconds after 1970."""
    return EPOCH + timedelta(seconds=seconds)


def just_before(instant: datetime) -> datetime:
    """The last representable instant before another: the start of an interval open at the start."""
    return instant - timedelta.resolution


def naive_seconds(instant: datetime, line: Timeline) -> int:
    """The local clock at an instant, as naive seconds."""
    seconds = seconds_of(instant)
    return seconds + line.stretch(seconds).offset


def local_date(instant: datetime, line: Timeline) -> date:
    """The local date at an instant."""
    return instant_of(naive_seconds(instant, line)).date()


def nearest_zone(name: str) -> str | None:
    """The zone whose name or city is most like this text, in any case; None if none is."""
    if len(name) > ZONE_NAME_LENGTH_MAX:
        return None
    zones = _zones_by_text()
    near = nearest(name.lower().replace(" ", "_"), zones)
    return None if near is None else zones[near]


@lru_cache(maxsize=1)
def _zones_by_text() -> dict[str, str]:
    """The zones by their lower-case names, and by their cities where no zone has that name."""
    names = sorted(name for name in available_timezones() if not name.startswith("Etc/"))
    cities = {name.rpartition("/")[2].lower(): name for name in names}
    return {**cities, **{name.lower(): name for name in names}}
