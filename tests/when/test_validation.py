"""Bad input is refused with the field's name and a sentence that a person understands."""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.soak import examples
from tests.when.work import at_most
from tickwork.core import when
from tickwork.errors import InvalidInput

Fields = dict[str, object]

START: Fields = {"start_at": "2027-01-01T09:00:00Z"}
NINE: Fields = {"hour": 9, "minute": 0}
DAILY: Fields = {"daily_time": NINE}
DAY = 86_400
CALENDARS = {"feasts": frozenset({date(2027, 12, 25)})}


def rrule(text: str) -> Fields:
    return {"rrule": text, **START}


#: (fields, the faulty field, a piece of the sentence)
BAD: list[tuple[Fields, str, str]] = [
    # exactly one timing
    ({}, "timing", "none is given"),
    ({"timezone": "UTC"}, "timing", "exactly one of cron_expr"),
    ({"cron_expr": None}, "timing", "none is given"),
    ({"cron_expr": "* * * * *", **DAILY}, "daily_time", "cron_expr and daily_time are given"),
    ({"interval_seconds": 60, "interval_minutes": 1}, "interval_minutes", "exactly one"),
    # zones
    ({**DAILY, "timezone": "Mars/Olympus"}, "timezone", "'Mars/Olympus' is not an IANA time zone"),
    ({**DAILY, "timezone": "zzz"}, "timezone", "such as Europe/Berlin"),
    ({**DAILY, "timezone": "Europe/Berln"}, "timezone", "zone; did you mean 'Europe/Berlin'?"),
    ({**DAILY, "timezone": "europe/berlin"}, "timezone", "did you mean 'Europe/Berlin'?"),
    ({**DAILY, "timezone": "New York"}, "timezone", "did you mean 'America/New_York'?"),
    ({**DAILY, "timezone": "../../etc/passwd"}, "timezone", "not an IANA time zone"),
    ({**DAILY, "timezone": "Europe"}, "timezone", "not an IANA time zone"),
    ({**DAILY, "timezone": "a\0b"}, "timezone", "not an IANA time zone"),
    ({**DAILY, "timezone": "localtime"}, "timezone", "not an IANA time zone"),
    ({**DAILY, "timezone": "right/UTC"}, "timezone", "not an IANA time zone"),
    ({**DAILY, "timezone": "x" * 10_000}, "timezone", "not an IANA time zone"),
    ({**DAILY, "timezone": ""}, "timezone", "is empty"),
    ({**DAILY, "timezone": 5}, "timezone", "must be a text, not 5"),
    # cron
    ({"cron_expr": ""}, "cron_expr", "is empty"),
    ({"cron_expr": "* * * *"}, "cron_expr", "has 4 fields; give 5"),
    ({"cron_expr": "* * * * * * *"}, "cron_expr", "has 7 fields"),
    ({"cron_expr": "60 * * * *"}, "cron_expr", "the minute field '60' is not valid"),
    ({"cron_expr": "* 24 * * *"}, "cron_expr", "the hour field '24' is not valid"),
    ({"cron_expr": "* * 32 * *"}, "cron_expr", "the day-of-month field '32'"),
    ({"cron_expr": "* * * 13 *"}, "cron_expr", "1-12 or JAN-DEC"),
    ({"cron_expr": "* * * * 8"}, "cron_expr", "0-7 or SUN-SAT"),
    ({"cron_expr": "* * * * MONDAY"}, "cron_expr", "the day-of-week field 'MONDAY'"),
    ({"cron_expr": "5-1 * * * *"}, "cron_expr", "the minute field '5-1'"),
    ({"cron_expr": "*/0 * * * *"}, "cron_expr", "the minute field '*/0'"),
    ({"cron_expr": "*/90 * * * *"}, "cron_expr", "the minute field '*/90' has a step of 90"),
    ({"cron_expr": "5,*/61,7 * * * *"}, "cron_expr", "60 values; use interval_minutes"),
    ({"cron_expr": "H/90 * * * *"}, "cron_expr", "has a step of 90"),
    ({"cron_expr": "0 */36 * * *"}, "cron_expr", "the hour field '*/36' has a step of 36"),
    ({"cron_expr": "0 0 1/40 * *"}, "cron_expr", "but only 31 values"),
    ({"cron_expr": "0 0 1 */18 *"}, "cron_expr", "but only 12 values"),
    ({"cron_expr": "0 0 * * 1-5/14"}, "cron_expr", "but only 7 values"),
    ({"cron_expr": "? * * * *"}, "cron_expr", "'?' may only stand alone"),
    ({"cron_expr": "* * ?,1 * *"}, "cron_expr", "'?' may only stand alone"),
    ({"cron_expr": "H(5-1) * * * *"}, "cron_expr", "has a range outside 0-59"),
    ({"cron_expr": "H(0-60) * * * *"}, "cron_expr", "has a range outside 0-59"),
    ({"cron_expr": "H/0 * * * *"}, "cron_expr", "has a step of 0"),
    ({"cron_expr": "0 0 32W * *"}, "cron_expr", "use 1W to 31W"),
    ({"cron_expr": "@fortnightly"}, "cron_expr", "is not an alias; use one of @hourly"),
    ({"cron_expr": "1," * 200 + "1 * * * *"}, "cron_expr", "is longer than 256 characters"),
    ({"cron_expr": ["* * * * *"]}, "cron_expr", "must be a text, not ['* * * * *']"),
    ({"cron_expr": "0 * * * * *"}, "cron_expr", "has 6 fields; seconds are not allowed here"),
    # rules that never fire
    ({"cron_expr": "0 0 30 2 *"}, "cron_expr", "never fires"),
    ({"cron_expr": "0 0 31 2,4,6 *"}, "cron_expr", "never fires"),
    ({"cron_expr": "0 0 31W 4 *"}, "cron_expr", "never fires"),
    ({"cron_expr": "0 0 */31 * 1#5"}, "cron_expr", "never fires"),
    ({"cron_expr": "0 0 LW * */6"}, "cron_expr", "never fires"),
    ({"cron_expr": "0 0 15W * */6"}, "cron_expr", "never fires"),
    ({**DAILY, "start_at": "2027-01-01T10:00Z", "end_at": "2027-01-02T08:00Z"}, "daily_time",
     "never fires"),
    ({**DAILY, "end_at": "1970-01-01T08:00Z"}, "daily_time", "never fires"),
    ({"once_at": "2027-12-25T09:00:00Z", "exclude": ["2027-12-25"]}, "once_at", "never fires"),
    ({"once_at": "2027-12-25T09:00:00Z", "calendar": "feasts"}, "once_at", "never fires"),
    ({"once_at": "2027-01-01T00:00Z", "start_at": "2027-02-01T00:00Z"}, "once_at", "never fires"),
    ({"once_at": "2027-03-01T00:00Z", "end_at": "2027-02-01T00:00Z"}, "once_at", "never fires"),
    (rrule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "rrule", "never fires"),
    (rrule("FREQ=HOURLY;BYSETPOS=2"), "rrule", "never fires; its BYSETPOS selects no time"),
    (rrule("FREQ=HOURLY;INTERVAL=2;BYHOUR=10"), "rrule", "never fires"),
    (rrule("FREQ=DAILY;UNTIL=20261231"), "rrule", "never fires"),
    (rrule("FREQ=DAILY;;COUNT=3"), "rrule", "has an empty part; remove the extra ';'"),
    (rrule("FREQ=DAILY;;"), "rrule", "has an empty part; remove the extra ';'"),
    (rrule(";"), "rrule", "is empty"),
    # too often
    ({"interval_seconds": 59}, "interval_seconds", "fires 59 s apart; the minimum here is 60 s"),
    (rrule("FREQ=SECONDLY"), "rrule", "fires 1 s apart; the minimum here is 60 s"),
    (rrule("FREQ=SECONDLY;INTERVAL=30"), "rrule", "fires 30 s apart"),
    (rrule("FREQ=DAILY;BYSECOND=0,5"), "rrule", "fires 5 s apart"),
    # times and dates that do not exist
    ({"daily_time": {"hour": 24, "minute": 0}}, "daily_time.hour", "from 0 to 23, not 24"),
    ({"daily_time": {"hour": 9, "minute": 60}}, "daily_time.minute", "from 0 to 59, not 60"),
    ({"daily_time": {"hour": -1, "minute": 0}}, "daily_time.hour", "not -1"),
    ({"daily_time": {"hour": 9}}, "daily_time.minute", "is missing; give a whole number"),
    ({"daily_time": {}}, "daily_time.hour", "is missing"),
    ({"daily_time": 900}, "daily_time", "must be an object with hour, minute"),
    ({"daily_time": {**NINE, "second": 1}}, "daily_time.second", "is not a known field"),
    ({"weekly_time": {**NINE}}, "weekly_time.day_of_week", "0 is Sunday"),
    ({"weekly_time": {**NINE, "day_of_week": 7}}, "weekly_time.day_of_week", "not 7"),
    ({"weekly_time": {**NINE, "day_of_week": []}}, "weekly_time.day_of_week", "not []"),
    ({"weekly_time": {**NINE, "day_of_week": [1, True]}}, "weekly_time.day_of_week", "or a list"),
    ({"weekly_time": {**NINE, "day_of_week": "MON"}}, "weekly_time.day_of_week", "not 'MON'"),
    ({"monthly_time": {**NINE, "day": 0}}, "monthly_time.day", "from 1 to 31, not 0"),
    ({"monthly_time": {**NINE, "day": 32}}, "monthly_time.day", "not 32"),
    ({"monthly_time": {**NINE, "day": "first"}}, "monthly_time.day", "not 'first'"),
    ({"monthly_time": {**NINE, "day": 31, "short_month": "no"}}, "monthly_time.short_month",
     "must be one of skip, last_day, not "),
    ({"once_at": "2027-02-30T09:00:00Z"}, "once_at", "is not a date and time that exists"),
    ({"once_at": "2027-02-28T25:00:00Z"}, "once_at", "is not a date and time that exists"),
    ({"once_at": "2027-06-30T23:59:60Z"}, "once_at", "is not a date and time that exists"),
    ({"once_at": "2027-12-24"}, "once_at", "must be ISO 8601 with a time"),
    ({"once_at": "tomorrow at nine"}, "once_at", "is not a date and time that exists"),
    ({"once_at": "x" * 100_000}, "once_at", "is not a date and time that exists"),
    ({"once_at": 1_800_000_000}, "once_at", "such as 2027-03-14T09:00:00Z, not 1800000000"),
    ({"once_at": "1969-12-31T23:59:59Z"}, "once_at", "in the years 1970 to 9000"),
    ({"once_at": "1970-01-01T00:00:00+14:00"}, "once_at", "in the years 1970 to 9000"),
    ({"once_at": "9001-01-01T00:00:00Z"}, "once_at", "in the years 1970 to 9000"),
    ({"once_at": "9000-12-31T23:00:00-10:00"}, "once_at", "in the years 1970 to 9000"),
    ({**DAILY, "start_at": "1970-01-01T00:00", "timezone": "Asia/Tokyo"}, "start_at", "1970"),
    ({"once_at": "2027-03-14T02:30", "timezone": "America/New_York", "dst": {"gap": "skip"}},
     "once_at", "does not exist in America/New_York"),
    ({"once_at": "2011-12-30T09:00", "timezone": "Pacific/Apia"}, "once_at", "does not exist in"),
    # whole numbers, and only those
    ({"interval_seconds": True}, "interval_seconds", "must be a whole number from 1"),
    ({"interval_seconds": 60.0}, "interval_seconds", "not 60.0"),
    ({"interval_seconds": float("nan")}, "interval_seconds", "not nan"),
    ({"interval_seconds": "60"}, "interval_seconds", "not '60'"),
    ({"interval_seconds": [60]}, "interval_seconds", "not [60]"),
    ({"interval_seconds": {"value": 60}}, "interval_seconds", "must be a whole number"),
    ({"interval_seconds": 0}, "interval_seconds", "not 0"),
    ({"interval_seconds": 10**9}, "interval_seconds", "from 1 to 316224000"),
    ({"interval_seconds": 10**5_000}, "interval_seconds", "not a number of that size"),
    ({"interval_minutes": 0}, "interval_minutes", "not 0"),
    ({"interval_seconds": 60, "interval_mode": "often"}, "interval_mode", "one of fixed_rate, "),
    ({**DAILY, "interval_mode": "fixed_rate"}, "interval_mode", "is only for an interval"),
    # the fields around a timing
    ({**DAILY, "max_firings": 0}, "max_firings", "from 1 to"),
    ({**DAILY, "max_firings": True}, "max_firings", "not True"),
    ({**DAILY, "jitter_seconds": -1}, "jitter_seconds", "from 0 to 86400"),
    ({**DAILY, "jitter_seconds": 1.5}, "jitter_seconds", "not 1.5"),
    ({**DAILY, "fire_window_seconds": 86_401}, "fire_window_seconds", "from 0 to 86400"),
    ({**DAILY, "missed": {"grace_seconds": -1}}, "missed.grace_seconds", "not -1"),
    ({**DAILY, "missed": {"cap": 0}}, "missed.cap", "from 1 to 1000"),
    ({**DAILY, "missed": {"policy": "later"}}, "missed.policy", "one of fire_late, "),
    ({**DAILY, "missed": {"policies": 1}}, "missed.policies", "is not a known field"),
    ({**DAILY, "missed": "skip"}, "missed", "must be an object with cap, grace_seconds, policy"),
    ({**DAILY, "dst": {"gap": "jump"}}, "dst.gap", "one of run_after, shift, skip"),
    ({**DAILY, "dst": {"overlap": ["both"]}}, "dst.overlap", "one of first, last, both"),
    ({**DAILY, "dst": ["skip"]}, "dst", "must be an object with gap, overlap"),
    ({**DAILY, "end_at": "2027-01-01T00:00Z", "start_at": "2027-01-01T00:00Z"}, "end_at",
     "must be after start_at"),
    ({**DAILY, "start_at": "soon"}, "start_at", "must be ISO 8601"),
    ({**DAILY, "roll": "back"}, "roll", "one of skip, next_day, previous_day"),
    ({"interval_seconds": 60, "roll": "next_day"}, "roll", "can only skip excluded days"),
    ({**rrule("FREQ=HOURLY"), "roll": "next_day"}, "roll", "can only skip excluded days"),
    ({**DAILY, "calendar": "saints"}, "calendar", "'saints' is not a calendar; create it first"),
    ({**DAILY, "calendar": ""}, "calendar", "is empty"),
    ({**DAILY, "calendar": 7}, "calendar", "must be a text, not 7"),
    ({**DAILY, "exclude": "2027-12-25"}, "exclude", "must be a list of dates"),
    ({**DAILY, "exclude": {"2027-12-25": 1}}, "exclude", "must be a list of dates"),
    ({**DAILY, "exclude": ["2027-12-25", "2027-02-29"]}, "exclude[1]", "not a date that exists"),
    ({**DAILY, "exclude": [None]}, "exclude[0]", "None is not a date that exists"),
    ({**DAILY, "exclude": [["2027-12-25"]]}, "exclude[0]", "is not a date that exists"),
    ({**DAILY, "exclude": ["2027-12-25T00:00:00Z"]}, "exclude[0]", "is not a date that exists"),
    ({**DAILY, "exclude": ["0001-01-01"]}, "exclude[0]", "is not a date that exists"),
    ({**DAILY, "exclude": ["9999-12-31"]}, "exclude[0]", "is not a date that exists"),
    ({**DAILY, "exclude": ["2027-12-25"] * 10_001}, "exclude", "at most 10000 are allowed"),
    ({**DAILY, "colour": "red"}, "colour", "is not a known field; use calendar, cron_expr"),
    # recurrences
    ({"rrule": "FREQ=DAILY"}, "start_at", "is missing; an rrule starts there"),
    (rrule("DTSTART:20270101T090000Z\nRRULE:FREQ=DAILY"), "rrule", "give the start as start_at"),
    (rrule("FREQ=DAILY\nEXDATE:20270102"), "rrule", "give excluded dates as exclude"),
    (rrule("RRULE:RRULE:FREQ=DAILY"), "rrule", "must be a single RRULE"),
    (rrule("INTERVAL=2"), "rrule", "needs FREQ, one of YEARLY"),
    (rrule("FREQ=FORTNIGHTLY"), "rrule", "needs FREQ"),
    (rrule("FREQ=DAILY;INTERVAL"), "rrule", "'INTERVAL' is not NAME=VALUE"),
    (rrule("FREQ=DAILY;FREQ=DAILY"), "rrule", "FREQ is given twice"),
    (rrule("FREQ=DAILY;BYEASTER=1"), "rrule", "BYEASTER is not part of an RFC 5545 RRULE"),
    (rrule("FREQ=DAILY;INTERVAL=0"), "rrule", "INTERVAL=0 is not a number from 1"),
    (rrule("FREQ=DAILY;INTERVAL=1.5"), "rrule", "INTERVAL=1.5 is not a number"),
    (rrule("FREQ=DAILY;COUNT=0"), "rrule", "COUNT=0 is not a number from 1 to 10000"),
    (rrule("FREQ=DAILY;COUNT=10001"), "rrule", "COUNT=10001"),
    (rrule("FREQ=DAILY;COUNT=3;UNTIL=20280101"), "rrule", "COUNT and UNTIL cannot be combined"),
    (rrule("FREQ=DAILY;UNTIL=soon"), "rrule", "UNTIL=SOON is not a date such as 20271231"),
    (rrule("FREQ=DAILY;UNTIL=20270231"), "rrule", "UNTIL=20270231 is not a date"),
    (rrule("FREQ=WEEKLY;BYDAY=2MO"), "rrule", "a BYDAY with a number needs FREQ=MONTHLY"),
    (rrule("FREQ=WEEKLY;BYDAY=XX"), "rrule", "BYDAY=XX is not a weekday"),
    (rrule("FREQ=MONTHLY;BYDAY=6MO"), "rrule", "up to 5 here"),
    (rrule("FREQ=MONTHLY;BYDAY=20MO"), "rrule", "up to 5 here"),
    (rrule("FREQ=YEARLY;BYDAY=54MO"), "rrule", "up to 53 here"),
    (rrule("FREQ=DAILY;WKST=MONDAY"), "rrule", "WKST=MONDAY is not one of MO"),
    (rrule("FREQ=MONTHLY;BYMONTHDAY=0"), "rrule", "BYMONTHDAY=0 is not a number"),
    (rrule("FREQ=MONTHLY;BYMONTHDAY=32"), "rrule", "from -31 to 31"),
    (rrule("FREQ=DAILY;BYHOUR=24"), "rrule", "BYHOUR=24 is not a number from 0 to 23"),
    (rrule("FREQ=DAILY;BYHOUR=9,,10"), "rrule", "BYHOUR= is not a number"),
    (rrule("FREQ=DAILY;BYMINUTE=" + ",".join(map(str, range(60))) + ";BYHOUR=1,2"), "rrule",
     "lists 120 times a day, more than 96"),
    (rrule("FREQ=DAILY;BYHOUR=" + "1," * 300 + "1"), "rrule", "is longer than 512 characters"),
    ({"rrule": 5, **START}, "rrule", "must be a text, not 5"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "field", "piece"), BAD, ids=[f"{field}: {piece[:40]}" for _, field, piece in BAD]
)
def test_bad_input_is_named_and_explained(fields: Fields, field: str, piece: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        when.parse(fields, calendars=CALENDARS)
    faults = refusal.value.errors
    assert [fault.field for fault in faults].count(field) == 1, faults
    (message,) = [fault.message for fault in faults if fault.field == field]
    assert piece in message
    assert len(message) < 400
    assert when.validate(fields, calendars=CALENDARS) == faults


SEVERAL = [
    (
        {"cron_expr": 5, "timezone": "Nowhere", "start_at": "soon", "jitter_seconds": -1,
         "roll": "up", "missed": {"cap": 0, "grace_seconds": -1}, "dst": {"gap": "x"},
         "exclude": ["x", "2027-01-01", "y"], "calendar": "saints", "colour": "red"},
        {"cron_expr", "timezone", "start_at", "jitter_seconds", "roll", "missed.cap",
         "missed.grace_seconds", "dst.gap", "exclude[0]", "exclude[2]", "calendar", "colour"},
    ),
    ({"daily_time": {"hour": 25, "minute": 61}}, {"daily_time.hour", "daily_time.minute"}),
    ({"max_firings": 0}, {"timing", "max_firings"}),
    ({"rrule": "", "end_at": 5}, {"rrule", "start_at", "end_at"}),
    ({"cron_expr": "61 * * * *", "timezone": "Nowhere"}, {"cron_expr", "timezone"}),
    ({"cron_expr": "0 0 30 2 *", "timezone": "Nowhere"}, {"cron_expr", "timezone"}),
    ({"cron_expr": "* * * * * *", "priority": 1}, {"cron_expr", "priority"}),
    ({"cron_expr": "0 0 31W 4 *", "jitter_seconds": -1}, {"cron_expr", "jitter_seconds"}),
    ({"cron_expr": "bad", "start_at": "soon"}, {"cron_expr", "start_at"}),
    ({"rrule": "FREQ=NEVER", "timezone": "Nowhere", **START}, {"rrule", "timezone"}),
    ({"rrule": "FREQ=SECONDLY", "timezone": "Nowhere", **START}, {"rrule", "timezone"}),
    ({"interval_seconds": 5, "timezone": "Nowhere"}, {"interval_seconds", "timezone"}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "faulty"), SEVERAL)
def test_every_fault_is_reported_at_once(fields: Fields, faulty: set[str]) -> None:
    assert {fault.field for fault in when.validate(fields)} == faulty


def test_a_good_rule_has_no_faults() -> None:
    assert when.validate({**DAILY, "timezone": "Europe/Berlin"}) == ()


@pytest.mark.parametrize(
    ("fields", "least", "good"),
    [
        ({"cron_expr": "* * * * * *"}, 1, True),
        ({"cron_expr": "* * * * * *"}, 2, False),
        ({"cron_expr": "*/30 * * * * *"}, 30, True),
        ({"cron_expr": "*/30 * * * * *"}, 31, False),
        ({"cron_expr": "0,59 * * * * *"}, 2, False),
        ({"cron_expr": "* * * * *"}, 60, True),
        ({"cron_expr": "* * * * *"}, 61, False),
        ({"cron_expr": "0 0,23 * * *"}, 3_601, False),
        ({"interval_seconds": 1}, 1, True),
        ({"interval_minutes": 1}, 61, False),
        ({"rrule": "FREQ=SECONDLY;INTERVAL=10", **START}, 10, True),
        ({"rrule": "FREQ=SECONDLY;INTERVAL=10", **START}, 11, False),
        (DAILY, DAY, True),
        (DAILY, DAY + 1, False),
        ({"weekly_time": {"day_of_week": 1, **NINE}}, 7 * DAY, True),
        ({"weekly_time": {"day_of_week": [0, 2, 5], **NINE}}, 2 * DAY, True),
        ({"weekly_time": {"day_of_week": [0, 6], **NINE}}, DAY + 1, False),
        ({"monthly_time": {"day": "last", **NINE}}, 28 * DAY, True),
        ({"monthly_time": {"day": 1, **NINE}}, 28 * DAY + 1, False),
        ({"monthly_time": {"day": 31, **NINE}}, 31 * DAY, True),
        ({"monthly_time": {"day": 31, "short_month": "last_day", **NINE}}, 29 * DAY, False),
        ({"once_at": "2027-01-01T09:00:00Z"}, 28 * DAY, True),
    ],
)
def test_the_minimum_is_the_tenants(fields: Fields, least: int, good: bool) -> None:
    limits = when.Limits(min_interval_seconds=least)
    assert (when.validate(fields, limits=limits) == ()) is good


words = st.sampled_from(
    ["*", "* * * * *", "0 0 31 2 *", "H H * * *", "FREQ=DAILY", "FREQ=MINUTELY;BYSETPOS=9", "last",
     "UTC", "Europe/Berlin", "next_day", "skip", "2027-03-14T02:30:00", "2027-12-25", "\ud800", ""]
)  # fmt: skip
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-5, 70), st.floats(), st.text(), words
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["hour", "minute", "day", "day_of_week", "gap", "cap", "x"]), inner
        ),
    ),
    max_leaves=6,
)
names = st.sampled_from([*sorted(when.RULE_FIELDS), "surprise"])
bodies = st.dictionaries(names, nested, min_size=1, max_size=5)


@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(bodies)
def test_any_fields_are_a_rule_or_refused(fields: Fields) -> None:
    with at_most(60_000):
        faults = when.validate(fields, created_at=datetime(2027, 1, 1, tzinfo=UTC))
    assert all(fault.field and fault.message for fault in faults)
    assert faults or isinstance(when.parse(fields), when.Rule)


@settings(max_examples=examples(400), deadline=None)
@given(st.text("0123456789*/-,?#LWH() @adeiklmnoruy", max_size=24), st.booleans())
def test_any_cron_text_is_a_rule_or_refused(text: str, bare: bool) -> None:
    expression = text if bare else f"{text} * * * *"
    with at_most(60_000):
        faults = when.validate({"cron_expr": expression})
    assert all(fault.field == "cron_expr" for fault in faults)


parts = st.tuples(
    st.sampled_from(["FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", "BYMONTH", "BYSETPOS",
                     "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYHOUR", "BYMINUTE", "BYSECOND"]),
    st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY",
                     "1", "2", "7", "29", "30", "59", "-1", "-53", "366", "999983", "MO", "1FR",
                     "-5SU", "20301231", "99991231T235959Z", "0"]),
).map("=".join)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]),
       st.lists(parts, max_size=5))  # fmt: skip
def test_any_rrule_text_is_a_rule_or_refused(frequency: str, some: list[str]) -> None:
    fields = {"rrule": ";".join([f"FREQ={frequency}", *some]), **START}
    with at_most(2_000_000):
        faults = when.validate(fields, limits=when.Limits(min_interval_seconds=1))
    assert all(fault.field == "rrule" for fault in faults)


@pytest.mark.parametrize(
    ("short", "meant"),
    [
        ({"daily_time": "08:30"}, {"daily_time": {"hour": 8, "minute": 30}}),
        ({"daily_time": time(8, 30)}, {"daily_time": {"hour": 8, "minute": 30}}),
        (
            {"weekly_time": "MON 08:30"},
            {"weekly_time": {"day_of_week": 1, "hour": 8, "minute": 30}},
        ),
        (
            {"weekly_time": "fri-sun 8:30"},
            {"weekly_time": {"day_of_week": [0, 5, 6], "hour": 8, "minute": 30}},
        ),
        (
            {"weekly_time": "Monday,THU 08:30"},
            {"weekly_time": {"day_of_week": [1, 4], "hour": 8, "minute": 30}},
        ),
        ({"monthly_time": "15 08:30"}, {"monthly_time": {"day": 15, "hour": 8, "minute": 30}}),
        (
            {"monthly_time": "last 18:00"},
            {"monthly_time": {"day": "last", "hour": 18, "minute": 0}},
        ),
    ],
)
def test_a_short_form_means_its_object(short: dict[str, Any], meant: dict[str, Any]) -> None:
    assert when.parse(short) == when.parse(meant)
    assert when.render(when.parse(short)) == {**meant, "timezone": "UTC"}


@pytest.mark.parametrize(
    ("short", "field", "message"),
    [
        ({"daily_time": "8h"}, "daily_time", "08:30"),
        ({"daily_time": "24:00"}, "daily_time", "08:30"),
        ({"daily_time": time(8, 30, 15)}, "daily_time", "08:30"),
        ({"weekly_time": "09:00"}, "weekly_time", "MON 08:30"),
        ({"weekly_time": "MOX 09:00"}, "weekly_time", "'MOX' is not a day"),
        ({"weekly_time": time(9)}, "weekly_time", "MON 08:30"),
        ({"monthly_time": "first 08:00"}, "monthly_time", "use 1-31 or last"),
        ({"monthly_time": "32 08:00"}, "monthly_time.day", "from 1 to 31"),
    ],
)
def test_a_wrong_short_form_is_refused_by_its_field(
    short: dict[str, Any], field: str, message: str
) -> None:
    (fault,) = when.validate(short)
    assert fault.field == field
    assert message in fault.message


def test_minutes_are_shown_as_minutes() -> None:
    assert when.render(when.parse({"interval_minutes": 90})) == {
        "interval_minutes": 90,
        "timezone": "UTC",
    }
    assert when.render(when.parse({"interval_seconds": 120}))["interval_seconds"] == 120
