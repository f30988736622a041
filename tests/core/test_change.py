"""Changes: nothing is lost and nothing comes twice, whenever somebody changes a schedule."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tests.core.schedules import CREATED, ID, a_schedule, at
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.change import Change
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.plan import DELETED, PAUSED
from tickwork.core.schedule.withdraw import Withdrawn
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


def test_a_day_that_is_closed_while_the_window_of_its_slot_is_open_waits_for_its_record() -> None:
    fields = {**NINE, "fire_window_seconds": 3600}
    schedule = a_schedule(fields, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    taken = Withdrawn(at("09:00"), at("09:40"))
    change = updated(schedule, {**fields, "exclude": ["2026-03-02"]}, "09:10", taken)
    assert (change.next_slot, change.look_at, change.fired) == (at("09:00"), at("09:10"), 0)


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


def parked(fields: dict[str, Any], slot: str) -> Schedule:
    """A schedule that stands aside because this slot could not be planned, which is on record."""
    return a_schedule(fields, next_slot=at(slot), status=ScheduleStatus.PARKED)


def resumed(schedule: Schedule, now: str) -> Change:
    change = changing.resume(schedule.definition.rule)(schedule, (), at(now))
    assert change is not None
    return change


def test_a_single_slot_that_could_not_be_planned_comes_when_it_is_resumed() -> None:
    once = parked({"once_at": "2026-03-02T09:00:00Z"}, "09:00")
    change = resumed(once, "09:30")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("09:30"))
    assert change.skips == ()
    # Not before its time, nor as the slot of which it is on record that it did not fire.
    ahead = resumed(once, "08:59:40").next_slot
    assert ahead is not None
    assert at("09:00") < ahead < at("09:00:01")


def test_a_single_slot_that_could_not_be_planned_follows_its_policies() -> None:
    fields = {"once_at": "2026-03-02T09:00:00Z", "missed": {"policy": "skip"}}
    for now, slot in (("09:00:30", at("09:00:30")), ("09:30", None)):
        change = resumed(parked(fields, "09:00"), now)
        status = ScheduleStatus.COMPLETED if slot is None else ScheduleStatus.ACTIVE
        assert (change.status, change.next_slot, change.skips) == (status, slot, ())
    once = parked({"once_at": "2026-03-02T09:00:00Z"}, "09:00")
    definition = structs.replace(once.definition, expires_after_seconds=600.0)
    change = resumed(structs.replace(once, definition=definition), "09:30")
    assert (change.status, change.next_slot) == (ScheduleStatus.COMPLETED, None)


def test_a_fixed_delay_that_could_not_be_planned_goes_on_from_when_it_is_resumed() -> None:
    delay = {"interval_seconds": 600, "interval_mode": "fixed_delay"}
    change = resumed(parked(delay, "09:00"), "09:30")
    assert (change.next_slot, change.skips) == (at("09:40"), ())


def test_a_fixed_delay_whose_last_run_is_under_way_goes_on_if_it_is_given_more() -> None:
    delay = {"interval_seconds": 600, "interval_mode": "fixed_delay"}
    last = {**delay, "max_firings": 1}
    schedule = a_schedule(last, next_slot=None, fired=1, last_slot=at("09:00"))
    more = {"max_firings": 3}, {"max_firings": None}
    for bounds in more:
        change = updated(schedule, {**delay, **bounds}, "09:05")
        assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("09:15"))
        change = updated(schedule, {**delay, **bounds, "interval_seconds": 120}, "09:05")
        assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("09:07"))
    for still in (last, {**last, "interval_seconds": 120}):
        assert updated(schedule, still, "09:05").next_slot is None
    # The end of this one sets the next slot, and whether that is past the end is seen then.
    bounded = {**delay, "end_at": "2026-03-02T09:04:00Z"}
    ended = a_schedule(bounded, next_slot=None, fired=1, last_slot=at("09:00"))
    assert updated(ended, {**delay, "interval_seconds": 120}, "09:05").next_slot is None


def test_an_update_steps_past_a_slot_that_could_not_be_planned() -> None:
    every_hour = {"cron_expr": "0 * * * *"}
    patient = {**every_hour, "missed": {"grace_seconds": 120}}
    change = updated(parked(every_hour, "09:00"), patient, "09:10")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("10:00"))
    assert change.skips == ()
    ahead = updated(parked(every_hour, "09:00"), patient, "08:59:40")
    assert ahead.next_slot == at("10:00")
    late = updated(parked(every_hour, "09:00"), patient, "12:10")
    assert [(skip.first, skip.count, skip.reason) for skip in late.skips] == [
        (at("10:00"), 3, PAUSED)
    ]
    assert late.next_slot == at("13:00")


def test_a_single_time_that_could_not_be_planned_never_comes_as_the_same_slot() -> None:
    once = {"once_at": "2026-03-02T09:00:00Z"}
    same = updated(parked(once, "09:00"), {**once, "missed": {"policy": "skip"}}, "09:10")
    assert (same.status, same.next_slot) == (ScheduleStatus.PARKED, at("09:00"))
    daily = updated(parked(once, "09:00"), NINE, "08:59:40")
    assert (daily.status, daily.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))
    again = updated(parked(NINE, "09:00"), once, "08:59:40")
    assert again.next_slot is not None
    assert at("09:00") < again.next_slot < at("09:00:01")


def test_what_is_taken_back_before_a_slot_that_could_not_be_planned_is_on_record() -> None:
    minutely, taken = {"cron_expr": "* * * * *"}, Withdrawn(at("08:59"), at("08:59"))
    for fields in (minutely, {**minutely, "missed": {"grace_seconds": 5}}):
        change = updated(parked(minutely, "09:00"), fields, "08:58:45", taken)
        assert [(skip.first, skip.reason) for skip in change.skips] == [(at("08:59"), PAUSED)]
        assert change.next_slot == at("09:00" if fields is minutely else "09:01")


def test_a_delete_does_not_tell_again_of_a_slot_that_could_not_be_planned() -> None:
    for fields in ({"cron_expr": "0 * * * *"}, {"once_at": "2026-03-02T09:00:00Z"}):
        assert changing.delete(parked(fields, "09:00"), (), at("10:30")).skips == ()


def test_a_schedule_whose_zone_is_gone_can_be_given_another_or_deleted() -> None:
    known = parked(NINE, "09:00")
    rule = structs.replace(known.definition.rule, timezone="Nowhere/Gone")
    lost = structs.replace(known, definition=structs.replace(known.definition, rule=rule))
    change = updated(lost, {**NINE, "timezone": "Europe/Berlin"}, "09:30")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T08:00"))
    assert changing.delete(lost, (), at("2026-03-04T09:30")).status is ScheduleStatus.DELETED
