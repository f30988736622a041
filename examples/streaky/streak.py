"""How long a streak is. Pure: commits and a moment in, a number out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)


class Streak(NamedTuple):
    """So many days in a row, today included if it has a commit. Without one the streak still
    stands, and ends tonight."""

    days: int
    has_today: bool


def streak_of(commits: Iterable[datetime], zone: str, at: datetime) -> Streak:
    """The streak at a moment, in days as they pass where the person lives.

    What was committed after that moment, but still on that day, counts: who checks late must
    not remind somebody who has committed meanwhile.
    """
    there = ZoneInfo(zone)
    today = at.astimezone(there).date()
    days = {commit.astimezone(there).date() for commit in commits}
    has_today = today in days
    last = today if has_today else today - DAY
    length = 0
    while last in days:
        length += 1
        last -= DAY
    return Streak(length, has_today)
