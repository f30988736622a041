"""What a leader does about one schedule now: a pure function from its state to a `Plan`.

```
     missed          on time        ahead: 30 s
  ───┬───┬───┬────────┬────┬──┃──┬────┬────────┃───┬─────▶ slots
     ▲                        now              ▲   ▲
     next_slot            skipped or fired  horizon  next_slot afterwards
```

Every slot from `next_slot` up to the horizon is in the plan: to fire, or in a run that says why
not. Slots whose overlap policy needs the present are judged when they are due, and not ahead.

A rule with days off has slots that never fire. They count as its slots here: `next_slot` may be one
of them, and it is on record when its time has come. Until then the days may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.schedule.calendar_change import with_pending_slot
from tickwork.core.schedule.model import OverlapPolicy, ScheduleStatus, shard_of
from tickwork.core.schedule.next_slot import (
    AHEAD_SECONDS,
    is_excluded,
    just_before,
    look_at,
    next_slot_or_excluded,
    slot_times,
)
from tickwork.core.when import (
    MissedPolicy,
    Once,
    Rule,
    due_at,
    excluded_runs,
    has_days_off,
    has_one_known_slot,
    is_expired,
    is_fixed_delay,
    next_after,
    plan_missed,
    split_around,
)

AHEAD_SLOTS_MAX = 1_000
"""Slots ahead in one plan; what is left is taken by the next one."""

UNFINISHED_MAX = 2
"""Unfinished firings are counted so far: no overlap policy asks for more."""

SKIPPED_MISSED = "skipped_missed"
SKIPPED_OVERLAP = "skipped_overlap"
PAUSED = "paused"
EXCLUDED = "excluded"
PAST_END = "past_end"
EXPIRED = "expired"
PLAN_ERROR = "plan_error"
DELETED = "deleted"
"""Beyond the contract's list: a slot that was due, not claimed yet, and withdrawn for good."""


class Fire(Struct, frozen=True, kw_only=True):
    """A slot to become a message. `visible_at` may be later than due: a catch-up is paced.
    `run` is 0 for a slot of the rule itself; `is_last`: no slot follows."""

    slot: datetime
    due_at: datetime
    visible_at: datetime
    catch_up: bool = False
    run: int = 0
    is_last: bool = False


class Skip(Struct, frozen=True):
    """A run of slots that do not fire, as one record; `run` as in `Fire`."""

    first: datetime
    last: datetime
    count: int
    reason: str
    run: int = 0


class DueSchedule(Struct, frozen=True, kw_only=True):
    """A schedule that a leader has to look at. `unfinished` is how many of its messages are there
    (counted up to 2, and only where the overlap policy asks)."""

    tenant: str
    id: UUID
    bucket: int
    version: int
    next_slot: datetime
    rule: Rule
    overlap: OverlapPolicy
    fired: int
    unfinished: int = 0
    calendar_version: int | None = None
    expires_after_seconds: float | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """What becomes of a schedule's slots up to a horizon, and how it stands then.

    It is good only for this `version` and `next_slot`, and under the token of its shard.
    """

    tenant: str
    id: UUID
    shard: int
    version: int
    next_slot: datetime
    fires: tuple[Fire, ...] = ()
    skips: tuple[Skip, ...] = ()
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    then_slot: datetime | None = None
    then_due_at: datetime | None = None
    look_at: datetime | None = None
    error: str | None = None


class PlanResult(Struct, frozen=True):
    """What became of plans, by their places: `done`, or refused because the shard is led by
    another (`lost`), the schedule has changed (`stale`), or its queue is gone (`no_queue`)."""

    done: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    no_queue: tuple[int, ...] = ()


class AccountedSlots(NamedTuple):
    """Slots accounted for, and the first one after them."""

    fires: Sequence[Fire]
    skips: Sequence[Skip]
    then: datetime | None


def plan(due: DueSchedule, now: datetime, *, ahead_seconds: float = AHEAD_SECONDS) -> Plan:
    """Accounts for every slot up to `now` and `ahead_seconds` beyond."""
    rule, ahead = with_pending_slot(due.rule, due.next_slot), timedelta(seconds=ahead_seconds)
    if rule is not due.rule:
        due = structs.replace(due, rule=rule)
    has_off = has_days_off(rule)
    if has_one_known_slot(rule):
        judged = _judge_single(due, now, ahead)
    elif has_off:
        judged = _judge_around(due, now, ahead)
    elif due.overlap.is_decided_when_due:
        judged = _judge_present(due, now)
    else:
        judged = _judge(due, now, ahead)
    fires, skips, then = judged
    if then is None:
        return _last(due, fires, [*skips, *_past_end(due, now)])
    if has_off:
        then_due_at, look = slot_times(rule, due.overlap, then, now, ahead=ahead)
    else:
        then_due_at, look = due_at(rule, then), look_at(rule, due.overlap, then, now, ahead=ahead)
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=shard_of(due.bucket),
        version=due.version,
        next_slot=due.next_slot,
        fires=tuple(fires),
        skips=tuple(skips),
        then_slot=then,
        then_due_at=then_due_at,
        look_at=look,
    )


def _last(due: DueSchedule, fires: Sequence[Fire], skips: Sequence[Skip]) -> Plan:
    """The plan after which no slot is known: the last firing, if there is one, ends it all."""
    is_over = not is_fixed_delay(due.rule) or _is_used_up(due, len(fires))
    if fires and is_over:
        fires = [*fires[:-1], structs.replace(fires[-1], is_last=True)]
    status = ScheduleStatus.ACTIVE if fires else ScheduleStatus.COMPLETED
    ended = structs.replace(_nothing(due), fires=tuple(fires), skips=tuple(skips), status=status)
    if isinstance(due.rule.timing, Once) and any(skip.reason == EXPIRED for skip in skips):
        return structs.replace(ended, status=ScheduleStatus.PARKED, error=EXPIRED)
    return ended


def park(due: DueSchedule, error: str) -> Plan:
    """The plan for a schedule that cannot be planned: it stands aside, and says why."""
    return park_instead(_nothing(due), error)


def _nothing(due: DueSchedule) -> Plan:
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=shard_of(due.bucket),
        version=due.version,
        next_slot=due.next_slot,
    )


def park_instead(planned: Plan, error: str) -> Plan:
    """Instead of a plan that cannot be carried out: the schedule stands aside, and says why."""
    slot = planned.next_slot
    return structs.replace(
        planned, fires=(), skips=(Skip(slot, slot, 1, PLAN_ERROR),), status=ScheduleStatus.PARKED,
        then_slot=slot, then_due_at=slot, look_at=None, error=error,
    )  # fmt: skip


def skips_of(slots: Sequence[datetime], reason: str) -> list[Skip]:
    """Slots as one run; nothing for none."""
    return [Skip(slots[0], slots[-1], len(slots), reason)] if slots else []


def _judge_single(due: DueSchedule, now: datetime, ahead: timedelta) -> AccountedSlots:
    rule, slot = due.rule, due.next_slot
    if is_excluded(rule, slot):
        if slot > now:
            return AccountedSlots((), (), slot)
        then = next_after(rule, slot, fired=due.fired) if is_fixed_delay(rule) else None
        return AccountedSlots((), skips_of([slot], EXCLUDED), then)
    if slot > now + ahead:
        return AccountedSlots((), (), slot)
    # The end of the run before set this slot, and knew nothing of the rule's bounds.
    if is_fixed_delay(rule):
        if _is_used_up(due):
            return AccountedSlots((), (), None)
        if rule.end_at is not None and slot > rule.end_at:
            return AccountedSlots((), skips_of([slot] if slot <= now else [], PAST_END), None)
    at = due_at(rule, slot)
    is_late = at < now - timedelta(seconds=rule.missed.grace_seconds)
    reason = SKIPPED_MISSED if is_late and rule.missed.policy is MissedPolicy.SKIP else None
    if reason is None and is_expired(rule, slot, now, due.expires_after_seconds):
        reason = EXPIRED
    if reason is not None:
        then = next_after(rule, now, fired=due.fired) if is_fixed_delay(rule) else None
        return AccountedSlots((), skips_of([slot], reason), then)
    return AccountedSlots((_fire(rule, slot, is_late),), (), None)


def _judge_around(due: DueSchedule, now: datetime, ahead: timedelta) -> AccountedSlots:
    """The slots of a rule with days off: what is open is judged as ever, and what lies between
    is on record as soon as its time has come, or anything after it is accounted for."""
    rule, slot = due.rule, due.next_slot
    fires, skips, then = AccountedSlots(
        (), (), next_after(rule, just_before(slot), fired=due.fired)
    )
    if then is not None:
        opened = structs.replace(due, next_slot=then)
        is_now = due.overlap.is_decided_when_due
        fires, skips, then = _judge_present(opened, now) if is_now else _judge(opened, now, ahead)
    reached = [now, *(fire.slot for fire in fires), *(skip.last for skip in skips)]
    until = max(reached) if then is None else min(max(reached), just_before(then))
    if slot > until:
        return AccountedSlots(fires, skips, slot)
    skips = with_excluded_runs(rule, skips, slot, until)
    return AccountedSlots(
        fires, skips, then if then is None else next_slot_or_excluded(rule, until)
    )


def _judge(due: DueSchedule, now: datetime, ahead: timedelta) -> AccountedSlots:
    rule, fired, expires = due.rule, due.fired, due.expires_after_seconds
    fires: list[Fire] = []
    skips: list[Skip] = []
    until = just_before(due.next_slot)
    if due.next_slot <= now:
        missed = plan_missed(rule, until, now, fired=fired, expires_after_seconds=expires)
        fires = [_fire(rule, each.slot, each.catch_up) for each in missed.fire]
        skips = [Skip(run.first, run.last, run.count, SKIPPED_MISSED) for run in missed.skipped]
        skips += [Skip(run.first, run.last, run.count, EXPIRED) for run in missed.expired]
        fired += len(fires)
        until = missed.until
        if until < now:  # There are more than one plan holds.
            return AccountedSlots(fires, skips, next_after(rule, until, fired=fired))
    # From slot to slot, and not from `now`: what follows a slot of a rule is remembered.
    horizon, slot = now + ahead, next_after(rule, until, fired=fired)
    coming_max = len(fires) + AHEAD_SLOTS_MAX
    while slot is not None and slot <= horizon and len(fires) < coming_max:
        fires.append(_fire(rule, slot, catch_up=False))
        fired += 1
        slot = next_after(rule, slot, fired=fired)
    return AccountedSlots(fires, skips, slot)


def _judge_present(due: DueSchedule, now: datetime) -> AccountedSlots:
    """Only what is due: of that, as much as the unfinished ones leave room for."""
    rule = due.rule
    if due_at(rule, due.next_slot) > now:
        return AccountedSlots((), (), due.next_slot)
    known = _judge(due, now, timedelta())
    later = [fire.slot for fire in known.fires if fire.due_at > now]
    ready = [fire for fire in known.fires if not later or fire.slot < later[0]]
    room = (2 if due.overlap is OverlapPolicy.BUFFER_ONE else 1) - due.unfinished
    kept, crowded = ready[: max(room, 0)], [fire.slot for fire in ready[max(room, 0) :]]
    # With a window a slot may be late while one before it is still to come.
    skips = [skip for skip in known.skips if not later or skip.last < later[0]]
    then = later[0] if later else known.then
    if then is None and crowded:  # What found no room has not used up `max_firings`.
        then = next_after(rule, crowded[-1], fired=due.fired + len(kept))
    return AccountedSlots(kept, [*skips, *skips_of(crowded, SKIPPED_OVERLAP)], then)


def _is_used_up(due: DueSchedule, more: int = 0) -> bool:
    return due.rule.max_firings is not None and due.fired + more >= due.rule.max_firings


def _fire(rule: Rule, slot: datetime, catch_up: bool) -> Fire:
    at = due_at(rule, slot)
    return Fire(slot=slot, due_at=at, visible_at=at, catch_up=catch_up)


def _past_end(due: DueSchedule, now: datetime) -> Iterator[Skip]:
    """The slot that would follow if the rule had no end; before its time the end may be moved."""
    rule = due.rule
    if rule.end_at is not None and not is_fixed_delay(rule):
        endless = structs.replace(rule, end_at=None, max_firings=None)
        past = next_after(endless, max(rule.end_at, due.next_slot))
        if past is not None and past <= now:
            yield Skip(past, past, 1, PAST_END)


def with_excluded_runs(
    rule: Rule, runs: Sequence[Skip], first: datetime, until: datetime
) -> list[Skip]:
    """Runs of slots that might have fired, and those on days off: none covers a slot of another."""
    off = [*excluded_runs(rule, first, until)]
    skips = [Skip(each.first, each.last, each.count, EXCLUDED) for each in off]
    for run in runs:
        parts = split_around(rule, run.first, run.last, off)
        skips += [Skip(each.first, each.last, each.count, run.reason) for each in parts]
    return sorted(skips, key=lambda skip: skip.first)
