"""Laws at the edges of what people write: odd characters, single times, starts and graces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tickwork.core import when
from tickwork.errors import InvalidInput

NEW_YORK = "America/New_York"
START = datetime(2027, 3, 1, tzinfo=UTC)
ANY = when.Limits(min_interval_seconds=1)


@pytest.mark.parametrize("expr", ["0 0 ² * *", "0 0 ٣ * *", "0 9 * * ＭＯＮ", "０ 0 * * *"])
def test_digits_and_letters_of_other_scripts_are_refused(expr: str) -> None:
    with pytest.raises(InvalidInput, match="characters that are not allowed in a cron expression"):
        when.parse({"cron_expr": expr})


@pytest.mark.parametrize(
    ("expr", "fragment"),
    [
        ("0 0 30,31 2 *", "none of its months has a day 30,31"),
        ("0 0 31 4,6,9,11 *", "none of its months has a day 31"),
        ("0 0 31-30 * *", "the day-of-month field '31-30' is not valid"),
        ("x", "has 1 field;"),
    ],
)
def test_a_refusal_gives_the_true_reason(expr: str, fragment: str) -> None:
    with pytest.raises(InvalidInput, match=fragment):
        when.parse({"cron_expr": expr})


@pytest.mark.parametrize(
    ("at", "dst", "note"),
    [
        ("2027-03-14T02:30:00", when.ClockChange.GAP, "on 2027-03-14 at 03:00 instead of 02:30"),
        (
            "2027-11-07T01:30:00",
            when.ClockChange.OVERLAP,
            "01:30 occurs twice on 2027-11-07; this is the first time",
        ),
        ("2027-07-01T02:30:00", None, None),
        ("2027-03-14T02:30:00-05:00", None, None),
    ],
)
def test_a_single_local_time_notes_a_clock_change(
    at: str, dst: when.ClockChange | None, note: str | None
) -> None:
    rule = when.parse({"once_at": at, "timezone": NEW_YORK})
    (fire,) = when.preview(rule, START, 5).fires
    assert (fire.dst, fire.note) == (dst, note)
    assert when.parse(when.render(rule)) == rule


def test_a_recurrence_does_not_start_at_a_time_that_does_not_exist() -> None:
    fields = {"rrule": "FREQ=DAILY", "timezone": NEW_YORK, "start_at": "2027-03-14T02:30:00"}
    with pytest.raises(InvalidInput, match=r"start_at: 2027-03-14T02:30:00 does not exist"):
        when.parse(fields)


def test_a_recurrence_keeps_its_first_occurrence_when_its_start_has_a_fraction() -> None:
    rule = when.parse({"rrule": "FREQ=DAILY", "start_at": "2027-03-02T09:00:00.5Z"})
    assert when.next_after(rule, START) == datetime(2027, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "until", ["202712", "2027121", "20271231T9", "20271231T090000X", "٢٠٢٧١٢٣١"]
)
def test_an_until_with_too_few_digits_is_refused(until: str) -> None:
    fields = {"rrule": f"FREQ=DAILY;UNTIL={until}", "start_at": "2027-01-01T09:00:00Z"}
    with pytest.raises(InvalidInput, match="rrule: UNTIL="):
        when.parse(fields)


def test_a_rule_that_starts_late_must_respect_the_minimum_interval() -> None:
    fields = {
        "rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "start_at": "2027-01-01T00:00:00Z",
    }
    with pytest.raises(InvalidInput, match="rrule: fires 1 s apart; the minimum here is 60 s"):
        when.parse(fields)


def test_plans_with_a_long_grace_follow_each_other_and_lose_nothing() -> None:
    rule = when.parse({"cron_expr": "* * * * *", "missed": {"grace_seconds": 20 * 86_400}})
    last, now = START, START + timedelta(days=15)
    slots: list[datetime] = []
    while last < now:
        plan = when.plan_missed(rule, last, now)
        assert not plan.skipped
        assert plan.until > last
        slots += [planned_slot.slot for planned_slot in plan.fire]
        last = plan.until
    assert slots == when.slots_between(rule, START, now)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"cron_expr": "0 9-17 * * MON-FRI"},
            "Every hour from 09:00 to 17:00, Monday to Friday, UTC",
        ),
        (
            {"once_at": "2027-05-05T09:00:00Z", "exclude": ["2027-05-05"], "roll": "next_day"},
            "Once, on 2027-05-05 at 09:00, UTC, except on 1 date, then on the next day",
        ),
        (
            {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "start_at": "2027-01-01T16:00:00Z"},
            "Every month, on the last Friday of the month, at 16:00, UTC, from 2027-01-01 at 16:00",
        ),
        (
            {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH", "start_at": "2027-01-04T09:00:00Z"},
            "Every 2 weeks, Monday and Thursday, at 09:00, UTC, from 2027-01-04 at 09:00",
        ),
        (
            {"rrule": "FREQ=MINUTELY;INTERVAL=5", "start_at": "2027-01-04T09:00:00Z"},
            "Every 5 minutes, UTC, from 2027-01-04 at 09:00",
        ),
        (
            {"rrule": "FREQ=YEARLY;BYWEEKNO=20", "start_at": "2027-01-04T09:00:00Z"},
            "Every year by the rule FREQ=YEARLY;BYWEEKNO=20, UTC, from 2027-01-04 at 09:00",
        ),
    ],
)
def test_descriptions_read_as_people_speak(fields: dict[str, object], said: str) -> None:
    assert when.describe(when.parse(fields, limits=ANY)) == said
