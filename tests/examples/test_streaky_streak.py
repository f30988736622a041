"""How long a streak is: days in a row, where the person lives, with today still open."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.streaky.streak import Streak, streak_of

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def back(*days: int) -> list[datetime]:
    """Commits at noon, so many days ago."""
    return [NOON - DAY * day for day in days]


@pytest.mark.parametrize(
    ("commits", "streak"),
    [
        ([], Streak(0, has_today=False)),
        (back(0), Streak(1, has_today=True)),
        (back(0, 1, 2), Streak(3, has_today=True)),
        (back(2, 0, 1), Streak(3, has_today=True)),
        (back(0, 0, 1, 1), Streak(2, has_today=True)),
        # Without a commit today it still stands …
        (back(1, 2, 3), Streak(3, has_today=False)),
        # … and without one yesterday either, it is over.
        (back(2, 3, 4), Streak(0, has_today=False)),
        (back(0, 2, 3), Streak(1, has_today=True)),
        (back(1, 3, 4), Streak(1, has_today=False)),
        (back(*range(1, 364)), Streak(363, has_today=False)),
    ],
)
def test_a_streak_is_days_in_a_row(commits: list[datetime], streak: Streak) -> None:
    assert streak_of(commits, "UTC", NOON) == streak


@pytest.mark.parametrize(
    ("zone", "commit", "has_today"),
    [
        # Half past eleven at night in London is the next day in Tokyo.
        ("UTC", "2026-11-14T23:30:00+00:00", False),
        ("Asia/Tokyo", "2026-11-14T23:30:00+00:00", True),
        # Three in the morning in London is still yesterday in New York.
        ("UTC", "2026-11-15T03:00:00+00:00", True),
        ("America/New_York", "2026-11-15T03:00:00+00:00", False),
        # At noon UTC tomorrow has begun on Kiritimati.
        ("Pacific/Kiritimati", "2026-11-15T09:00:00+00:00", False),
        ("Pacific/Kiritimati", "2026-11-15T10:00:00+00:00", True),
        # The offset of a commit says when it was, not where the person lives.
        ("UTC", "2026-11-15T23:30:00+14:00", True),
        ("UTC", "2026-11-15T09:00:00+14:00", False),
    ],
)
def test_a_day_is_one_where_the_person_lives(zone: str, commit: str, has_today: bool) -> None:
    assert streak_of([datetime.fromisoformat(commit)], zone, NOON).has_today is has_today


def test_a_commit_after_the_check_but_on_the_same_day_counts() -> None:
    assert streak_of([NOON + timedelta(hours=6)], "UTC", NOON) == Streak(1, has_today=True)
    assert streak_of([NOON + timedelta(hours=13)], "UTC", NOON) == Streak(0, has_today=False)


@pytest.mark.parametrize(
    "changed", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)]
)
def test_a_day_of_23_or_25_hours_is_a_day(changed: datetime) -> None:
    noon = changed.replace(hour=12)
    # Just after midnight in Berlin, on each of five days around the change.
    first = datetime.fromisoformat(f"{(noon - DAY * 4):%Y-%m-%d}T23:10:00+00:00")
    commits = [first + DAY * number for number in range(4)]
    assert streak_of(commits, "Europe/Berlin", noon) == Streak(4, has_today=True)


@given(
    commits=st.lists(st.integers(0, 30)),
    more=st.integers(0, 30),
    zone=st.sampled_from(["UTC", "Asia/Kolkata", "Pacific/Apia"]),
)
def test_one_more_commit_never_makes_a_streak_shorter(
    commits: list[int], more: int, zone: str
) -> None:
    before = streak_of(back(*commits), zone, NOON)
    after = streak_of(back(*commits, more), zone, NOON)
    assert after.days >= before.days
    assert after.has_today >= before.has_today
