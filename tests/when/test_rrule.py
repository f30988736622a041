"""Recurrences: the slots are those of dateutil walked from DTSTART, and cost does not age."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from dateutil.rrule import rrulestr

from tests.when.work import TooMuchWork, at_most, calls_of
from tickwork.core import when

LIMITS = when.Limits(min_interval_seconds=1)
NOW = datetime(2026, 11, 15, 12, 34, 56, tzinfo=UTC)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
ORDINALS = ("-5", "-2", "-1", "1", "2", "4", "5")
COARSE = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
SPAN_DAYS = {"HOURLY": 90, "MINUTELY": 3, "SECONDLY": 1}
OCCURRENCES_MAX = 200


def rrule(text: str, start: datetime, **fields: object) -> when.Rule:
    start_at = start.isoformat()
    return when.parse({"rrule": text, "start_at": start_at, **fields}, limits=LIMITS)


def walked(text: str, start: datetime) -> Iterator[datetime]:
    """dateutil's own occurrences, from the very first one on."""
    naive = start.astimezone(UTC).replace(tzinfo=None)
    return (occurrence.replace(tzinfo=UTC) for occurrence in rrulestr(text, dtstart=naive))


def family(seed: int, count: int) -> Iterator[tuple[str, datetime]]:
    rng = Random(seed)

    def numbers(low: int, high: int) -> str:
        some = {rng.randint(low, high) for _ in range(rng.randint(1, 3))}
        return ",".join(str(number) for number in sorted(some) if number or low == 0) or "1"

    def weekdays(ordinals: tuple[str, ...]) -> str:
        count = rng.randint(1, 3)
        return ",".join(rng.choice(ordinals) + rng.choice(WEEKDAYS) for _ in range(count))

    for _ in range(count):
        frequency = rng.choice((*COARSE, *COARSE, *SPAN_DAYS))
        in_order = frequency in ("YEARLY", "MONTHLY") and rng.random() < 0.5
        optional = {
            "INTERVAL": (0.6, str(rng.choice((2, 3, 4, 5, 7, 11, 12, 24, 25, 60, 90)))),
            "WKST": (0.4, rng.choice(WEEKDAYS)),
            "BYMONTH": (0.3, numbers(1, 12)),
            "BYMONTHDAY": (0.2, numbers(-31, 31)),
            "BYYEARDAY": (0.2 if frequency == "YEARLY" else 0, numbers(-366, 366)),
            "BYWEEKNO": (0.3 if frequency == "YEARLY" else 0, numbers(-53, 53)),
            "BYDAY": (0.4, weekdays(ORDINALS if in_order else ("",))),
            "BYHOUR": (0.3, numbers(0, 23)),
            "BYMINUTE": (0.3, numbers(0, 59)),
            "BYSECOND": (0.2, numbers(0, 59)),
            "BYSETPOS": (0.2, numbers(-4, 4)),
        }
        parts = [f"FREQ={frequency}"]
        parts += [
            f"{name}={text}" for name, (odds, text) in optional.items() if rng.random() < odds
        ]
        start = datetime(2018, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(3 * 31_536_000))
        match rng.randrange(5):
            case 0:
                parts.append(f"COUNT={rng.randint(1, 50)}")
            case 1:
                until = start + timedelta(days=rng.randrange(2_000))
                parts.append(f"UNTIL={until:{rng.choice(('%Y%m%dT%H%M%S', '%Y%m%d'))}}")
        yield ";".join(parts), start


def is_dateutils_own(text: str) -> bool:
    """Where dateutil deviates from RFC 5545: in the first week it counts BYSETPOS from the start
    only, and BYWEEKNO alone selects all seven days of a week."""
    days = ("BYDAY", "BYMONTHDAY", "BYYEARDAY")
    whole_weeks = "BYWEEKNO" in text and not any(day in text for day in days)
    return ("WEEKLY" in text and "BYSETPOS" in text) or whole_weeks


def occurrences(text: str, start: datetime, end: datetime) -> list[datetime]:
    """dateutil's first occurrences up to `end`, as far as it finds them in reasonable time."""
    if "UNTIL" in text and "T" not in text.split("UNTIL=")[1]:
        text += "T235959"  # A date includes its whole day; dateutil stops at its first second.
    found: list[datetime] = []
    # An empty rule is an error to it, or a walk to the year 9999.
    with suppress(TooMuchWork, ValueError), at_most(6_000):
        for occurrence in walked(text, start):
            if occurrence > end or len(found) == OCCURRENCES_MAX:
                break
            found.append(occurrence)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_slots_are_those_of_dateutil_walked_from_the_start(seed: int) -> None:
    compared = 0
    for text, start in family(seed, 40):
        end = start + timedelta(days=SPAN_DAYS.get(text.split(";")[0][5:], 3_000))
        expected = occurrences(text, start, end)
        if not expected or is_dateutils_own(text):
            continue
        rule, end = rrule(text, start), expected[-1]
        before = start - timedelta(microseconds=1)
        assert when.slots_between(rule, before, end) == expected, (text, start)
        assert when.count_between(rule, before, end) == len(expected), (text, start)
        middle = expected[len(expected) // 2]
        assert when.next_after(rule, middle - timedelta(microseconds=1)) == middle, (text, start)
        compared += 1
    assert compared > 15


def test_a_first_week_with_a_set_position_is_a_whole_week() -> None:
    wednesday = datetime(2027, 3, 3, 9, tzinfo=UTC)
    rule = rrule("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", wednesday)
    assert when.next_after(rule, wednesday - timedelta(1)) == datetime(2027, 3, 8, 9, tzinfo=UTC)


#: (rule, start, the first slots): the weekday is the start's, as libical and lib-recur answer.
WEEK_NUMBERS = [
    ("FREQ=YEARLY;BYWEEKNO=20", "1997-05-12", "1997-05-12 1998-05-11 1999-05-17 2000-05-15"),
    ("FREQ=YEARLY;BYWEEKNO=1", "2019-01-02", "2019-01-02 2020-01-01 2021-01-06 2022-01-05"),
    ("FREQ=YEARLY;BYWEEKNO=-1,1", "2024-01-05", "2024-01-05 2024-12-27 2025-01-03 2025-12-26"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYMONTH=5", "2027-05-20", "2027-05-20 2028-05-18 2029-05-17"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYMONTHDAY=17", "2027-01-01", "2027-05-17 2028-05-17 2029-05-17"),
    ("FREQ=WEEKLY;BYWEEKNO=20,21", "2027-01-07", "2027-05-20 2027-05-27 2028-05-18"),
    ("FREQ=DAILY;BYWEEKNO=20", "2027-05-21", "2027-05-21 2027-05-22 2027-05-23 2028-05-15"),
]


@pytest.mark.parametrize(("text", "start", "answer"), WEEK_NUMBERS)
def test_a_week_number_without_a_weekday_means_the_weekday_of_the_start(
    text: str, start: str, answer: str
) -> None:
    rule = rrule(text, datetime.fromisoformat(f"{start}T09:00:00+00:00"))
    assert rule.start_at is not None
    before = rule.start_at - timedelta(seconds=1)
    slots = when.slots_between(rule, before, before + timedelta(days=2_000), limit=10)
    assert " ".join(f"{slot:%Y-%m-%d}" for slot in slots).startswith(answer)


def test_a_semicolon_at_the_end_of_a_rule_is_dropped() -> None:
    rule = rrule("RRULE:FREQ=DAILY;COUNT=3; ", NOW)
    assert rule.timing == when.Recurrence("FREQ=DAILY;COUNT=3")


def test_numbered_and_plain_weekdays_can_be_mixed() -> None:
    rule = rrule("FREQ=MONTHLY;BYDAY=SU,1TU,-1TU", datetime(2027, 3, 1, tzinfo=UTC))
    march = when.slots_between(rule, rule.start_at or NOW, datetime(2027, 3, 31, tzinfo=UTC))
    assert [slot.day for slot in march] == [2, 7, 14, 21, 28, 30]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20270310T090000Z", 10), ("20270310T085959Z", 9), ("20270310T090000", 10),
        ("20270310", 10), ("20270309", 9), ("99991231T235959Z", 31), ("99991231", 31),
    ],
)  # fmt: skip
def test_until_is_inclusive(until: str, last: int) -> None:
    rule = rrule(f"FREQ=DAILY;UNTIL={until}", datetime(2027, 3, 1, 9, tzinfo=UTC))
    march = when.slots_between(rule, NOW, datetime(2027, 3, 31, 23, tzinfo=UTC))
    assert [slot.day for slot in march] == list(range(1, last + 1))
    assert when.count_between(rule, NOW, datetime(2027, 3, 31, 23, tzinfo=UTC)) == last


def test_until_in_utc_is_converted_to_local_time() -> None:
    start = datetime(2027, 7, 1, 13, tzinfo=UTC)
    rule = rrule("FREQ=DAILY;UNTIL=20270703T130000Z", start, timezone="America/New_York")
    assert len(when.slots_between(rule, NOW, datetime(2028, 1, 1, tzinfo=UTC))) == 3


@pytest.mark.parametrize("year", [1975, 1985, 1990, 1991, 2026])
def test_count_counts_from_the_start_however_long_it_takes(year: int) -> None:
    rule = rrule("FREQ=YEARLY;INTERVAL=3;COUNT=40", datetime(year, 2, 3, tzinfo=UTC))
    slots = when.slots_between(rule, datetime(1970, 1, 1, tzinfo=UTC), NOW.replace(year=2400))
    assert [slot.year for slot in slots] == [year + 3 * k for k in range(40)]


def test_a_rare_day_is_found_over_a_century() -> None:
    rule = rrule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", datetime(2088, 1, 1, tzinfo=UTC))
    slots = when.slots_between(rule, NOW, datetime(2160, 1, 1, tzinfo=UTC))
    assert [slot.year for slot in slots] == [2088, 2128, 2156]


#: New York in 2027: 02:00 does not exist on 14 March, 01:00 occurs twice on 7 November.
OVER_A_CHANGE = [
    ("FREQ=DAILY", "2027-03-12T02:30", {}, "12T07:30 13T07:30 14T07:00 15T06:30"),
    ("FREQ=DAILY", "2027-03-12T02:30", {"gap": "shift"}, "12T07:30 13T07:30 14T07:30 15T06:30"),
    ("FREQ=DAILY", "2027-03-12T02:30", {"gap": "skip"}, "12T07:30 13T07:30 15T06:30"),
    ("FREQ=DAILY;COUNT=3", "2027-03-12T02:30", {}, "12T07:30 13T07:30 14T07:00"),
    ("FREQ=HOURLY", "2027-03-14T01:00", {}, "14T06:00 14T07:00 14T08:00"),
    ("FREQ=DAILY;BYHOUR=2,3", "2027-03-14T00:00", {}, "14T07:00 15T06:00 15T07:00"),
    ("FREQ=DAILY", "2027-11-06T01:30", {}, "06T05:30 07T05:30 08T06:30"),
    ("FREQ=DAILY", "2027-11-06T01:30", {"overlap": "last"}, "06T05:30 07T06:30 08T06:30"),
    ("FREQ=DAILY", "2027-11-06T01:30", {"overlap": "both"}, "06T05:30 07T05:30 07T06:30 08T06:30"),
    ("FREQ=DAILY;COUNT=2", "2027-11-06T01:30", {"overlap": "both"}, "06T05:30 07T05:30 07T06:30"),
    ("FREQ=DAILY;COUNT=2", "2027-11-06T01:30", {"overlap": "last"}, "06T05:30 07T06:30"),
    ("FREQ=HOURLY;COUNT=3", "2027-11-07T00:00", {}, "07T04:00 07T05:00 07T06:00 07T07:00"),
    ("FREQ=MINUTELY;INTERVAL=30;BYHOUR=1;COUNT=2", "2027-11-07T00:00", {}, "07T05:00 07T05:30"),
]


@pytest.mark.parametrize(("text", "start", "dst", "answer"), OVER_A_CHANGE)
def test_a_recurrence_over_a_change(
    text: str, start: str, dst: dict[str, str], answer: str
) -> None:
    fields = {"timezone": "America/New_York", "dst": dst, "start_at": start, "rrule": text}
    rule = when.parse(fields)
    assert rule.start_at is not None
    before = rule.start_at - timedelta(hours=5)
    slots = when.slots_between(rule, before, before + timedelta(days=3, hours=5), limit=4)
    shown = " ".join(f"{slot:%dT%H:%M}" for slot in slots)
    assert shown.startswith(answer) if "COUNT" not in text else shown == answer


AGEING = ("FREQ=MINUTELY;INTERVAL=5", "FREQ=HOURLY;INTERVAL=7", "FREQ=DAILY;BYHOUR=9,17",
          "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", "FREQ=MONTHLY;BYDAY=-1FR",
          "FREQ=YEARLY;BYWEEKNO=1,53;WKST=SU", "FREQ=SECONDLY;INTERVAL=90;BYHOUR=3")  # fmt: skip


@pytest.mark.parametrize("text", AGEING)
def test_an_old_start_costs_no_more_than_a_fresh_one(text: str) -> None:
    def cost(years: int) -> int:
        start = datetime(NOW.year - years, 11, 9, tzinfo=UTC)
        rule = rrule(text, start)
        when.next_after(rule, NOW)
        return calls_of(lambda: when.next_after(rule, NOW + timedelta(minutes=1)))

    fresh = cost(0)
    assert all(cost(years) <= fresh + 40 for years in (1, 10, 56))
    assert fresh < 400
