"""Headroom: when a lane falls behind, what bounds it, and what nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from tickwork.core.queue.capacity import (
    Capacity,
    LaneFacts,
    LaneKind,
    Measured,
    Verdict,
    judge,
    measured,
    plan_day,
    stretches,
)
from tickwork.core.queue.performance import (
    Performance,
    PeriodPerformance,
    bucket_of,
    mean_seconds,
)
from tickwork.core.queue.wait_estimate import Cap

EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FULL = Measured(
    ended=50_000, run_seconds=0.1, busiest_per_minute=9_000, full_minutes=12, full_per_minute=4_100
)


def slots(numbers: dict[int, int], hours: int = 24) -> list[int]:
    """Slots by the minute after eight."""
    return [numbers.get(minute, 0) for minute in range(hours * 60)]


def lane(coming: Sequence[int] = (), **facts: object) -> LaneFacts:
    known = LaneFacts(kind=LaneKind.QUEUE, name="mail", coming=coming, measured=FULL, permits=10)
    return structs.replace(known, **facts)


def judged(*facts: LaneFacts) -> Capacity:
    return judge(
        facts,
        now=EIGHT,
        start=EIGHT,
        hours=24,
        nodes=1,
        measured_since=EIGHT - timedelta(days=1),
        slots=sum(sum(known.coming) for known in facts if known.kind is LaneKind.QUEUE),
    )


def test_a_morning_of_61_000_slots_is_15_minutes_late() -> None:
    found = judged(lane(slots({60: 61_000})))
    (late,) = found.shortfalls
    assert late.words == (
        "at 09:00 UTC 61,000 slots for queue mail; your workers do 4,100 a minute "
        "(the most of 12 full minutes): 15 minutes late"
    )
    assert late.late_seconds == pytest.approx(61_000 / 4_100 * 60)
    assert late.caught_up_at == EIGHT + timedelta(minutes=75)
    assert (found.ok, found.lanes[0].verdict, late.is_certain) == (False, Verdict.LATE, True)


def test_what_fits_into_a_minute_is_not_late() -> None:
    found = judged(lane(slots({60: 4_100, 61: 4_100, 600: 100})))
    assert (found.ok, found.shortfalls, found.lanes[0].verdict) == (True, (), Verdict.ENOUGH)
    assert not judged(lane(slots({60: 4_101}))).ok


@pytest.mark.parametrize("per_minute", [1.0, 7.5, 100.0])
@pytest.mark.parametrize("waiting", [0, 40])
def test_the_latest_slot_is_as_late_as_a_line_served_one_by_one(
    per_minute: float, waiting: int
) -> None:
    coming = [(minute * 37 + 11) % 23 * (minute % 7 == 0) for minute in range(300)]
    found = [*stretches(coming, waiting, per_minute)]
    free_at, latest, done_in = 0.0, 0.0, 0.0
    for minute, number in enumerate([coming[0] + waiting, *coming[1:]]):
        for _ in range(number):
            free_at = max(free_at, minute) + 1 / per_minute
            latest = max(latest, free_at - minute)
            done_in = free_at
    if latest > 1.0 + 1e-6:
        assert max(stretch.late_minutes for stretch in found) == pytest.approx(latest)
        assert (found[-1].end is None) == (done_in > len(coming) + 0.5)
    else:
        assert found == []


def test_two_crowds_are_two_shortfalls_and_a_crowd_before_the_end_of_the_other_is_one() -> None:
    apart = judged(lane(slots({60: 8_200, 120: 8_200}))).shortfalls
    assert [found.at for found in apart] == [EIGHT + 60 * MINUTE, EIGHT + 120 * MINUTE]
    (together,) = judged(lane(slots({60: 8_200, 61: 8_200}))).shortfalls
    assert (together.slots, together.late_seconds) == (16_400, 180.0)
    assert together.caught_up_at == EIGHT + 64 * MINUTE


def test_what_waits_now_is_before_what_comes() -> None:
    (late,) = judged(lane(slots({0: 100}), waiting=41_000)).shortfalls
    assert (late.at, late.slots, late.waiting) == (EIGHT, 100, 41_000)
    assert "100 slots for queue mail behind 41,000 that wait" in late.words


def test_a_lane_that_never_catches_up_says_so() -> None:
    (late,) = judged(lane([5_000] * 1_440)).shortfalls
    assert late.caught_up_at is None
    assert late.words.endswith(", and more wait when the forecast ends")


def test_a_paused_queue_handles_nothing() -> None:
    (late,) = judged(lane(slots({60: 5}), is_paused=True)).shortfalls
    assert late.late_seconds is None
    assert late.words == "at 09:00 UTC 5 slots for queue mail: it is paused, so they wait"


RATE = Cap(code="rate_limit", words="queue mail starts 2 messages a second", rate_per_second=2.0)
CLAIMS = Cap(code="tenant_cap", words="tenant a runs 3 messages at a time", claimed_max=3)
RUNS = Measured(ended=500, run_seconds=0.5, busiest_per_minute=50)


@pytest.mark.parametrize(
    ("facts", "code", "per_minute"),
    [
        (lane(), "measured", 4_100.0),
        (lane(measured=RUNS), "permits", 10 * 60 / 0.5),
        (lane(measured=RUNS, messages_per_permit=100), "permits", 100 * 10 * 60 / 0.5),
        (lane(caps=(RATE,)), "rate_limit", 120.0),
        (lane(measured=RUNS, caps=(CLAIMS,)), "tenant_cap", 3 * 60 / 0.5),
        (lane(measured=RUNS, caps=(CLAIMS, RATE)), "rate_limit", 120.0),
        (lane(measured=Measured(), caps=(CLAIMS,)), None, None),
        (lane(measured=Measured(), caps=(RATE,)), "rate_limit", 120.0),
        (lane(caps=(RATE,), is_paused=True), "paused", 0.0),
    ],
)
def test_the_lowest_bound_decides(
    facts: LaneFacts, code: str | None, per_minute: float | None
) -> None:
    found = judged(facts).lanes[0]
    assert (found.limited_by, found.per_minute) == (code, per_minute)


def test_what_was_never_measured_is_not_promised() -> None:
    found = judged(lane(slots({60: 100}), measured=Measured()))
    assert (found.ok, found.lanes[0].verdict, found.shortfalls) == (True, Verdict.UNKNOWN, ())
    assert found.lanes[0].words == (
        "no measured rate for queue mail: nothing ran in the last 24 hours; configured permits 10"
    )
    alone = judged(lane(slots({60: 100}), measured=Measured(), permits=0)).lanes[0]
    assert alone.words.endswith("; no running worker handles it")


def test_more_than_was_ever_handled_in_a_minute_is_unproven() -> None:
    found = judged(lane(slots({60: 1_000}), measured=RUNS))
    (doubt,) = found.shortfalls
    assert (found.ok, found.lanes[0].verdict, doubt.is_certain) == (True, Verdict.UNPROVEN, False)
    assert doubt.words == (
        "at 09:00 UTC 1,000 slots for queue mail; your workers never did more than 50 a minute "
        "so far: if they cannot do more, 20 minutes late"
    )
    assert judged(lane(slots({60: 50}), measured=RUNS)).lanes[0].verdict is Verdict.ENOUGH


def test_a_named_limit_is_a_lane_of_its_own() -> None:
    cap = Cap(code="named_limit", words="limit api lets 1 a second through", rate_per_second=1.0)
    facts = LaneFacts(kind=LaneKind.LIMIT, name="api", coming=slots({60: 600}), caps=(cap,))
    (late,) = judged(facts).shortfalls
    assert late.words == (
        "at 09:00 UTC 600 slots for limit api; its limit allows 60 a minute "
        "(limit api lets 1 a second through): 10 minutes late"
    )


def minute(at: datetime, ended: int, wait_seconds: float, type_: str = "a") -> PeriodPerformance:
    waits, runs = {bucket_of(wait_seconds): ended}, {bucket_of(0.2): ended}
    return PeriodPerformance(
        at, "mail", type_, Performance(done=ended - 1, failed=1, waits=waits, runs=runs)
    )


def test_a_minute_is_full_if_half_of_its_messages_waited_for_a_minute() -> None:
    found = measured(
        [
            minute(EIGHT, 9_000, 0.01),
            minute(EIGHT + MINUTE, 100, 70),
            minute(EIGHT + MINUTE, 300, 90, "b"),
            minute(EIGHT + 2 * MINUTE, 500, 70),
            minute(EIGHT + 2 * MINUTE, 600, 30, "b"),
        ]
    )["mail"]
    assert (found.ended, found.busiest_per_minute) == (10_500, 9_000)
    assert (found.full_minutes, found.full_per_minute) == (1, 400)
    assert found.run_seconds == pytest.approx(0.2, rel=0.05)


def test_a_mean_is_off_by_less_than_a_twentieth() -> None:
    assert mean_seconds({}) is None
    durations = [0.0002 * 1.37**power for power in range(30)]
    found = mean_seconds({bucket_of(seconds): 1 for seconds in durations})
    assert found == pytest.approx(sum(durations) / len(durations), rel=0.05)


@pytest.mark.parametrize(
    ("users", "at_once", "limit", "cost", "per_day", "headroom"),
    [
        (10, 10, 100_000, 4, 25_000, 2_500),
        (10, 10, 100_000, 2, 50_000, 5_000),
        (1_000, 10, 100_000, 4, 25_000, 25),
        (50, 10, 100_000, 1, 100_000, 2_000),
        (10, 1, 100_000, 2, 28_800, 2_880),
        (10, 1, None, 1, 28_800, 2_880),
    ],
)
def test_the_capacity_of_a_day_is_users_by_seconds_by_limit(
    users: int, at_once: int, limit: float | None, cost: float, per_day: int, headroom: float
) -> None:
    plan = plan_day(
        users=users, seconds=3, at_once=at_once, limit_per_day=limit, cost_per_user=cost
    )
    assert (plan.users_per_day, plan.headroom) == (per_day, headroom)
    assert plan.limited_by == ("limit" if per_day != 86_400 * at_once // 3 else "time")
    assert plan.one_by_one_seconds == users * 3
    assert plan.seconds_needed == users * 3 / at_once
