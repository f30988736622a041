"""Every zone that zoneinfo knows, and every change of its offset in 2020-2037.

Found independently of any tz parser: step through the years a day at a time, and where the offset
differs from yesterday's, bisect to the second. (Two changes within one day that cancel out would
be missed; no zone does that in these years.)
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

#: Files that zoneinfo lists and that are no zones: "not set up yet", and whatever this machine has.
NO_ZONES = frozenset({"Factory", "localtime"})
FIRST_YEAR, LAST_YEAR = 2020, 2037
DAY_SECONDS = 24 * 60 * 60
START = int(datetime(FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp())
END = int(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True)
class Transition:
    """At the UTC second ``at`` the offset changes; before, the wall clock would have shown ``at``
    plus ``before_seconds``, from then on plus ``after_seconds``."""

    at: int
    before_seconds: int
    after_seconds: int

    @property
    def instant(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def wall_before(self) -> datetime:
        """Where the old reckoning stood (naive)."""
        return datetime.fromtimestamp(self.at + self.before_seconds, UTC).replace(tzinfo=None)

    @property
    def wall_after(self) -> datetime:
        """Where the new reckoning starts (naive)."""
        return datetime.fromtimestamp(self.at + self.after_seconds, UTC).replace(tzinfo=None)


def all_zones() -> list[str]:
    return sorted(available_timezones() - NO_ZONES)


@cache
def transitions(zone: str) -> tuple[Transition, ...]:
    info = ZoneInfo(zone)
    found: list[Transition] = []
    before = offset_seconds(info, START)
    for today in range(START, END, DAY_SECONDS):
        after = offset_seconds(info, today + DAY_SECONDS)
        if after != before:
            at = change_between(info, today, today + DAY_SECONDS)
            found.append(Transition(at, before, after))
            before = after
    return tuple(found)


def change_between(info: ZoneInfo, early: int, late: int) -> int:
    """The first second with the late offset: ``early`` has the old one, ``late`` the new one."""
    old = offset_seconds(info, early)
    while late - early > 1:
        middle = (early + late) // 2
        if offset_seconds(info, middle) == old:
            early = middle
        else:
            late = middle
    return late


def offset_seconds(info: ZoneInfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, info).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def alike(zones: list[str]) -> dict[tuple[int, tuple[Transition, ...]], list[str]]:
    """Zones that cannot be told apart in these years, by their offset at the start and their
    changes. Every zone is still a case of its own: what differs is its name and its file."""
    groups: dict[tuple[int, tuple[Transition, ...]], list[str]] = {}
    for zone in zones:
        sign = (offset_seconds(ZoneInfo(zone), START), transitions(zone))
        groups.setdefault(sign, []).append(zone)
    return groups
