"""Answers why a schedule fired, or did not, at an instant.

This module collects the facts from the records and the rule; `why_answers` turns them into an
answer.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from msgspec import structs

from tickwork.core import when
from tickwork.core.answers.ids import GivenId, Id, Prefix
from tickwork.core.answers.schedule import FiringAnswer, TriggeredRun, Why
from tickwork.core.fields import Reader
from tickwork.core.model import SYSTEM, Message
from tickwork.core.schedule.firing import FiringRecord
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.plan import EXCLUDED
from tickwork.core.when import is_fixed_delay, just_before
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.obstacles import SCHEDULER_ROLE, WORKER_ROLE, obstacles
from tickwork.ops.schedules.lookup import get_schedule, rule_now
from tickwork.ops.schedules.views import next_fire_in_row
from tickwork.ops.schedules.why_answers import Answer, Facts, answer_from

LOOKBACK = timedelta(days=800)
"""Time back in which the previous slot is searched. It is too short for a rule of leap days."""

RUNS_LOOKED_AT = 1_000
"""Number of messages, and of the newest records, among which the latest triggered run is searched.
"""

_OVER = frozenset({ScheduleStatus.COMPLETED, ScheduleStatus.DELETED})


async def why(context: Context, reference: GivenId, at: datetime | None = None) -> Why:
    """Answers why the schedule fired, or did not, at an instant.

    Without an instant it answers for the latest slot, or for the first one if none was due yet, and
    for the latest triggered run.
    """
    if at is not None and at.tzinfo is None:
        fault = "must have a time zone offset, such as 2027-03-14T09:00:00Z"
        raise InvalidInput([FieldError("at", fault)])
    faults: list[FieldError] = []
    if at is not None and not Reader({}, faults).is_in_years("at", at):
        raise InvalidInput(faults)
    schedule = await _get_schedule(context, reference)
    rule, now = await rule_now(context, schedule), await context.store.now()
    triggered = None
    if at is None:
        triggered = await _latest_triggered(context, schedule, rule, now)
        at = _latest_slot(schedule, rule, now)
    elif isinstance(rule.timing, when.Once) and at == rule.timing.at:
        # If its time was over when it was given, its slot is when that happened.
        at = schedule.last_slot or schedule.next_slot or at
    facts = await _facts(context, schedule, rule, now, at)
    answer = answer_from(facts)
    return Why(
        schedule_id=Id.of(Prefix.SCHEDULE, schedule.id),
        at=at,
        is_slot=facts.is_slot
        or (bool(facts.firings) and facts.is_recorded)
        or facts.message is not None,
        fired=answer.fired,
        code=answer.code,
        answer=await _sentence(context, schedule, answer),
        firings=tuple(map(FiringAnswer.of, facts.firings)),
        previous_slot=facts.previous,
        next_slot=facts.following,
        triggered=triggered,
    )


async def _latest_triggered(
    context: Context, schedule: Schedule, rule: when.Rule, now: datetime
) -> TriggeredRun | None:
    """What became of the latest triggered run. Other extra runs are backfilled, which are
    catch-ups, or replays of a slot, which has a first run."""
    if not schedule.runs:
        return None
    waiting = await context.store.schedules.messages(context.scope, schedule.id, RUNS_LOOKED_AT)
    records = await context.store.firings.list(context.scope, schedule.id, RUNS_LOOKED_AT)
    there: list[Message | FiringRecord] = [*waiting, *records]
    first = {firing.slot for firing in there if not firing.run}
    extra = {firing.slot for firing in there if firing.run and not firing.catch_up}
    for at in sorted((slot for slot in extra - first if slot is not None), reverse=True):
        if all(
            firing.run
            for firing in await context.store.firings.of_slot(context.scope, schedule.id, at)
        ):
            answer = answer_from(await _facts(context, schedule, rule, now, at))
            words = await _sentence(context, schedule, answer)
            return TriggeredRun(at, answer.fired, answer.code, words)
    return None


async def _get_schedule(context: Context, reference: GivenId) -> Schedule:
    """As `get_schedule`, with a hint: a deleted schedule is found by its id only."""
    try:
        return await get_schedule(context, reference)
    except NotFound as error:
        raise deleted_hint(error) from None


def deleted_hint(error: NotFound) -> NotFound:
    """The error of a schedule that was not found by its name, with a hint: it may be deleted."""
    if isinstance(error.name, UUID):
        return error
    hint = "find a deleted one by its id: tickwork schedules list --status deleted"
    return NotFound(error.kind, error.name, hint)


async def _facts(
    context: Context, schedule: Schedule, rule: when.Rule, now: datetime, at: datetime
) -> Facts:
    found = await context.store.firings.of_slot(context.scope, schedule.id, at)
    firings = [firing for firing in found if _covers(firing, rule, at)]
    possible = [firing for firing in found if _covers(firing, rule, at) is None]
    waiting = await context.store.schedules.messages(context.scope, schedule.id, 1, since=at)
    slots = structs.replace(rule, max_firings=None)
    known = {schedule.next_slot, schedule.last_slot}
    if is_fixed_delay(rule):  # Other slots depend on when runs finish.
        is_slot, previous = at in known, _nearest(known, at, later=False)
        following = _nearest(known, at, later=True)
    else:
        is_slot = when.next_after(slots, just_before(at)) == at
        is_slot = is_slot or (isinstance(rule.timing, when.Once) and at in known)
        # Instants before its creation are not slots of this schedule.
        first, last = max(just_before(schedule.created_at), at - LOOKBACK), just_before(at)
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
        message=next((message for message in waiting if message.slot == at), None),
        previous=previous,
        following=following,
        is_slot=is_slot,
        widened_seconds=await context.store.nodes.widened_seconds(SYSTEM),
    )


def _covers(firing: FiringRecord, rule: when.Rule, at: datetime) -> bool | None:
    """Whether an instant is one of the slots that a record covers.

    The current rule answers that if it is the rule that the slots came from: it has the same first
    and last slot and the same number between them. Otherwise the answer is None: unknown.
    """
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


async def _sentence(context: Context, schedule: Schedule, answer: Answer) -> str:
    obstacles = await _obstacles(context, schedule, answer)
    return f"{answer.words[0].upper()}{answer.words[1:]}{obstacles}."


async def _obstacles(context: Context, schedule: Schedule, answer: Answer) -> str:
    """Returns what prevents a waiting slot from running now."""
    roles = {"waiting": WORKER_ROLE, "planned": WORKER_ROLE, "not_planned": SCHEDULER_ROLE}
    role = roles.get(answer.code)
    if role is None:
        return ""
    found = await obstacles(context, schedule.definition.queue, schedule.tenant, role)
    return f" ({'; '.join(found)})" if found else ""


def _latest_slot(schedule: Schedule, rule: when.Rule, now: datetime) -> datetime:
    """Returns the instant to explain if the caller gives none. A day off counts as a slot here,
    because the question is then why it did not fire today."""
    until = min(now, schedule.changed_at) if schedule.status in _OVER else now
    candidates = {schedule.last_slot}
    if is_fixed_delay(rule):
        candidates.add(schedule.next_slot)
    else:
        every = structs.replace(when.ignoring_days_off(rule), max_firings=None)
        candidates.add(when.last_between(every, max(schedule.created_at, until - LOOKBACK), until))
    latest = max((slot for slot in candidates if slot is not None and slot <= until), default=None)
    if latest is not None:
        return latest
    if schedule.status in _OVER:
        return now
    return schedule.last_slot or next_fire_in_row(schedule) or now
