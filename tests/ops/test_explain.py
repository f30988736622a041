"""Explain lists the next clock changes, however often a rule fires."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tickwork import InvalidInput
from tickwork.core import when
from tickwork.ops import Explanation, explain_schedule

NOW = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


def explain(now: datetime = NOW, **body: Any) -> Explanation:
    return explain_schedule(body, now=now, limits=when.Limits(min_interval_seconds=1))


def notes(explained: Explanation) -> list[str | None]:
    return [fire.note for fire in explained.touched]


def test_the_gaps_of_two_years_are_listed() -> None:
    explained = explain(cron_expr="30 2 * * *", timezone="America/New_York")
    assert explained.description == "At 02:30, every day, New York time"
    assert notes(explained) == [
        "on 2027-03-14 at 03:00 instead of 02:30",
        "on 2028-03-12 at 03:00 instead of 02:30",
    ]


def test_a_change_is_found_half_a_million_fires_ahead() -> None:
    explained = explain(cron_expr="* * * * *", timezone="Europe/Berlin")
    assert notes(explained)[0] == "02:00 occurs twice on 2027-10-31; this is the first time"
    assert len(explained.touched) == 240


def test_a_skipped_slot_is_a_warning() -> None:
    explained = explain(cron_expr="30 2 * * *", timezone="America/New_York", dst={"gap": "skip"})
    assert explained.warnings == (
        "on 2027-03-14 02:30 does not exist and is skipped",
        "on 2028-03-12 02:30 does not exist and is skipped",
    )


@pytest.mark.parametrize(
    "body",
    [
        {"cron_expr": "0 9 * * *", "timezone": "America/New_York"},
        {"cron_expr": "30 2 * * *", "timezone": "UTC"},
        {"cron_expr": "30 2 * * *", "timezone": "Asia/Tokyo"},
        {"interval_seconds": 60, "timezone": "America/New_York"},
        {"once_at": "2020-01-01T00:00:00Z", "timezone": "America/New_York"},
    ],
)
def test_a_rule_that_no_change_affects_has_an_empty_list(body: dict[str, Any]) -> None:
    assert explain(**body).touched == ()


def test_all_changes_of_a_zone_with_four_a_year_are_listed() -> None:
    # As it was: what Morocco will do depends on the zone data of the machine.
    past = datetime(2023, 1, 1, tzinfo=UTC)
    explained = explain(past, cron_expr="30 2 * * *", timezone="Africa/Casablanca")
    assert [fire.local.date().isoformat() for fire in explained.touched] == [
        "2023-03-19",
        "2023-04-23",
        "2024-03-10",
        "2024-04-14",
    ]


def test_explain_refuses_what_a_preview_refuses() -> None:
    with pytest.raises(InvalidInput, match="cron_expr"):
        explain(cron_expr="every day")
