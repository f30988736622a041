"""What to do about slots that nobody planned in time.

After an outage a schedule may have missed one slot or half a million. The answer is a value:
which slots to fire, and the rest as runs with a count. Nothing walks the slots that are
skipped: they are counted, so that a year of a minutely rule costs milliseconds.

The slots that a rule leaves out because of their day, and the runs that they come in.

A rule with days off is two: the one that fires, and the one that it would be on every day. What the
second has and the first has not is left out, and somebody wants to know. A slot that rolls to
another day is not left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from tickwork.core.when.model import Missed, MissedPolicy, Roll, Rule, is_fixed_delay
from tickwork.core.when.slots import (
    count_between,
    due_at,
    instant_before_last,
    last_between,
    next_after,
    slots_between,
    spread_max,
)
from tickwork.core.when.zone import just_before


class PlannedSlot(Struct, frozen=True):
    """A slot to fire; `catch_up` marks one that was missed."""

    slot: datetime
    catch_up: bool


class SkippedRun(Struct, frozen=True):
    """Consecutive slots that do not fire, as one record."""

    first: datetime
    last: datetime
    count: int


PLAN_SLOTS_MAX = 10_000
"""Slots judged one by one in a plan; a long grace may hold more, which the next plan takes."""


class MissedPlan(Struct, frozen=True):
    """Every slot in `(last_slot, until]`: to fire, skipped, or expired."""

    fire: tuple[PlannedSlot, ...]
    skipped: tuple[SkippedRun, ...]
    until: datetime
    expired: tuple[SkippedRun, ...] = ()


def plan_missed(
    rule: Rule,
    last_slot: datetime,
    now: datetime,
    missed: Missed | None = None,
    *,
    fired: int = 0,
    expires_after_seconds: float | None = None,
) -> MissedPlan:
    """Accounts for every slot after `last_slot`, up to `now` or the plan's `until` before it.

    A slot is missed when its due time is more than the grace ago. Slots on time always fire.
    Of the missed ones `fire_late` fires the last `cap`; `fire_most_recent` the latest, unless
    a slot on time stands for it; `skip` none. `fired` is how many fired before: the slot that
    uses up `max_firings` is the last, and none after it is skipped either. What would fire, but
    was due `expires_after_seconds` ago or longer, is expired.
    """
    policy = rule.missed if missed is None else missed
    budget = None if rule.max_firings is None else max(rule.max_firings - fired, 0)
    if budget is not None:
        rule = structs.replace(rule, max_firings=None)
    surely_missed_until = _surely_missed_until(rule, last_slot, now, policy)
    # The slot after a fixed delay's next depends on a run that has not ended.
    limit = 1 if is_fixed_delay(rule) else PLAN_SLOTS_MAX
    recent = slots_between(rule, surely_missed_until, now, limit=limit)
    until = recent[-1] if len(recent) == PLAN_SLOTS_MAX else now
    deadline = now - timedelta(seconds=policy.grace_seconds)
    on_time = {slot for slot in recent if due_at(rule, slot) >= deadline}
    late = [slot for slot in recent if slot not in on_time]
    older = count_between(rule, last_slot, surely_missed_until)

    wanted = _wanted(policy, has_on_time=bool(on_time))
    catch_up = late[-wanted:] if wanted else []
    reach_back = min(wanted - len(catch_up), older)
    cut = surely_missed_until
    if reach_back:
        cut = instant_before_last(rule, last_slot, surely_missed_until, reach_back)
        catch_up = slots_between(rule, cut, surely_missed_until) + catch_up
    planned = [PlannedSlot(slot, catch_up=True) for slot in catch_up]
    planned += [PlannedSlot(slot, catch_up=False) for slot in on_time]
    planned.sort(key=lambda each: each.slot)
    first_run = _counted_run(rule, last_slot, cut, older - reach_back)
    skipped = _runs(first_run, recent, on_time.union(catch_up))
    expired: list[SkippedRun] = []
    if expires_after_seconds is not None:
        slots = {each.slot for each in planned}
        over = {slot for slot in slots if is_expired(rule, slot, now, expires_after_seconds)}
        planned = [each for each in planned if each.slot not in over]
        others = slots - over | {run.first for run in skipped}
        expired = _runs(None, sorted(over | others), others)
    if budget is not None and len(planned) >= budget:
        planned = planned[:budget]
        skipped, expired = _up_to_last(planned, skipped), _up_to_last(planned, expired)
    return MissedPlan(tuple(planned), tuple(skipped), until, tuple(expired))


def is_expired(
    rule: Rule, slot: datetime, now: datetime, expires_after_seconds: float | None
) -> bool:
    """Whether nobody may begin with a slot any more; that counts from when it was due."""
    if expires_after_seconds is None:
        return False
    return due_at(rule, slot) + timedelta(seconds=expires_after_seconds) <= now


def _surely_missed_until(
    rule: Rule, last_slot: datetime, now: datetime, policy: Missed
) -> datetime:
    """Slots up to here are late whatever their spread; later ones are judged one by one."""
    if is_fixed_delay(rule):
        return last_slot
    late_by = timedelta(seconds=policy.grace_seconds) + spread_max(rule)
    return max(last_slot, now - late_by - timedelta.resolution)


def _wanted(policy: Missed, *, has_on_time: bool) -> int:
    match policy.policy:
        case MissedPolicy.FIRE_LATE:
            return policy.cap
        case MissedPolicy.FIRE_MOST_RECENT:
            return 0 if has_on_time else 1
        case MissedPolicy.SKIP:
            return 0


def _counted_run(rule: Rule, after: datetime, until: datetime, count: int) -> SkippedRun | None:
    """The slots in `(after, until]` as one run; there are `count`."""
    if not count:
        return None
    first = next_after(rule, after)
    last = last_between(rule, after, until)
    assert first is not None
    assert last is not None
    return SkippedRun(first, last, count)


def _runs(
    counted: SkippedRun | None, recent: list[datetime], fires: set[datetime]
) -> list[SkippedRun]:
    """Every skipped slot in a run that no firing one interrupts.

    Where older slots fire all the recent ones do: a recent one that is skipped follows right on
    the counted run.
    """
    runs = [] if counted is None else [counted]
    goes_on = counted is not None
    for slot in recent:
        if slot in fires:
            goes_on = False
        elif goes_on:
            runs[-1] = SkippedRun(runs[-1].first, slot, runs[-1].count + 1)
        else:
            runs.append(SkippedRun(slot, slot, 1))
            goes_on = True
    return runs


def _up_to_last(planned: list[PlannedSlot], runs: list[SkippedRun]) -> list[SkippedRun]:
    """The runs before the slot that uses up the budget."""
    return [run for run in runs if planned and run.last < planned[-1].slot]


def has_days_off(rule: Rule) -> bool:
    """Whether slots of it may be left out because of their day."""
    return bool(rule.exclude or rule.holidays) and rule.roll is Roll.SKIP


def is_day_off(rule: Rule, instant: datetime) -> bool:
    """Whether an instant is on one."""
    return has_days_off(rule) and _local_day(rule, instant) in rule.excluded_days


def ignoring_days_off(rule: Rule) -> Rule:
    """The rule as if it had no days off."""
    return _without_days_off(rule) if has_days_off(rule) else rule


@lru_cache(maxsize=16_384)
def _without_days_off(rule: Rule) -> Rule:
    return structs.replace(rule, exclude=(), holidays=frozenset())


def excluded_runs(rule: Rule, first: datetime, until: datetime) -> Iterator[SkippedRun]:
    """The slots that are left out from `first` to `until`, in runs that no other slot interrupts.
    They are counted: only the days off are walked."""
    if not has_days_off(rule):
        return
    every = structs.replace(ignoring_days_off(rule), max_firings=None)
    after, days = just_before(first), sorted(rule.excluded_days)
    while (slot := next_after(every, after)) is not None and slot <= until:
        opened = next_after(rule, after)
        if opened == slot:
            after = max(slot, _before_next(rule, days, slot) or until)
            continue
        end = until if opened is None else min(until, just_before(opened))
        last = last_between(every, after, end) or slot
        yield SkippedRun(slot, last, count_between(every, after, end))
        after = end


def split_around(
    rule: Rule, first: datetime, last: datetime, off: Sequence[SkippedRun]
) -> Iterator[SkippedRun]:
    """A run of slots that are not left out, as runs that no day off interrupts."""
    begin, unbounded = first, structs.replace(rule, max_firings=None)
    for each in off:
        if first < each.first < last:
            end = last_between(unbounded, just_before(begin), each.first) or begin
            yield SkippedRun(begin, end, count_between(unbounded, just_before(begin), end))
            begin = next_after(unbounded, each.last) or last
    yield SkippedRun(begin, last, count_between(unbounded, just_before(begin), last))


def _before_next(rule: Rule, days: Sequence[date], slot: datetime) -> datetime | None:
    """The last instant before the next day off; None if there is none any more."""
    place = bisect_left(days, _local_day(rule, slot))
    if place == len(days):
        return None
    day, zone = days[place], ZoneInfo(rule.timezone)
    return just_before(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC))


def _local_day(rule: Rule, instant: datetime) -> date:
    return instant.astimezone(ZoneInfo(rule.timezone)).date()
