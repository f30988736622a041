"""ICS files: the days they contain, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import icalendar
import pytest

from tickwork.errors import InvalidInput
from tickwork.ops.schedules import ics
from tickwork.ops.schedules.ics import read_ics

NOW = datetime(2026, 11, 15, tzinfo=UTC)
DAY = "DTSTART;VALUE=DATE:20270302"
NEW_YORK = "DTSTART;TZID=America/New_York:20270301"
UP_TO_THE_THIRD = ["2027-03-01", "2027-03-02", "2027-03-03"]
YEARLY = "DTSTART;VALUE=DATE:20260308\nRRULE:FREQ=YEARLY"


def file(*events: str) -> str:
    body = "".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//y//EN\n{body}END:VCALENDAR\n"


def days(*events: str) -> list[str]:
    return [day.isoformat() for day in read_ics(file(*events), now=NOW)]


def refusal(*events: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        days(*events)
    (fault,) = refused.value.errors
    assert fault.field == "ics"
    return fault.message


@pytest.mark.parametrize(
    ("event", "meant"),
    [
        ("DTSTART;VALUE=DATE:20270302", ["2027-03-02"]),
        ("DTSTART;VALUE=DATE:20270302\nDTEND;VALUE=DATE:20270304", ["2027-03-02", "2027-03-03"]),
        ("DTSTART;VALUE=DATE:20270305\nDURATION:P2D", ["2027-03-05", "2027-03-06"]),
        ("DTSTART:20270305T230000Z\nDURATION:PT2H", ["2027-03-05", "2027-03-06"]),
        ("DTSTART:20270305T220000Z\nDURATION:PT2H", ["2027-03-05"]),
        (
            "DTSTART;VALUE=DATE:20270310\nRDATE;VALUE=DATE:20270312,20270315",
            ["2027-03-10", "2027-03-12", "2027-03-15"],
        ),
        (
            "DTSTART:20270310T090000Z\nRDATE;VALUE=PERIOD:20270312T090000Z/PT1H",
            ["2027-03-10", "2027-03-12"],
        ),
        (
            f"{YEARLY};UNTIL=20290101\nEXDATE;VALUE=DATE:20280308\nRDATE;VALUE=DATE:20280309",
            ["2026-03-08", "2027-03-08", "2028-03-09"],
        ),
        (f"{NEW_YORK}T200000\nRRULE:FREQ=DAILY;UNTIL=20270304T010000Z", UP_TO_THE_THIRD),
        (f"{NEW_YORK}T200000\nRRULE:FREQ=DAILY;UNTIL=20270304T005959Z", UP_TO_THE_THIRD[:-1]),
        (f"{NEW_YORK}T000000\nRRULE:FREQ=DAILY;UNTIL=20270304T045959Z", UP_TO_THE_THIRD),
        (f"{NEW_YORK}T200000\nRRULE:FREQ=DAILY;UNTIL=20270303", UP_TO_THE_THIRD),
        ("DTSTART:20270301T200000\nRRULE:FREQ=DAILY;UNTIL=20270304T100000", UP_TO_THE_THIRD),
        ("DTSTART:20270301T200000\nRRULE:FREQ=DAILY;UNTIL=20270301T100000", ["2027-03-01"]),
        (
            "DTSTART;TZID=Asia/Tokyo:20270301T090000\nRRULE:FREQ=DAILY;UNTIL=20270303T000000Z",
            UP_TO_THE_THIRD,
        ),
        ("DTSTART:20270302T090000Z\nRRULE:FREQ=DAILY;BYHOUR=9,17;COUNT=4", None),
        (
            "DTSTART;VALUE=DATE:19680229\nRRULE:FREQ=YEARLY;COUNT=3",
            ["1972-02-29", "1976-02-29"],
        ),
    ],
)
def test_an_event_counts_for_every_day_it_touches(event: str, meant: list[str] | None) -> None:
    assert days(event) == (meant or ["2027-03-02", "2027-03-03"])


def test_a_recurring_event_is_expanded_for_ten_years() -> None:
    found = days("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY")
    assert found == [f"{year}-12-25" for year in range(2026, 2037)]


def test_a_cancelled_event_does_not_count() -> None:
    kept = "UID:1\nDTSTART;VALUE=DATE:20270320"
    assert days(kept, "UID:2\nSTATUS:CANCELLED\nDTSTART;VALUE=DATE:20270321") == ["2027-03-20"]
    assert "no events" in refusal(f"{kept}\nSTATUS:CANCELLED")


def test_a_moved_occurrence_counts_on_its_new_day() -> None:
    series = "UID:1\nDTSTART;VALUE=DATE:20270301\nRRULE:FREQ=WEEKLY;COUNT=3"
    moved = "UID:1\nRECURRENCE-ID;VALUE=DATE:20270308\nDTSTART;VALUE=DATE:20270309"
    gone = "UID:1\nRECURRENCE-ID;VALUE=DATE:20270315\nDTSTART;VALUE=DATE:20270315\nSTATUS:CANCELLED"
    assert days(series, moved, gone) == ["2027-03-01", "2027-03-09"]


NEW_YORK = "UID:1\nDTSTART;TZID=America/New_York:20260101T210000"


@pytest.mark.parametrize("without", ["EXDATE:20260104T020000Z", "RECURRENCE-ID:20260104T020000Z"])
def test_an_instant_counts_on_its_day_in_the_zone_of_the_series(without: str) -> None:
    series = f"{NEW_YORK}\nRRULE:FREQ=DAILY;COUNT=5"
    if without.startswith("EXDATE"):
        found = days(f"{series}\n{without}")
    else:
        gone = f"UID:1\nDTSTART:20260104T020000Z\n{without}\nSTATUS:CANCELLED"
        found = days(series, gone)
    assert found == ["2026-01-01", "2026-01-02", "2026-01-04", "2026-01-05"]


def test_an_end_in_another_zone_counts_in_the_zone_of_the_start() -> None:
    assert days(f"{NEW_YORK}\nDTEND:20260102T040000Z") == ["2026-01-01"]
    assert days(f"{NEW_YORK}\nRDATE:20260104T020000Z") == ["2026-01-01", "2026-01-03"]


@pytest.mark.parametrize(
    "lines",
    [
        f"{DAY}\nDTSTART;VALUE=DATE:20270303",
        f"{DAY}\nDTEND;VALUE=DATE:20270303\nDTEND;VALUE=DATE:20270304",
        f"{DAY}\nDURATION:P1D\nDURATION:P2D",
        f"{DAY}\nRECURRENCE-ID;VALUE=DATE:20270302\nRECURRENCE-ID;VALUE=DATE:20270303",
        "DTSTART:garbage",
        f"{DAY}\nDTEND:garbage",
        f"{DAY}\nEXDATE:garbage",
        "DTSTART;VALUE=PERIOD:20270302T090000Z/PT1H",
        "DTSTART;VALUE=TIME:090000",
        f"{DAY}\nEXDATE;VALUE=TIME:090000",
        f"{DAY}\nRECURRENCE-ID;VALUE=TIME:090000",
        f"{DAY}\nDURATION;VALUE=TEXT:long",
        "DTSTART;VALUE=DATE:00010101\nDTEND;VALUE=DATE:00010101",
        "DTSTART;VALUE=DATE:00010101\nRRULE:FREQ=DAILY",
        "DTSTART;VALUE=DATE:99991231\nDURATION:P3D",
        "DTSTART:99991231T000000\nDURATION:P1D",
    ],
)
def test_the_fault_of_a_malformed_event_names_it(lines: str) -> None:
    for name in ("UID:some-event", "UID:1\nSUMMARY:some-event"):
        assert "cannot be read (some-event)" in refusal(DAY, f"{name}\n{lines}")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "more than once a day"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "matches no day"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "matches no day"),
        ("FREQ=DAILY;COUNT=99999", "cannot be read"),
    ],
)
def test_a_rule_that_matches_no_day_or_recurs_too_often_is_refused(rule: str, said: str) -> None:
    assert said in refusal(f"DTSTART;VALUE=DATE:20270302\nRRULE:{rule}")


def test_a_file_over_a_limit_is_refused_and_not_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "days" in refusal("DTSTART;VALUE=DATE:20000101\nRRULE:FREQ=DAILY")
    long = "DTSTART;VALUE=DATE:20270101\nDTEND;VALUE=DATE:20280601"
    assert "an event of 517 days" in refusal(long)
    yearly = "DTSTART;VALUE=DATE:20270302\nRRULE:FREQ=YEARLY"
    monkeypatch.setattr(ics, "EVENTS_MAX", 2)
    assert "has 3 events; at most 2" in refusal(*[yearly] * 3)
    monkeypatch.setattr(ics, "DAYS_EXPANDED_MAX", 15)
    assert "days" in refusal(*[yearly] * 2)


@pytest.mark.parametrize("fold", ["", "\r\n ", "\n\t"])
def test_events_are_counted_before_they_are_parsed(
    fold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(icalendar.Calendar, "from_ical", lambda _: pytest.fail("it is parsed"))
    event = f"BEGIN:VEV{fold}ENT\nDTSTART;VALUE=DATE:20270302\nEND:VEVENT\n"
    text = f"BEGIN:VCALENDAR\n{event * 1_001}END:VCALENDAR\n"
    for given in (text, text.encode(), text.lower()):
        with pytest.raises(InvalidInput, match="has 1,001 events; at most 1,000"):
            read_ics(given, now=NOW)


def test_a_byte_order_mark_is_allowed() -> None:
    marked = f"\ufeff{file(DAY)}"
    assert read_ics(marked, now=NOW) == read_ics(file(DAY), now=NOW)
    assert read_ics(marked.encode(), now=NOW) == read_ics(file(DAY), now=NOW)
