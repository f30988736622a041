"""Missed slots and excluded slots: which fire, and the rest as counted runs.

After an outage a schedule may have missed one slot or half a million. Skipped slots are counted,
not iterated, so a year of a minutely rule takes milliseconds.

A rule with excluded days has two views: the slots that fire, and the slots it would have without
excluded days. Slots only in the second view are *excluded* and are recorded. A slot that rolls to
another day is not excluded.
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


class SlotToFire(Struct, frozen=True):
    """A slot to fire. `catch_up`: it was missed."""

    slot: datetime
    catch_up: bool


class SkippedRun(Struct, frozen=True):
    """Consecutive slots that do not fire, as one record."""

    first: datetime
    last: datetime
    count: int


PLAN_SLOTS_MAX = 10_000
"""Maximum number of slots decided one by one in a plan. The next plan takes the rest."""


class MissedPlan(Struct, frozen=True):
    """Every slot in `(last_slot, until]`: to fire, skipped or expired."""

    fire: tuple[SlotToFire, ...]
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
    """Accounts for every slot after `last_slot`, up to `now` or the plan's earlier `until`.

    A slot is missed if its due time is more than the grace period ago. Slots on time always fire.
    Of the missed ones, `fire_late` fires the last `cap`, `fire_most_recent` the latest one unless a
    slot on time follows it, and `skip` none. A slot that would fire but was due
    `expires_after_seconds` ago or longer is expired. `fired` is the number of earlier firings:
    after the slot that uses up `max_firings` nothing is fired or skipped.
    """
    policy = rule.missed if missed is None else missed
    budget = None if rule.max_firings is None else max(rule.max_firings - fired, 0)
    if budget is not None:
        rule = structs.replace(rule, max_firings=None)
    missed_until = _missed_until(rule, last_slot, now, policy)
    # With a fixed delay the second slot depends on a run that has not finished.
    limit = 1 if is_fixed_delay(rule) else PLAN_SLOTS_MAX
    recent = slots_between(rule, missed_until, now, limit=limit)
    until = recent[-1] if len(recent) == PLAN_SLOTS_MAX else now
    on_time, late = _by_grace(rule, recent, now - timedelta(seconds=policy.grace_seconds))
    older = count_between(rule, last_slot, missed_until)

    wanted = _wanted(policy, has_on_time=bool(on_time))
    catch_up = late[-wanted:] if wanted else []
    reach_back = min(wanted - len(catch_up), older)
    cut = missed_until
    if reach_back:
        cut = instant_before_last(rule, last_slot, missed_until, reach_back)
        catch_up = slots_between(rule, cut, missed_until) + catch_up
    planned = [SlotToFire(slot, catch_up=True) for slot in catch_up]
    planned += [SlotToFire(slot, catch_up=False) for slot in on_time]
    planned.sort(key=lambda fire: fire.slot)
    first_run = _counted_run(rule, last_slot, cut, older - reach_back)
    skipped = _runs(first_run, recent, on_time.union(catch_up))
    expired: list[SkippedRun] = []
    if expires_after_seconds is not None:
        slots = {fire.slot for fire in planned}
        over = {slot for slot in slots if is_expired(rule, slot, now, expires_after_seconds)}
        planned = [fire for fire in planned if fire.slot not in over]
        others = slots - over | {run.first for run in skipped}
        expired = _runs(None, sorted(over | others), others)
    if budget is not None and len(planned) >= budget:
        planned = planned[:budget]
        skipped, expired = _up_to_last(planned, skipped), _up_to_last(planned, expired)
    return MissedPlan(tuple(planned), tuple(skipped), until, tuple(expired))


def is_expired(
    rule: Rule, slot: datetime, now: datetime, expires_after_seconds: float | None
) -> bool:
    """Whether a slot is too old to start, measured from its due time."""
    if expires_after_seconds is None:
        return False
    return due_at(rule, slot) + timedelta(seconds=expires_after_seconds) <= now


def _missed_until(rule: Rule, last_slot: datetime, now: datetime, policy: Missed) -> datetime:
    """Slots up to here are missed despite jitter and window; later ones are checked one by one."""
    if is_fixed_delay(rule):
        return last_slot
    late_by = timedelta(seconds=policy.grace_seconds) + spread_max(rule)
    return max(last_slot, now - late_by - timedelta.resolution)


def _by_grace(
    rule: Rule, slots: Sequence[datetime], deadline: datetime
) -> tuple[set[datetime], list[datetime]]:
    """The slots that are due at the deadline or later, and those that are due before."""
    on_time = {slot for slot in slots if due_at(rule, slot) >= deadline}
    return on_time, [slot for slot in slots if slot not in on_time]


def _wanted(policy: Missed, *, has_on_time: bool) -> int:
    match policy.policy:
        case MissedPolicy.FIRE_LATE:
            return policy.cap
        case MissedPolicy.FIRE_MOST_RECENT:
            return 0 if has_on_time else 1
        case MissedPolicy.SKIP:
            return 0


def _counted_run(rule: Rule, after: datetime, until: datetime, count: int) -> SkippedRun | None:
    """The `count` slots in `(after, until]` as one run."""
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
    """Groups skipped slots into runs without a firing slot inside.

    If older slots fire, all recent ones do. So a skipped recent slot directly follows the counted
    run.
    """
    runs = [] if counted is None else [counted]
    continues = counted is not None
    for slot in recent:
        if slot in fires:
            continues = False
        elif continues:
            runs[-1] = SkippedRun(runs[-1].first, slot, runs[-1].count + 1)
        else:
            runs.append(SkippedRun(slot, slot, 1))
            continues = True
    return runs


def _up_to_last(planned: list[SlotToFire], runs: list[SkippedRun]) -> list[SkippedRun]:
    """The runs before the slot that uses up `max_firings`."""
    return [run for run in runs if planned and run.last < planned[-1].slot]


def has_days_off(rule: Rule) -> bool:
    """Whether slots of the rule are skipped on excluded days."""
    return bool(rule.exclude or rule.holidays) and rule.roll is Roll.SKIP


def is_day_off(rule: Rule, instant: datetime) -> bool:
    """Whether the rule skips slots on the local day of an instant."""
    return has_days_off(rule) and _local_day(rule, instant) in rule.excluded_days


def ignoring_days_off(rule: Rule) -> Rule:
    """The rule without its excluded days. A rule that rolls is unchanged."""
    return _ignoring_days_off(rule) if has_days_off(rule) else rule


@lru_cache(maxsize=16_384)
def _ignoring_days_off(rule: Rule) -> Rule:
    return structs.replace(rule, exclude=(), holidays=frozenset())


def excluded_runs(rule: Rule, first: datetime, until: datetime) -> Iterator[SkippedRun]:
    """Excluded slots from `first` to `until`, in runs without another slot inside.

    Slots are counted; only the excluded days are iterated.
    """
    if not has_days_off(rule):
        return
    every = structs.replace(ignoring_days_off(rule), max_firings=None)
    after, days = just_before(first), sorted(rule.excluded_days)
    while (slot := next_after(every, after)) is not None and slot <= until:
        open_slot = next_after(rule, after)
        if open_slot == slot:
            after = max(slot, _before_next(rule, days, slot) or until)
            continue
        end = until if open_slot is None else min(until, just_before(open_slot))
        last = last_between(every, after, end) or slot
        yield SkippedRun(slot, last, count_between(every, after, end))
        after = end


def split_around(
    rule: Rule, first: datetime, last: datetime, off: Sequence[SkippedRun]
) -> Iterator[SkippedRun]:
    """Splits a run of open slots at the excluded runs inside it."""
    begin, unbounded = first, structs.replace(rule, max_firings=None)
    for run in off:
        if first < run.first < last:
            end = last_between(unbounded, just_before(begin), run.first) or begin
            yield SkippedRun(begin, end, count_between(unbounded, just_before(begin), end))
            begin = next_after(unbounded, run.last) or last
    yield SkippedRun(begin, last, count_between(unbounded, just_before(begin), last))


def _before_next(rule: Rule, days: Sequence[date], slot: datetime) -> datetime | None:
    """The last instant before the next excluded day; None if there is none."""
    index = bisect_left(days, _local_day(rule, slot))
    if index == len(days):
        return None
    day, zone = days[index], ZoneInfo(rule.timezone)
    return just_before(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC))


def _local_day(rule: Rule, instant: datetime) -> date:
    return instant.astimezone(ZoneInfo(rule.timezone)).date()
