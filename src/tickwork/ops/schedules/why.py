"""Why did it (not) fire at T: one answer, from the record and the rules.

Here the facts are gathered; `why_answers` makes a sentence of them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core import when
from tickwork.core.fields import Reader
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.firing import FiringRecord
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.next_slot import just_before
from tickwork.core.schedule.plan import EXCLUDED
from tickwork.core.when import is_fixed_delay
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.schedules.lookup import get_schedule, rule_now
from tickwork.ops.schedules.views import fires_next, show_firing
from tickwork.ops.schedules.why_answers import Answer, Facts, answer_from
from tickwork.store.contract import Store

SCHEDULER_ROLE, WORKER_ROLE = "scheduler", "worker"

REACH = timedelta(days=800)
"""So far back a slot is looked for: leap days come every four years, but who asks for those?"""

_OVER = frozenset({ScheduleStatus.COMPLETED, ScheduleStatus.DELETED})


class Why(Struct, frozen=True, kw_only=True):
    """The answer: a code for programs, a sentence for people, and the facts behind it.

    `fired` is None while that is still open. `is_slot` is what the record says, and where it is
    silent, the rule as it is now.
    """

    schedule_id: UUID
    at: datetime
    is_slot: bool
    fired: bool | None
    code: str
    answer: str
    firings: tuple[FiringRecord, ...] = ()
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


async def why(store: Store, scope: Scope, reference: UUID | str, at: datetime | None = None) -> Why:
    """Why the schedule fired, or did not, at an instant; without one: at its latest slot, or the
    first one if none has come yet."""
    if at is not None and at.tzinfo is None:
        fault = "must have a time zone offset, such as 2027-03-14T09:00:00Z"
        raise InvalidInput([FieldError("at", fault)])
    faults: list[FieldError] = []
    if at is not None and not Reader({}, faults).is_in_years("at", at):
        raise InvalidInput(faults)
    schedule = await _resolve(store, scope, reference)
    rule, now = await rule_now(store, scope, schedule), await store.now()
    if at is None:
        at = _latest_slot(schedule, rule, now)
    facts = await _facts(store, scope, schedule, rule, now, at)
    answer = answer_from(facts)
    hindered = await _hindrances(store, scope, schedule, answer)
    return Why(
        schedule_id=schedule.id,
        at=at,
        is_slot=facts.is_slot
        or (bool(facts.firings) and facts.is_recorded)
        or facts.message is not None,
        fired=answer.fired,
        code=answer.code,
        answer=f"{answer.words[0].upper()}{answer.words[1:]}{hindered}.",
        firings=tuple(facts.firings),
        previous_slot=facts.previous,
        next_slot=facts.following,
    )


async def _resolve(store: Store, scope: Scope, reference: UUID | str) -> Schedule:
    """A deleted one has given up its name, which another may have by now."""
    try:
        return await get_schedule(store, scope, reference)
    except NotFound as error:
        if isinstance(error.name, UUID):
            raise
        hint = "one that was deleted has its id only: tickwork schedules list --status deleted"
        raise NotFound(error.kind, error.name, hint) from None


async def _facts(
    store: Store, scope: Scope, schedule: Schedule, rule: when.Rule, now: datetime, at: datetime
) -> Facts:
    found = await store.firings.of_slot(scope, schedule.id, at)
    firings = [each for each in found if _covers(each, rule, at)]
    possible = [each for each in found if _covers(each, rule, at) is None]
    waiting = await store.schedules.messages(scope, schedule.id, 1, since=at)
    slots = structs.replace(rule, max_firings=None)
    known = {schedule.next_slot, schedule.last_slot}
    if is_fixed_delay(rule):  # Only what has a row is known: the others depend on runs to come.
        is_slot, previous = at in known, _nearest(known, at, later=False)
        following = _nearest(known, at, later=True)
    else:
        is_slot = when.next_after(slots, just_before(at)) == at
        is_slot = is_slot or (isinstance(rule.timing, when.Once) and at == schedule.last_slot)
        # What was before its creation never was a slot of this schedule.
        first, last = max(just_before(schedule.created_at), at - REACH), just_before(at)
        if schedule.status in _OVER:
            last = min(last, schedule.changed_at)
        previous = when.last_between(slots, first, last)
        following = when.next_after(slots, max(at, schedule.created_at))
    if schedule.status in _OVER and following is not None and following > schedule.changed_at:
        following = None
    return Facts(
        schedule=schedule,
        rule=rule,
        now=now,
        at=at,
        firings=firings or possible,
        is_recorded=bool(firings) or not possible,
        message=next((each for each in waiting if each.slot == at), None),
        previous=previous,
        following=following,
        is_slot=is_slot,
    )


def _covers(firing: FiringRecord, rule: when.Rule, at: datetime) -> bool | None:
    """Whether an instant between the slots of a record is one of them. The rule knows, as far as it
    is the one that they came from: it has the same first and last one, and as many. If not, nobody
    knows any more."""
    last = firing.last_slot
    if last is None or at in (firing.slot, last):
        return True
    days = when.ignoring_days_off(rule) if firing.reason == EXCLUDED else rule
    slots = structs.replace(days, max_firings=None)
    is_same = (
        not is_fixed_delay(rule)
        and when.next_after(slots, just_before(firing.slot)) == firing.slot
        and when.next_after(slots, just_before(last)) == last
        and when.count_between(slots, just_before(firing.slot), last) == firing.count
    )
    return when.next_after(slots, just_before(at)) == at if is_same else None


def _nearest(known: set[datetime | None], at: datetime, *, later: bool) -> datetime | None:
    slots = [slot for slot in known if slot is not None and slot != at and (slot > at) is later]
    return min(slots, default=None) if later else max(slots, default=None)


async def _hindrances(store: Store, scope: Scope, schedule: Schedule, answer: Answer) -> str:
    """What stands in the way just now of a slot that waits."""
    roles = {"waiting": WORKER_ROLE, "planned": WORKER_ROLE, "not_planned": SCHEDULER_ROLE}
    role = roles.get(answer.code)
    if role is None:
        return ""
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
    """What somebody who names no time wants to know about. A day off is a slot here: why it did
    not fire today is just the question then."""
    until = min(now, schedule.changed_at) if schedule.status in _OVER else now
    passed = {schedule.last_slot}
    if is_fixed_delay(rule):
        passed.add(schedule.next_slot)
    else:
        every = structs.replace(when.ignoring_days_off(rule), max_firings=None)
        passed.add(when.last_between(every, max(schedule.created_at, until - REACH), until))
    latest = max((slot for slot in passed if slot is not None and slot <= until), default=None)
    if latest is not None:
        return latest
    if schedule.status in _OVER:
        return now
    return schedule.last_slot or fires_next(schedule) or now
