"""Turns the facts about a slot into a code and a sentence, without I/O.

The record of a slot decides. Without a record, its message decides. Without either, the rule, the
start and end and the status of the schedule explain why nothing fired.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from tickwork.core import when
from tickwork.core.model import Message, State
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.next_slot import AHEAD_SECONDS
from tickwork.core.schedule.plan import (
    DELETED,
    EXCLUDED,
    PAST_END,
    PAUSED,
    PLAN_ERROR,
    SKIPPED_MISSED,
    SKIPPED_OVERLAP,
)
from tickwork.core.schedule.widen import widened_due_at
from tickwork.core.when import is_fixed_delay, just_before

_REASONS = {
    SKIPPED_MISSED: "it was later than its grace allows, and its missed policy skips such slots",
    SKIPPED_OVERLAP: "an earlier firing was unfinished, and its overlap policy skips such slots",
    PAUSED: "the schedule was paused",
    EXCLUDED: "its day is excluded, by its own list or by its calendar",
    PAST_END: "it is after the schedule's end",
    PLAN_ERROR: "the slot could not be planned",
    DELETED: "the schedule was deleted before a worker started it",
    "quota": "the tenant's quota was used up",
    "expired": "no worker started it before it expired",
}

_WIDENED = ", later than its own window says, because the operator widened the windows"

_REMEDIES = {
    ScheduleStatus.PAUSED: "resume it to let it fire again",
    ScheduleStatus.PARKED: "fix the error and resume it",
    ScheduleStatus.COMPLETED: "it has no slot left",
}


class Facts(Struct, frozen=True, kw_only=True):
    """Everything known about an instant of a schedule.

    `rule` has the days of its calendar; `previous` and `following` are its slots around the
    instant. If `is_recorded` is False, the records cover several slots each, and it is unknown
    whether the instant was one of them.
    """

    schedule: Schedule
    rule: when.Rule
    now: datetime
    at: datetime
    firings: Sequence[FiringRecord]
    message: Message | None
    previous: datetime | None
    following: datetime | None
    is_slot: bool
    is_recorded: bool = True
    widened_seconds: int = 0


class Answer(NamedTuple):
    """A code, whether it fired (None: undecided), and a sentence without its full stop."""

    code: str
    fired: bool | None
    words: str


def answer_from(facts: Facts) -> Answer:
    """Returns the answer for the facts."""
    if facts.firings:
        return _from_record(facts)
    if facts.message is not None:
        return _from_message(facts.message, facts)
    schedule, at = facts.schedule, facts.at
    # The slot of a one-shot in the past is when it was created, by the clock of the caller.
    if at < schedule.created_at and at not in (schedule.last_slot, schedule.next_slot):
        return _before_creation(facts)
    if schedule.status is ScheduleStatus.DELETED and at >= schedule.changed_at:
        return _deleted(schedule)
    if not facts.is_slot:
        return _no_slot(facts)
    if schedule.status is not ScheduleStatus.ACTIVE and _is_since(schedule, at):
        return _not_active(facts)
    if _is_used_up(facts):
        most = facts.rule.max_firings
        then = "used up by earlier slots" if at > facts.now else "used up before"
        words = f"{_verb(facts)}: its {most} firings are {then}"
        return Answer("max_firings", False, words.replace("its 1 firings are", "its one firing is"))
    if at > facts.now:
        return _future(facts)
    if schedule.next_slot is not None and at >= schedule.next_slot:
        due = when.due_at(facts.rule, at)
        if due > facts.now:
            return Answer("to_come", None, f"it is due {_at(due)}")
        since = f"it was due {_at(due)}"
        if isinstance(facts.rule.timing, when.Once) and facts.rule.timing.at < at:
            since = f"its time {iso_second(facts.rule.timing.at)} was over, so it fires at once"
        return Answer("not_planned", None, f"{since}, but no scheduler has planned it yet")
    words = (
        "there is no record of it: it is older than the retention, its message was purged, "
        "or the rule was different then"
    )
    return Answer("unknown", None, words)


def _from_record(facts: Facts) -> Answer:
    last = facts.firings[-1]
    assert last.started_at is not None
    assert last.finished_at is not None
    tries = max(firing.attempt for firing in facts.firings if firing.run == last.run)
    late = ", as a catch-up" if last.catch_up else ""
    error = "" if last.excerpt is None else f": {last.excerpt}"
    match last.status:
        case FiringStatus.SUCCEEDED | FiringStatus.PARTIAL:
            took = (last.finished_at - last.started_at).total_seconds()
            words = f"it fired{late}: attempt {last.attempt} {last.status} {_at(last.finished_at)}"
            return Answer(str(last.status), True, f"{words}, after {took:.3f} s")
        case FiringStatus.FAILED:
            words = f"it fired{late}, and failed {_times(tries)}{error}; {_next_try(facts.message)}"
            return Answer("failed", True, words)
        case FiringStatus.DEAD:
            words = f"it fired{late}, and died after {_attempts(tries)} ({last.reason}){error}"
            return Answer("dead", True, f"{words}; see its dead letter")
        case FiringStatus.EXPIRED if tries:
            words = f"it fired{late}, and failed {_times(tries)}; it expired before the next"
            return Answer(str(last.status), True, f"{words} attempt; see its dead letter")
        case _:
            return _not_fired(last, error, is_certain=facts.is_recorded)


def _not_fired(last: FiringRecord, error: str, *, is_certain: bool) -> Answer:
    assert last.finished_at is not None
    reason = last.reason or str(last.status)
    why = f"{_REASONS.get(reason, reason)}{error}"
    recorded = f"recorded {_at(last.finished_at)}"
    if last.count == 1:
        return Answer(reason, False, f"it did not fire: {why}; {recorded}")
    until = iso_second(last.last_slot or last.slot)
    run = f"{last.count} slots from {iso_second(last.slot)} to {until}"
    if is_certain:
        return Answer(reason, False, f"it did not fire: {why}; one of {run}; {recorded}")
    words = f"it did not fire; whether it was a slot is unknown: one record covers {run}"
    return Answer("unknown", False, f"{words} ({why}), and the rule has changed since")


def _from_message(message: Message, facts: Facts) -> Answer:
    now = facts.now
    if message.is_running:
        return Answer("running", True, f"it is running: {_running(message)}")
    if message.state is State.BLOCKED:
        return Answer("waiting", None, "it is blocked by an earlier firing that is unfinished")
    if message.visible_at > now:
        if message.attempts:
            words = f"attempt {message.attempts} failed; the next one is due"
            return Answer("retrying", True, f"{words} {_at(message.visible_at)}")
        words = f"it is planned, and due {_at(message.visible_at)}"
        due = when.due_at(facts.rule, facts.at)
        is_widened = message.due_at is not None and not message.run and message.due_at > due
        return Answer("planned", None, words + (_WIDENED if is_widened else ""))
    seconds = (now - message.visible_at).total_seconds()
    return Answer("waiting", None, f"it has waited in its queue for {seconds:.0f} s")


def _next_try(message: Message | None) -> str:
    """What follows a failed attempt."""
    if message is None:
        return "it was not retried"
    return _running(message) if message.is_running else "it is not finished yet"


def _running(message: Message) -> str:
    words = f"attempt {message.attempts + 1}"
    if (since := message.claimed_at or message.waits_since) is not None:
        words += f" started {_at(since)}"
    if message.state is State.READY:
        words += f"; its receiver has until {iso_second(message.visible_at)} to complete it"
    return words


def _before_creation(facts: Facts) -> Answer:
    words = f"it did not fire: the schedule was created only {_at(facts.schedule.created_at)}"
    if facts.following is not None:
        words += f", and its first slot is {iso_second(facts.following)}"
    return Answer("before_creation", False, words)


def _deleted(schedule: Schedule) -> Answer:
    fired = f"fired {_times(schedule.fired)}" if schedule.fired else "never fired"
    deleted = f"the schedule was deleted {_at(schedule.changed_at)}"
    words = f"it does not fire: {deleted}; until then it {fired}"
    return Answer("deleted", False, words)


def _is_since(schedule: Schedule, at: datetime) -> bool:
    """Whether a slot was affected by the schedule's status: due after the change, or unplanned."""
    is_left = schedule.next_slot is not None and at >= schedule.next_slot
    return at >= schedule.changed_at or is_left


def _not_active(facts: Facts) -> Answer:
    words = f"{_verb(facts)}: {_status_words(facts.schedule)}"
    return Answer(str(facts.schedule.status), False, words)


def _status_words(schedule: Schedule) -> str:
    words = f"the schedule has been {schedule.status} since {iso_second(schedule.changed_at)}"
    if schedule.last_error and schedule.status is not ScheduleStatus.COMPLETED:
        words += f" (its last error: {schedule.last_error})"
    remedy = _REMEDIES.get(schedule.status)
    return words if remedy is None else f"{words}; {remedy}"


def _is_used_up(facts: Facts) -> bool:
    """Whether earlier slots use up `max_firings` before the instant."""
    most, schedule = facts.rule.max_firings, facts.schedule
    if most is None or is_fixed_delay(facts.rule):
        return False
    left = most - schedule.fired
    if schedule.next_slot is None or facts.at < schedule.next_slot:
        return left <= 0
    slots = structs.replace(facts.rule, max_firings=None)
    return when.count_between(slots, just_before(schedule.next_slot), just_before(facts.at)) >= left


def _future(facts: Facts) -> Answer:
    at, schedule_id = facts.at, facts.schedule.id
    overlap = facts.schedule.definition.overlap
    due = widened_due_at(facts.rule, schedule_id, at, facts.widened_seconds)
    words = f"it is due in {_in_words(due - facts.now)}"
    if due != at:
        words += f", {_at(due)}"
    if due != when.due_at(facts.rule, at):
        words += _WIDENED
    planned = at - timedelta(seconds=AHEAD_SECONDS)
    if not overlap.is_decided_when_due and planned > facts.now:
        words += f"; its message is created {_at(planned)}"
    return Answer("to_come", None, words)


def _no_slot(facts: Facts) -> Answer:
    rule = facts.rule
    at = facts.at
    schedule = facts.schedule
    still = ""
    if schedule.status in (ScheduleStatus.PAUSED, ScheduleStatus.PARKED):
        still = f"; also, {_status_words(schedule)}"
    if rule.start_at is not None and at < rule.start_at:
        words = f"{_verb(facts)}: the schedule starts {_at(rule.start_at)}"
        if facts.following is not None:
            words += f", and its first slot is {iso_second(facts.following)}"
        return Answer("before_start", False, words + still)
    if rule.end_at is not None and at > rule.end_at:
        ends = "ended" if rule.end_at <= facts.now else "ends"
        words = f"{_verb(facts)}: the schedule {ends} {_at(rule.end_at)}"
        return Answer(PAST_END, False, words)
    if when.next_after(when.ignoring_days_off(rule), just_before(at)) == at:
        day = _local_day(rule, at)
        by = "its calendar" if day in rule.holidays else "its own list"
        words = f"{_verb(facts)}: {day} is excluded by {by}"
        if facts.following is not None:
            words += f"; the next slot is {iso_second(facts.following)}"
        return Answer(EXCLUDED, False, words + still)
    near = [
        f"the {word} one is {iso_second(slot)}"
        for word, slot in (("previous", facts.previous), ("next", facts.following))
        if slot is not None
    ]
    words = "this is not one of its slots: " + (" and ".join(near) or "there are none near it")
    if is_fixed_delay(rule):
        words += "; each slot is set when the run before it finishes"
    return Answer("no_slot", False, words + _clock_change(rule, at) + still)


def _clock_change(rule: when.Rule, at: datetime) -> str:
    """Returns a note if the clocks of the zone change on that day."""
    zone = ZoneInfo(rule.timezone)
    day = timedelta(hours=24)
    if (at - day).astimezone(zone).utcoffset() == (at + day).astimezone(zone).utcoffset():
        return ""
    return f"; the clocks of {rule.timezone} change on that day, see `tickwork next`"


def _verb(facts: Facts) -> str:
    return "it will not fire" if facts.at > facts.now else "it did not fire"


def _local_day(rule: when.Rule, at: datetime) -> date:
    return at.astimezone(ZoneInfo(rule.timezone)).date()


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _attempts(number: int) -> str:
    return "1 attempt" if number == 1 else f"{number} attempts"


def _in_words(span: timedelta) -> str:
    """Formats a duration with its two largest units: 3 days 4 h, 4 h 5 min, 5 min 6 s."""
    minutes, seconds = divmod(round(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    parts = [f"{number} {unit}" for number, unit in units if number]
    return " ".join(parts[:2]) or "0 s"


def _at(instant: datetime) -> str:
    return f"at {iso_second(instant)}"


def iso_second(instant: datetime) -> str:
    """An instant for a sentence, to the second."""
    return when.iso(instant.replace(microsecond=0))
