"""Computes how long a streak is. Pure: commits and a time in, a number out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)


class Streak(NamedTuple):
    """Number of consecutive days with a commit, and whether today is one of them.

    A day without a commit does not end the streak until it is over.
    """

    days: int
    has_today: bool


def streak_of(commits: Iterable[datetime], zone: str, at: datetime) -> Streak:
    """Return the streak at a time, in days of the user's zone.

    Commits after `at` but on the same day count: a late check must not remind someone who has
    committed in the meantime.
    """
    user_zone = ZoneInfo(zone)
    today = at.astimezone(user_zone).date()
    days = {commit.astimezone(user_zone).date() for commit in commits}
    has_today = today in days
    last = today if has_today else today - DAY
    length = 0
    while last in days:
        length += 1
        last -= DAY
    return Streak(length, has_today)
