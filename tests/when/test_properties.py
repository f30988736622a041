"""Laws that hold for every schedule: any timing, zone, policy, bound and window."""

import json
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.soak import examples
from tests.when.strategies import CALENDARS, INTERVALS, LIMITS, Case, cases
from tickwork.core import when
from tickwork.core.when.preview import ClockChange

lawful = settings(
    max_examples=examples(75),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@lawful
@given(cases())
def test_the_next_slot_is_strictly_after(case: Case) -> None:
    for slot in [case.start, *case.slots()]:
        following = when.next_after(case.rule, slot)
        assert following is None or following > slot


@lawful
@given(cases())
def test_slots_between_is_the_iterated_next(case: Case) -> None:
    stepped = []
    slot, fired = when.next_after(case.rule, case.start), 0
    while slot is not None and slot <= case.end:
        stepped.append(slot)
        fired += 1
        slot = when.next_after(case.rule, slot, fired=fired)
    assert case.slots() == stepped


@lawful
@given(cases())
def test_next_does_not_depend_on_where_it_is_asked_from(case: Case) -> None:
    slots = case.slots()
    for before, slot in zip([case.start, *slots], slots, strict=False):
        between = before + (slot - before) / 2
        if "fixed_delay" not in str(case.fields):
            assert when.next_after(case.rule, between) == slot
        assert when.next_after(case.rule, before) == slot


@lawful
@given(cases())
def test_count_between_is_the_number_of_slots(case: Case) -> None:
    slots = case.slots()
    for after in [case.start, *slots[:3]]:
        for fired in (0, 1):
            listed = when.slots_between(case.rule, after, case.end, fired=fired)
            assert when.count_between(case.rule, after, case.end, fired=fired) == len(listed)


@lawful
@given(cases())
def test_slots_are_utc_sorted_unique_and_within_start_and_end(case: Case) -> None:
    slots, rule = case.slots(), case.rule
    assert slots == sorted(set(slots))
    assert all(slot.tzinfo is UTC for slot in slots)
    assert all(case.start < slot <= case.end for slot in slots)
    assert all(rule.start_at is None or slot >= rule.start_at for slot in slots)
    assert all(rule.end_at is None or slot <= rule.end_at for slot in slots)
    assert rule.max_firings is None or len(slots) <= rule.max_firings


@lawful
@given(cases())
def test_no_slot_lies_on_an_excluded_local_date(case: Case) -> None:
    """Except a slot that a gap at the end of an open day moved past midnight."""
    zone = ZoneInfo(case.rule.timezone)
    for slot in case.slots():
        if slot.astimezone(zone).date() in case.rule.excluded_days:
            (fire,) = when.preview(case.rule, slot - timedelta(microseconds=1), 1).fires
            assert (fire.fire_at, fire.dst) == (slot, ClockChange.GAP)


@lawful
@given(cases())
def test_a_rendered_rule_parses_back_to_itself(case: Case) -> None:
    rendered = json.loads(json.dumps(when.render(case.rule)))
    again = when.parse(
        rendered, created_at=case.created_at, seed=case.seed, calendars=CALENDARS, limits=LIMITS
    )
    assert again == case.rule
    assert when.render(again) == rendered


@lawful
@given(cases())
def test_a_slot_is_due_within_its_spread_and_always_at_the_same_time(case: Case) -> None:
    rule = case.rule
    spread = timedelta(seconds=rule.jitter_seconds + rule.fire_window_seconds)
    elsewhere = timezone(timedelta(hours=5, minutes=45))
    for slot in case.slots()[:20]:
        due = when.due_at(rule, slot)
        assert slot <= due <= slot + spread
        assert when.due_at(rule, slot.astimezone(elsewhere)) == due


@lawful
@given(cases(), st.sampled_from([30, 900, 5_000, 86_400]))
def test_jitter_never_reaches_the_next_slot(case: Case, jitter_seconds: int) -> None:
    rule = replace(case.rule, jitter_seconds=jitter_seconds, fire_window_seconds=0)
    for slot in case.slots()[:20]:
        following = when.next_after(rule, slot)
        assert following is None or when.due_at(rule, slot) < following


@lawful
@given(cases(kinds=INTERVALS))
def test_a_fixed_rate_never_drifts(case: Case) -> None:
    timing = case.rule.timing
    assert isinstance(timing, when.Interval)
    step = timedelta(seconds=timing.seconds)
    if timing.mode is when.IntervalMode.FIXED_RATE:
        assert case.rule.anchor == (case.rule.start_at or case.created_at)
        assert all((slot - case.rule.anchor) % step == timedelta() for slot in case.slots())


@lawful
@given(cases())
def test_a_preview_shows_the_slots_in_words(case: Case) -> None:
    shown = when.preview(case.rule, case.start, 20)
    slots = when.slots_between(case.rule, case.start, case.end)[:20]
    assert [fire.fire_at for fire in shown.fires][: len(slots)] == slots
    assert all(fire.local.astimezone(UTC) == fire.fire_at for fire in shown.fires)
    assert all((fire.dst is None) == (fire.note is None) for fire in shown.fires)
    assert shown.description
