"""The named traps, each with its answer written out by hand.

``NIGHTS`` are windows about an offset change (``start < slot <= end``, UTC). In the tables, times
are UTC; those of a night carry no date because a window is shorter than a day.
"""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from tests.when import reference, reference_cron
from tickwork.core import when

LIMITS = when.Limits(min_interval_seconds=1)

NIGHTS = {
    # 02:00 -05:00 becomes 03:00 -04:00 at 07:00Z; from 23:30 to 06:00 on the wall
    "New York gap": ("America/New_York", "2024-03-10T04:30Z", "2024-03-10T10:00Z"),
    # 02:00 -04:00 becomes 01:00 -05:00 at 06:00Z; from 23:30 to 06:00
    "New York overlap": ("America/New_York", "2024-11-03T03:30Z", "2024-11-03T11:00Z"),
    # 02:00 +01:00 becomes 03:00 +02:00 at 01:00Z; from 23:30 to 06:00
    "Berlin gap": ("Europe/Berlin", "2024-03-30T22:30Z", "2024-03-31T04:00Z"),
    # 03:00 +02:00 becomes 02:00 +01:00 at 01:00Z; from 23:30 to 06:00
    "Berlin overlap": ("Europe/Berlin", "2024-10-26T21:30Z", "2024-10-27T05:00Z"),
    # the same, asked about from between the two 02:30s
    "Berlin overlap, from within": ("Europe/Berlin", "2024-10-27T00:45Z", "2024-10-27T05:00Z"),
    # 02:00 +10:30 becomes 02:30 +11:00 at 15:30Z; from 23:30 to 06:00
    "Lord Howe gap": ("Australia/Lord_Howe", "2024-10-05T13:00Z", "2024-10-05T19:00Z"),
    # 02:00 +11:00 becomes 01:30 +10:30 at 15:00Z; from 23:30 to 06:00
    "Lord Howe overlap": ("Australia/Lord_Howe", "2024-04-06T12:30Z", "2024-04-06T19:30Z"),
    # 00:00 +02:00 becomes 01:00 +03:00 at 22:00Z; from 22:30 to 06:00
    "Cairo gap": ("Africa/Cairo", "2024-04-25T20:30Z", "2024-04-26T03:00Z"),
    # 00:00 +03:00 becomes 23:00 +02:00 at 21:00Z; from 22:30 to 06:00
    "Cairo overlap": ("Africa/Cairo", "2024-10-31T19:30Z", "2024-11-01T04:00Z"),
    # the end of the 29th, -10:00, becomes 00:00 of the 31st, +14:00, at 10:00Z; 17:30 to 06:00
    "Apia lost day": ("Pacific/Apia", "2011-12-30T03:30Z", "2011-12-30T16:00Z"),
    # 04:00 +14:00 becomes 03:00 +13:00 at 14:00Z; from 23:30 to 06:00
    "Apia overlap": ("Pacific/Apia", "2012-03-31T09:30Z", "2012-03-31T17:00Z"),
    # 00:00 -03:00 becomes 01:00 -02:00 at 03:00Z; from 22:30 to 06:00
    "Sao Paulo gap": ("America/Sao_Paulo", "2017-10-15T01:30Z", "2017-10-15T08:00Z"),
    # 00:00 -02:00 becomes 23:00 -03:00 at 02:00Z; from 22:30 to 06:00
    "Sao Paulo overlap": ("America/Sao_Paulo", "2018-02-18T00:30Z", "2018-02-18T09:00Z"),
    # 00:01 +08:00 becomes 03:01 +11:00 at 16:01Z: exactly three hours, so not skipped
    "Casey gap": ("Antarctica/Casey", "2020-10-03T15:00Z", "2020-10-03T20:00Z"),
}

DEFAULTS = [
    ("New York gap", "30 2 * * *", "07:00"),
    ("New York gap", "0 */3 * * *", "05:00 07:00 10:00"),
    ("New York gap", "0 0,3,6,9,12,15,18,21 * * *", "05:00 07:00 10:00"),
    ("New York gap", "*/10 3 * * *", "07:00 07:10 07:20 07:30 07:40 07:50"),
    ("New York gap", "*/10 2 * * *", "07:00"),
    ("New York gap", "0 3,4 * * *", "07:00 08:00"),
    ("New York gap", "30 1 * * *", "06:30"),
    ("New York gap", "0 * * * *", "05:00 06:00 07:00 08:00 09:00 10:00"),
    ("New York overlap", "30 2 * * *", "07:30"),
    ("New York overlap", "0 */3 * * *", "04:00 08:00 11:00"),
    ("New York overlap", "0 0,3,6,9,12,15,18,21 * * *", "04:00 08:00 11:00"),
    ("New York overlap", "*/10 3 * * *", "08:00 08:10 08:20 08:30 08:40 08:50"),
    ("New York overlap", "*/10 2 * * *", "07:00 07:10 07:20 07:30 07:40 07:50"),
    ("New York overlap", "0 3,4 * * *", "08:00 09:00"),
    ("New York overlap", "30 1 * * *", "05:30"),
    ("New York overlap", "0 * * * *", "04:00 05:00 06:00 07:00 08:00 09:00 10:00 11:00"),
    ("Berlin gap", "30 2 * * *", "01:00"),
    ("Berlin gap", "0 */3 * * *", "23:00 01:00 04:00"),
    ("Berlin gap", "0 0,3,6,9,12,15,18,21 * * *", "23:00 01:00 04:00"),
    ("Berlin gap", "*/10 3 * * *", "01:00 01:10 01:20 01:30 01:40 01:50"),
    ("Berlin gap", "*/10 2 * * *", "01:00"),
    ("Berlin gap", "0 3,4 * * *", "01:00 02:00"),
    ("Berlin gap", "30 1 * * *", "00:30"),
    ("Berlin gap", "0 * * * *", "23:00 00:00 01:00 02:00 03:00 04:00"),
    ("Berlin overlap", "30 2 * * *", "00:30"),
    ("Berlin overlap", "0 */3 * * *", "22:00 02:00 05:00"),
    ("Berlin overlap", "0 0,3,6,9,12,15,18,21 * * *", "22:00 02:00 05:00"),
    ("Berlin overlap", "*/10 3 * * *", "02:00 02:10 02:20 02:30 02:40 02:50"),
    ("Berlin overlap", "*/10 2 * * *", "00:00 00:10 00:20 00:30 00:40 00:50"),
    ("Berlin overlap", "0 3,4 * * *", "02:00 03:00"),
    ("Berlin overlap", "30 1 * * *", "23:30"),
    ("Berlin overlap", "0 * * * *", "22:00 23:00 00:00 01:00 02:00 03:00 04:00 05:00"),
    ("Lord Howe gap", "30 2 * * *", "15:30"),
    ("Lord Howe gap", "0 */3 * * *", "13:30 16:00 19:00"),
    ("Lord Howe gap", "0 0,3,6,9,12,15,18,21 * * *", "13:30 16:00 19:00"),
    ("Lord Howe gap", "*/10 3 * * *", "16:00 16:10 16:20 16:30 16:40 16:50"),
    ("Lord Howe gap", "*/10 2 * * *", "15:30 15:40 15:50"),
    ("Lord Howe gap", "0 3,4 * * *", "16:00 17:00"),
    ("Lord Howe gap", "30 1 * * *", "15:00"),
    ("Lord Howe gap", "0 * * * *", "13:30 14:30 16:00 17:00 18:00 19:00"),
    ("Lord Howe overlap", "30 2 * * *", "16:00"),
    ("Lord Howe overlap", "0 */3 * * *", "13:00 16:30 19:30"),
    ("Lord Howe overlap", "0 0,3,6,9,12,15,18,21 * * *", "13:00 16:30 19:30"),
    ("Lord Howe overlap", "*/10 3 * * *", "16:30 16:40 16:50 17:00 17:10 17:20"),
    ("Lord Howe overlap", "*/10 2 * * *", "15:30 15:40 15:50 16:00 16:10 16:20"),
    ("Lord Howe overlap", "0 3,4 * * *", "16:30 17:30"),
    ("Lord Howe overlap", "30 1 * * *", "14:30"),
    ("Lord Howe overlap", "0 * * * *", "13:00 14:00 15:30 16:30 17:30 18:30 19:30"),
    ("Cairo gap", "30 2 * * *", "23:30"),
    ("Cairo gap", "0 */3 * * *", "00:00 03:00"),
    ("Cairo gap", "0 0,3,6,9,12,15,18,21 * * *", "00:00 03:00"),
    ("Cairo gap", "*/10 3 * * *", "00:00 00:10 00:20 00:30 00:40 00:50"),
    ("Cairo gap", "*/10 2 * * *", "23:00 23:10 23:20 23:30 23:40 23:50"),
    ("Cairo gap", "0 3,4 * * *", "00:00 01:00"),
    ("Cairo gap", "30 1 * * *", "22:30"),
    ("Cairo gap", "0 * * * *", "21:00 22:00 23:00 00:00 01:00 02:00 03:00"),
    ("Cairo gap", "0 0 * * *", "22:00"),
    ("Cairo gap", "30 0,1 * * *", "22:00 22:30"),
    ("Cairo gap", "0 0 26 * *", "22:00"),
    ("Cairo overlap", "30 2 * * *", "00:30"),
    ("Cairo overlap", "0 */3 * * *", "22:00 01:00 04:00"),
    ("Cairo overlap", "0 0,3,6,9,12,15,18,21 * * *", "22:00 01:00 04:00"),
    ("Cairo overlap", "*/10 3 * * *", "01:00 01:10 01:20 01:30 01:40 01:50"),
    ("Cairo overlap", "*/10 2 * * *", "00:00 00:10 00:20 00:30 00:40 00:50"),
    ("Cairo overlap", "0 3,4 * * *", "01:00 02:00"),
    ("Cairo overlap", "30 1 * * *", "23:30"),
    ("Cairo overlap", "0 * * * *", "20:00 21:00 22:00 23:00 00:00 01:00 02:00 03:00 04:00"),
    ("Cairo overlap", "0 0 * * *", "22:00"),
    ("Cairo overlap", "0 * * * THU", "20:00 21:00"),
    ("Cairo overlap", "30 23 L * *", "20:30"),
    ("Apia lost day", "30 2 * * *", "12:30"),
    ("Apia lost day", "0 */3 * * *", "04:00 07:00 10:00 13:00 16:00"),
    ("Apia lost day", "0 0,3,6,9,12,15,18,21 * * *", "04:00 07:00 10:00 13:00 16:00"),
    ("Apia lost day", "*/10 3 * * *", "13:00 13:10 13:20 13:30 13:40 13:50"),
    ("Apia lost day", "*/10 2 * * *", "12:00 12:10 12:20 12:30 12:40 12:50"),
    ("Apia lost day", "0 3,4 * * *", "13:00 14:00"),
    ("Apia lost day", "30 1 * * *", "11:30"),
    (
        "Apia lost day",
        "0 * * * *",
        "04:00 05:00 06:00 07:00 08:00 09:00 10:00 11:00 12:00 13:00 14:00 15:00 16:00",
    ),
    ("Apia lost day", "0 * 30 * *", ""),
    ("Apia lost day", "0 0 31 * *", "10:00"),
    ("Apia overlap", "30 2 * * *", "12:30"),
    ("Apia overlap", "0 */3 * * *", "10:00 13:00 14:00 17:00"),
    ("Apia overlap", "0 0,3,6,9,12,15,18,21 * * *", "10:00 13:00 14:00 17:00"),
    ("Apia overlap", "*/10 3 * * *", "13:00 13:10 13:20 13:30 13:40 13:50"),
    ("Apia overlap", "*/10 2 * * *", "12:00 12:10 12:20 12:30 12:40 12:50"),
    ("Apia overlap", "0 3,4 * * *", "13:00 15:00"),
    ("Apia overlap", "30 1 * * *", "11:30"),
    ("Apia overlap", "0 * * * *", "10:00 11:00 12:00 13:00 14:00 15:00 16:00 17:00"),
    ("Sao Paulo gap", "30 2 * * *", "04:30"),
    ("Sao Paulo gap", "0 */3 * * *", "05:00 08:00"),
    ("Sao Paulo gap", "0 0,3,6,9,12,15,18,21 * * *", "05:00 08:00"),
    ("Sao Paulo gap", "*/10 3 * * *", "05:00 05:10 05:20 05:30 05:40 05:50"),
    ("Sao Paulo gap", "*/10 2 * * *", "04:00 04:10 04:20 04:30 04:40 04:50"),
    ("Sao Paulo gap", "0 3,4 * * *", "05:00 06:00"),
    ("Sao Paulo gap", "30 1 * * *", "03:30"),
    ("Sao Paulo gap", "0 * * * *", "02:00 03:00 04:00 05:00 06:00 07:00 08:00"),
    ("Sao Paulo gap", "0 0 * * SUN", "03:00"),
    ("Sao Paulo overlap", "30 2 * * *", "05:30"),
    ("Sao Paulo overlap", "0 */3 * * *", "03:00 06:00 09:00"),
    ("Sao Paulo overlap", "0 0,3,6,9,12,15,18,21 * * *", "03:00 06:00 09:00"),
    ("Sao Paulo overlap", "*/10 3 * * *", "06:00 06:10 06:20 06:30 06:40 06:50"),
    ("Sao Paulo overlap", "*/10 2 * * *", "05:00 05:10 05:20 05:30 05:40 05:50"),
    ("Sao Paulo overlap", "0 3,4 * * *", "06:00 07:00"),
    ("Sao Paulo overlap", "30 1 * * *", "04:30"),
    ("Sao Paulo overlap", "0 * * * *", "01:00 02:00 03:00 04:00 05:00 06:00 07:00 08:00 09:00"),
    ("Sao Paulo overlap", "30 23 * * SAT", "01:30"),
]

#: (night, rule, {policy: answer}); gap policies on a gap, overlap policies on an overlap.
CHOSEN = [
    ("New York gap", "30 2 * * *", {"run_after": "07:00", "shift": "07:30", "skip": ""}),
    (
        "New York gap",
        "*/20 2,3 * * *",
        {
            "run_after": "07:00 07:20 07:40",
            "shift": "07:00 07:20 07:40",
            "skip": "07:00 07:20 07:40",
        },
    ),
    ("New York gap", "0 2,4 * * *", {"run_after": "07:00 08:00", "shift": "07:00 08:00"}),
    ("New York gap", "30 2,3 * * *", {"run_after": "07:00 07:30", "shift": "07:30"}),
    ("New York gap", "30 */6 * * *", {"run_after": "05:30", "shift": "05:30", "skip": "05:30"}),
    ("New York gap", "30 2-22/4 * * *", {"run_after": "", "shift": "", "skip": ""}),
    ("New York overlap", "30 1 * * *", {"first": "05:30", "last": "06:30", "both": "05:30 06:30"}),
    (
        "New York overlap",
        "0 1-23/2 * * *",
        {
            "first": "05:00 06:00 08:00 10:00",
            "last": "05:00 06:00 08:00 10:00",
            "both": "05:00 06:00 08:00 10:00",
        },
    ),
    ("New York overlap", "0 1,2 * * *", {"first": "05:00 07:00", "last": "06:00 07:00"}),
    ("Berlin gap", "15 2 * * *", {"run_after": "01:00", "shift": "01:15", "skip": ""}),
    ("Berlin overlap", "15 2 * * *", {"first": "00:15", "last": "01:15", "both": "00:15 01:15"}),
    # the second passing of an hour is still the same day's
    ("Berlin overlap", "15 2 * * SUN", {"first": "00:15", "last": "01:15", "both": "00:15 01:15"}),
    ("Berlin overlap", "15 2 27 10 *", {"first": "00:15", "last": "01:15", "both": "00:15 01:15"}),
    ("Berlin overlap, from within", "30 2 * * *", {"first": "", "last": "01:30", "both": "01:30"}),
    ("Berlin overlap, from within", "30 2 27 * *", {"first": "", "last": "01:30", "both": "01:30"}),
    ("Lord Howe gap", "15 2 * * *", {"run_after": "15:30", "shift": "15:45", "skip": ""}),
    ("Lord Howe gap", "45 2 * * *", {"run_after": "15:45", "shift": "15:45", "skip": "15:45"}),
    ("Lord Howe overlap", "45 1 * * *", {"first": "14:45", "last": "15:15", "both": "14:45 15:15"}),
    ("Lord Howe overlap", "15 1 * * *", {"first": "14:15", "last": "14:15", "both": "14:15"}),
    ("Cairo gap", "30 0 * * *", {"run_after": "22:00", "shift": "22:30", "skip": ""}),
    ("Cairo overlap", "30 23 * * *", {"first": "20:30", "last": "21:30", "both": "20:30 21:30"}),
    ("Sao Paulo gap", "30 0 * * *", {"run_after": "03:00", "shift": "03:30", "skip": ""}),
    (
        "Sao Paulo overlap",
        "30 23 * * *",
        {"first": "01:30", "last": "02:30", "both": "01:30 02:30"},
    ),
    ("Apia lost day", "30 2 30 * *", {"run_after": "", "shift": "", "skip": ""}),
    ("Apia overlap", "30 3 * * *", {"first": "13:30", "last": "14:30", "both": "13:30 14:30"}),
    ("Casey gap", "30 1 * * *", {"run_after": "16:01", "shift": "17:30", "skip": ""}),
]

#: (rule, after, the next dates at midnight UTC)
DAYS = [
    ("0 0 29 2 *", "2096-02-29", "2104-02-29 2108-02-29"),
    ("0 0 29 2 *", "2023-01-01", "2024-02-29 2028-02-29"),
    ("0 0 L * *", "2024-01-01", "2024-01-31 2024-02-29 2024-03-31 2024-04-30"),
    ("0 0 L 2 *", "2024-12-01", "2025-02-28 2026-02-28 2027-02-28 2028-02-29"),
    (
        "0 0 LW * *",
        "2024-01-01",
        "2024-01-31 2024-02-29 2024-03-29 2024-04-30 2024-05-31 2024-06-28",
    ),
    ("0 0 15W * *", "2024-05-01", "2024-05-15 2024-06-14 2024-07-15 2024-08-15 2024-09-16"),
    ("0 0 1W * *", "2024-05-15", "2024-06-03 2024-07-01 2024-08-01 2024-09-02"),
    ("0 0 31W * *", "2024-03-01", "2024-03-29 2024-05-31 2024-07-31 2024-08-30"),
    ("0 0 * * 5#3", "2024-01-01", "2024-01-19 2024-02-16 2024-03-15 2024-04-19"),
    ("0 0 * * FRI#3", "2024-01-01", "2024-01-19 2024-02-16 2024-03-15 2024-04-19"),
    ("0 0 * * 5#5", "2024-01-01", "2024-03-29 2024-05-31 2024-08-30 2024-11-29"),
    ("0 0 * * 5L", "2024-01-01", "2024-01-26 2024-02-23 2024-03-29 2024-04-26"),
    ("0 0 ? * 1", "2024-01-02", "2024-01-08 2024-01-15 2024-01-22"),
    ("0 0 1 * ?", "2024-01-02", "2024-02-01 2024-03-01 2024-04-01"),
    ("0 0 ? * ?", "2024-01-02", "2024-01-03 2024-01-04"),
    ("0 0 * * 7", "2024-01-01", "2024-01-07 2024-01-14"),
    ("0 0 * * 5-7", "2024-01-01", "2024-01-05 2024-01-06 2024-01-07 2024-01-12"),
    # both day fields restricted: either
    ("0 0 13 * 5", "2024-01-01", "2024-01-05 2024-01-12 2024-01-13 2024-01-19 2024-01-26"),
    ("0 0 L * MON", "2024-01-20", "2024-01-22 2024-01-29 2024-01-31 2024-02-05"),
    ("0 0 1-31 * 1", "2024-01-01", "2024-01-02 2024-01-03 2024-01-04"),
    # one of them begins with a star: both
    ("0 0 */2 * 1", "2023-12-31", "2024-01-01 2024-01-15 2024-01-29 2024-02-05 2024-02-19"),
    ("0 0 13 * */2", "2024-01-01", "2024-01-13 2024-02-13 2024-04-13"),
    ("0 0 */2 * ?", "2024-01-28", "2024-01-29 2024-01-31 2024-02-01 2024-02-03"),
]

FLAT_CHOSEN = [
    (night, expression, policy, answer)
    for night, expression, answers in CHOSEN
    for policy, answer in answers.items()
]


@pytest.mark.parametrize(("night", "expression", "answer"), DEFAULTS)
def test_a_rule_over_a_change(night: str, expression: str, answer: str) -> None:
    assert product_over(night, expression, {}) == answer


@pytest.mark.parametrize(("night", "expression", "policy", "answer"), FLAT_CHOSEN)
def test_a_chosen_policy(night: str, expression: str, policy: str, answer: str) -> None:
    assert product_over(night, expression, chosen(policy)) == answer


@pytest.mark.parametrize(("expression", "after", "answer"), DAYS)
def test_a_day_rule(expression: str, after: str, answer: str) -> None:
    rule = when.parse({"cron_expr": expression, "timezone": "UTC"}, limits=LIMITS)
    at, found = datetime.fromisoformat(after).replace(tzinfo=UTC), []
    for _ in answer.split():
        following = when.next_after(rule, at)
        assert following is not None
        assert (following.hour, following.minute) == (0, 0)
        found.append(following.date().isoformat())
        at = following
    assert " ".join(found) == answer


@pytest.mark.parametrize(("night", "expression", "answer"), DEFAULTS)
def test_the_reference_over_a_change(night: str, expression: str, answer: str) -> None:
    assert reference_over(night, expression, {}) == answer


@pytest.mark.parametrize(("night", "expression", "policy", "answer"), FLAT_CHOSEN)
def test_the_reference_with_a_policy(night: str, expression: str, policy: str, answer: str) -> None:
    assert reference_over(night, expression, chosen(policy)) == answer


@pytest.mark.parametrize(("expression", "after", "answer"), DAYS)
def test_the_reference_finds_the_days_of_the_table(
    expression: str, after: str, answer: str
) -> None:
    matches = reference_cron.read(expression).day
    dates = [date.fromisoformat(one) for one in answer.split()]
    day, found = date.fromisoformat(after), []
    while day < dates[-1]:
        day += timedelta(days=1)
        if matches(day):
            found.append(day)
    assert found == dates


def chosen(policy: str) -> dict[str, str]:
    return {"gap" if policy in reference.GAPS else "overlap": policy}


def product_over(night: str, expression: str, dst: dict[str, str]) -> str:
    zone, start, end = NIGHTS[night]
    spec = {"cron_expr": expression, "timezone": zone, **({"dst": dst} if dst else {})}
    rule = when.parse(spec, limits=LIMITS)
    return times(when.slots_between(rule, instant(start), instant(end)))


def reference_over(night: str, expression: str, dst: dict[str, str]) -> str:
    meeting = reference.meet(reference.read({"cron_expr": expression}), walk_of(night))
    return times(meeting.slots(dst.get("gap", "run_after"), dst.get("overlap", "first")))


@cache
def walk_of(night: str) -> reference.Walk:
    zone, start, end = NIGHTS[night]
    return reference.Walk(ZoneInfo(zone), instant(start), instant(end))


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def times(slots: list[datetime]) -> str:
    return " ".join(f"{slot:%H:%M}" for slot in slots)
