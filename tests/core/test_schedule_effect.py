"""Firing results change a schedule the same way, applied together or one by one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.schedule.firing import FiringResult, FiringStatus, FollowUp
from tickwork.core.schedule.slot_outcome import AFTER_SUCCESS, NO_EFFECT, LastOutcome, effect_of

ENDS = (
    FiringStatus.SUCCEEDED,
    FiringStatus.PARTIAL,
    FiringStatus.FAILED,
    FiringStatus.DEAD,
    FiringStatus.EXPIRED,
    FiringStatus.SKIPPED,
)
NEW = LastOutcome(0, None, None)

records = st.builds(
    FiringResult, status=st.sampled_from(ENDS), error=st.sampled_from([None, "first", "second"])
)
shown = st.builds(
    LastOutcome,
    st.integers(0, 3),
    st.sampled_from([None, "before"]),
    st.sampled_from([None, *(str(end) for end in ENDS if end is not FiringStatus.SKIPPED)]),
)


def record(status: FiringStatus) -> FiringResult:
    return FiringResult(status=status, error="no")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (FiringStatus.SUCCEEDED, LastOutcome(0, None, "succeeded")),
        (FiringStatus.PARTIAL, LastOutcome(2, "no", "partial")),
        (FiringStatus.FAILED, LastOutcome(3, "no", "failed")),
        (FiringStatus.DEAD, LastOutcome(2, "no", "dead")),
        (FiringStatus.EXPIRED, LastOutcome(2, "no", "expired")),
        (FiringStatus.SKIPPED, LastOutcome(2, "before", "failed")),
    ],
)
def test_a_result_changes_the_stored_values_as_in_the_table(
    status: FiringStatus, expected: LastOutcome
) -> None:
    assert effect_of([record(status)]).applied_to(LastOutcome(2, "before", "failed")) == expected


@pytest.mark.parametrize("over", [FiringStatus.DEAD, FiringStatus.EXPIRED])
def test_the_error_count_restarts_after_a_final_failure(over: FiringStatus) -> None:
    before = LastOutcome(2, "before", str(over))
    assert effect_of([record(FiringStatus.FAILED)]).applied_to(before) == LastOutcome(
        1, "no", "failed"
    )
    assert effect_of([record(FiringStatus.DEAD)]).applied_to(before) == LastOutcome(0, "no", "dead")
    assert effect_of([record(FiringStatus.SKIPPED)]).applied_to(before) == before


@given(st.lists(records, max_size=6), shown)
def test_results_applied_together_or_one_by_one_give_the_same(
    ends: list[FiringResult], before: LastOutcome
) -> None:
    one_by_one = before
    for end in ends:
        one_by_one = effect_of([end]).applied_to(one_by_one)
    together = effect_of(ends)
    assert together.applied_to(before) == one_by_one
    assert together.changes(before) is (one_by_one != before)


def test_one_more_success_changes_nothing() -> None:
    assert not effect_of([record(FiringStatus.SUCCEEDED)] * 3).changes(AFTER_SUCCESS)
    assert not NO_EFFECT.changes(NEW)


@pytest.mark.parametrize(
    ("then", "delay"), [*product([FollowUp.NONE, FollowUp.PAUSE], [None, 5.0])]
)
def test_the_last_result_decides_the_follow_up(then: FollowUp, delay: float | None) -> None:
    said = FiringResult(status=FiringStatus.SKIPPED, follow_up=then, next_after_seconds=delay)
    effect = effect_of([said, FiringResult(status=FiringStatus.SKIPPED)])
    assert (effect.follow_up, effect.delay_seconds) == (then, delay)
    assert effect.changes(NEW) is (then is FollowUp.PAUSE or delay is not None)
    over = FiringResult(status=FiringStatus.SKIPPED, follow_up=FollowUp.COMPLETE)
    assert effect_of([said, over]).follow_up is FollowUp.COMPLETE


def test_a_later_result_without_follow_up_overrides_an_earlier_completion() -> None:
    over = FiringResult(status=FiringStatus.SUCCEEDED, follow_up=FollowUp.COMPLETE)
    goes_on = FiringResult(status=FiringStatus.SUCCEEDED, next_after_seconds=5.0)
    paused = FiringResult(
        status=FiringStatus.DEAD, follow_up=FollowUp.PAUSE, next_after_seconds=5.0
    )
    follow = [
        (effect.follow_up, effect.delay_seconds)
        for effect in map(effect_of, [[over, goes_on], [goes_on, over], [paused, goes_on]])
    ]
    assert follow == [(FollowUp.NONE, 5.0), (FollowUp.COMPLETE, None), (FollowUp.PAUSE, 5.0)]


@pytest.mark.parametrize("is_replay_last", [False, True])
def test_a_replay_beside_other_slots_changes_nothing_of_their_follow_up(
    *, is_replay_last: bool
) -> None:
    replay = FiringResult(status=FiringStatus.SUCCEEDED, follow_up=FollowUp.COMPLETE_PARKED)
    dead = FiringResult(status=FiringStatus.DEAD, follow_up=FollowUp.PAUSE, next_after_seconds=5.0)
    effect = effect_of([dead, replay] if is_replay_last else [replay, dead])
    assert (effect.follow_up, effect.delay_seconds) == (FollowUp.PAUSE, 5.0)
