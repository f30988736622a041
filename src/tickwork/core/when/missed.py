"""What to do about slots that nobody planned in time.

After an outage a schedule may have missed one slot or half a million. The answer is a value:
which slots to fire, and the rest as runs with a count. Nothing walks the slots that are
skipped: they are counted, so that a year of a minutely rule costs milliseconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct, structs

from tickwork.core.when.model import EPOCH, Interval, IntervalMode, Missed, MissedPolicy, Rule
from tickwork.core.when.slots import SLOTS_MAX, count_between, next_after, slots_between
from tickwork.core.when.sources import seconds_of
from tickwork.core.when.spread import due_at, spread_max

_SECOND = timedelta(seconds=1)


class PlannedSlot(Struct, frozen=True):
    """A slot to fire; `catch_up` marks one that was missed."""

    slot: datetime
    catch_up: bool


class SkippedRun(Struct, frozen=True):
    """Consecutive slots that do not fire, as one record."""

    first: datetime
    last: datetime
    count: int


class MissedPlan(Struct, frozen=True):
    """Every slot in `(last_slot, now]`: to fire, or skipped."""

    fire: tuple[PlannedSlot, ...] = ()
    skipped: tuple[SkippedRun, ...] = ()


def plan_missed(
    rule: Rule, last_slot: datetime, now: datetime, missed: Missed | None = None, *, fired: int = 0
) -> MissedPlan:
    """Accounts for every slot in `(last_slot, now]`.

    A slot is missed when its due time is more than the grace ago. Slots on time always fire.
    Of the missed ones `fire_late` fires the last `cap`; `fire_most_recent` the latest, unless
    a slot on time stands for it; `skip` none.
    """
    policy = rule.missed if missed is None else missed
    budget = None if rule.max_firings is None else max(rule.max_firings - fired, 0)
    if budget is not None:
        rule = structs.replace(rule, max_firings=None)
    surely_missed_until = _surely_missed_until(rule, last_slot, now, policy)
    # The slot after a fixed delay's next depends on a run that has not ended.
    limit = 1 if _waits_for_its_run(rule) else SLOTS_MAX
    recent = slots_between(rule, surely_missed_until, now, limit=limit)
    deadline = now - timedelta(seconds=policy.grace_seconds)
    late = [slot for slot in recent if due_at(rule, slot) < deadline]
    on_time = [slot for slot in recent if due_at(rule, slot) >= deadline]
    older = count_between(rule, last_slot, surely_missed_until)

    wanted = _wanted(policy, has_on_time=bool(on_time))
    fire = late[-wanted:] if wanted else []
    skipped_late = late[: len(late) - len(fire)]
    reach_back = min(wanted - len(fire), older)
    cut = surely_missed_until
    if reach_back:
        cut = _before_last(rule, last_slot, surely_missed_until, reach_back)
        fire = slots_between(rule, cut, surely_missed_until) + fire
    skipped = _runs(rule, last_slot, cut, older - reach_back, skipped_late)
    planned = [PlannedSlot(slot, catch_up=True) for slot in fire]
    planned += [PlannedSlot(slot, catch_up=False) for slot in on_time]
    planned.sort(key=lambda each: each.slot)
    return MissedPlan(fire=tuple(planned[:budget]), skipped=skipped)


def _surely_missed_until(
    rule: Rule, last_slot: datetime, now: datetime, policy: Missed
) -> datetime:
    """Slots up to here are late whatever their spread; later ones are judged one by one."""
    if _waits_for_its_run(rule):
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


def _before_last(rule: Rule, after: datetime, until: datetime, count: int) -> datetime:
    """An instant with exactly `count` slots between it and `until`, found by halving."""
    low, high = seconds_of(after), seconds_of(until)
    while high - low > 1:
        middle = (low + high) // 2
        if count_between(rule, EPOCH + middle * _SECOND, until) >= count:
            low = middle
        else:
            high = middle
    return max(after, EPOCH + low * _SECOND)


def _runs(
    rule: Rule, after: datetime, until: datetime, count: int, late: list[datetime]
) -> tuple[SkippedRun, ...]:
    """The skipped slots as one run: the counted ones and those judged one by one."""
    if not count and not late:
        return ()
    first = next_after(rule, after) if count else late[0]
    last = late[-1] if late else next_after(rule, _before_last(rule, after, until, 1))
    assert first is not None
    assert last is not None
    return (SkippedRun(first, last, count + len(late)),)


def _waits_for_its_run(rule: Rule) -> bool:
    timing = rule.timing
    return isinstance(timing, Interval) and timing.mode is IntervalMode.FIXED_DELAY
