"""A plan accounts for every slot up to its horizon exactly once: it fires or is in a skip.

The reference iterates the rule slot by slot; planning counts where it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.kit.soak import examples
from tests.when.strategies import CALENDARS, Case, cases
from tickwork.core import when
from tickwork.core.schedule.model import OverlapPolicy, ScheduleStatus, shard_of
from tickwork.core.schedule.next_slot import (
    AHEAD_SECONDS,
    first_slot_or_excluded,
    look_at,
    next_slot_or_excluded,
    slot_times,
)
from tickwork.core.schedule.plan import (
    EXCLUDED,
    EXPIRED,
    PAST_END,
    SKIPPED_MISSED,
    SKIPPED_OVERLAP,
    DueSchedule,
    Fire,
    Plan,
    Skip,
    park,
    plan,
)
from tickwork.core.when import has_one_known_slot, is_fixed_delay, just_before

ID = UUID(int=7)
MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AHEAD = timedelta(seconds=AHEAD_SECONDS)
OWN = frozenset({SKIPPED_MISSED, SKIPPED_OVERLAP, EXPIRED})
"""Reasons for slots that could have fired; the other reasons are for excluded slots."""


def due_of(rule: when.Rule, slot: datetime, **fields: Any) -> DueSchedule:
    known: dict[str, Any] = {"overlap": OverlapPolicy.ALLOW, "fired": 0}
    return DueSchedule(
        tenant="default",
        id=ID,
        shard=1,
        version=3,
        next_slot=slot,
        rule=rule,
        **known | fields,
    )


def every(seconds: int, **fields: Any) -> when.Rule:
    limits = when.Limits(min_interval_seconds=1)
    return when.parse({"interval_seconds": seconds, **fields}, created_at=MONDAY, limits=limits)


def after(due: DueSchedule, made: Plan, **fields: Any) -> DueSchedule | None:
    """The schedule after a plan."""
    if made.then_slot is None or made.status is not ScheduleStatus.ACTIVE:
        return None
    fired = due.fired + len(made.fires)
    return structs.replace(due, next_slot=made.then_slot, fired=fired, **fields)


def covered(due: DueSchedule, skips: Sequence[Skip]) -> Iterator[datetime]:
    """The slots inside the skips, iterated.

    A skip has the right count, and contains only excluded slots or none.
    """
    for skip in skips:
        if skip.reason in OWN or skip.reason == EXCLUDED:
            inside = [*_walk_to(due.rule, skip.first, skip.last)]
            if has_one_known_slot(due.rule):
                inside = [skip.first]
            assert len(inside) == skip.count, skip
            off = {_is_off(due.rule, slot) for slot in inside}
            assert has_one_known_slot(due.rule) or off == {skip.reason == EXCLUDED}
            assert (inside[0], inside[-1]) == (skip.first, skip.last)
            yield from inside


@st.composite
def dues(draw: st.DrawFn) -> tuple[DueSchedule, datetime]:
    """A schedule at one of its slots, and a time near it."""
    case: Case = draw(cases())
    rule = case.rule
    if draw(st.booleans()):
        policy = draw(st.sampled_from([*when.MissedPolicy]))
        missed = structs.replace(rule.missed, policy=policy, cap=draw(st.integers(1, 5)))
        rule = structs.replace(rule, missed=missed)
    slot = next_slot_or_excluded(rule, case.start)
    assume(slot is not None and (not has_one_known_slot(rule) or not _is_off(rule, slot)))
    assert slot is not None
    fired = 0
    if rule.max_firings is not None:
        fired = draw(st.integers(0, rule.max_firings - 1))
    overlap = draw(st.sampled_from([*OverlapPolicy]))
    unfinished = draw(st.integers(0, 2)) if overlap.is_decided_when_due else 0
    late = draw(st.one_of(st.integers(-90, 400), st.integers(0, 200_000)))
    now = slot + timedelta(seconds=late)
    expires = draw(st.sampled_from([None, None, 1.0, 90.0, 7_200.0]))
    fields = {"unfinished": unfinished, "fired": fired, "expires_after_seconds": expires}
    return due_of(rule, slot, overlap=overlap, **fields), now


@given(dues())
@settings(max_examples=examples(60), deadline=None)
def test_every_slot_up_to_the_horizon_is_in_the_plan_exactly_once(
    given_: tuple[DueSchedule, datetime],
) -> None:
    due, now = given_
    made = plan(due, now)
    fires = [fire.slot for fire in made.fires]
    accounted = sorted([*fires, *covered(due, made.skips)])
    assert all(one < two for one, two in pairwise(accounted)), "a slot is there twice"
    assert fires == sorted(fires)
    assert accounted == expected_slots(due, made, now)


@pytest.mark.parametrize("late_seconds", [600, 900])
def test_no_excluded_slot_follows_the_last_firing(late_seconds: int) -> None:
    slot = datetime(2026, 1, 5, 23, 50, tzinfo=UTC)
    rule = every(600, max_firings=1, exclude=["2026-01-06"])
    made = plan(due_of(rule, slot), slot + timedelta(seconds=late_seconds))
    assert [fire.slot for fire in made.fires] == [slot]
    assert (made.skips, made.then_slot) == ((), None)


def expected_slots(due: DueSchedule, made: Plan, now: datetime) -> list[datetime]:
    """Walked: the slots from the next one until the one that the plan leaves for later, which
    must not be one that it should have judged."""
    if has_one_known_slot(due.rule):
        is_judged = made.fires or made.skips
        return [due.next_slot] if is_judged and not _is_used_up(due) else []
    until = now if due.overlap.is_decided_when_due else now + AHEAD
    found = []
    budget = due.rule.max_firings
    fires = {fire.slot for fire in made.fires}
    fired = due.fired
    reached = max([now, *fires, *(skip.last for skip in made.skips if skip.reason in OWN)])
    for slot in _walk(due.rule, due.next_slot):
        is_off = _is_off(due.rule, slot)
        if budget is not None and fired >= budget:
            break
        if made.then_slot is not None and slot >= made.then_slot:
            assert slot == made.then_slot
            may_wait = slot > now if is_off else _may_wait(due, slot, until, made)
            assert may_wait, "it is due, and was left for later"
            break
        if slot > (reached if is_off else until):
            assert made.then_slot is None
            break
        found.append(slot)
        fired += slot in fires
    return found


def _walk(rule: when.Rule, first: datetime) -> Iterator[datetime]:
    """The slots of a rule, including excluded ones."""
    yield from when.iterate_slots(
        structs.replace(when.ignoring_days_off(rule), max_firings=None), just_before(first)
    )


def _walk_to(rule: when.Rule, first: datetime, last: datetime) -> Iterator[datetime]:
    yield from takewhile(lambda slot: slot <= last, _walk(rule, first))


def _is_off(rule: when.Rule, slot: datetime) -> bool:
    if is_fixed_delay(rule):  # Any instant may be a slot of it: the end of a run says which.
        return when.is_day_off(rule, slot)
    unbounded = structs.replace(rule, max_firings=None)
    return when.has_days_off(rule) and when.next_after(unbounded, just_before(slot)) != slot


def _may_wait(due: DueSchedule, slot: datetime, until: datetime, made: Plan) -> bool:
    """Not yet due; or, with the last firings used up by others, it is looked at again at once."""
    is_coming = slot > until or when.due_at(due.rule, slot) > until
    return is_coming or (made.look_at is not None and made.look_at <= until)


def _is_used_up(due: DueSchedule) -> bool:
    return due.rule.max_firings is not None and due.fired >= due.rule.max_firings


@given(dues())
@settings(max_examples=examples(60), deadline=None)
def test_a_second_plan_at_the_same_moment_adds_nothing(
    given_: tuple[DueSchedule, datetime],
) -> None:
    due, now = given_
    seen: list[datetime] = []
    made = plan(due, now)
    for _ in range(200):
        slots = [fire.slot for fire in made.fires] + [*covered(due, made.skips)]
        assert not {*slots} & {*seen}
        seen += slots
        following = after(due, made, unfinished=min(2, due.unfinished + len(made.fires)))
        if following is None or made.look_at is None or made.look_at > now:
            break
        due, made = following, plan(following, now)
    else:
        pytest.fail("planning does not come to an end")
    if following is not None and not due.overlap.is_decided_when_due:
        assert plan(following, now).fires == ()
        assert plan(following, now).then_slot == following.next_slot


@given(dues())
@settings(max_examples=examples(60), deadline=None)
def test_a_leader_looks_again_before_the_next_slot_is_due(
    given_: tuple[DueSchedule, datetime],
) -> None:
    due, now = given_
    made = plan(due, now)
    if made.then_slot is None:
        assert (made.then_due_at, made.look_at) == (None, None)
        is_expired = any(skip.reason == EXPIRED for skip in made.skips)
        is_parked = is_expired and isinstance(due.rule.timing, when.Once)
        over = ScheduleStatus.PARKED if is_parked else ScheduleStatus.COMPLETED
        assert made.fires or made.status is over
        return
    assert made.status is ScheduleStatus.ACTIVE
    assert made.then_slot > due.next_slot or made.then_slot == due.next_slot
    assert made.look_at is not None
    assert made.then_due_at is not None
    assert made.look_at <= made.then_due_at
    if _is_off(due.rule, made.then_slot):
        assert made.look_at <= made.then_slot
    else:
        assert made.then_due_at == when.due_at(due.rule, made.then_slot)


@given(dues())
@settings(max_examples=examples(60), deadline=None)
def test_firings_are_due_by_the_rule_and_respect_max_firings(
    given_: tuple[DueSchedule, datetime],
) -> None:
    due, now = given_
    made = plan(due, now)
    grace = timedelta(seconds=due.rule.missed.grace_seconds)
    for fire in made.fires:
        assert fire.due_at == fire.visible_at == when.due_at(due.rule, fire.slot)
        assert fire.catch_up == (fire.due_at < now - grace)
        assert fire.run == 0
        assert not when.is_expired(due.rule, fire.slot, now, due.expires_after_seconds)
        if due.overlap.is_decided_when_due and not has_one_known_slot(due.rule):
            assert fire.due_at <= now
    if due.rule.max_firings is not None:
        assert due.fired + len(made.fires) <= due.rule.max_firings
    catch_ups = [fire for fire in made.fires if fire.catch_up]
    match due.rule.missed.policy:
        case when.MissedPolicy.SKIP:
            assert not catch_ups
        case when.MissedPolicy.FIRE_MOST_RECENT:
            assert len(catch_ups) <= 1
        case when.MissedPolicy.FIRE_LATE:
            assert len(catch_ups) <= due.rule.missed.cap


@given(dues())
@settings(max_examples=examples(60), deadline=None)
def test_no_more_slots_fire_than_the_overlap_policy_allows(
    given_: tuple[DueSchedule, datetime],
) -> None:
    due, now = given_
    made = plan(due, now)
    match due.overlap:
        case OverlapPolicy.SKIP:
            assert len(made.fires) <= max(1 - due.unfinished, 0) or has_one_known_slot(due.rule)
        case OverlapPolicy.BUFFER_ONE:
            assert len(made.fires) <= max(2 - due.unfinished, 0) or has_one_known_slot(due.rule)
        case _:
            assert all(skip.reason != SKIPPED_OVERLAP for skip in made.skips)


@given(dues())
@settings(max_examples=examples(40), deadline=None)
def test_only_the_last_firing_is_marked_last(given_: tuple[DueSchedule, datetime]) -> None:
    due, now = given_
    made = plan(due, now)
    assert not any(fire.is_last for fire in made.fires[:-1])
    if made.fires:
        is_over = made.then_slot is None and not is_fixed_delay(due.rule)
        used_up = (
            due.rule.max_firings is not None and due.fired + len(made.fires) >= due.rule.max_firings
        )
        assert made.fires[-1].is_last == (is_over or used_up)


def test_a_plan_carries_the_version_and_slot_it_was_made_from() -> None:
    due = due_of(every(60), MONDAY + MINUTE, fired=5)
    made = plan(due, MONDAY + MINUTE)
    assert (made.tenant, made.id, made.shard) == ("default", ID, shard_of(100))
    assert (made.version, made.next_slot) == (3, MONDAY + MINUTE)


def test_slots_are_planned_half_a_minute_ahead() -> None:
    due = due_of(every(10), MONDAY + MINUTE)
    made = plan(due, MONDAY + MINUTE / 2)
    assert [fire.slot for fire in made.fires] == [MONDAY + MINUTE]
    made = plan(due, MONDAY + MINUTE)
    assert [fire.slot for fire in made.fires] == [
        MONDAY + MINUTE + number * MINUTE / 6 for number in range(4)
    ]
    # Looked at twice per horizon, and not for each of its slots.
    assert made.look_at == MONDAY + MINUTE + AHEAD / 2


def test_a_slot_decided_when_due_is_looked_at_when_it_is_due() -> None:
    rule = every(3_600, jitter_seconds=60)
    for policy in (OverlapPolicy.SKIP, OverlapPolicy.BUFFER_ONE):
        assert look_at(rule, policy, MONDAY) == when.due_at(rule, MONDAY)
    for policy in (OverlapPolicy.ALLOW, OverlapPolicy.BUFFER_ALL):
        assert look_at(rule, policy, MONDAY) == MONDAY - AHEAD


def test_a_crowded_slot_does_not_count_as_fired() -> None:
    rule = every(60, max_firings=1)
    due = due_of(rule, MONDAY + MINUTE, overlap=OverlapPolicy.SKIP, unfinished=1)
    made = plan(due, MONDAY + MINUTE)
    assert made.fires == ()
    assert [skip.reason for skip in made.skips] == [SKIPPED_OVERLAP]
    assert (made.status, made.then_slot) == (ScheduleStatus.ACTIVE, MONDAY + 2 * MINUTE)


@pytest.mark.parametrize("overlap", [*OverlapPolicy])
@pytest.mark.parametrize("policy", [*when.MissedPolicy])
def test_a_window_wider_than_the_interval_loses_and_doubles_nothing(
    overlap: OverlapPolicy, policy: when.MissedPolicy
) -> None:
    """A slot may be late while an earlier one is not due yet."""
    fields = {"fire_window_seconds": 600, "missed": {"policy": policy, "grace_seconds": 0}}
    rule = structs.replace(every(60, **fields), seed="one")
    due: DueSchedule = due_of(rule, MONDAY + MINUTE, overlap=overlap)
    now, accounted = due.next_slot, list[datetime]()
    for _ in range(60):
        made = plan(due, now)
        accounted += [fire.slot for fire in made.fires] + [*covered(due, made.skips)]
        following = after(due, made)
        assert following is not None
        assert made.look_at is not None
        due, now = following, max(now, made.look_at) + MINUTE
    assert sorted(accounted) == when.slots_between(rule, MONDAY, just_before(due.next_slot))


DAY = timedelta(days=1)
TUESDAY_OFF = {"cron_expr": "0 9 * * *", "exclude": ["2026-01-06", "2026-01-07"]}


def test_an_excluded_slot_is_recorded_when_its_time_has_come_and_not_before() -> None:
    rule = when.parse(TUESDAY_OFF)
    made = plan(due_of(rule, MONDAY), MONDAY)
    assert (len(made.fires), made.skips) == (1, ())
    assert (made.then_slot, made.then_due_at) == (MONDAY + DAY, MONDAY + 3 * DAY)
    assert made.look_at == MONDAY + DAY
    early = plan(due_of(rule, MONDAY + DAY), MONDAY + DAY - AHEAD)
    assert (early.skips, early.then_slot) == ((), MONDAY + DAY)
    made = plan(due_of(rule, MONDAY + DAY), MONDAY + DAY)
    assert made.skips == (Skip(MONDAY + DAY, MONDAY + DAY, 1, EXCLUDED),)
    assert (made.then_slot, made.look_at) == (MONDAY + 2 * DAY, MONDAY + 2 * DAY)


def test_an_excluded_slot_before_the_first_open_one_is_recorded() -> None:
    rule = when.parse(TUESDAY_OFF)
    first = first_slot_or_excluded(rule, MONDAY)
    assert first == MONDAY + DAY
    assert slot_times(rule, OverlapPolicy.ALLOW, first) == (MONDAY + 3 * DAY, first)
    made = plan(due_of(rule, first), MONDAY + 3 * DAY - AHEAD)
    assert made.skips == (Skip(first, first + DAY, 2, EXCLUDED),)
    assert [fire.slot for fire in made.fires] == [MONDAY + 3 * DAY]


def test_a_next_slot_whose_day_was_excluded_later_is_recorded() -> None:
    """The next slot was computed before the calendar changed."""
    rule = when.parse({"cron_expr": "0 9 * * *", "exclude": ["2026-01-05"]})
    made = plan(due_of(rule, MONDAY), MONDAY)
    assert made.skips == (Skip(MONDAY, MONDAY, 1, EXCLUDED),)
    assert (made.fires, made.then_slot) == ((), MONDAY + DAY)


def test_no_excluded_run_spans_a_firing_slot() -> None:
    fields = {**TUESDAY_OFF, "exclude": ["2026-01-06", "2026-01-08", "2026-01-09"]}
    due = due_of(when.parse(fields), MONDAY)
    made = plan(due, MONDAY + 5 * DAY)
    assert [fire.slot for fire in made.fires] == [MONDAY + number * DAY for number in (0, 2, 5)]
    off = [(skip.first, skip.last, skip.count) for skip in made.skips]
    assert off == [
        (MONDAY + DAY, MONDAY + DAY, 1),
        (MONDAY + 3 * DAY, MONDAY + 4 * DAY, 2),
    ]


def test_many_excluded_slots_are_counted_quickly() -> None:
    days = [(MONDAY.date() + number * DAY).isoformat() for number in range(1, 300)]
    rule = every(1, exclude=days, missed={"policy": "skip"})
    made = plan(due_of(rule, MONDAY + timedelta(seconds=1)), MONDAY + 299 * DAY)
    (off,) = (skip for skip in made.skips if skip.reason == EXCLUDED)
    assert off.count > 298 * 86_400
    assert off.count == when.count_between(
        when.ignoring_days_off(rule), just_before(off.first), off.last
    )


def test_an_excluded_slot_right_before_a_planned_one_is_recorded_with_it() -> None:
    """The planned slot comes after it, so no later plan would record it."""
    rule = every(10, exclude=["2026-01-06"])
    midnight = datetime(2026, 1, 7, tzinfo=UTC)
    made = plan(due_of(rule, midnight - MINUTE / 6), midnight - MINUTE / 3)
    assert [skip.first for skip in made.skips] == [midnight - MINUTE / 6]
    assert made.fires[0].slot == midnight


def test_a_single_time_on_an_excluded_day_is_recorded() -> None:
    rule = when.parse({"once_at": MONDAY.isoformat()})
    rule = structs.replace(rule, calendar="feasts", holidays=frozenset({MONDAY.date()}))
    assert first_slot_or_excluded(rule, MONDAY - DAY) == MONDAY
    assert slot_times(rule, OverlapPolicy.ALLOW, MONDAY).look_at == MONDAY
    made = plan(due_of(rule, MONDAY), MONDAY)
    assert made.skips == (Skip(MONDAY, MONDAY, 1, EXCLUDED),)
    assert (made.fires, made.status) == ((), ScheduleStatus.COMPLETED)


def test_a_fixed_delay_that_starts_on_an_excluded_day_is_recorded() -> None:
    rule = every(3_600, interval_mode="fixed_delay", exclude=["2026-01-05"])
    first = first_slot_or_excluded(rule, MONDAY)
    assert first == MONDAY + timedelta(hours=1)
    assert slot_times(rule, OverlapPolicy.ALLOW, first).look_at == first
    made = plan(due_of(rule, first), first)
    assert made.skips == (Skip(first, first, 1, EXCLUDED),)


def test_after_max_firings_no_excluded_slot_is_recorded() -> None:
    rule = when.parse({**TUESDAY_OFF, "max_firings": 1})
    made = plan(due_of(rule, MONDAY), MONDAY)
    assert (len(made.fires), made.skips, made.then_slot) == (1, (), None)


def test_days_of_a_calendar_are_skipped_and_recorded() -> None:
    fields = {"cron_expr": "0 9 24-27 12 *", "calendar": "feasts"}
    rule = when.parse(fields, calendars=CALENDARS)
    at = datetime(2026, 12, 24, 9, tzinfo=UTC)
    made = plan(due_of(rule, at), at + 3 * DAY)
    (skip,) = (skip for skip in made.skips if skip.reason == EXCLUDED)
    assert (skip.first.day, skip.last.day, skip.count) == (25, 26, 2)


def test_the_first_slot_past_the_end_is_recorded_when_its_time_has_come() -> None:
    rule, past = every(60, end_at=(MONDAY + 2 * MINUTE).isoformat()), MONDAY + 3 * MINUTE
    for now, skips in ((MONDAY + 2 * MINUTE, ()), (past, (Skip(past, past, 1, PAST_END),))):
        made = plan(due_of(rule, MONDAY + 2 * MINUTE), now)
        assert [fire.is_last for fire in made.fires] == [True]
        assert made.skips == skips


@pytest.mark.parametrize("fired", [0, 1, 2])
def test_a_fixed_delay_ends_with_its_last_firing(fired: int) -> None:
    rule = every(60, interval_mode="fixed_delay", max_firings=2)
    made = plan(due_of(rule, MONDAY + MINUTE, fired=fired), MONDAY + MINUTE)
    assert [fire.is_last for fire in made.fires] == {0: [False], 1: [True], 2: []}[fired]
    over = ScheduleStatus.COMPLETED if fired == 2 else ScheduleStatus.ACTIVE
    assert (made.status, made.then_slot) == (over, None)


def test_a_fixed_delay_does_not_go_past_its_end() -> None:
    rule = every(60, interval_mode="fixed_delay", end_at=(MONDAY + 2 * MINUTE).isoformat())
    late = MONDAY + 2 * MINUTE + timedelta(seconds=1)
    made = plan(due_of(rule, late), late)
    assert (made.fires, made.status) == ((), ScheduleStatus.COMPLETED)
    assert made.skips == (Skip(late, late, 1, PAST_END),)
    ahead = plan(due_of(rule, late), late - timedelta(seconds=10))
    assert (ahead.skips, ahead.status) == ((), ScheduleStatus.COMPLETED)


def test_a_fixed_delay_skips_an_excluded_day() -> None:
    rule = every(3_600, interval_mode="fixed_delay", exclude=["2026-01-05"])
    made = plan(due_of(rule, MONDAY), MONDAY)
    assert made.fires == ()
    assert made.skips == (Skip(MONDAY, MONDAY, 1, EXCLUDED),)
    assert made.then_slot is not None
    assert made.then_slot.date().isoformat() == "2026-01-06"


def test_a_skipped_fixed_delay_counts_from_now() -> None:
    rule = every(60, interval_mode="fixed_delay", missed={"policy": "skip"})
    now = MONDAY + 90 * MINUTE
    made = plan(due_of(rule, MONDAY + MINUTE), now)
    assert (made.fires, [skip.count for skip in made.skips]) == ((), [1])
    assert made.then_slot == now + MINUTE


def test_slots_expired_at_planning_are_recorded_and_do_not_fire() -> None:
    due = due_of(every(60), MONDAY + MINUTE, expires_after_seconds=150.0)
    made = plan(due, MONDAY + 20 * MINUTE)
    minutes = [(fire.slot - MONDAY) // MINUTE for fire in made.fires]
    assert minutes == [18, 19, 20]
    assert [((skip.first - MONDAY) // MINUTE, skip.count, skip.reason) for skip in made.skips] == [
        (1, 8, SKIPPED_MISSED),
        (9, 9, EXPIRED),
    ]


def test_expired_slots_do_not_count_towards_max_firings() -> None:
    due = due_of(every(60, max_firings=3), MONDAY + MINUTE, expires_after_seconds=90.0)
    made = plan(due, MONDAY + 10 * MINUTE)
    assert [(fire.slot - MONDAY) // MINUTE for fire in made.fires] == [9, 10]
    assert made.then_slot == MONDAY + 11 * MINUTE


def test_an_expired_single_slot_parks_and_an_expired_fixed_delay_continues() -> None:
    once = when.parse({"once_at": MONDAY.isoformat()}, created_at=MONDAY - DAY)
    made = plan(due_of(once, MONDAY, expires_after_seconds=60.0), MONDAY + MINUTE)
    assert made.skips == (Skip(MONDAY, MONDAY, 1, EXPIRED),)
    assert (made.fires, made.status, made.error) == ((), ScheduleStatus.PARKED, EXPIRED)
    delay, now = every(60, interval_mode="fixed_delay"), MONDAY + 9 * MINUTE
    made = plan(due_of(delay, MONDAY, expires_after_seconds=60.0), now)
    assert made.skips == (Skip(MONDAY, MONDAY, 1, EXPIRED),)
    assert (made.status, made.then_slot) == (ScheduleStatus.ACTIVE, now + MINUTE)


def test_a_parked_schedule_keeps_its_slot_and_error() -> None:
    made = park(due_of(every(60), MONDAY), "no such zone")
    assert (made.status, made.error) == (ScheduleStatus.PARKED, "no such zone")
    assert (made.then_slot, made.look_at, made.fires) == (MONDAY, None, ())
    assert [(skip.first, skip.reason) for skip in made.skips] == [(MONDAY, "plan_error")]


def test_a_year_of_missed_minutes_is_one_record_made_quickly() -> None:
    due = due_of(every(60), MONDAY + MINUTE)
    now = MONDAY + timedelta(days=365)
    made = plan(due, now)
    assert sum(skip.count for skip in made.skips) + len(made.fires) == 365 * 1_440
    assert (len(made.skips), sum(fire.catch_up for fire in made.fires)) == (1, 10)


def test_a_burst_ahead_is_bounded_and_continued_by_the_next_plan() -> None:
    due: DueSchedule | None = due_of(every(1), MONDAY + timedelta(seconds=1))
    now, seen = MONDAY, list[Fire]()
    made = plan(due, now, ahead_seconds=2_500)  # type: ignore[arg-type]
    while due is not None and made.fires:
        seen += made.fires
        due = after(due, made)
        assert due is not None
        made = plan(due, now, ahead_seconds=2_500)
    assert len(seen) == len({fire.slot for fire in seen}) == 2_500
