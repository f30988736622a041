"""Excluded days: their slots are skipped, or roll to the nearest open day."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.soak import examples
from tickwork.core import when

Fields = dict[str, object]

NINE = {"hour": 9, "minute": 0}
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
LIMITS = when.Limits(min_interval_seconds=1)


def dates(first: str, count: int = 1) -> list[str]:
    start = date.fromisoformat(first)
    return [(start + timedelta(days=k)).isoformat() for k in range(count)]


def slots(fields: Fields, start: datetime, days: int) -> str:
    rule = when.parse(fields, created_at=NEW_YEAR)
    found = when.slots_between(rule, start, start + timedelta(days=days))
    assert when.count_between(rule, start, start + timedelta(days=days)) == len(found)
    return " ".join(f"{slot:%m-%dT%H}" for slot in found)


DAILY: Fields = {"daily_time": NINE}
MONDAYS: Fields = {"weekly_time": {**NINE, "day_of_week": 1}}
FIRST: Fields = {"monthly_time": {**NINE, "day": 1}}
LAST: Fields = {"monthly_time": {**NINE, "day": "last"}}
TWICE: Fields = {"cron_expr": "0 9,15 * * MON"}
BIWEEKLY: Fields = {"rrule": "FREQ=WEEKLY;INTERVAL=2", "start_at": "2027-01-04T09:00:00Z"}
UNEVEN: Fields = {
    "rrule": "FREQ=WEEKLY;BYDAY=SA,MO;BYHOUR=8,12;BYSETPOS=2,3", "start_at": "2026-12-28T00:00:00Z"
}  # fmt: skip
"""Saturday 12:00 and Monday 08:00."""
ONCE: Fields = {"once_at": "2027-01-04T09:00:00Z"}

#: (timing, excluded days, roll, days to look at, the slots); 4 January 2027 is a Monday
JANUARY = [
    (DAILY, dates("2027-01-02"), "skip", 3, "01-01T09 01-03T09"),
    (DAILY, dates("2027-01-02"), "next_day", 3, "01-01T09 01-03T09"),
    (DAILY, dates("2027-01-02"), "previous_day", 3, "01-01T09 01-03T09"),
    (MONDAYS, dates("2027-01-04"), "skip", 14, "01-11T09"),
    (MONDAYS, dates("2027-01-04"), "next_day", 14, "01-05T09 01-11T09"),
    (MONDAYS, dates("2027-01-04"), "previous_day", 14, "01-03T09 01-11T09"),
    (MONDAYS, dates("2027-01-04", 3), "next_day", 14, "01-07T09 01-11T09"),
    (MONDAYS, dates("2027-01-02", 3), "previous_day", 14, "01-01T09 01-11T09"),
    (MONDAYS, dates("2027-01-04", 7), "next_day", 14, "01-11T09"),
    (MONDAYS, dates("2027-01-04", 14), "next_day", 21, "01-18T09"),
    (MONDAYS, dates("2027-01-05"), "next_day", 14, "01-04T09 01-11T09"),
    (TWICE, dates("2027-01-04"), "next_day", 14, "01-05T09 01-05T15 01-11T09 01-11T15"),
    (TWICE, dates("2027-01-04", 8), "next_day", 14, "01-12T09 01-12T15"),
    (BIWEEKLY, dates("2027-01-04"), "skip", 31, "01-18T09"),
    (BIWEEKLY, ["2027-01-04", "2027-01-18"], "skip", 45, "02-01T09"),
    (BIWEEKLY, dates("2027-01-18"), "next_day", 31, "01-04T09 01-19T09"),
    (BIWEEKLY, dates("2027-01-17", 2), "previous_day", 31, "01-04T09 01-16T09"),
    (BIWEEKLY, dates("2027-01-04", 15), "next_day", 31, "01-19T09"),
    (UNEVEN, dates("2027-01-02", 2), "next_day", 7, "01-04T08 01-04T12"),
    (ONCE, dates("2027-01-05"), "next_day", 31, "01-04T09"),
    (ONCE, dates("2027-01-04"), "next_day", 31, "01-05T09"),
    (ONCE, dates("2027-01-04", 9), "next_day", 31, "01-13T09"),
    (ONCE, dates("2027-01-03", 2), "previous_day", 31, "01-02T09"),
    (FIRST, dates("2027-02-01"), "previous_day", 60, "01-01T09 01-31T09 03-01T09"),
    (LAST, dates("2027-01-31"), "next_day", 60, "02-01T09 02-28T09"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "excluded", "roll", "days", "answer"), JANUARY)
def test_an_excluded_slot_is_skipped_or_rolls(
    fields: Fields, excluded: list[str], roll: str, days: int, answer: str
) -> None:
    whole: Fields = {**fields, "exclude": excluded, "roll": roll}
    assert slots(whole, NEW_YEAR, days) == answer


def test_a_roll_goes_over_the_end_of_a_year() -> None:
    fields: Fields = {**LAST, "exclude": dates("2027-12-31", 3), "roll": "next_day"}
    december = datetime(2027, 12, 15, tzinfo=UTC)
    assert slots(fields, december, 60) == "01-03T09 01-31T09"
    fields = {**FIRST, "exclude": dates("2027-12-30", 4), "roll": "previous_day"}
    assert slots(fields, december, 60) == "12-29T09 02-01T09"


def test_a_rolled_slot_on_a_natural_one_is_one_slot() -> None:
    fields: Fields = {"cron_expr": "0 9 * * 1,2", "exclude": ["2027-01-04"], "roll": "next_day"}
    assert slots(fields, NEW_YEAR, 7) == "01-05T09"
    fields = {
        "rrule": "FREQ=DAILY;BYHOUR=9,15",
        "start_at": "2027-01-01T00:00:00Z",
        "exclude": ["2027-01-02", "2027-01-03"],
        "roll": "next_day",
    }
    assert slots(fields, NEW_YEAR, 4) == "01-01T09 01-01T15 01-04T09 01-04T15"


def test_days_with_different_times_roll_onto_each_other() -> None:
    fields: Fields = {
        "rrule": "FREQ=WEEKLY;BYDAY=SA,SU,MO;BYHOUR=8,12;BYSETPOS=1,-1",
        "start_at": "2026-12-28T00:00:00Z",
        "exclude": dates("2027-01-02", 2),
        "roll": "next_day",
    }
    assert slots(fields, NEW_YEAR, 7) == "01-04T08 01-04T12"


def test_a_slot_before_the_start_does_not_roll_past_it() -> None:
    fields: Fields = {
        "rrule": "FREQ=DAILY;BYHOUR=9",
        "start_at": "2027-01-04T12:00:00Z",
        "exclude": dates("2027-01-03", 3),
        "roll": "next_day",
    }
    assert slots(fields, NEW_YEAR, 7) == "01-06T09 01-07T09"
    assert slots({**fields, "rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9"}, NEW_YEAR, 7) == ""


def test_a_slot_with_no_open_day_within_a_year_is_skipped() -> None:
    for timing in (MONDAYS, BIWEEKLY):
        fields: Fields = {**timing, "exclude": dates("2027-01-04", 800), "roll": "next_day"}
        rule = when.parse(fields, created_at=NEW_YEAR)
        first = when.next_after(rule, NEW_YEAR)
        assert first == datetime(2029, 3, 14, 9, tzinfo=UTC)
    alone: Fields = {**ONCE, "exclude": dates("2027-01-04", 800), "roll": "next_day"}
    assert [fault.field for fault in when.validate(alone)] == ["once_at"]


def test_a_rolled_slot_keeps_its_time_of_day_over_a_change() -> None:
    fields: Fields = {
        "daily_time": NINE,
        "timezone": "Europe/Berlin",
        "exclude": ["2027-03-27"],
        "roll": "next_day",
    }
    saturdays: Fields = {**fields, "weekly_time": {**NINE, "day_of_week": 6}}
    del saturdays["daily_time"]
    assert slots(saturdays, datetime(2027, 3, 25, tzinfo=UTC), 5) == "03-28T07"


def test_a_named_calendar_counts_like_dates() -> None:
    holidays = frozenset({date(2027, 1, 4), date(2027, 1, 5)})
    rule = when.parse(
        {**MONDAYS, "calendar": "feasts", "exclude": ["2027-01-06"], "roll": "next_day"},
        calendars={"feasts": holidays, "others": frozenset({date(2027, 1, 7)})},
    )
    assert when.next_after(rule, NEW_YEAR) == datetime(2027, 1, 7, 9, tzinfo=UTC)
    assert when.render(rule)["calendar"] == "feasts"
    assert "holidays" not in when.render(rule)


@pytest.mark.parametrize("mode", ["fixed_rate", "fixed_delay"])
def test_an_interval_skips_whole_local_days(mode: str) -> None:
    fields: Fields = {
        "interval_minutes": 90,
        "interval_mode": mode,
        "timezone": "America/New_York",
        "exclude": ["2027-03-14"],
    }
    rule = when.parse(fields, created_at=datetime(2027, 3, 13, 0, 17, tzinfo=UTC))
    found = when.slots_between(rule, rule.anchor, rule.anchor + timedelta(days=4))
    local = [slot.astimezone(ZoneInfo("America/New_York")).date() for slot in found]
    assert date(2027, 3, 14) not in local
    # That day has 23 hours: from 05:00 to 04:00 UTC.
    distances = [later - slot for slot, later in pairwise(found)]
    assert sorted(distances)[-2:] == [timedelta(minutes=90), timedelta(hours=24)]
    assert all((slot - rule.anchor) % timedelta(minutes=90) == timedelta() for slot in found)


def test_a_local_day_in_pieces_is_excluded_in_all_of_them() -> None:
    """In St John's, until 2010, the clock went from 00:01 on Sunday back to 23:01 on Saturday."""
    zone = ZoneInfo("America/St_Johns")
    for excluded in ("2010-11-06", "2010-11-07"):
        for step in (30, 60, 600):
            fields: Fields = {
                "interval_seconds": step, "timezone": zone.key, "exclude": [excluded],
                "start_at": "2010-11-06T00:00:00Z",
            }  # fmt: skip
            rule = when.parse(fields, limits=LIMITS)
            start, end = datetime(2010, 11, 6, tzinfo=UTC), datetime(2010, 11, 9, tzinfo=UTC)
            every = [start + k * timedelta(seconds=step) for k in range(3 * 86_400 // step + 1)]
            expected = [
                slot for slot in every if slot.astimezone(zone).date().isoformat() != excluded
            ]
            assert when.slots_between(rule, start - timedelta(1), end) == expected
            assert when.count_between(rule, start - timedelta(1), end) == len(expected)


def test_an_interval_crosses_a_day_that_a_zone_skipped() -> None:
    fields: Fields = {
        "interval_minutes": 60,
        "timezone": "Pacific/Apia",
        "exclude": ["2011-12-29", "2011-12-30", "2011-12-31"],
        "start_at": "2011-12-28T00:00:00Z",
    }
    rule = when.parse(fields)
    start, end = datetime(2011, 12, 28, tzinfo=UTC), datetime(2012, 1, 2, tzinfo=UTC)
    # The 29th began at 10:00 on the 29th; at 10:00 on the 30th the 31st did.
    expected = [start + timedelta(hours=k) for k in range(1, 121) if not 34 <= k < 82]
    assert when.slots_between(rule, start, end) == expected
    assert when.count_between(rule, start, end) == len(expected)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from([DAILY, MONDAYS, TWICE, LAST, BIWEEKLY,
                     {"cron_expr": "0 9 1W,15 * 3"},
                     {"rrule": "FREQ=MONTHLY;BYDAY=MO,-1FR;BYHOUR=9,17;BYSETPOS=1,-1,3",
                      "start_at": "2026-11-01T08:00:00Z"}]),
    st.lists(st.integers(0, 75), max_size=25),
    st.sampled_from(["skip", "next_day", "previous_day"]),
)  # fmt: skip
def test_exclusions_equal_moving_each_slot_by_hand(
    fields: Fields, days: list[int], roll: str
) -> None:
    first, end = datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC)
    closed = {(first + timedelta(days=10 + day)).date() for day in days}
    step = {"next_day": 1, "previous_day": -1}.get(roll, 0)
    expected = set()
    natural = when.parse({**fields}, created_at=first)
    for slot in when.slots_between(natural, first - timedelta(days=20), end + timedelta(days=90)):
        moved = slot
        while moved.date() in closed and step:
            moved += timedelta(days=step)
        if moved.date() not in closed and first < moved <= end:
            expected.add(moved)
    excluded = [day.isoformat() for day in closed]
    rule = when.parse({**fields, "exclude": excluded, "roll": roll}, created_at=first)
    assert when.slots_between(rule, first, end) == sorted(expected)
    assert when.count_between(rule, first, end) == len(expected)
