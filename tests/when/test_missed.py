"""Missed slots: every slot of an outage fires or is in exactly one skipped run."""

from datetime import UTC, datetime, timedelta
from itertools import groupby

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.kit.soak import examples
from tests.when.strategies import Case, cases
from tests.when.work import at_most
from tickwork.core import when
from tickwork.core.when import Missed, MissedPolicy, SkippedRun, SlotToFire

NOW = datetime(2027, 6, 1, 12, tzinfo=UTC)
POLICIES = st.builds(
    Missed,
    policy=st.sampled_from(MissedPolicy),
    cap=st.sampled_from([1, 2, 3, 10, 1_000]),
    grace_seconds=st.sampled_from([0, 60, 3_600, 40_000, 900_000]),
)


def listed_plan(
    rule: when.Rule, last_slot: datetime, now: datetime, missed: Missed, fired: int
) -> when.MissedPlan:
    """A simple reference plan: lists every slot, decides each, and cuts at `max_firings`."""
    endless = structs.replace(rule, max_firings=None)
    slots = when.slots_between(endless, last_slot, now)
    if isinstance(rule.timing, when.Interval) and rule.timing.mode == "fixed_delay":
        slots = slots[:1]
    deadline = now - timedelta(seconds=missed.grace_seconds)
    late = [slot for slot in slots if when.due_at(endless, slot) < deadline]
    on_time = len(late) < len(slots)
    caught = {
        MissedPolicy.FIRE_LATE: late[-missed.cap :],
        MissedPolicy.FIRE_MOST_RECENT: [] if on_time else late[-1:],
        MissedPolicy.SKIP: [],
    }[missed.policy]
    fires: list[SlotToFire] = []
    runs: list[SkippedRun] = []
    left_out = set(late).difference(caught)
    for skipped, group in groupby(slots, key=left_out.__contains__):
        members = list(group)
        if rule.max_firings is not None and len(fires) >= rule.max_firings - fired:
            break
        if skipped:
            runs.append(SkippedRun(members[0], members[-1], len(members)))
        else:
            fires += [SlotToFire(slot, catch_up=slot in caught) for slot in members]
    if rule.max_firings is not None:
        fires = fires[: max(rule.max_firings - fired, 0)]
    return when.MissedPlan(tuple(fires), tuple(runs), now)


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(cases(), POLICIES, st.integers(0, 3))
def test_a_plan_is_what_listing_every_slot_gives(case: Case, missed: Missed, fired: int) -> None:
    plan = when.plan_missed(case.rule, case.start, case.end, missed, fired=fired)
    assert plan == listed_plan(case.rule, case.start, case.end, missed, fired)


@settings(max_examples=examples(60), deadline=None)
@given(POLICIES, st.sampled_from([0, 45, 400]), st.sampled_from([0, 500]), st.integers(0, 900))
def test_slots_with_jitter_or_window_are_checked_one_by_one(
    missed: Missed, jitter: int, window: int, minutes: int
) -> None:
    rule = minutely(jitter_seconds=jitter, fire_window_seconds=window)
    start = NOW - timedelta(minutes=minutes)
    plan = when.plan_missed(rule, start, NOW, missed)
    assert plan == listed_plan(rule, start, NOW, missed, 0)
    fired, skipped = len(plan.fire), sum(run.count for run in plan.skipped)
    assert fired + skipped == minutes


@pytest.mark.parametrize("policy", MissedPolicy)
def test_max_firings_ends_a_plan_at_any_of_its_firings(policy: MissedPolicy) -> None:
    # It ended a while ago: of its last slots some are still on time and some are not.
    spread = {"fire_window_seconds": 1_800, "end_at": (NOW - timedelta(minutes=15)).isoformat()}
    start, missed = NOW - timedelta(hours=2), Missed(policy, 5, 60)
    endless = when.plan_missed(minutely(**spread), start, NOW, missed)
    for budget in range(1, len(endless.fire) + 2):
        rule = minutely(**spread, max_firings=budget + 3)
        plan = when.plan_missed(rule, start, NOW, missed, fired=3)
        assert plan == listed_plan(rule, start, NOW, missed, 3)
        assert plan.fire == endless.fire[:budget]


def minutely(**fields: object) -> when.Rule:
    return when.parse({"cron_expr": "* * * * *", **fields}, seed="minutely")


def late_plan(policy: MissedPolicy, *, cap: int = 10, grace: int = 60) -> when.MissedPlan:
    """Fifty slots at a minute's distance; the last one or two are on time."""
    missed = Missed(policy, cap, grace)
    return when.plan_missed(minutely(), NOW - timedelta(minutes=50), NOW, missed)


def test_fire_late_fires_the_last_cap_and_marks_them() -> None:
    plan = late_plan(MissedPolicy.FIRE_LATE, cap=3)
    assert [(50 - (NOW - fire.slot).seconds // 60, fire.catch_up) for fire in plan.fire] == [
        (46, True), (47, True), (48, True), (49, False), (50, False),
    ]  # fmt: skip
    (run,) = plan.skipped
    assert (run.first, run.last) == (NOW - timedelta(minutes=49), NOW - timedelta(minutes=5))
    assert run.count == 45


def test_fire_late_fires_them_all_where_the_cap_allows_it() -> None:
    plan = late_plan(MissedPolicy.FIRE_LATE, cap=48)
    assert len(plan.fire) == 50
    assert plan.skipped == ()


def test_fire_most_recent_fires_one_only_if_none_is_on_time() -> None:
    on_time = late_plan(MissedPolicy.FIRE_MOST_RECENT)
    assert [fire.catch_up for fire in on_time.fire] == [False, False]
    rule = when.parse({"cron_expr": "0 * * * *"})
    plan = when.plan_missed(
        rule,
        NOW - timedelta(hours=30),
        NOW + timedelta(minutes=5),
        Missed(MissedPolicy.FIRE_MOST_RECENT),
    )
    assert plan.fire == (SlotToFire(NOW, catch_up=True),)
    assert [run.count for run in plan.skipped] == [29]


def test_skip_fires_only_what_is_on_time() -> None:
    plan = late_plan(MissedPolicy.SKIP)
    assert [fire.catch_up for fire in plan.fire] == [False, False]
    assert [run.count for run in plan.skipped] == [48]


@pytest.mark.parametrize("policy", MissedPolicy)
def test_a_slot_late_by_exactly_its_grace_is_on_time(policy: MissedPolicy) -> None:
    plan = late_plan(policy, grace=120)
    assert SlotToFire(NOW - timedelta(seconds=120), catch_up=False) in plan.fire


@pytest.mark.parametrize("policy", MissedPolicy)
def test_nothing_missed_means_nothing_planned(policy: MissedPolicy) -> None:
    assert when.plan_missed(minutely(), NOW, NOW, Missed(policy)) == when.MissedPlan((), (), NOW)


def test_the_policy_of_the_rule_is_the_default() -> None:
    rule = minutely(missed={"policy": "skip", "grace_seconds": 0})
    plan = when.plan_missed(rule, NOW - timedelta(minutes=5), NOW)
    assert [fire.slot for fire in plan.fire] == [NOW]


def test_a_skipped_run_is_never_interrupted_by_a_slot_that_fires() -> None:
    rule = minutely(fire_window_seconds=1_800)
    plan = when.plan_missed(rule, NOW - timedelta(hours=2), NOW, Missed(MissedPolicy.SKIP))
    assert len(plan.skipped) > 1
    for run in plan.skipped:
        assert not any(run.first <= fire.slot <= run.last for fire in plan.fire)


def test_the_firing_that_uses_up_max_firings_ends_the_plan() -> None:
    rule = minutely(max_firings=5)
    plan = when.plan_missed(rule, NOW - timedelta(minutes=50), NOW, fired=2)
    assert [fire.slot for fire in plan.fire] == [
        NOW - timedelta(minutes=minutes) for minutes in (11, 10, 9)
    ]
    assert [run.last for run in plan.skipped] == [NOW - timedelta(minutes=12)]


def test_a_schedule_that_has_fired_its_last_skips_nothing() -> None:
    rule = minutely(max_firings=5)
    plan = when.plan_missed(rule, NOW - timedelta(minutes=50), NOW, fired=5)
    assert plan == when.MissedPlan((), (), NOW)


def test_slots_between_seconds_are_counted_exactly() -> None:
    created_at = NOW - timedelta(days=1, microseconds=500_000)
    rule = when.parse(
        {"interval_seconds": 1}, created_at=created_at, limits=when.Limits(min_interval_seconds=1)
    )
    for micros in (0, 400_000, 600_000, 999_999):
        now = NOW + timedelta(microseconds=micros)
        start = now - timedelta(seconds=90)
        for cap in (1, 2, 3):
            missed = Missed(MissedPolicy.FIRE_LATE, cap, 0)
            plan = when.plan_missed(rule, start, now, missed)
            assert plan == listed_plan(rule, start, now, missed, 0)
            assert sum(fire.catch_up for fire in plan.fire) == cap


def test_a_fixed_delay_plans_one_slot_whatever_the_outage() -> None:
    rule = when.parse(
        {"interval_minutes": 5, "interval_mode": "fixed_delay"}, created_at=NOW - timedelta(days=9)
    )
    plan = when.plan_missed(rule, NOW - timedelta(days=2), NOW)
    assert [(fire.slot, fire.catch_up) for fire in plan.fire] == [
        (NOW - timedelta(days=2) + timedelta(minutes=5), True)
    ]
    assert plan.skipped == ()


def test_a_plan_stops_early_if_the_grace_period_has_too_many_slots() -> None:
    rule = minutely(missed={"grace_seconds": 366 * 86_400})
    start = NOW - timedelta(days=10)
    planned: list[SlotToFire] = []
    until = start
    while until < NOW:
        plan = when.plan_missed(rule, until, NOW)
        assert plan.skipped == ()
        planned += plan.fire
        until = plan.until
    assert [planned_slot.slot for planned_slot in planned] == when.slots_between(rule, start, NOW)


YEAR_LONG = [
    ({"cron_expr": "* * * * *"}, 365 * 1_440),
    ({"cron_expr": "*/5 2 * * *", "dst": {"gap": "shift", "overlap": "both"}}, 365 * 12 + 12),
    ({"interval_seconds": 60}, 365 * 1_440),
    ({"interval_seconds": 60, "exclude": ["2026-12-25", "2027-01-01"]}, 363 * 1_440),
    ({"cron_expr": "* * * * *", "exclude": ["2026-12-25"], "roll": "next_day"}, 364 * 1_440),
    ({"rrule": "FREQ=MINUTELY", "start_at": "2016-01-01T00:00:00Z"}, 365 * 1_440),
    ({"rrule": "FREQ=MINUTELY;INTERVAL=7", "start_at": "2016-01-01T00:00:00Z"}, 75_086),
]


@pytest.mark.parametrize(("fields", "slots"), YEAR_LONG, ids=str)
def test_a_year_of_a_frequent_rule_is_counted_and_not_iterated(
    fields: dict[str, object], slots: int
) -> None:
    rule = when.parse({**fields, "timezone": "Europe/Berlin"}, created_at=NOW - timedelta(days=999))
    start = NOW - timedelta(days=365)
    when.next_after(rule, start)
    with at_most(30_000):
        plan = when.plan_missed(rule, start, NOW)
    assert len(plan.fire) + sum(run.count for run in plan.skipped) == slots
    assert len(plan.fire) < 15
