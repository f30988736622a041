"""What a leader does about one schedule now: a pure function from its state to a `Plan`.

```
     missed          on time        ahead: 30 s
  ───┬───┬───┬────────┬────┬──┃──┬────┬────────┃───┬─────▶ slots
     ▲                        now              ▲   ▲
     next_slot            skipped or fired  horizon  next_slot afterwards
```

Every slot from `next_slot` up to the horizon is in the plan: to fire, or in a run that says why
not. Slots whose overlap policy needs the present are judged when they are due, and not ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from tickwork.core.schedule import OverlapPolicy, ScheduleStatus, shard_of
from tickwork.core.when import (
    Interval,
    IntervalMode,
    MissedPolicy,
    Once,
    Roll,
    Rule,
    due_at,
    iterate,
    next_after,
    plan_missed,
)

AHEAD_SECONDS = 30.0
"""So far ahead slots become messages, so that a burst is in its queue when its time comes."""

COMING_MAX = 1_000
"""Slots ahead in one plan; what is left is taken by the next one."""

EXCLUDED_MAX = 10_000
"""Excluded slots that are looked at one by one for a record."""

UNFINISHED_MAX = 2
"""Unfinished firings are counted so far: no overlap policy asks for more."""

SKIPPED_MISSED = "skipped_missed"
SKIPPED_OVERLAP = "skipped_overlap"
PAUSED = "paused"
EXCLUDED = "excluded"
PAST_END = "past_end"
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
    """A run of slots that do not fire, as one record."""

    first: datetime
    last: datetime
    count: int
    reason: str


class Due(Struct, frozen=True, kw_only=True):
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


class Judged(NamedTuple):
    """Slots accounted for, and the first one after them."""

    fires: Sequence[Fire]
    skips: Sequence[Skip]
    then: datetime | None


def plan(due: Due, now: datetime, *, ahead_seconds: float = AHEAD_SECONDS) -> Plan:
    """Accounts for every slot up to `now` and `ahead_seconds` beyond."""
    rule, ahead = due.rule, timedelta(seconds=ahead_seconds)
    if is_single(rule):
        judged = _judge_single(due, now, ahead)
    elif due.overlap.needs_the_present:
        judged = _judge_present(due, now)
    else:
        judged = _judge(due, now, ahead)
    fires, skips, then = judged
    if rule.end_at is not None or rule.exclude or rule.holidays:
        skips = sorted([*skips, *_unseen(due, then)], key=lambda skip: skip.first)
    if then is None:
        return _last(due, fires, skips)
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=shard_of(due.bucket),
        version=due.version,
        next_slot=due.next_slot,
        fires=tuple(fires),
        skips=tuple(skips),
        then_slot=then,
        then_due_at=due_at(rule, then),
        look_at=look_at(rule, due.overlap, then, now, ahead=ahead),
    )


def _last(due: Due, fires: Sequence[Fire], skips: Sequence[Skip]) -> Plan:
    """The plan after which no slot is known: the last firing, if there is one, ends it all."""
    is_over = not is_delay(due.rule) or _is_used_up(due, len(fires))
    if fires and is_over:
        fires = [*fires[:-1], structs.replace(fires[-1], is_last=True)]
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=shard_of(due.bucket),
        version=due.version,
        next_slot=due.next_slot,
        fires=tuple(fires),
        skips=tuple(skips),
        status=ScheduleStatus.ACTIVE if fires else ScheduleStatus.COMPLETED,
    )


def parked(due: Due, error: str) -> Plan:
    """The plan for a schedule that cannot be planned: it stands aside, and says why."""
    return Plan(
        tenant=due.tenant,
        id=due.id,
        shard=shard_of(due.bucket),
        version=due.version,
        next_slot=due.next_slot,
        skips=(Skip(due.next_slot, due.next_slot, 1, PLAN_ERROR),),
        status=ScheduleStatus.PARKED,
        then_slot=due.next_slot,
        then_due_at=due.next_slot,
        error=error,
    )


def look_at(
    rule: Rule,
    overlap: OverlapPolicy,
    slot: datetime,
    now: datetime | None = None,
    *,
    ahead: timedelta = timedelta(seconds=AHEAD_SECONDS),
) -> datetime:
    """When a leader has to look at a schedule with this next slot.

    With `now` everything up to the horizon is planned: then a frequent schedule is looked at
    twice per horizon, and not for each of its slots.
    """
    if overlap.needs_the_present:
        return due_at(rule, slot)
    if now is None or slot <= now + ahead:
        return slot - ahead
    return max(slot - ahead, now + ahead / 2)


def is_delay(rule: Rule) -> bool:
    """Whether its next slot is counted from the end of the one before."""
    return isinstance(rule.timing, Interval) and rule.timing.mode is IntervalMode.FIXED_DELAY


def is_single(rule: Rule) -> bool:
    """Whether no more than one slot is known at a time."""
    return isinstance(rule.timing, Once) or is_delay(rule)


def before(instant: datetime) -> datetime:
    """The last instant before: intervals are open at the start."""
    return instant - timedelta.resolution


def skipped(slots: Sequence[datetime], reason: str) -> list[Skip]:
    """Slots as one run; nothing for none."""
    return [Skip(slots[0], slots[-1], len(slots), reason)] if slots else []


def _judge_single(due: Due, now: datetime, ahead: timedelta) -> Judged:
    rule, slot = due.rule, due.next_slot
    if slot > now + ahead:
        return Judged((), (), slot)
    # The end of the run before set this slot, and knew nothing of the rule's bounds.
    if is_delay(rule):
        if _is_used_up(due):
            return Judged((), (), None)
        if rule.end_at is not None and slot > rule.end_at:
            return Judged((), skipped([slot], PAST_END), None)
        if _is_day_off(rule, slot):
            return Judged((), skipped([slot], EXCLUDED), next_after(rule, slot, fired=due.fired))
    at = due_at(rule, slot)
    is_late = at < now - timedelta(seconds=rule.missed.grace_seconds)
    if is_late and rule.missed.policy is MissedPolicy.SKIP:
        then = next_after(rule, now, fired=due.fired) if is_delay(rule) else None
        return Judged((), skipped([slot], SKIPPED_MISSED), then)
    return Judged((_fire(rule, slot, is_late),), (), None)


def _judge(due: Due, now: datetime, ahead: timedelta) -> Judged:
    rule, fired = due.rule, due.fired
    fires: list[Fire] = []
    skips: list[Skip] = []
    until = before(due.next_slot)
    if due.next_slot <= now:
        missed = plan_missed(rule, until, now, fired=fired)
        fires = [_fire(rule, each.slot, each.catch_up) for each in missed.fire]
        skips = [Skip(run.first, run.last, run.count, SKIPPED_MISSED) for run in missed.skipped]
        fired += len(fires)
        until = missed.until
        if until < now:  # There are more than one plan holds.
            return Judged(fires, skips, next_after(rule, until, fired=fired))
    # From slot to slot, and not from `now`: what follows a slot of a rule is remembered.
    horizon, slot = now + ahead, next_after(rule, until, fired=fired)
    coming_max = len(fires) + COMING_MAX
    while slot is not None and slot <= horizon and len(fires) < coming_max:
        fires.append(_fire(rule, slot, catch_up=False))
        fired += 1
        slot = next_after(rule, slot, fired=fired)
    return Judged(fires, skips, slot)


def _judge_present(due: Due, now: datetime) -> Judged:
    """Only what is due: of that, as much as the unfinished ones leave room for."""
    rule = due.rule
    if due_at(rule, due.next_slot) > now:
        return Judged((), (), due.next_slot)
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
    return Judged(kept, [*skips, *skipped(crowded, SKIPPED_OVERLAP)], then)


def _is_used_up(due: Due, more: int = 0) -> bool:
    return due.rule.max_firings is not None and due.fired + more >= due.rule.max_firings


def _is_day_off(rule: Rule, slot: datetime) -> bool:
    days = rule.excluded_days
    return bool(days) and slot.astimezone(ZoneInfo(rule.timezone)).date() in days


def _fire(rule: Rule, slot: datetime, catch_up: bool) -> Fire:
    at = due_at(rule, slot)
    return Fire(slot=slot, due_at=at, visible_at=at, catch_up=catch_up)


def _unseen(due: Due, then: datetime | None) -> Iterator[Skip]:
    """The slots that the rule leaves out on its way: days off, and what would follow its end."""
    rule = due.rule
    if rule.excluded_days and rule.roll is Roll.SKIP and not is_single(rule):
        yield from skipped(_excluded(rule, due.next_slot, then), EXCLUDED)
    if then is None and rule.end_at is not None and not is_delay(rule):
        endless = structs.replace(rule, end_at=None, max_firings=None)
        past = next_after(endless, max(rule.end_at, due.next_slot))
        if past is not None:
            yield Skip(past, past, 1, PAST_END)


def _excluded(rule: Rule, after: datetime, then: datetime | None) -> list[datetime]:
    bare = structs.replace(rule, exclude=(), holidays=frozenset(), max_firings=None)
    found: list[datetime] = []
    for count, slot in enumerate(iterate(bare, after)):
        if (then is None or slot >= then) or count >= EXCLUDED_MAX:
            break
        if next_after(rule, before(slot)) != slot:
            found.append(slot)
    return found
