"""What the end of a slot's message means for its firing and its schedule.

| end | firing | a single slot | recurring |
|---|---|---|---|
| ack | succeeded | completed | goes on |
| retry | failed | goes on | goes on |
| dead | dead, or expired | parked | goes on, or paused (`on_dead`) |
| too late, unseen | skipped | completed | goes on |

The last slot of a recurring schedule completes it, however it ends. An extra run (`run` above 0)
changes nothing of how its schedule stands.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from tickwork.core.firing import FiringRecord, FiringStatus, Then
from tickwork.core.model import (
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASONS_UNSEEN,
    Ending,
    Fate,
    Message,
    QueueSettings,
)
from tickwork.core.planning import SKIPPED_MISSED
from tickwork.core.policy.telling import summary
from tickwork.core.schedule import OnDead, Terms, read_terms
from tickwork.core.when import MissedPolicy

LEASE_RAN_OUT = "the pull lease ran out"


class Newer(NamedTuple):
    """How many later slots of a schedule are messages that are due: all of them, and those of
    them that were missed (planned or handed out too late, or too late for that already)."""

    due: int = 0
    missed: int = 0


def settings_of(message: Message, settings: QueueSettings) -> QueueSettings:
    """The queue's settings, as far as the schedule says nothing else."""
    retry = None if message.terms is None else read_terms(message.terms).retry
    if retry is None:
        return settings
    return structs.replace(
        settings,
        max_retries=retries_of(message.terms, settings.max_retries),
        backoff=retry.backoff or settings.backoff,
    )


def retries_of(terms: str | None, max_retries: int) -> int:
    """How often a message is tried again: as its schedule says, or else its queue."""
    retry = read_terms(terms).retry
    if retry is None or retry.max_attempts is None:
        return max_retries
    return retry.max_attempts - 1


def with_firing(message: Message, ending: Ending, *, took_seconds: float = 0.0) -> Ending:
    """The ending with the record of its slot; a release is no attempt, and leaves none."""
    if message.schedule_id is None or ending.fate is Fate.RELEASE or ending.firing is not None:
        return ending
    terms = read_terms(message.terms)
    match ending.fate:
        case Fate.ACK:
            record = FiringRecord(status=FiringStatus.SUCCEEDED, took_seconds=took_seconds)
            record = _followed(record, terms, message.run, dead=False)
        case Fate.RETRY:
            record = _failed(ending.reason, ending.error, took_seconds)
        case _:
            record = of_dead(
                message.terms, message.run, ending.reason, ending.error, took_seconds=took_seconds
            )
    return structs.replace(ending, firing=record)


def of_dead(
    terms: str | None,
    run: int,
    reason: str | None,
    error: str | None,
    *,
    took_seconds: float = 0.0,
) -> FiringRecord:
    """The record of a slot whose message became a dead letter."""
    is_expired, line = reason == REASON_EXPIRED, summary(error)
    record = FiringRecord(
        status=FiringStatus.EXPIRED if is_expired else FiringStatus.DEAD,
        is_attempt=reason not in REASONS_UNSEEN,
        reason=reason,
        took_seconds=took_seconds,
        error=line or reason,
        excerpt=line,
    )
    return _followed(record, read_terms(terms), run, dead=True)


def of_lease(terms: str | None, run: int, *, is_used_up: bool) -> FiringRecord:
    """The record of a slot whose pull lease ran out, which counts as an attempt: the last one, if
    attempts are used up."""
    if is_used_up:
        return of_dead(terms, run, REASON_MAX_RETRIES, LEASE_RAN_OUT)
    return _failed(None, LEASE_RAN_OUT, 0.0)


def too_late(message: Message) -> Ending:
    """The end of a slot's message that nobody may handle any more: it was missed."""
    record = FiringRecord(status=FiringStatus.SKIPPED, is_attempt=False, reason=SKIPPED_MISSED)
    record = _followed(record, read_terms(message.terms), message.run, dead=False)
    return Ending(held=message.held, fate=Fate.ACK, firing=record)


def is_too_late(message: Message, newer: Newer) -> bool:
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


def _failed(reason: str | None, error: str | None, took_seconds: float) -> FiringRecord:
    line = summary(error)
    return FiringRecord(
        status=FiringStatus.FAILED,
        took_seconds=took_seconds,
        reason=reason,
        error=line,
        excerpt=line,
    )


def _followed(record: FiringRecord, terms: Terms, run: int, *, dead: bool) -> FiringRecord:
    """The record with what follows for the schedule."""
    if run:
        return record
    then = Then.GO_ON
    if terms.is_once:
        then = Then.PARK if dead else Then.COMPLETE
    elif terms.is_last:
        then = Then.COMPLETE
    elif dead and terms.on_dead is OnDead.PAUSE:
        then = Then.PAUSE
    after = terms.delay_seconds if then in (Then.GO_ON, Then.PAUSE) else None
    return structs.replace(
        record, then=then, next_after_seconds=None if after is None else float(after)
    )
