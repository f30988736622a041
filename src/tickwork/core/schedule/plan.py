"""Planning: what a leader does about one schedule now, as a pure function to a `Plan`.

```
     missed          on time        ahead: 30 s
  ───┬───┬───┬────────┬────┬──┃──┬────┬────────┃───┬─────▶ slots
     ▲                        now              ▲   ▲
     next_slot            skipped or fired  horizon  next_slot afterwards
```

Every slot from `next_slot` up to the horizon is in the plan: it fires, or it is in a skip with a
reason. With the overlap policies `skip` and `buffer_one` a slot is decided only when it is due.

Slots on excluded days never fire, but the plan accounts for them. `next_slot` may be one of them.
They are recorded when their time has come, because until then the excluded days may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.schedule.calendar_change import with_pending_slot
from tickwork.core.schedule.model import OverlapPolicy, ScheduleStatus
from tickwork.core.schedule.next_slot import (
    AHEAD_SECONDS,
    is_excluded,
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
    just_before,
    next_after,
    plan_missed,
    split_around,
)

AHEAD_SLOTS_MAX = 1_000
"""Maximum number of slots ahead of now in one plan. The next plan takes the rest."""

CATCH_UP_PRIORITY_STEP = 1
"""Difference between the priority of a schedule and that of its catch-up firings, down to 0."""

UNFINISHED_MAX = 2
"""Maximum count of unfinished firings: no overlap policy needs a higher one."""

SKIPPED_MISSED = "skipped_missed"
SKIPPED_OVERLAP = "skipped_overlap"
PAUSED = "paused"
EXCLUDED = "excluded"
PAST_END = "past_end"
EXPIRED = "expired"
PLAN_ERROR = "plan_error"
DELETED = "deleted"
"""Reasons why a slot did not fire. `deleted`: due and unclaimed when its schedule was deleted."""


class Fire(Struct, frozen=True, kw_only=True):
    """A slot that becomes a message.

    `visible_at` may be later than `due_at` if catch-up slots are paced. `run` is 0 for a slot of
    the rule and counts up for extra runs. `is_last`: no slot follows.
    """

    slot: datetime
    due_at: datetime
    visible_at: datetime
    catch_up: bool = False
    run: int = 0
    is_last: bool = False


class Skip(Struct, frozen=True):
    """Consecutive slots that do not fire, as one record. `run` is as in `Fire`."""

    first: datetime
    last: datetime
    count: int
    reason: str
    run: int = 0


class DueSchedule(Struct, frozen=True, kw_only=True):
    """A schedule that a leader must look at now.

    `unfinished` counts its unfinished messages up to 2, and only if the overlap policy needs it.
    """

    tenant: str
    id: UUID
    shard: int
    version: int
    next_slot: datetime
    rule: Rule
    overlap: OverlapPolicy
    fired: int
    unfinished: int = 0
    calendar_version: int | None = None
    expires_after_seconds: float | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """What happens to a schedule's slots up to a horizon, and its state afterwards.

    The `then_` fields are its new next slot and due time. A plan is valid only for this `version`
    and `next_slot`, and under the token of its shard.
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
    """Outcome of a batch of plans, as their indexes.

    `done`: stored. `lost`: another node leads the shard. `stale`: the schedule has changed.
    `no_queue`: the target queue does not exist.
    """

    done: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    no_queue: tuple[int, ...] = ()


class AccountedSlots(NamedTuple):
    """Slots that a plan accounts for, and the first slot after them."""

    fires: Sequence[Fire]
    skips: Sequence[Skip]
    then: datetime | None


def plan(due: DueSchedule, now: datetime, *, ahead_seconds: float = AHEAD_SECONDS) -> Plan:
    """Accounts for every slot up to `ahead_seconds` after `now`."""
    rule, ahead = with_pending_slot(due.rule, due.next_slot), timedelta(seconds=ahead_seconds)
    if rule is not due.rule:
        due = structs.replace(due, rule=rule)
    has_excluded = has_days_off(rule)
    if has_one_known_slot(rule):
        accounted = _account_one_known(due, now, ahead)
    elif has_excluded:
        accounted = _account_with_days_off(due, now, ahead)
    elif due.overlap.is_decided_when_due:
        accounted = _account_due_only(due, now)
    else:
        accounted = _account(due, now, ahead)
    fires, skips, then = accounted
    if then is None:
        return _last(due, fires, [*skips, *_past_end(due, now)])
    if has_excluded:
        then_due_at, look = slot_times(rule, due.overlap, then, now, ahead=ahead)
    else:
        then_due_at, look = due_at(rule, then), look_at(rule, due.overlap, then, now, ahead=ahead)
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=due.shard,
        version=due.version,
        next_slot=due.next_slot,
        fires=tuple(fires),
        skips=tuple(skips),
        then_slot=then,
        then_due_at=then_due_at,
        look_at=look,
    )


def _last(due: DueSchedule, fires: Sequence[Fire], skips: Sequence[Skip]) -> Plan:
    """A plan after which no slot is known. Its last firing, if any, completes the schedule."""
    is_over = not is_fixed_delay(due.rule) or _is_used_up(due, len(fires))
    if fires and is_over:
        fires = [*fires[:-1], structs.replace(fires[-1], is_last=True)]
    status = ScheduleStatus.ACTIVE if fires else ScheduleStatus.COMPLETED
    ended = structs.replace(_unchanged(due), fires=tuple(fires), skips=tuple(skips), status=status)
    if isinstance(due.rule.timing, Once) and any(skip.reason == EXPIRED for skip in skips):
        return structs.replace(ended, status=ScheduleStatus.PARKED, error=EXPIRED)
    return ended


def park(due: DueSchedule, error: str) -> Plan:
    """A plan that parks a schedule whose planning failed, and records the error."""
    return park_instead(_unchanged(due), error)


def _unchanged(due: DueSchedule) -> Plan:
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=due.shard,
        version=due.version,
        next_slot=due.next_slot,
    )


def park_instead(planned: Plan, error: str) -> Plan:
    """Replaces a plan that cannot be stored: parks the schedule and records the error."""
    slot = planned.next_slot
    return structs.replace(
        planned, fires=(), skips=(Skip(slot, slot, 1, PLAN_ERROR),), status=ScheduleStatus.PARKED,
        then_slot=slot, then_due_at=slot, look_at=None, error=error,
    )  # fmt: skip


def skips_of(slots: Sequence[datetime], reason: str) -> list[Skip]:
    """Slots as one skip; an empty list for no slots."""
    return [Skip(slots[0], slots[-1], len(slots), reason)] if slots else []


def _account_one_known(due: DueSchedule, now: datetime, ahead: timedelta) -> AccountedSlots:
    rule, slot = due.rule, due.next_slot
    if is_excluded(rule, slot):
        if slot > now:
            return AccountedSlots((), (), slot)
        then = next_after(rule, slot, fired=due.fired) if is_fixed_delay(rule) else None
        return AccountedSlots((), skips_of([slot], EXCLUDED), then)
    if slot > now + ahead:
        return AccountedSlots((), (), slot)
    # The previous run set this slot when it finished, without checking the rule's bounds.
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


def _account_with_days_off(due: DueSchedule, now: datetime, ahead: timedelta) -> AccountedSlots:
    """Accounts for the slots of a rule with excluded days.

    Open slots are handled as usual. Excluded slots are recorded when their time has come, or when
    a later slot is accounted for. After the last of `max_firings` there are none.
    """
    rule, slot = due.rule, due.next_slot
    if _is_used_up(due):
        return AccountedSlots((), (), None)
    fires, skips, then = AccountedSlots(
        (), (), next_after(rule, just_before(slot), fired=due.fired)
    )
    if then is not None:
        open_due = structs.replace(due, next_slot=then)
        due_only = due.overlap.is_decided_when_due
        fires, skips, then = (
            _account_due_only(open_due, now) if due_only else _account(open_due, now, ahead)
        )
    reached = [*(fire.slot for fire in fires), *(skip.last for skip in skips)]
    if not _is_used_up(due, len(fires)):
        reached.append(now)
    until = max(reached) if then is None else min(max(reached), just_before(then))
    if slot > until:
        return AccountedSlots(fires, skips, slot)
    skips = with_excluded_runs(rule, skips, slot, until)
    return AccountedSlots(
        fires, skips, then if then is None else next_slot_or_excluded(rule, until)
    )


def _account(due: DueSchedule, now: datetime, ahead: timedelta) -> AccountedSlots:
    rule = due.rule
    fired = due.fired
    expires = due.expires_after_seconds
    fires: list[Fire] = []
    skips: list[Skip] = []
    until = just_before(due.next_slot)
    if due.next_slot <= now:
        missed = plan_missed(rule, until, now, fired=fired, expires_after_seconds=expires)
        fires = [_fire(rule, planned.slot, planned.catch_up) for planned in missed.fire]
        skips = [Skip(run.first, run.last, run.count, SKIPPED_MISSED) for run in missed.skipped]
        skips += [Skip(run.first, run.last, run.count, EXPIRED) for run in missed.expired]
        fired += len(fires)
        until = missed.until
        if until < now:  # There are more missed slots than one plan holds.
            return AccountedSlots(fires, skips, next_after(rule, until, fired=fired))
    # From slot to slot and not from `now`: `next_after` caches the successor of a slot.
    horizon, slot = now + ahead, next_after(rule, until, fired=fired)
    fires_max = len(fires) + AHEAD_SLOTS_MAX
    while slot is not None and slot <= horizon and len(fires) < fires_max:
        fires.append(_fire(rule, slot, catch_up=False))
        fired += 1
        slot = next_after(rule, slot, fired=fired)
    return AccountedSlots(fires, skips, slot)


def _account_due_only(due: DueSchedule, now: datetime) -> AccountedSlots:
    """Fires due slots only, as many as the overlap policy allows besides unfinished firings."""
    rule = due.rule
    if due_at(rule, due.next_slot) > now:
        return AccountedSlots((), (), due.next_slot)
    known = _account(due, now, timedelta())
    later = [fire.slot for fire in known.fires if fire.due_at > now]
    ready = [fire for fire in known.fires if not later or fire.slot < later[0]]
    room = (2 if due.overlap is OverlapPolicy.BUFFER_ONE else 1) - due.unfinished
    kept, crowded = ready[: max(room, 0)], [fire.slot for fire in ready[max(room, 0) :]]
    # With a fire window a slot may be late while an earlier one is not due yet.
    skips = [skip for skip in known.skips if not later or skip.last < later[0]]
    then = later[0] if later else known.then
    if then is None and crowded:  # Crowded slots do not count towards `max_firings`.
        then = next_after(rule, crowded[-1], fired=due.fired + len(kept))
    return AccountedSlots(kept, [*skips, *skips_of(crowded, SKIPPED_OVERLAP)], then)


def _is_used_up(due: DueSchedule, more: int = 0) -> bool:
    return due.rule.max_firings is not None and due.fired + more >= due.rule.max_firings


def _fire(rule: Rule, slot: datetime, catch_up: bool) -> Fire:
    at = due_at(rule, slot)
    return Fire(slot=slot, due_at=at, visible_at=at, catch_up=catch_up)


def _past_end(due: DueSchedule, now: datetime) -> Iterator[Skip]:
    """The slot after `end_at`, once its time has come: until then the end may be moved."""
    rule = due.rule
    if rule.end_at is not None and not is_fixed_delay(rule):
        endless = structs.replace(rule, end_at=None, max_firings=None)
        past = next_after(endless, max(rule.end_at, due.next_slot))
        if past is not None and past <= now:
            yield Skip(past, past, 1, PAST_END)


def with_excluded_runs(
    rule: Rule, runs: Sequence[Skip], first: datetime, until: datetime
) -> list[Skip]:
    """Adds skips for excluded slots, and splits the given ones so that none overlaps another."""
    off = [*excluded_runs(rule, first, until)]
    skips = [Skip(excluded.first, excluded.last, excluded.count, EXCLUDED) for excluded in off]
    for run in runs:
        parts = split_around(rule, run.first, run.last, off)
        skips += [Skip(part.first, part.last, part.count, run.reason) for part in parts]
    return sorted(skips, key=lambda skip: skip.first)
