"""Changes: no slot is lost and none fires twice, whenever a schedule is changed."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tests.core.schedules import CREATED, ID, a_schedule, at
from tickwork.core.schedule.change import Change, delete, pause, resume, trigger, update
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.plan import DELETED, PAUSED
from tickwork.core.schedule.withdraw import Withdrawn
from tickwork.core.when import parse

NINE = {"daily_time": {"hour": 9, "minute": 0}}
TEN = {"daily_time": {"hour": 10, "minute": 0}}


def updated(schedule: Schedule, fields: dict[str, Any], now: str, *withdrawn: Withdrawn) -> Change:
    rule = parse(fields, created_at=CREATED, seed=str(ID))
    definition = structs.replace(schedule.definition, rule=rule)
    decide = update(definition, "new", schedule.definition.rule, rule)
    change = decide(schedule, withdrawn, at(now))
    assert change is not None
    return change


def test_an_update_before_the_slot_moves_it_on_that_day() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = updated(schedule, TEN, "08:59:00")
    assert (change.next_slot, change.fires) == (at("10:00"), ())


def test_an_update_replans_a_withdrawn_slot_under_the_new_rule() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    taken = Withdrawn(at("09:00"), at("09:00"))
    change = updated(schedule, {**NINE, "jitter_seconds": 0}, "08:59:45", taken)
    assert (change.next_slot, change.fired) == (at("09:00"), 0)


def test_an_update_on_the_very_minute_neither_loses_nor_repeats_the_slot() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    for moment in ("09:00:00", "09:00:00.5", "09:00:30"):
        # The slot is due: nothing is withdrawn, and its message stays as planned.
        change = updated(schedule, TEN, moment)
        assert change.next_slot == at("10:00")
        assert change.fired == 1
        same = updated(schedule, NINE, moment)
        assert same.next_slot == at("2026-03-03T09:00")


def test_a_slot_in_its_fire_window_survives_an_update() -> None:
    fields = {**NINE, "fire_window_seconds": 3600}
    schedule = a_schedule(fields, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    taken = Withdrawn(at("09:00"), at("09:40"))
    change = updated(schedule, {**fields, "fire_window_seconds": 1800}, "09:10", taken)
    assert change.next_slot == at("09:00")


def test_an_update_fires_due_slots_of_the_old_rule_first() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = updated(schedule, TEN, "09:00:20")
    assert [fire.slot for fire in change.fires] == [at("09:00")]
    assert (change.next_slot, change.fired) == (at("10:00"), 1)


def test_a_pause_goes_back_to_the_earliest_withdrawn_slot() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=3)
    change = pause(schedule, [Withdrawn(at("09:00"), at("09:00"))], at("08:59:50"))
    assert (change.status, change.next_slot) == (ScheduleStatus.PAUSED, at("09:00"))
    assert (change.look_at, change.fired) == (None, 2)


def test_slots_that_passed_during_a_pause_share_one_record() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PAUSED)
    decide = resume(schedule.definition.rule)
    change = decide(schedule, (), at("2026-03-05T12:00"))
    assert change is not None
    (skip,) = change.skips
    assert (skip.first, skip.count, skip.reason) == (at("09:00"), 4, PAUSED)
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-06T09:00"))


def test_a_pause_without_passed_slots_leaves_no_record() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PAUSED)
    change = resume(schedule.definition.rule)(schedule, (), at("08:00"))
    assert change is not None
    assert (change.skips, change.next_slot) == ((), at("09:00"))


def test_a_single_slot_that_passed_during_a_pause_completes_the_schedule() -> None:
    schedule = a_schedule(
        {"once_at": "2026-03-02T09:00:00Z"}, next_slot=at("09:00"), status=ScheduleStatus.PAUSED
    )
    change = resume(schedule.definition.rule)(schedule, (), at("12:00"))
    assert change is not None
    assert (change.status, change.next_slot) == (ScheduleStatus.COMPLETED, None)
    assert [skip.reason for skip in change.skips] == [PAUSED]


def test_a_delete_records_due_slots_that_never_started() -> None:
    schedule = a_schedule(NINE, next_slot=at("2026-03-03T09:00"), fired=2)
    due, coming = Withdrawn(at("09:00"), at("09:00")), Withdrawn(at("09:01"), at("09:01"))
    change = delete(schedule, [due, coming], at("09:00:30"))
    assert change.status is ScheduleStatus.DELETED
    assert [(skip.first, skip.count, skip.reason) for skip in change.skips] == [
        (at("09:00"), 1, DELETED)
    ]


def test_a_trigger_is_an_extra_run_and_keeps_the_next_slot() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"), runs=4)
    change = trigger(schedule, (), at("08:00"))
    assert [(fire.slot, fire.run) for fire in change.fires] == [(at("08:00"), 5)]
    assert (change.next_slot, change.fired, change.runs) == (at("09:00"), 0, 5)


def test_a_new_timing_reactivates_a_completed_schedule() -> None:
    done = a_schedule(
        {"once_at": "2026-03-02T09:00:00Z"}, next_slot=None, status=ScheduleStatus.COMPLETED
    )
    change = updated(done, NINE, "10:00")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))


def test_a_single_time_in_the_past_fires_at_once() -> None:
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


def test_an_update_of_the_payload_keeps_the_next_slot() -> None:
    stored = a_schedule(NINE, next_slot=at("2026-03-03T09:00"))
    rule = structs.replace(stored.definition.rule, seed="")
    old = structs.replace(stored, definition=structs.replace(stored.definition, rule=rule))
    assert updated(old, NINE, "2026-03-02T08:00").next_slot == at("2026-03-03T09:00")


def test_an_update_while_paused_records_passed_slots() -> None:
    paused = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PAUSED)
    change = updated(paused, TEN, "2026-03-04T12:00")
    assert [(skip.reason, skip.count) for skip in change.skips] == [(PAUSED, 3)]
    assert (change.status, change.next_slot) == (ScheduleStatus.PAUSED, at("2026-03-05T10:00"))


def test_a_completed_schedule_continues_when_max_firings_is_raised() -> None:
    done = a_schedule(
        {**NINE, "max_firings": 2}, next_slot=None, fired=2, status=ScheduleStatus.COMPLETED
    )
    change = updated(done, {**NINE, "max_firings": 5}, "10:00")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))


def test_a_delete_records_due_slots_that_were_not_planned() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = delete(schedule, (), at("2026-03-03T10:00"))
    assert [(skip.reason, skip.count) for skip in change.skips] == [(DELETED, 2)]


OFF = {"interval_seconds": 60, "exclude": ["2026-03-02"]}


def test_an_excluded_slot_that_is_recorded_does_not_fire_when_its_day_is_opened() -> None:
    """It came right before a planned slot and was recorded with it."""
    schedule = a_schedule(
        OFF, next_slot=at("2026-03-03T00:01"), fired=1, last_slot=at("2026-03-03T00:00")
    )
    taken = Withdrawn(at("2026-03-03T00:00"), at("2026-03-03T00:00"))
    change = updated(schedule, {**OFF, "exclude": ["2026-03-09"]}, "23:58:40", taken)
    assert (change.next_slot, change.skips) == (at("2026-03-03T00:00"), ())


def test_an_excluded_slot_fires_when_its_day_is_opened() -> None:
    schedule = a_schedule({**NINE, "exclude": ["2026-03-02"]}, next_slot=at("09:00"))
    change = updated(schedule, NINE, "08:00")
    assert (change.next_slot, change.look_at) == (at("09:00"), at("08:59:30"))


def test_a_newly_excluded_slot_stays_next_until_it_is_recorded() -> None:
    schedule = a_schedule(NINE, next_slot=at("09:00"))
    change = updated(schedule, {**NINE, "exclude": ["2026-03-02"]}, "08:00")
    assert (change.next_slot, change.look_at) == (at("09:00"), at("09:00"))
    assert change.due_at == at("2026-03-03T09:00")


def test_a_slot_excluded_during_its_fire_window_stays_next_until_it_is_recorded() -> None:
    fields = {**NINE, "fire_window_seconds": 3600}
    schedule = a_schedule(fields, next_slot=at("2026-03-03T09:00"), fired=1, last_slot=at("09:00"))
    taken = Withdrawn(at("09:00"), at("09:40"))
    change = updated(schedule, {**fields, "exclude": ["2026-03-02"]}, "09:10", taken)
    assert (change.next_slot, change.look_at, change.fired) == (at("09:00"), at("09:10"), 0)


def test_a_delete_records_excluded_slots_as_excluded_and_others_as_deleted() -> None:
    schedule = a_schedule({**NINE, "exclude": ["2026-03-03"]}, next_slot=at("09:00"))
    change = delete(schedule, (), at("2026-03-04T10:00"))
    assert [(skip.reason, skip.count) for skip in change.skips] == [
        (DELETED, 1),
        ("excluded", 1),
        (DELETED, 1),
    ]


def test_a_slot_whose_planning_failed_does_not_fire_again() -> None:
    parked = a_schedule(NINE, next_slot=at("09:00"), status=ScheduleStatus.PARKED)
    change = resume(parked.definition.rule)(parked, (), at("09:30"))
    assert change is not None
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))


def parked(fields: dict[str, Any], slot: str) -> Schedule:
    """A schedule that is parked because planning this slot failed; the slot is recorded."""
    return a_schedule(fields, next_slot=at(slot), status=ScheduleStatus.PARKED)


def resumed(schedule: Schedule, now: str) -> Change:
    change = resume(schedule.definition.rule)(schedule, (), at(now))
    assert change is not None
    return change


def test_a_single_slot_whose_planning_failed_fires_on_resume() -> None:
    once = parked({"once_at": "2026-03-02T09:00:00Z"}, "09:00")
    change = resumed(once, "09:30")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("09:30"))
    assert change.skips == ()
    # Not before its time, nor as the slot of which it is on record that it did not fire.
    ahead = resumed(once, "08:59:40").next_slot
    assert ahead is not None
    assert at("09:00") < ahead < at("09:00:01")


def test_a_single_slot_whose_planning_failed_follows_its_missed_policy() -> None:
    fields = {"once_at": "2026-03-02T09:00:00Z", "missed": {"policy": "skip"}}
    for now, slot in (("09:00:30", at("09:00:30")), ("09:30", None)):
        change = resumed(parked(fields, "09:00"), now)
        status = ScheduleStatus.COMPLETED if slot is None else ScheduleStatus.ACTIVE
        assert (change.status, change.next_slot, change.skips) == (status, slot, ())
    once = parked({"once_at": "2026-03-02T09:00:00Z"}, "09:00")
    definition = structs.replace(once.definition, expires_after_seconds=600.0)
    change = resumed(structs.replace(once, definition=definition), "09:30")
    assert (change.status, change.next_slot) == (ScheduleStatus.COMPLETED, None)


def test_a_fixed_delay_whose_planning_failed_counts_from_the_resume() -> None:
    delay = {"interval_seconds": 600, "interval_mode": "fixed_delay"}
    change = resumed(parked(delay, "09:00"), "09:30")
    assert (change.next_slot, change.skips) == (at("09:40"), ())


def test_a_fixed_delay_in_its_last_run_continues_when_max_firings_is_raised() -> None:
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


def test_an_update_skips_a_slot_whose_planning_failed() -> None:
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


def test_a_single_time_whose_planning_failed_gets_another_slot() -> None:
    once = {"once_at": "2026-03-02T09:00:00Z"}
    same = updated(parked(once, "09:00"), {**once, "missed": {"policy": "skip"}}, "09:10")
    assert (same.status, same.next_slot) == (ScheduleStatus.PARKED, at("09:00"))
    daily = updated(parked(once, "09:00"), NINE, "08:59:40")
    assert (daily.status, daily.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T09:00"))
    again = updated(parked(NINE, "09:00"), once, "08:59:40")
    assert again.next_slot is not None
    assert at("09:00") < again.next_slot < at("09:00:01")


def test_slots_withdrawn_before_a_failed_slot_are_recorded() -> None:
    minutely, taken = {"cron_expr": "* * * * *"}, Withdrawn(at("08:59"), at("08:59"))
    for fields in (minutely, {**minutely, "missed": {"grace_seconds": 5}}):
        change = updated(parked(minutely, "09:00"), fields, "08:58:45", taken)
        assert [(skip.first, skip.reason) for skip in change.skips] == [(at("08:59"), PAUSED)]
        assert change.next_slot == at("09:00" if fields is minutely else "09:01")


def test_a_delete_does_not_record_a_failed_slot_again() -> None:
    for fields in ({"cron_expr": "0 * * * *"}, {"once_at": "2026-03-02T09:00:00Z"}):
        assert delete(parked(fields, "09:00"), (), at("10:30")).skips == ()


def test_a_schedule_whose_zone_is_gone_can_be_updated_or_deleted() -> None:
    known = parked(NINE, "09:00")
    rule = structs.replace(known.definition.rule, timezone="Nowhere/Gone")
    lost = structs.replace(known, definition=structs.replace(known.definition, rule=rule))
    change = updated(lost, {**NINE, "timezone": "Europe/Berlin"}, "09:30")
    assert (change.status, change.next_slot) == (ScheduleStatus.ACTIVE, at("2026-03-03T08:00"))
    assert delete(lost, (), at("2026-03-04T09:30")).status is ScheduleStatus.DELETED
