"""What the end of a slot's message means for its firing and its schedule.

| end | firing | a single slot | recurring |
|---|---|---|---|
| ack | succeeded | completed | goes on |
| retry | failed | goes on | goes on |
| dead | dead, or expired | parked | goes on, or paused (`on_dead`) |
| too late, unseen | skipped | completed | goes on |

The last slot of a recurring schedule completes it, however it ends. An extra run (`run` above 0)
changes nothing of how its schedule stands.

What the ends of its slots make of a schedule, taken one after the other by slot.

| end | errors | last error | last status |
|---|---|---|---|
| succeeded | 0 | none | as it ended |
| partial | as before | what it says | as it ended |
| failed | one more | what it says | as it ended |
| dead, expired | as before; 0 at the next end | what it says | as it ended |
| skipped | as before | as before | as before |

An `Effect` holds any number of ends. It is relative to what the schedule shows, so that a store
can carry it out on a row that somebody else changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from tickwork.core.message.error_summary import summary
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
    """How many later slots of a schedule are messages that are due: all of them, and those of
    them that were missed (planned or handed out too late, or too late for that already)."""

    due: int = 0
    missed: int = 0


def settings_for(message: Message, settings: QueueSettings) -> QueueSettings:
    """The queue's settings, as far as the schedule says nothing else."""
    retry = None if message.terms is None else read_terms(message.terms).retry
    if retry is None:
        return settings
    return structs.replace(
        settings,
        max_retries=max_retries_for(message.terms, settings.max_retries),
        backoff=retry.backoff or settings.backoff,
    )


def max_retries_for(terms: str | None, max_retries: int) -> int:
    """How often a message is tried again: as its schedule says, or else its queue."""
    retry = read_terms(terms).retry
    if retry is None or retry.max_attempts is None:
        return max_retries
    return retry.max_attempts - 1


def with_slot_outcome(message: Message, ending: Ending, *, took_seconds: float = 0.0) -> Ending:
    """The ending with the record of its slot; a release is no attempt, and leaves none."""
    if message.schedule_id is None or ending.fate is Fate.RELEASE or ending.firing is not None:
        return ending
    terms = read_terms(message.terms)
    match ending.fate:
        case Fate.ACK:
            record = FiringResult(status=FiringStatus.SUCCEEDED, took_seconds=took_seconds)
            record = _followed(record, terms, message.run, dead=False)
        case Fate.RETRY:
            record = _failed(ending.reason, ending.error, took_seconds)
        case _:
            record = dead_outcome(
                message.terms, message.run, ending.reason, ending.error, took_seconds=took_seconds
            )
    return structs.replace(ending, firing=record)


def dead_outcome(
    terms: str | None,
    run: int,
    reason: str | None,
    error: str | None,
    *,
    took_seconds: float = 0.0,
) -> FiringResult:
    """The record of a slot whose message became a dead letter."""
    is_expired, line = reason == REASON_EXPIRED, summary(error)
    record = FiringResult(
        status=FiringStatus.EXPIRED if is_expired else FiringStatus.DEAD,
        is_attempt=reason not in REASONS_NOT_HANDLED,
        reason=reason,
        took_seconds=took_seconds,
        error=line or reason,
        excerpt=line,
    )
    return _followed(record, read_terms(terms), run, dead=True)


def lease_expired_outcome(terms: str | None, run: int, *, is_used_up: bool) -> FiringResult:
    """The record of a slot whose pull lease ran out, which counts as an attempt: the last one, if
    attempts are used up."""
    if is_used_up:
        return dead_outcome(terms, run, REASON_MAX_RETRIES, LEASE_RAN_OUT)
    return _failed(None, LEASE_RAN_OUT, 0.0)


def missed_ending(message: Message) -> Ending:
    """The end of a slot's message that nobody may handle any more: it was missed."""
    record = FiringResult(status=FiringStatus.SKIPPED, is_attempt=False, reason=SKIPPED_MISSED)
    record = _followed(record, read_terms(message.terms), message.run, dead=False)
    return Ending(claim=message.current_claim, fate=Fate.ACK, firing=record)


def is_too_late(message: Message, newer: LaterSlots) -> bool:
    """Whether a message that is late may not be handled. As at planning: any later slot stands for
    the latest one, but only those that were missed use up the cap."""
    terms = read_terms(message.terms)
    match terms.missed:
        case MissedPolicy.SKIP:
            return True
        case MissedPolicy.FIRE_MOST_RECENT:
            return newer.due > 0
        case MissedPolicy.FIRE_LATE:
            return newer.missed >= terms.cap


def _failed(reason: str | None, error: str | None, took_seconds: float) -> FiringResult:
    line = summary(error)
    return FiringResult(
        status=FiringStatus.FAILED,
        took_seconds=took_seconds,
        reason=reason,
        error=line,
        excerpt=line,
    )


def _followed(record: FiringResult, terms: Terms, run: int, *, dead: bool) -> FiringResult:
    """The record with what follows for the schedule."""
    if run:
        return record
    then = FollowUp.NONE
    if terms.is_once:
        then = FollowUp.PARK if dead else FollowUp.COMPLETE
    elif terms.is_last:
        then = FollowUp.COMPLETE
    elif dead and terms.on_dead is OnDead.PAUSE:
        then = FollowUp.PAUSE
    after = terms.delay_seconds if then in (FollowUp.NONE, FollowUp.PAUSE) else None
    return structs.replace(
        record, follow_up=then, next_after_seconds=None if after is None else float(after)
    )


FINAL_FAILURES = frozenset({FiringStatus.DEAD, FiringStatus.EXPIRED})
"""After these the count of errors begins anew."""


class LastOutcome(NamedTuple):
    """What a schedule shows of its last end."""

    error_count: int
    last_error: str | None
    last_status: str | None


AFTER_SUCCESS = LastOutcome(0, None, str(FiringStatus.SUCCEEDED))


class ScheduleEffect(NamedTuple):
    """What ends mean for a schedule. `is_shown`: at least one of them was an attempt; `is_reset`:
    what was counted before them is over."""

    is_reset: bool = False
    failures: int = 0
    is_shown: bool = False
    error: str | None = None
    status: FiringStatus | None = None
    follow_up: FollowUp = FollowUp.NONE
    delay_seconds: float | None = None

    def after(self, record: FiringResult) -> ScheduleEffect:
        """With one more end, of a later slot."""
        if self is NO_EFFECT and record.is_plain_success:
            return ONE_SUCCESS
        effect = self
        if record.status is not FiringStatus.SKIPPED:
            if self.status in FINAL_FAILURES or record.status is FiringStatus.SUCCEEDED:
                effect = effect._replace(is_reset=True, failures=0)
            failed = record.status is FiringStatus.FAILED
            error = None if record.status is FiringStatus.SUCCEEDED else record.error
            effect = effect._replace(
                failures=effect.failures + failed,
                is_shown=True,
                error=error,
                status=record.status,
            )
        if record.has_follow_up:
            effect = _with_followup(effect, record)
        return effect

    def on(self, shown: LastOutcome) -> LastOutcome:
        """What a schedule shows then."""
        if not self.is_shown:
            return shown
        before = 0 if self.is_reset or shown.last_status in FINAL_FAILURES else shown.error_count
        return LastOutcome(before + self.failures, self.error, str(self.status))

    def changes(self, shown: LastOutcome) -> bool:
        """Whether a schedule that shows this has to be written."""
        has_follow_up = self.follow_up is not FollowUp.NONE or self.delay_seconds is not None
        return has_follow_up or self.on(shown) != shown


NO_EFFECT = ScheduleEffect()
ONE_SUCCESS = ScheduleEffect(is_reset=True, is_shown=True, status=FiringStatus.SUCCEEDED)


def _with_followup(effect: ScheduleEffect, record: FiringResult) -> ScheduleEffect:
    """The later one says how its schedule goes on; a pause stays one."""
    is_kept = record.follow_up is FollowUp.NONE and effect.follow_up is FollowUp.PAUSE
    then = FollowUp.PAUSE if is_kept else record.follow_up
    return effect._replace(follow_up=then, delay_seconds=record.next_after_seconds)


def effect_of(records: Iterable[FiringResult]) -> ScheduleEffect:
    """The effect of ends, which are in the order of their slots."""
    effect = NO_EFFECT
    for record in records:
        effect = effect.after(record)
    return effect
