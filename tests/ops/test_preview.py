"""Preview: the input it accepts and the fires it returns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork import InvalidInput
from tickwork.core import when
from tickwork.ops import preview_schedule

NOW = datetime(2026, 11, 15, 3, 14, 15, 926535, tzinfo=UTC)
LIMITS = when.Limits(min_interval_seconds=60)


def preview(**body: Any) -> when.Preview:
    if "start" in body:
        body["from"] = body.pop("start")
    return preview_schedule(body, now=NOW, limits=LIMITS)


def faulty(**body: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        preview(**body)
    return {error.field: error.message for error in refused.value.errors}


def times(answer: when.Preview) -> list[str]:
    return [when.iso(fire.fire_at) for fire in answer.fires]


def test_a_preview_shows_five_fires_from_now_by_default() -> None:
    answer = preview(daily_time={"hour": 9, "minute": 30})
    assert times(answer) == [f"2026-11-{day}T09:30:00Z" for day in range(15, 20)]
    assert answer.description == "At 09:30, every day, UTC"


def test_fires_are_strictly_after_from() -> None:
    answer = preview(cron_expr="0 9 * * *", start="2027-01-01T09:00:00Z", limit=1)
    assert times(answer) == ["2027-01-02T09:00:00Z"]


def test_from_without_an_offset_is_local_in_the_zone() -> None:
    answer = preview(
        cron_expr="0 * * * *", timezone="Asia/Tokyo", start="2027-01-01T09:00:00", limit=1
    )
    assert times(answer) == ["2027-01-01T01:00:00Z"]


def test_from_in_a_gap_follows_the_policy_of_the_schedule() -> None:
    body = {
        "cron_expr": "* * * * *",
        "timezone": "America/New_York",
        "start": "2027-03-14T02:30:00",
        "limit": 1,
    }
    assert times(preview(**body)) == ["2027-03-14T07:01:00Z"]
    assert "does not exist" in faulty(**body, dst={"gap": "skip"})["from"]


def test_an_interval_without_a_start_counts_from_from() -> None:
    answer = preview(interval_seconds=90, start="2027-01-01T00:00:30Z", limit=2)
    assert times(answer) == ["2027-01-01T00:02:00Z", "2027-01-01T00:03:30Z"]


def test_an_interval_from_now_has_whole_seconds() -> None:
    first = preview(interval_minutes=1, limit=1).fires[0]
    assert first.fire_at == NOW.replace(microsecond=0) + timedelta(minutes=1)


def test_an_interval_with_a_start_counts_from_it() -> None:
    answer = preview(interval_minutes=10, start_at="2027-01-01T00:05:00Z", limit=1)
    assert times(answer) == ["2027-01-01T00:05:00Z"]


def test_bounds_and_exclusions_hold() -> None:
    answer = preview(
        daily_time={"hour": 0, "minute": 0},
        start_at="2027-01-01T00:00:00Z",
        exclude=["2027-01-02"],
        max_firings=2,
        limit=10,
    )
    assert times(answer) == ["2027-01-01T00:00:00Z", "2027-01-03T00:00:00Z"]


def test_a_fire_at_a_clock_change_has_a_note() -> None:
    answer = preview(
        cron_expr="30 2 * * *",
        timezone="America/New_York",
        start="2027-03-13T12:00:00Z",
        limit=1,
    )
    fire = answer.fires[0]
    assert when.iso(fire.fire_at) == "2027-03-14T07:00:00Z"
    assert fire.local.isoformat() == "2027-03-14T03:00:00-04:00"
    assert fire.dst == "gap"
    assert fire.note == "on 2027-03-14 at 03:00 instead of 02:30"


@pytest.mark.parametrize("limit", [0, 1001, -1, 1.5, "5", True, [], 10**30])
def test_a_count_outside_its_bounds_is_refused(limit: object) -> None:
    assert "whole number from 1 to 1000" in faulty(cron_expr="@daily", limit=limit)["limit"]


@pytest.mark.parametrize("moment", ["tomorrow", 5, "2027-02-30T00:00:00Z", "2027-01-01", "", []])
def test_a_malformed_from_is_refused(moment: object) -> None:
    assert "from" in faulty(cron_expr="@daily", start=moment)


def test_every_fault_is_reported_at_once() -> None:
    faults = faulty(cron_expr="61 * * * *", limit=0, start="soon", colour="red")
    assert faults.keys() == {"cron_expr", "limit", "from", "colour"}


def test_a_bad_zone_is_reported_once() -> None:
    faults = faulty(cron_expr="@daily", timezone="Mars/Base", start="2027-01-01T00:00:00")
    assert faults.keys() == {"timezone"}


def test_the_fault_of_an_unknown_field_lists_the_known_ones() -> None:
    message = faulty(cron_expr="@daily", xyz="UTC")["xyz"]
    assert "timezone" in message
    assert "limit" in message


def test_the_fault_of_an_unknown_field_names_the_one_that_is_meant() -> None:
    fault = "is not a known field; did you mean 'timezone'?"
    assert faulty(cron_expr="@daily", tz="UTC")["tz"] == fault


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "timing"),
        ({"cron_expr": "@daily", "daily_time": {"hour": 1, "minute": 1}}, "daily_time"),
        ({"cron_expr": "0 0 30 2 *"}, "cron_expr"),
        ({"cron_expr": "* * * * * *"}, "cron_expr"),
        ({"interval_seconds": 59}, "interval_seconds"),
        ({"rrule": "FREQ=DAILY"}, "start_at"),
        ({"cron_expr": "@daily", "calendar": "holidays"}, "calendar"),
        ({"weekly_time": {"day_of_week": 7, "hour": 0, "minute": 0}}, "weekly_time.day_of_week"),
    ],
)
def test_an_invalid_rule_is_refused_by_field(body: dict[str, Any], field: str) -> None:
    assert field in faulty(**body)


def test_seconds_are_subject_to_the_minimum_interval() -> None:
    answer = preview_schedule(
        {"cron_expr": "*/10 * * * * *", "limit": 1}, now=NOW, limits=when.Limits(1)
    )
    assert times(answer) == ["2026-11-15T03:14:20Z"]


def test_a_rule_in_the_past_has_no_fires_and_a_warning() -> None:
    answer = preview(once_at="2020-01-01T00:00:00Z")
    assert answer.fires == ()
    assert answer.warnings
