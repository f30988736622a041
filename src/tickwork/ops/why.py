"""Why did it (not) fire at T: one answer, from the record and the rules.

The record comes first: what was written down about a slot is what happened. Where there is none,
the message may still be on its way; and where there is neither, the rule, the bounds and the
status say why there was nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from tickwork.core import when
from tickwork.core.firing import Firing, FiringStatus
from tickwork.core.model import SYSTEM, Message, Scope
from tickwork.core.planning import (
    AHEAD_SECONDS,
    DELETED,
    EXCLUDED,
    PAST_END,
    PAUSED,
    PLAN_ERROR,
    SKIPPED_MISSED,
    SKIPPED_OVERLAP,
    before,
    is_delay,
)
from tickwork.core.schedule import Schedule, ScheduleStatus
from tickwork.core.states import State
from tickwork.errors import NotFound
from tickwork.ops.schedule_facts import resolve, rule_now
from tickwork.ops.schedule_views import show_firing
from tickwork.store.contract import Store

MESSAGES_MAX = 1_000
SCHEDULER_ROLE, WORKER_ROLE = "scheduler", "worker"

_REASONS = {
    SKIPPED_MISSED: "it was late by more than its grace, and its missed policy left it out",
    SKIPPED_OVERLAP: "an earlier firing was unfinished, and its overlap policy left it out",
    PAUSED: "the schedule was paused",
    EXCLUDED: "its day is excluded, by its own list or by its calendar",
    PAST_END: "it is after the schedule's end",
    PLAN_ERROR: "the slot could not be planned",
    DELETED: "the schedule was deleted before anybody began with it",
    "quota": "the tenant's quota was used up",
    "expired": "nobody began with it before it expired",
}


class Why(Struct, frozen=True, kw_only=True):
    """The answer: a code for programs, a sentence for people, and the facts behind it.

    `fired` is None while that is still open.
    """

    schedule_id: UUID
    at: datetime
    is_slot: bool
    fired: bool | None
    code: str
    answer: str
    firings: tuple[Firing, ...] = ()
    previous_slot: datetime | None = None
    next_slot: datetime | None = None

    def show(self) -> dict[str, Any]:
        """With the API's names."""
        return {
            "schedule_id": str(self.schedule_id),
            "at": when.iso(self.at),
            "is_slot": self.is_slot,
            "fired": self.fired,
            "code": self.code,
            "answer": self.answer,
            "previous_slot": None if self.previous_slot is None else when.iso(self.previous_slot),
            "next_slot": None if self.next_slot is None else when.iso(self.next_slot),
            "firings": [show_firing(each) for each in self.firings],
        }


class _Facts(Struct, frozen=True, kw_only=True):
    schedule: Schedule
    rule: when.Rule
    now: datetime
    at: datetime
    firings: Sequence[Firing]
    message: Message | None
    previous: datetime | None
    following: datetime | None
    is_slot: bool


async def why(store: Store, scope: Scope, reference: UUID | str, at: datetime | None = None) -> Why:
    """Why the schedule fired, or did not, at an instant; without one: at its latest slot."""
    schedule = await resolve(store, scope, reference)
    rule, now = await rule_now(store, scope, schedule), await store.now()
    if at is None:
        at = _latest_slot(schedule, rule, now)
    firings = await store.firings.of_slot(scope, schedule.id, at)
    waiting = await store.schedules.messages(scope, schedule.id, MESSAGES_MAX)
    message = next((each for each in waiting if each.slot == at), None)
    slots = structs.replace(rule, max_firings=None)
    facts = _Facts(
        schedule=schedule,
        rule=rule,
        now=now,
        at=at,
        firings=firings,
        message=message,
        previous=_slot_before(slots, at),
        following=when.next_after(slots, at),
        is_slot=when.next_after(slots, before(at)) == at,
    )
    code, fired, answer = _answer(facts)
    if message is not None and code in ("waiting", "planned"):
        answer += await _hindrances(store, scope, schedule, WORKER_ROLE)
    if code == "not_planned":
        answer += await _hindrances(store, scope, schedule, SCHEDULER_ROLE)
    return Why(
        schedule_id=schedule.id,
        at=at,
        is_slot=facts.is_slot or bool(firings) or message is not None,
        fired=fired,
        code=code,
        answer=answer,
        firings=tuple(firings),
        previous_slot=facts.previous,
        next_slot=facts.following,
    )


def _answer(facts: _Facts) -> tuple[str, bool | None, str]:
    """A code, whether it fired, and a sentence."""
    if facts.firings:
        return _from_record(facts)
    if facts.message is not None:
        return _from_message(facts.message, facts.now)
    schedule, at = facts.schedule, facts.at
    if at < schedule.created_at and at != schedule.last_slot:
        return (
            "before_creation",
            False,
            f"the schedule was made later, {_said(schedule.created_at)}",
        )
    if schedule.status is ScheduleStatus.DELETED and at >= schedule.changed_at:
        return "deleted", False, f"the schedule was deleted {_said(schedule.changed_at)}"
    if not facts.is_slot:
        return _no_slot(facts)
    if schedule.status is not ScheduleStatus.ACTIVE and at >= schedule.changed_at:
        since = f"the schedule is {schedule.status} since {_said(schedule.changed_at)}"
        error = f": {schedule.last_error}" if schedule.last_error else ""
        return str(schedule.status), False, since + error
    if at > facts.now:
        planned = max(at - timedelta(seconds=AHEAD_SECONDS), facts.now)
        return "to_come", None, f"it is still to come; it will be planned {_said(planned)}"
    if schedule.next_slot is not None and at >= schedule.next_slot:
        return "not_planned", None, "it is due, and no leader has planned it yet"
    if facts.rule.max_firings is not None and schedule.fired >= facts.rule.max_firings:
        return "max_firings", False, f"its {facts.rule.max_firings} firings were used up"
    answer = (
        "there is no record of it any more: older than the retention, its message was purged, "
        "or the rule was another one then"
    )
    return "unknown", None, answer


def _from_record(facts: _Facts) -> tuple[str, bool | None, str]:
    last = facts.firings[-1]
    tries = sum(1 for each in facts.firings if each.attempt > 0 and each.run == last.run)
    late = " It was a catch-up." if last.catch_up else ""
    match last.status:
        case FiringStatus.SUCCEEDED | FiringStatus.PARTIAL:
            took = (last.finished_at - last.started_at).total_seconds()
            words = f"it fired: attempt {last.attempt} {last.status} {_said(last.finished_at)}"
            return str(last.status), True, f"{words}, after {took:.3f} s.{late}"
        case FiringStatus.FAILED:
            rest = "it has not ended yet" if facts.message is not None else "no attempt followed"
            return "failed", True, f"it fired and failed {tries} times; {rest}.{late}"
        case FiringStatus.DEAD:
            error = f": {last.excerpt or facts.schedule.last_error or ''}".rstrip(": ")
            words = f"it fired, and died after {tries} attempts ({last.reason}){error}"
            return "dead", True, f"{words}; see its dead letter.{late}"
        case _:
            reason = last.reason or str(last.status)
            words = f"it did not fire: {_REASONS.get(reason, reason)}"
            if last.count > 1:
                until = when.iso(last.last_slot or last.slot)
                words += f"; one of {last.count} slots from {when.iso(last.slot)} to {until}"
            if reason == PLAN_ERROR and facts.schedule.last_error:
                words += f": {facts.schedule.last_error}"
            return reason, False, f"{words}; recorded {_said(last.finished_at)}"


def _from_message(message: Message, now: datetime) -> tuple[str, bool | None, str]:
    if message.state is State.CLAIMED:
        return "running", True, f"it is being handled: attempt {message.attempts + 1}"
    if message.state is State.HELD:
        return "waiting", None, "it stands behind an earlier firing that is unfinished"
    if message.visible_at > now:
        if message.attempts:
            words = f"attempt {message.attempts} failed; the next one comes"
            return "retrying", True, f"{words} {_said(message.visible_at)}"
        return "planned", None, f"it is planned, and comes {_said(message.visible_at)}"
    seconds = (now - message.visible_at).total_seconds()
    return "waiting", None, f"it waits in its queue for a worker, for {seconds:.0f} s"


def _no_slot(facts: _Facts) -> tuple[str, bool | None, str]:
    rule, at = facts.rule, facts.at
    if is_delay(rule):
        return "no_slot", False, "its slots are counted from the end of the run before"
    if rule.start_at is not None and at < rule.start_at:
        return "before_start", False, f"it starts {_said(rule.start_at)}"
    if rule.end_at is not None and at > rule.end_at:
        return PAST_END, False, f"it ended {_said(rule.end_at)}"
    bare = structs.replace(rule, exclude=(), holidays=frozenset(), max_firings=None)
    if rule.excluded_days and when.next_after(bare, before(at)) == at:
        day = _local_day(rule, at)
        by = "its calendar" if day in rule.holidays else "its own list"
        return EXCLUDED, False, f"{day} is excluded by {by}"
    near = [
        f"the {word} slot is {when.iso(slot)}"
        for word, slot in (("previous", facts.previous), ("next", facts.following))
        if slot is not None
    ]
    change = _clock_change(rule, at)
    words = "it is none of its slots: " + (", ".join(near) or "there is none at all")
    return "no_slot", False, words + change


def _clock_change(rule: when.Rule, at: datetime) -> str:
    """A word about daylight saving, where the day has a change of the clocks."""
    zone = ZoneInfo(rule.timezone)
    day = timedelta(hours=24)
    if (at - day).astimezone(zone).utcoffset() == (at + day).astimezone(zone).utcoffset():
        return ""
    return f"; the clocks of {rule.timezone} change on that day, see `tickwork next`"


async def _hindrances(store: Store, scope: Scope, schedule: Schedule, role: str) -> str:
    """What stands in the way just now."""
    found = []
    try:
        queue = await store.queues.get(scope, schedule.definition.queue)
        if queue.paused:
            found.append(f"queue {queue.name} is paused")
    except NotFound:
        found.append(f"queue {schedule.definition.queue} is gone")
    tenant = await store.tenants.get(scope, schedule.tenant)
    if tenant.suspended:
        found.append(f"tenant {tenant.id} is suspended")
    nodes, now = await store.nodes.list(SYSTEM), await store.now()
    if not any(role in node.roles and node.expires_at > now for node in nodes):
        found.append(f"no node with the role {role} is alive")
    return f" ({'; '.join(found)})" if found else ""


def _latest_slot(schedule: Schedule, rule: when.Rule, now: datetime) -> datetime:
    if schedule.last_slot is not None and schedule.last_slot <= now:
        return schedule.last_slot
    if schedule.next_slot is not None:
        return schedule.next_slot
    return _slot_before(rule, now) or schedule.last_slot or now


_REACHES = [timedelta(hours=1), timedelta(days=2), timedelta(days=40), timedelta(days=800)]


def _slot_before(rule: when.Rule, at: datetime) -> datetime | None:
    """The last slot before an instant, looked for further and further back."""
    for reach in _REACHES:
        low, high = at - reach, before(at)
        if not when.count_between(rule, low, high):
            continue
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) / 2
            if when.count_between(rule, middle, high):
                low = middle
            else:
                high = middle
        return when.next_after(rule, low)
    return None


def _local_day(rule: when.Rule, at: datetime) -> date:
    return at.astimezone(ZoneInfo(rule.timezone)).date()


def _said(instant: datetime) -> str:
    return f"at {when.iso(instant.replace(microsecond=0))}"
