"""Rules in plain English, word for word."""

from datetime import UTC, datetime

import pytest

from tickwork.core import when

LIMITS = when.Limits(min_interval_seconds=1)
AT_NINE = {"hour": 9, "minute": 0}
WEEKLY = {"weekly_time": {**AT_NINE, "day_of_week": 1}}

CRON = [
    ("* * * * *", "Every minute, UTC"),
    ("*/5 * * * *", "Every 5 minutes, UTC"),
    ("0 * * * *", "Every hour, UTC"),
    ("@hourly", "Every hour, UTC"),
    ("30 * * * *", "Every hour, at minute 30, UTC"),
    ("0 */2 * * *", "Every 2 hours, UTC"),
    ("15 */3 * * *", "Every 3 hours, at minute 15, UTC"),
    ("0 0,3,6,9,12,15,18,21 * * *", "Every 3 hours, UTC"),
    ("0 9 * * *", "At 09:00, every day, UTC"),
    ("@daily", "At 00:00, every day, UTC"),
    ("@weekly", "At 00:00, every Sunday, UTC"),
    ("0 9 * * MON-FRI", "At 09:00, Monday to Friday, UTC"),
    ("0 9 * * 6,0", "At 09:00, Saturday and Sunday, UTC"),
    ("0 9 * * 5-7", "At 09:00, Friday to Sunday, UTC"),
    ("0 6 * * MON-FRI,SUN", "At 06:00, Monday to Friday and Sunday, UTC"),
    ("0 0 ? * MON", "At 00:00, every Monday, UTC"),
    ("0 9,17 * * *", "At 09:00 and 17:00, every day, UTC"),
    ("30 8,12,18 * * MON,WED,FRI", "At 08:30, 12:30 and 18:30, Monday, Wednesday and Friday, UTC"),
    ("*/15 9-17 * * MON-FRI", "Every 15 minutes from 09:00 to 17:59, Monday to Friday, UTC"),
    ("* 9 * * *", "Every minute from 09:00 to 09:59, every day, UTC"),
    ("0 0-5 * * *", "At 00:00, 01:00, 02:00, 03:00, 04:00 and 05:00, every day, UTC"),
    ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00, every day, UTC"),
    ("5,35 * * * *", "At minutes 5 and 35 past the hour, UTC"),
    ("10-20 * * * *", "At minutes 10 to 20 past the hour, UTC"),
    ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 past the hour, UTC"),
    ("0 0 1 * *", "At 00:00, on day 1 of the month, UTC"),
    ("0 0 1,15 * *", "At 00:00, on days 1 and 15 of the month, UTC"),
    ("0 9 1-7 * *", "At 09:00, on days 1 to 7 of the month, UTC"),
    ("0 0 L * *", "At 00:00, on the last day of the month, UTC"),
    ("0 0 LW * *", "At 00:00, on the last weekday of the month, UTC"),
    ("0 9 15W * *", "At 09:00, on the weekday nearest to day 15, UTC"),
    ("0 0 * * 5#3", "At 00:00, on the third Friday of the month, UTC"),
    ("0 0 * * 5L", "At 00:00, on the last Friday of the month, UTC"),
    ("0 0 13 * 5", "At 00:00, on day 13 of the month or every Friday, UTC"),
    ("0 9 1-7 * MON", "At 09:00, on days 1 to 7 of the month or every Monday, UTC"),
    ("0 9 1 * */3", "At 09:00, on day 1 of the month if it is Wednesday, Saturday and Sunday, UTC"),
    ("0 12 * JUN-AUG *", "At 12:00, every day, from June to August, UTC"),
    ("0 12 * JAN,MAR,DEC *", "At 12:00, every day, in January, March and December, UTC"),
    ("0 0 1 */3 *", "At 00:00, on day 1 of the month, in January, April, July and October, UTC"),
    ("* * * * * *", "Every second, UTC"),
    ("*/10 * * * * *", "Every 10 seconds, UTC"),
    ("30 * * * * *", "Every minute, at second 30, UTC"),
    ("0 30 9 * * *", "At 09:30, every day, UTC"),
    ("15 30 9 * * *", "At 09:30:15, every day, UTC"),
]  # fmt: skip

OTHERS: list[tuple[dict[str, object], str]] = [
    ({"interval_seconds": 60}, "Every minute"),
    ({"interval_seconds": 90}, "Every 90 seconds"),
    ({"interval_minutes": 5}, "Every 5 minutes"),
    ({"interval_minutes": 120}, "Every 2 hours"),
    ({"interval_minutes": 20_160}, "Every 2 weeks"),
    ({"interval_seconds": 3_600, "interval_mode": "fixed_delay"},
     "1 hour after the end of the previous run"),
    ({"daily_time": {"hour": 9, "minute": 5}, "timezone": "America/New_York"},
     "At 09:05, every day, New York time"),
    ({"weekly_time": {**AT_NINE, "day_of_week": [1, 2, 3, 4, 5]},
      "timezone": "America/Argentina/Buenos_Aires"},
     "At 09:00, Monday to Friday, Buenos Aires time"),
    ({"weekly_time": {**AT_NINE, "day_of_week": 0}}, "At 09:00, every Sunday, UTC"),
    ({"weekly_time": {**AT_NINE, "day_of_week": list(range(7))}}, "At 09:00, every day, UTC"),
    ({"monthly_time": {**AT_NINE, "day": 1}}, "At 09:00, on day 1 of the month, UTC"),
    ({"monthly_time": {**AT_NINE, "day": "last"}}, "At 09:00, on the last day of the month, UTC"),
    ({"once_at": "2027-03-14T09:00:00Z"}, "Once, on 2027-03-14 at 09:00, UTC"),
    ({"once_at": "2027-07-14T09:00:30", "timezone": "Europe/Berlin"},
     "Once, on 2027-07-14 at 09:00:30, Berlin time"),
    ({"rrule": "FREQ=DAILY", "start_at": "2027-01-01T09:00:00Z"},
     "Every day, at 09:00, UTC, from 2027-01-01 at 09:00"),
    ({**WEEKLY, "start_at": "2027-01-01T00:00:00Z", "end_at": "2027-02-01T00:00:00Z"},
     "At 09:00, every Monday, UTC, from 2027-01-01 at 00:00, until 2027-02-01 at 00:00"),
    ({**WEEKLY, "max_firings": 1}, "At 09:00, every Monday, UTC, at most once"),
    ({**WEEKLY, "max_firings": 5}, "At 09:00, every Monday, UTC, at most 5 times"),
    ({**WEEKLY, "exclude": ["2027-01-01"]}, "At 09:00, every Monday, UTC, except on 1 date"),
    ({**WEEKLY, "exclude": ["2027-01-01", "2027-01-02"], "calendar": "feasts"},
     "At 09:00, every Monday, UTC, except on 2 dates, except the days of calendar feasts"),
    ({**WEEKLY, "timezone": "Etc/UTC"}, "At 09:00, every Monday, UTC"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "english"), CRON)
def test_a_cron_expression_in_english(expression: str, english: str) -> None:
    assert when.describe(when.parse({"cron_expr": expression}, limits=LIMITS)) == english


@pytest.mark.parametrize(("fields", "english"), OTHERS, ids=[english for _, english in OTHERS])
def test_a_rule_in_english(fields: dict[str, object], english: str) -> None:
    rule = when.parse(fields, limits=LIMITS, calendars={"feasts": frozenset()})
    assert when.describe(rule) == english


def test_a_hashed_value_is_described_as_its_value() -> None:
    rule = when.parse({"cron_expr": "H H * * *"}, seed="some schedule")
    slot = when.next_after(rule, when.model.EPOCH)
    assert slot is not None
    assert when.describe(rule) == f"At {slot:%H:%M}, every day, UTC"


#: (the timing, its cron expression)
EQUIVALENT: list[tuple[dict[str, object], str | None]] = [
    ({"cron_expr": "0 9 * * MON-FRI"}, "0 9 * * MON-FRI"),
    ({"cron_expr": "@Daily"}, "0 0 * * *"),
    ({"daily_time": "08:30"}, "30 8 * * *"),
    ({"weekly_time": "MON-FRI 08:30"}, "30 8 * * 1,2,3,4,5"),
    ({"monthly_time": "15 08:30"}, "30 8 15 * *"),
    ({"monthly_time": "31 08:30"}, "30 8 31 * *"),
    ({"monthly_time": "last 18:00"}, "0 18 L * *"),
    ({"monthly_time": {"day": 28, "hour": 8, "minute": 0, "short_month": "last_day"}},
     "0 8 28 * *"),
    ({"monthly_time": {"day": 31, "hour": 8, "minute": 0, "short_month": "last_day"}}, None),
    ({"interval_minutes": 30}, None),
    ({"once_at": "2027-01-01T09:00:00Z"}, None),
    ({"rrule": "FREQ=DAILY", "start_at": "2027-01-01T09:00:00Z"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "cron"), EQUIVALENT)
def test_a_cron_equivalent_has_the_same_slots(fields: dict[str, object], cron: str | None) -> None:
    rule = when.parse(fields)
    assert when.cron_equivalent(rule.timing) == cron
    if cron is not None:
        start, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 6, 1, tzinfo=UTC)
        same = when.parse({"cron_expr": cron})
        assert when.slots_between(rule, start, end) == when.slots_between(same, start, end)
