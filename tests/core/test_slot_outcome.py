"""What the outcome of a slot means for its schedule: the table of the contract, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.core.messages import claimed_message
from tests.core.schedules import ID, at
from tickwork.core.message import decide
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.outcome import Failed, Outcome, Permanent, Snoozed, Succeeded
from tickwork.core.model import Ending, Fate, Message, QueueSettings
from tickwork.core.schedule.firing import FiringResult, FiringStatus, FollowUp
from tickwork.core.schedule.model import OnDead, Retry, Terms, terms_text
from tickwork.core.schedule.slot_outcome import LaterSlots, is_too_late
from tickwork.core.when import MissedPolicy

BROKEN = Failed(
    "Traceback (most recent call last):\n  File …\nValueError: no such user\nsee elsewhere"
)


def a_slot(terms: Terms | None = None, **changes: Any) -> Message:
    text = terms_text(terms or Terms())
    return structs.replace(
        claimed_message(),
        schedule_id=ID,
        slot=at("09:00"),
        due_at=at("09:00"),
        terms=text,
        **changes,
    )


def ended(message: Message, outcome: Outcome, **settings: Any) -> Ending:
    return decide.settle(message, outcome, QueueSettings(**settings), took_seconds=1.5)


@pytest.mark.parametrize(
    ("terms", "outcome", "status", "then"),
    [
        (Terms(), Succeeded(), FiringStatus.SUCCEEDED, FollowUp.NONE),
        (Terms(is_once=True), Succeeded(), FiringStatus.SUCCEEDED, FollowUp.COMPLETE),
        (Terms(is_last=True), Succeeded(), FiringStatus.SUCCEEDED, FollowUp.COMPLETE),
        (Terms(is_once=True), BROKEN, FiringStatus.FAILED, FollowUp.NONE),
        (Terms(), Permanent("no"), FiringStatus.DEAD, FollowUp.NONE),
        (Terms(on_dead=OnDead.PAUSE), Permanent("no"), FiringStatus.DEAD, FollowUp.PAUSE),
        (Terms(is_once=True), Permanent("no"), FiringStatus.DEAD, FollowUp.PARK),
        (Terms(is_last=True), Permanent("no"), FiringStatus.DEAD, FollowUp.COMPLETE),
    ],
)
def test_each_outcome_gives_the_status_and_follow_up_of_the_table(
    terms: Terms, outcome: Outcome, status: FiringStatus, then: FollowUp
) -> None:
    firing = ended(a_slot(terms), outcome).effect(FiringResult)
    assert firing is not None
    assert (firing.status, firing.follow_up, firing.took_seconds) == (status, then, 1.5)


def test_the_error_summary_is_one_line() -> None:
    firing = ended(a_slot(), BROKEN).effect(FiringResult)
    assert firing is not None
    assert firing.error == "ValueError: no such user"


def test_a_fixed_delay_counts_from_the_finish() -> None:
    message = a_slot(Terms(delay_seconds=90))
    done, dead = (
        ended(message, Succeeded()).effect(FiringResult),
        ended(message, Permanent("no")).effect(FiringResult),
    )
    assert done is not None
    assert dead is not None
    assert (done.next_after_seconds, dead.next_after_seconds) == (90.0, 90.0)
    failed = ended(message, BROKEN).effect(FiringResult)
    assert failed is not None
    assert failed.next_after_seconds is None


def test_an_extra_run_does_not_change_its_schedule() -> None:
    firing = ended(a_slot(Terms(is_once=True, delay_seconds=5), run=1), Permanent("no")).effect(
        FiringResult
    )
    assert firing is not None
    assert (firing.follow_up, firing.next_after_seconds) == (FollowUp.NONE, None)


def test_only_the_success_of_a_replay_completes_a_parked_schedule() -> None:
    key = a_slot().idempotency_key
    cases: list[tuple[str | None, int, Outcome, FollowUp]] = [
        (key, 1, Succeeded(), FollowUp.COMPLETE_PARKED),
        (key, 1, Permanent("no"), FollowUp.NONE),
        (key, 1, BROKEN, FollowUp.NONE),
        (None, 1, Succeeded(), FollowUp.NONE),
        ("own-key", 1, Succeeded(), FollowUp.NONE),
        ("own-key", 0, Succeeded(), FollowUp.NONE),
    ]
    for base, run, outcome, then in cases:
        firing = ended(a_slot(run=run, idempotency_base=base), outcome).effect(FiringResult)
        assert firing is not None
        assert firing.follow_up is then


def test_the_schedules_retries_override_the_queues() -> None:
    terms = Terms(retry=Retry(max_attempts=2, backoff=Fixed(7.0)))
    first = ended(a_slot(terms), BROKEN, max_retries=0)
    assert (first.fate, first.delay_seconds) == (Fate.RETRY, 7.0)
    second = ended(a_slot(terms, attempts=1), BROKEN, max_retries=100)
    assert second.fate is Fate.DEAD


def test_a_snooze_is_no_attempt_and_leaves_no_record() -> None:
    assert ended(a_slot(), Snoozed(5)).effect(FiringResult) is None


def test_a_message_that_is_no_slot_has_no_record() -> None:
    assert (
        decide.settle(claimed_message(), Succeeded(), QueueSettings()).effect(FiringResult) is None
    )


@pytest.mark.parametrize(
    ("policy", "newer", "too_late"),
    [
        (MissedPolicy.SKIP, LaterSlots(), True),
        (MissedPolicy.FIRE_MOST_RECENT, LaterSlots(), False),
        (MissedPolicy.FIRE_MOST_RECENT, LaterSlots(due=1), True),
        (MissedPolicy.FIRE_MOST_RECENT, LaterSlots(due=1, missed=1), True),
        (MissedPolicy.FIRE_LATE, LaterSlots(due=9, missed=9), False),
        (MissedPolicy.FIRE_LATE, LaterSlots(due=30, missed=9), False),
        (MissedPolicy.FIRE_LATE, LaterSlots(due=10, missed=10), True),
    ],
)
def test_the_missed_policy_decides_what_is_too_late_at_claim(
    policy: MissedPolicy, newer: LaterSlots, too_late: bool
) -> None:
    message = a_slot(Terms(missed=policy), catch_up=True, grace_seconds=60)
    assert message.is_late
    assert is_too_late(message, newer) is too_late


def test_a_planned_catch_up_is_never_too_late() -> None:
    assert not a_slot(Terms(missed=MissedPolicy.SKIP), catch_up=True, grace_seconds=None).is_late


def test_a_retry_is_not_late_again() -> None:
    assert not a_slot(catch_up=True, grace_seconds=60, attempts=1).is_late
    assert not a_slot(catch_up=True, grace_seconds=60, lost=1).is_late


def test_a_success_that_completes_its_schedule_is_as_bare_as_any_other() -> None:
    """A backlog of one-shots is settled as fast as plain messages."""
    ended = FiringResult(status=FiringStatus.SUCCEEDED, follow_up=FollowUp.COMPLETE)
    assert ended.is_bare_success
    assert ended.completes
    for other in (FollowUp.PARK, FollowUp.PAUSE):
        assert not structs.replace(ended, follow_up=other).is_bare_success
    assert not structs.replace(ended, next_after_seconds=5.0).is_bare_success
