"""What the outcome of a slot's message means for its firing and its schedule.

| outcome | firing | schedule with one slot | recurring schedule |
|---|---|---|---|
| ack | succeeded | completed | continues |
| retry | failed | continues | continues |
| dead | dead, or expired | parked | continues, or paused (`on_dead`) |
| missed before any attempt | skipped | completed | continues |

The last slot of a recurring schedule completes it, whatever its outcome. An extra run (`run` above
0) does not change the status of its schedule, with one exception: if the replay of a dead one-shot
succeeds, the parked schedule is completed.

Outcomes are applied to a schedule in the order of their slots:

| outcome | error count | last error | last status |
|---|---|---|---|
| succeeded | 0 | none | its status |
| partial | unchanged | its error | its status |
| failed | one more | its error | its status |
| dead, expired | unchanged; 0 at the next outcome | its error | its status |
| skipped | unchanged | unchanged | unchanged |

A `ScheduleEffect` combines any number of outcomes. It is relative to the stored values, so a store
can apply it to a row that another transaction has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from tickwork.core.message.error_summary import summary
from tickwork.core.message.outcome import Delivered
from tickwork.core.model import (
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASONS_NOT_HANDLED,
    Ending,
    Fate,
    Message,
    QueueSettings,
)
from tickwork.core.schedule.firing import FiringResult, FiringStatus, FollowUp
from tickwork.core.schedule.model import OnDead, Terms, read_terms
from tickwork.core.schedule.plan import SKIPPED_MISSED
from tickwork.core.when import MissedPolicy

LEASE_RAN_OUT = "the pull lease ran out"


class LaterSlots(NamedTuple):
    """Number of later slots of a schedule whose messages are due.

    `missed` counts those that were planned or claimed too late, or already are too late.
    """

    due: int = 0
    missed: int = 0


def settings_for(message: Message, settings: QueueSettings) -> QueueSettings:
    """The queue's settings with the schedule's own retry settings applied."""
    retry = None if message.terms is None else read_terms(message.terms).retry
    if retry is None:
        return settings
    return structs.replace(
        settings,
        max_retries=max_retries_for(message.terms, settings.max_retries),
        backoff=retry.backoff or settings.backoff,
    )


def max_retries_for(terms: str | None, max_retries: int) -> int:
    """Maximum retries of a message: its schedule's setting, or else its queue's."""
    retry = read_terms(terms).retry
    if retry is None or retry.max_attempts is None:
        return max_retries
    return retry.max_attempts - 1


def with_firing_result(message: Message, ending: Ending, *, took_seconds: float = 0.0) -> Ending:
    """The ending with the firing result of its slot. A release is no attempt and has no result."""
    is_recorded = ending.effect(FiringResult) is not None
    if message.schedule_id is None or ending.fate is Fate.RELEASE or is_recorded:
        return ending
    terms = read_terms(message.terms)
    match ending.fate:
        case Fate.ACK:
            result = FiringResult(
                status=FiringStatus.SUCCEEDED,
                took_seconds=took_seconds,
                result_target=terms.on_success,
            )
            result = _with_schedule_follow_up(result, terms, message.run, dead=False)
            if message.is_replay:
                result = structs.replace(result, follow_up=FollowUp.COMPLETE_PARKED)
        case Fate.RETRY:
            result = _failed(ending.reason, ending.error, took_seconds)
        case _:
            result = dead_result(
                message.terms, message.run, ending.reason, ending.error, took_seconds=took_seconds
            )
    return structs.replace(ending, effects=(*ending.effects, result))


def with_delivery(ending: Ending, delivered: Delivered) -> Ending:
    """The ending of a delivery: its firing shows the answer and each channel. If some channels
    failed and others did not, the firing is partial and counts no error."""
    recorded = ending.effect(FiringResult)
    if recorded is None:
        return ending
    result = structs.replace(
        recorded,
        result_code=delivered.result_code,
        excerpt=delivered.excerpt or recorded.excerpt,
        channels=delivered.channels,
    )
    if ending.fate is Fate.RETRY:
        result = structs.replace(result, reason=delivered.reason)
    if delivered.failed and ending.fate is Fate.ACK:
        error = f"partial: {', '.join(delivered.failed)}"
        result = structs.replace(result, status=FiringStatus.PARTIAL, error=error)
    others = tuple(effect for effect in ending.effects if effect is not recorded)
    return structs.replace(ending, effects=(*others, result))


def dead_result(
    terms: str | None,
    run: int,
    reason: str | None,
    error: str | None,
    *,
    took_seconds: float = 0.0,
) -> FiringResult:
    """Result of a slot whose message became a dead letter."""
    is_expired = reason == REASON_EXPIRED
    line = summary(error)
    own = read_terms(terms)
    result = FiringResult(
        status=FiringStatus.EXPIRED if is_expired else FiringStatus.DEAD,
        is_attempt=reason not in REASONS_NOT_HANDLED,
        reason=reason,
        took_seconds=took_seconds,
        error=line or reason,
        excerpt=line,
        result_target=own.on_failure,
    )
    return _with_schedule_follow_up(result, own, run, dead=True)


def lease_expired_result(terms: str | None, run: int, *, is_used_up: bool) -> FiringResult:
    """Result of a slot whose pull lease expired. It counts as an attempt.

    `is_used_up`: it was the last attempt.
    """
    if is_used_up:
        return dead_result(terms, run, REASON_MAX_RETRIES, LEASE_RAN_OUT)
    return _failed(None, LEASE_RAN_OUT, 0.0)


def missed_ending(message: Message) -> Ending:
    """Settles a slot's message that is too late to handle: its slot is skipped as missed."""
    result = FiringResult(status=FiringStatus.SKIPPED, is_attempt=False, reason=SKIPPED_MISSED)
    result = _with_schedule_follow_up(result, read_terms(message.terms), message.run, dead=False)
    return Ending(claim=message.current_claim, fate=Fate.ACK, effects=(result,))


def is_too_late(message: Message, later: LaterSlots) -> bool:
    """Whether a late message must not be handled.

    The rules are those of planning: with `fire_most_recent` any later slot replaces it, with
    `fire_late` only missed later slots count towards the cap.
    """
    terms = read_terms(message.terms)
    match terms.missed:
        case MissedPolicy.SKIP:
            return True
        case MissedPolicy.FIRE_MOST_RECENT:
            return later.due > 0
        case MissedPolicy.FIRE_LATE:
            return later.missed >= terms.cap


def _failed(reason: str | None, error: str | None, took_seconds: float) -> FiringResult:
    line = summary(error)
    return FiringResult(
        status=FiringStatus.FAILED,
        took_seconds=took_seconds,
        reason=reason,
        error=line,
        excerpt=line,
    )


def _with_schedule_follow_up(
    result: FiringResult, terms: Terms, run: int, *, dead: bool
) -> FiringResult:
    """The result with its follow-up for the schedule."""
    if run:
        return result
    follow_up = FollowUp.NONE
    if terms.is_once:
        follow_up = FollowUp.PARK if dead else FollowUp.COMPLETE
    elif terms.is_last:
        follow_up = FollowUp.COMPLETE
    elif dead and terms.on_dead is OnDead.PAUSE:
        follow_up = FollowUp.PAUSE
    after = terms.delay_seconds if follow_up in (FollowUp.NONE, FollowUp.PAUSE) else None
    return structs.replace(
        result, follow_up=follow_up, next_after_seconds=None if after is None else float(after)
    )


HANDLED = frozenset(
    {FiringStatus.SUCCEEDED, FiringStatus.PARTIAL, FiringStatus.FAILED, FiringStatus.DEAD}
)
"""Statuses of slots that a handler ran for."""

LATER_SLOTS_MAX = 1_000
"""Maximum number of messages, and of records, counted as later slots."""

FINAL_FAILURES = frozenset({FiringStatus.DEAD, FiringStatus.EXPIRED})
"""After these statuses the error count restarts at 0."""


class LastOutcome(NamedTuple):
    """A schedule's stored error count, last error and last status."""

    error_count: int
    last_error: str | None
    last_status: str | None


AFTER_SUCCESS = LastOutcome(0, None, str(FiringStatus.SUCCEEDED))


class ScheduleEffect(NamedTuple):
    """Combined effect of firing results on a schedule.

    `is_shown`: at least one result was not a skip. `is_reset`: earlier errors no longer count.
    """

    is_reset: bool = False
    failures: int = 0
    is_shown: bool = False
    error: str | None = None
    status: FiringStatus | None = None
    follow_up: FollowUp = FollowUp.NONE
    delay_seconds: float | None = None

    def with_result(self, result: FiringResult) -> ScheduleEffect:
        """Adds the result of a later slot."""
        if self is NO_EFFECT and result.is_plain_success:
            return ONE_SUCCESS
        effect = self
        if result.status is not FiringStatus.SKIPPED:
            if self.status in FINAL_FAILURES or result.status is FiringStatus.SUCCEEDED:
                effect = effect._replace(is_reset=True, failures=0)
            failed = result.status is FiringStatus.FAILED
            error = None if result.status is FiringStatus.SUCCEEDED else result.error
            effect = effect._replace(
                failures=effect.failures + failed,
                is_shown=True,
                error=error,
                status=result.status,
            )
        if result.has_follow_up:
            effect = _with_followup(effect, result)
        return effect

    def applied_to(self, last: LastOutcome) -> LastOutcome:
        """The stored values after this effect."""
        if not self.is_shown:
            return last
        before = 0 if self.is_reset or last.last_status in FINAL_FAILURES else last.error_count
        return LastOutcome(before + self.failures, self.error, str(self.status))

    def changes(self, last: LastOutcome) -> bool:
        """Whether a schedule with these stored values must be written."""
        has_follow_up = self.follow_up is not FollowUp.NONE or self.delay_seconds is not None
        return has_follow_up or self.applied_to(last) != last


NO_EFFECT = ScheduleEffect()
ONE_SUCCESS = ScheduleEffect(is_reset=True, is_shown=True, status=FiringStatus.SUCCEEDED)


def _with_followup(effect: ScheduleEffect, result: FiringResult) -> ScheduleEffect:
    """The later result decides the follow-up, but it does not undo a pause. A replay decides only
    if nothing else does."""
    if result.follow_up is FollowUp.COMPLETE_PARKED and (
        effect.follow_up is not FollowUp.NONE or effect.delay_seconds is not None
    ):
        return effect
    is_kept = result.follow_up is FollowUp.NONE and effect.follow_up is FollowUp.PAUSE
    follow_up = FollowUp.PAUSE if is_kept else result.follow_up
    return effect._replace(follow_up=follow_up, delay_seconds=result.next_after_seconds)


def effect_of(results: Iterable[FiringResult]) -> ScheduleEffect:
    """Combined effect of results in the order of their slots."""
    effect = NO_EFFECT
    for result in results:
        effect = effect.with_result(result)
    return effect
