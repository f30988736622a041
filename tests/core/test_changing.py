"""Changes: nothing is lost and nothing comes twice, whenever somebody changes a schedule."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tests.core.schedules import CREATED, ID, a_schedule, at
from tickwork.core import changing
from tickwork.core.changing import Change, Withdrawn
from tickwork.core.planning import DELETED, PAUSED
from tickwork.core.schedule import Schedule, ScheduleStatus
from tickwork.core.when import parse

NINE = {"daily_time": {"hour": 9, "minute": 0}}
TEN = {"daily_time": {"hour": 10, "minute": 0}}


def updated(schedule: Schedule, fields: dict[str, Any], now: str, *withdrawn: Withdrawn) -> Change:
    rule = parse(fields, created_at=CREATED, seed=str(ID))
    definition = structs.replace(schedule.definition, rule=rule)
    decide = changing.update(definition, "new", schedule.definition.rule, rule)
    change = decide(schedule, withdrawn, at(now))
    assert change is not None
    return change


def test_an_update_before_the_slot_moves_it_on_that_day() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = updated(schedule, TEN, "08:59:00")
    assert (change.next_slot, change.fires) == (at("10:00"), ())


def test_an_update_of_a_planned_slot_brings_it_back_under_the_new_rule() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    taken = Withdrawn(at("09:00"), at("09:00"))
    change = updated(schedule, {**NINE, "jitter_seconds": 0}, "08:59:45", taken)
    assert (change.next_slot, change.fired) == (at("09:00"), 0)


def test_an_update_on_the_very_minute_neither_loses_nor_repeats_the_slot() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    for moment in ("09:00:00", "09:00:00.5", "09:00:30"):
        # It is due: nothing was withdrawn, and the message goes on as it was planned.
        change = updated(schedule, TEN, moment)
        assert change.next_slot == at("10:00")
        assert change.fired == 1
        same = updated(schedule, NINE, moment)
        assert same.next_slot == at("2026-03-03T09:00")


def test_a_slot_within_its_spread_survives_an_update() -> None:
    fields = {**NINE, "fire_window_seconds": 3600}
    schedule = a_schedule(fields, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    taken = Withdrawn(at("09:00"), at("09:40"))
    change = updated(schedule, {**fields, "fire_window_seconds": 1800}, "09:10", taken)
    assert change.next_slot == at("09:00")


def test_what_the_old_rule_owed_is_fired_before_the_new_one_counts() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = updated(schedule, TEN, "09:00:20")
    assert [fire.slot for fire in change.fires] == [at("09:00")]
    assert (change.next_slot, change.fired) == (at("10:00"), 1)


def test_a_pause_goes_back_to_the_earliest_slot_that_was_taken_back() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=3)
    change = changing.pause(schedule, [Withdrawn(at("09:00"), at("09:00"))], at("08:59:50"))
    assert (change.status, change.next_slot) == (ScheduleStatus.PAUSED, at("09:00"))
    assert (change.look_at, change.fired) == (None, 2)


def test_what_passed_during_a_pause_is_one_record() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PAUSED)
    decide = changing.resume(schedule.definition.rule)
    change = decide(schedule, (), at("2026-03-05T12:00"))
    assert change is not None
    (skip,) = change.skips
    assert (skip.first, skip.count, skip.reason) == (at("09:00"), 4, PAUSED)
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-06T09:00"))


def test_a_pause_that_nothing_passed_leaves_no_record() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PAUSED)
    change = changing.resume(schedule.definition.rule)(schedule, (), at("08:00"))
    assert change is not None
    assert (change.skips, change.next_slot) == ((), at("09:00"))


def test_a_single_slot_that_passed_during_a_pause_is_over() -> None:
    schedule = a_schedule(
        {"once_at": "2026-03-02T09:00:00Z"}, next_slot=at("09:00"), status=ScheduleStatus.PAUSED
    )
    change = changing.resume(schedule.definition.rule)(schedule, (), at("12:00"))
    assert change is not None
    assert (change.status, change.next_slot) == (ScheduleStatus.COMPLETED, None)
    assert [skip.reason for skip in change.skips] == [PAUSED]


def test_a_delete_records_what_was_due_and_not_begun() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=2)
    due, coming = Withdrawn(at("09:00"), at("09:00")), Withdrawn(at("09:01"), at("09:01"))
    change = changing.delete(schedule, [due, coming], at("09:00:30"))
    assert change.status is ScheduleStatus.DELETED
    assert [(skip.first, skip.count, skip.reason) for skip in change.skips] == [
        (at("09:00"), 1, DELETED)
    ]


def test_a_trigger_is_a_run_of_its_own_and_moves_nothing() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"), runs=4)
    change = changing.trigger(schedule, (), at("08:00"))
    assert [(fire.slot, fire.run) for fire in change.fires] == [(at("08:00"), 5)]
    assert (change.next_slot, change.fired, change.runs) == (at("09:00"), 0, 5)


def test_a_new_timing_wakes_what_was_completed() -> None:
    done = a_schedule(
        {"once_at": "2026-03-02T09:00:00Z"}, next_slot=None, status=ScheduleStatus.COMPLETED
    )
    change = updated(done, NINE, "10:00")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))


def test_a_single_time_in_the_past_means_at_once() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"))
    change = updated(schedule, {"once_at": "2026-03-01T00:00:00Z"}, "10:00")
    assert change.next_slot == at("10:00")


def test_an_update_after_the_clock_went_back_repeats_nothing() -> None:
    schedule = a_schedule(
        {"cron_expr": "*/10 * * * *"}, next_slot=at("09:40"), fired=4, last_slot=at("09:30")
    )
    change = updated(schedule, {"cron_expr": "*/10 * * * *", "jitter_seconds": 1}, "09:05")
    assert change.next_slot is not None
    assert change.next_slot > at("09:30")


def test_an_update_of_the_body_alone_moves_nothing() -> None:
    stored = a_schedule(NINE, next_slot=at("2026-03-03T09:00"))
    rule = structs.replace(stored.definition.rule, seed="")
    old = structs.replace(stored, definition=structs.replace(stored.definition, rule=rule))
    assert updated(old, NINE, "2026-03-02T08:00").next_slot == at("2026-03-03T09:00")


def test_an_update_while_paused_keeps_what_passed_on_record() -> None:
    paused = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PAUSED)
    change = updated(paused, TEN, "2026-03-04T12:00")
    assert [(skip.reason, skip.count) for skip in change.skips] == [(PAUSED, 3)]
    assert (change.status, change.next_slot) == (ScheduleStatus.PAUSED, at("2026-03-05T10:00"))


def test_a_completed_schedule_goes_on_when_it_may_fire_more_often() -> None:
    done = a_schedule(
        {**NINE, "max_firings": 2}, next_slot=None, fired=2, status=ScheduleStatus.COMPLETED
    )
    change = updated(done, {**NINE, "max_firings": 5}, "10:00")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))


def test_what_was_due_and_not_planned_is_on_record_when_it_is_deleted() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = changing.delete(schedule, (), at("2026-03-03T10:00"))
    assert [(skip.reason, skip.count) for skip in change.skips] == [(DELETED, 2)]


OFF = {"interval_seconds": 60, "exclude": ["2026-03-02"]}


def test_a_day_off_that_is_on_record_ahead_does_not_fire_when_it_is_opened() -> None:
    """It was right before a slot that is planned, and told with that."""
    schedule = a_schedule(
        OFF, next_slot=at("2026-03-03T00:01"), fired=1, last_slot=at("2026-03-03T00:00")
    )
    taken = Withdrawn(at("2026-03-03T00:00"), at("2026-03-03T00:00"))
    change = updated(schedule, {**OFF, "exclude": ["2026-03-09"]}, "23:58:40", taken)
    assert (change.next_slot, change.skips) == (at("2026-03-03T00:00"), ())


def test_a_day_off_that_is_opened_fires() -> None:
    schedule = a_schedule({**NINE, "exclude": ["2026-03-02"]}, next_slot=at("09:00"))
    change = updated(schedule, NINE, "08:00")
    assert (change.next_slot, change.look_at) == (at("09:00"), at("08:59:30"))


def test_a_day_that_is_closed_waits_for_its_record_and_what_follows_is_known() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = updated(schedule, {**NINE, "exclude": ["2026-03-02"]}, "08:00")
    assert (change.next_slot, change.look_at) == (at("09:00"), at("09:00"))
    assert change.due_at == at("2026-03-03T09:00")


def test_a_delete_says_excluded_of_days_off_and_deleted_of_the_others() -> None:
    schedule = a_schedule({**NINE, "exclude": ["2026-03-03"]}, next_slot=at("09:00"))
    change = changing.delete(schedule, (), at("2026-03-04T10:00"))
    assert [(skip.reason, skip.count) for skip in change.skips] == [
        (DELETED, 1),
        ("excluded", 1),
        (DELETED, 1),
    ]


def test_a_slot_that_could_not_be_planned_does_not_come_again() -> None:
    parked = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PARKED)
    change = changing.resume(parked.definition.rule)(parked, (), at("09:30"))
    assert change is not None
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))
