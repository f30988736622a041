"""No schedule that is accepted, and none that is refused, costs more than a bounded search.

Each of these once took seconds, or did not end. Work is counted in calls; a second of work is
more than a million of them.
"""

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.when.work import at_most
from tickwork.core import when
from tickwork.errors import InvalidInput

Fields = dict[str, object]

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LIMITS = when.Limits(min_interval_seconds=1)
CALLS_MAX = 700_000


def days(count: int, step: int = 1) -> list[str]:
    return [(date(2026, 1, 1) + timedelta(days=k * step)).isoformat() for k in range(count)]


def rrule(text: str, **more: object) -> Fields:
    return {"rrule": text, "start_at": "2020-01-01T00:00:00Z", **more}


HOSTILE: list[Fields] = [
    rrule("FREQ=MINUTELY;BYSETPOS=2"),
    rrule("FREQ=SECONDLY;INTERVAL=60;BYSETPOS=-2"),
    rrule("FREQ=HOURLY;BYSETPOS=2"),
    rrule("FREQ=YEARLY;BYSETPOS=366"),
    rrule("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30"),
    rrule("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=3;BYMINUTE=0"),
    rrule("FREQ=SECONDLY;INTERVAL=61;BYHOUR=3;BYMINUTE=0;BYMONTH=2;BYMONTHDAY=29"),
    rrule("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=0;BYSECOND=0"),
    rrule("FREQ=MINUTELY;INTERVAL=1439;BYHOUR=3;BYMINUTE=7"),
    rrule("FREQ=SECONDLY;INTERVAL=999983"),
    rrule("FREQ=HOURLY;INTERVAL=999983"),
    rrule("FREQ=YEARLY;INTERVAL=1000000"),
    rrule("FREQ=WEEKLY;INTERVAL=52;BYMONTH=2"),
    rrule("FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"),
    rrule("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"),
    rrule("FREQ=YEARLY;BYDAY=MO,TU,WE;BYHOUR=0,6,12,18;BYMINUTE=0,30;COUNT=10000"),
    rrule("FREQ=DAILY;UNTIL=99991231T235959Z", timezone="Europe/Oslo"),
    rrule("FREQ=DAILY;UNTIL=00010101T000000Z", timezone="Europe/Oslo"),
    rrule("FREQ=DAILY;BYHOUR=8,9,10", exclude=days(10_000), roll="next_day"),
    rrule("FREQ=DAILY;BYHOUR=8,9,10", exclude=days(10_000, 2), roll="previous_day"),
    rrule("FREQ=YEARLY;COUNT=3", exclude=days(10_000, 2), roll="next_day"),
    rrule("FREQ=DAILY;INTERVAL=5000", exclude=days(10_000, 2), roll="next_day"),
    rrule("FREQ=WEEKLY;INTERVAL=500", exclude=days(10_000, 2), roll="next_day"),
    {"cron_expr": "0 0 29 2 *", "timezone": "Europe/Rome"},
    {"cron_expr": "0 0 29 2 */7", "timezone": "Europe/Rome"},
    {"cron_expr": "0 0 31 2 *"},
    {"cron_expr": "* * * * *", "exclude": days(10_000)},
    {"cron_expr": "* * * * *", "exclude": days(10_000), "roll": "next_day"},
    {"cron_expr": "* * * * * *", "exclude": days(10_000, 2), "roll": "next_day"},
    {"cron_expr": "30 2 * 3 0#2", "timezone": "America/Toronto", "dst": {"gap": "skip"}},
    {"cron_expr": "* * 2 * * *", "timezone": "Europe/Paris", "dst": {"gap": "shift"}},
    {"interval_seconds": 60, "exclude": days(10_000)},
    {"interval_minutes": 5, "interval_mode": "fixed_delay", "exclude": days(10_000, 2)},
    {"interval_seconds": 316_224_000},
    {"cron_expr": "0 9 * * *", "timezone": "Asia/Gaza", "start_at": "8999-01-01T09:00"},
    {"once_at": "9000-12-31T09:00", "timezone": "Africa/Casablanca"},
    {"once_at": "2026-01-01T09:00Z", "exclude": days(10_000), "roll": "next_day"},
]  # fmt: skip


@pytest.mark.parametrize("fields", HOSTILE, ids=lambda fields: str(fields)[:70])
def test_every_search_is_bounded(fields: Fields) -> None:
    with at_most(CALLS_MAX):
        try:
            rule = when.parse(fields, created_at=NOW, limits=LIMITS)
        except InvalidInput:
            return
    for after in (datetime(1, 1, 1, tzinfo=UTC), NOW, datetime(9979, 1, 1, tzinfo=UTC)):
        with at_most(CALLS_MAX):
            when.next_after(rule, after)
    with at_most(CALLS_MAX):
        when.count_between(rule, NOW - timedelta(days=365), NOW)
    with at_most(CALLS_MAX):
        when.plan_missed(rule, NOW - timedelta(days=365), NOW)
    with at_most(5 * CALLS_MAX):
        when.preview(rule, NOW, 100)


def test_a_preview_does_not_look_into_a_far_future() -> None:
    rule = when.parse({"cron_expr": "0 0 29 2 *"})
    fires = when.preview(rule, NOW, 1_000).fires
    assert 200 < len(fires) < 300
    yearly = when.parse({"cron_expr": "0 0 1 1 *"})
    assert len(when.preview(yearly, NOW, 1_000).fires) == 1_000


def test_the_end_of_the_calendar_ends_the_slots_without_an_error() -> None:
    for fields in ({"cron_expr": "* * * * *"}, {"interval_seconds": 60}, rrule("FREQ=DAILY")):
        rule = when.parse({**fields, "timezone": "Pacific/Kiritimati"}, created_at=NOW)
        assert when.next_after(rule, datetime(9999, 12, 31, 23, 59, tzinfo=UTC)) is None
        late, end = datetime(9979, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
        assert 365 <= when.count_between(rule, late, end) <= 525_601
