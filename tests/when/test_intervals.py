"""Intervals: elapsed time from an anchor, independent of local clock changes."""

from datetime import UTC, datetime, timedelta

import pytest

from tickwork.core import when

CREATED = datetime(2027, 3, 13, 22, 10, 5, 123_457, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hourly(**fields: object) -> when.Rule:
    whole = {"interval_minutes": 60, "timezone": "America/New_York", **fields}
    return when.parse(whole, created_at=CREATED)


@pytest.mark.parametrize("mode", ["fixed_rate", "fixed_delay"])
def test_the_first_slot_is_a_step_after_creation(mode: str) -> None:
    rule = hourly(interval_mode=mode)
    assert when.first_slot(rule, CREATED) == CREATED + HOUR


@pytest.mark.parametrize("mode", ["fixed_rate", "fixed_delay"])
def test_with_a_start_the_first_slot_is_the_start(mode: str) -> None:
    rule = hourly(interval_mode=mode, start_at="2027-03-20T09:00:00Z")
    start = datetime(2027, 3, 20, 9, tzinfo=UTC)
    assert when.first_slot(rule, CREATED) == start
    assert when.next_after(rule, start) == start + HOUR
    assert when.count_between(rule, CREATED, start + 2 * HOUR) == 3


def test_slots_keep_their_spacing_across_a_clock_change() -> None:
    slots = when.slots_between(hourly(), CREATED, CREATED + timedelta(days=2))
    assert slots == [CREATED + k * HOUR for k in range(1, 49)]


def test_a_fixed_delay_counts_from_the_finish_of_the_run() -> None:
    rule = hourly(interval_mode="fixed_delay")
    ended = CREATED + timedelta(hours=7, seconds=12, microseconds=3)
    assert when.next_after(rule, ended) == ended + HOUR


def test_a_fixed_rate_ignores_when_the_run_finished() -> None:
    ended = CREATED + timedelta(hours=7, seconds=12, microseconds=3)
    assert when.next_after(hourly(), ended) == CREATED + 8 * HOUR


def test_a_slot_at_the_very_microsecond_is_not_after_itself() -> None:
    slot = CREATED + 5 * HOUR
    assert when.next_after(hourly(), slot) == slot + HOUR
    assert when.next_after(hourly(), slot - timedelta(microseconds=1)) == slot


def test_there_is_no_slot_before_the_anchor() -> None:
    long_ago = datetime(1, 1, 1, tzinfo=UTC)
    assert when.next_after(hourly(), long_ago) == CREATED
    assert when.count_between(hourly(), long_ago, CREATED + 3 * HOUR) == 4


@pytest.mark.parametrize("mode", ["fixed_rate", "fixed_delay"])
@pytest.mark.parametrize("year", [9960, 9979, 9985, 9999])
def test_the_longest_interval_ends_before_the_calendar_does(mode: str, year: int) -> None:
    fields = {"interval_seconds": 316_224_000, "interval_mode": mode, "exclude": ["2027-03-14"]}
    rule = when.parse(fields, created_at=CREATED)
    after = datetime(year, 12, 31, 23, 59, tzinfo=UTC)
    slot = when.next_after(rule, after)
    assert (slot is None) == (year >= 9980)
    assert when.count_between(rule, after, datetime(9999, 12, 31, tzinfo=UTC)) in (0, 1, 2)


def test_the_cache_distinguishes_the_two_occurrences_of_an_hour() -> None:
    zone = when.zone.timeline("America/New_York").zone
    first = datetime(2027, 11, 7, 1, 30, tzinfo=zone)
    second = first.replace(fold=1)
    rule = when.parse({"cron_expr": "0 * * * *", "timezone": "America/New_York"})
    assert when.next_after(rule, first) == datetime(2027, 11, 7, 6, tzinfo=UTC)
    assert when.next_after(rule, second) == datetime(2027, 11, 7, 7, tzinfo=UTC)
