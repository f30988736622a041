"""The fast walk gives the same result as the walk minute by minute."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.when.long_walk import LongWalk
from tests.when.reference import Walk

ZONES = (
    "Europe/Berlin",  # An hour, in March and October.
    "Australia/Lord_Howe",  # Half an hour.
    "Africa/Casablanca",  # Around Ramadan.
    "Asia/Kathmandu",  # Never, and off the hour.
    "America/Santiago",  # At midnight.
)


@pytest.mark.parametrize("zone", ZONES)
def test_a_long_walk_shows_what_a_walk_shows(zone: str) -> None:
    start = datetime(2028, 1, 15, tzinfo=UTC)
    end = start + timedelta(days=100)
    walk, strides = Walk(ZoneInfo(zone), start, end), LongWalk(ZoneInfo(zone), start, end)
    assert (walk.first_wall, walk.last_wall) == (strides.first_wall, strides.last_wall)
    assert walk.gaps == strides.gaps
    walls = range(walk.first_wall - 1, walk.last_wall + 2)
    assert [wall for wall in walls if walk.instants(wall) != strides.instants(wall)] == []


def test_a_day_that_was_never_shown_is_a_gap() -> None:
    """Samoa went to the other side of the date line and had no 30 December 2011."""
    start, end = datetime(2011, 12, 25, tzinfo=UTC), datetime(2012, 1, 5, tzinfo=UTC)
    zone = ZoneInfo("Pacific/Apia")
    assert LongWalk(zone, start, end).gaps == Walk(zone, start, end).gaps != []
