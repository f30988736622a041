"""Rolled slots when the excluded days change.

With `roll`, a slot on an excluded day moves to another day at the same time of day. It stands for
one *natural* time: the time that the rule has without excluded days. A natural time fires once,
whichever day it moves to:

```
  old days:    Mon 13:00 ──▶ Tue 13:00     pending, or has fired
  new days:    Mon 13:00 ──▶ …             is in the past, or in the future
```

If it is pending and its new day is in the past, it stays where it is. If it has fired and its new
day is in the future, it does not fire again. Either way it is *pinned*: the rule has it in
`Rule.pinned`. Only natural times near now can be: those on today and on the excluded days next to
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from tickwork.core.when import (
    Interval,
    Recurrence,
    Roll,
    Rule,
    has_one_known_slot,
    just_before,
    next_after,
)
from tickwork.core.when.calendar_rule import DAY_SECONDS, EPOCH_ORDINAL
from tickwork.core.when.excluded_days import ROLL_DAYS_MAX
from tickwork.core.when.model import PinnedTime
from tickwork.core.when.slot_sources import naive_rule
from tickwork.core.when.wall_clock import AROUND_THE_CLOCK_DST, resolve
from tickwork.core.when.zone import instant_of, naive_seconds, timeline

TIMES_MAX = 10_000
"""Maximum number of natural times near now that are compared.

A rule with more fires every few minutes and has a slot wherever one could move, so nothing is
pinned."""


def can_roll(rule: Rule) -> bool:
    """Whether its slots can move to another day."""
    has_no_wall = has_one_known_slot(rule) or isinstance(rule.timing, Interval)
    return rule.roll is not Roll.SKIP and not has_no_wall


def without_pins(rule: Rule) -> Rule:
    """The rule as the user defined it."""
    return structs.replace(rule, pinned=()) if rule.pinned else rule


def pin_rolled(
    old: Rule, new: Rule, now: datetime, *, done_until: datetime, has_fired: bool = True
) -> Rule:
    """The new rule with its pinned times, if only its excluded days and bounds changed.

    The old rule's slots are done up to `done_until`, and none after it.
    """
    new = without_pins(new)
    if not can_roll(new) or _natural(old) != _natural(new):
        return new
    if old.excluded_days == new.excluded_days:
        return structs.replace(new, pinned=old.pinned)
    times = _NaturalTimes(old)
    old_days = _days_of(old)
    new_days = _days_of(new)
    days = _with_adjacent_excluded(
        old_days, new_days, times.day_of(now), times.day_of(max(now, done_until))
    )
    near = times.of_days(*days)
    if near is None:
        return new
    pinned_before = {time.natural: time.moved_to for time in old.pinned}
    pinned = list[PinnedTime]()
    for natural in sorted(filter(times.has, {*near, *pinned_before})):
        moved_to = pinned_before[natural] if natural in pinned_before else old_days.rolled(natural)
        is_spent = natural in pinned_before and moved_to is None
        old_slot = _slot_of(old, times.instant(moved_to))
        new_slot = times.instant(new_days.rolled(natural))
        is_done = has_fired and old_slot is not None and old_slot <= done_until
        if is_spent or is_done:
            if _is_after(new_slot, min(now, done_until)):
                pinned.append(PinnedTime(natural, None))
        elif _is_after(old_slot, now) and not _is_after(new_slot, now):
            pinned.append(PinnedTime(natural, moved_to))
    return structs.replace(new, pinned=tuple(pinned))


def _slot_of(rule: Rule, instant: datetime | None) -> datetime | None:
    """The instant, if it is a slot of the rule."""
    return instant if instant is not None and _has(rule, instant) else None


def _is_after(slot: datetime | None, at: datetime) -> bool:
    return slot is not None and slot > at


def with_pending_slot(rule: Rule, slot: datetime) -> Rule:
    """The rule with a pending slot that it lacks, if other excluded days may have produced it.

    The node that computed the slot did not know the current days yet. The slot fires once, and the
    natural time it stands for does not fire again.
    """
    if not can_roll(rule) or _has(rule, slot):
        return rule
    times = _NaturalTimes(rule)
    moved_to = times.local_seconds(slot)
    natural = next(filter(times.has, _days_of(rule).may_roll_from(moved_to)), None)
    if natural is None:
        return rule
    return structs.replace(rule, pinned=(*rule.pinned, PinnedTime(natural, moved_to)))


class _Days(NamedTuple):
    """Excluded days, counted from 1970, and the direction to roll."""

    closed: frozenset[int]
    step: int

    def rolled(self, naive: int) -> int | None:
        """Where a natural time moves to; None if no open day is near."""
        for distance in range(ROLL_DAYS_MAX + 1):
            there = naive + self.step * distance * DAY_SECONDS
            if there // DAY_SECONDS not in self.closed:
                return there
        return None

    def may_roll_from(self, naive: int) -> Iterator[int]:
        """The natural times that some excluded days could move here, the nearest first."""
        return (naive - self.step * distance * DAY_SECONDS for distance in range(ROLL_DAYS_MAX + 1))


def _with_adjacent_excluded(old: _Days, new: _Days, first: int, last: int) -> tuple[int, int]:
    """Extends a range of days by the adjacent excluded days that times may roll from."""
    closed = old.closed | new.closed
    for _ in range(ROLL_DAYS_MAX):
        if (first - 1 if old.step > 0 else last + 1) not in closed:
            break
        first, last = (first - 1, last) if old.step > 0 else (first, last + 1)
    return first, last


class _NaturalTimes:
    """The natural times of a rule, as seconds on the local clock."""

    def __init__(self, rule: Rule) -> None:
        self._line = timeline(rule.timezone)
        self._rule, through = naive_rule(rule, self._line)
        self._dst = AROUND_THE_CLOCK_DST if through else rule.dst

    def has(self, naive: int) -> bool:
        return self._rule.count_naive(naive, naive + 1) > 0

    def local_seconds(self, instant: datetime) -> int:
        return naive_seconds(instant, self._line)

    def day_of(self, instant: datetime) -> int:
        return self.local_seconds(instant) // DAY_SECONDS

    def instant(self, naive: int | None) -> datetime | None:
        """The instant of a local time; the first one if it occurs twice."""
        found = None if naive is None else resolve(naive, self._line, self._dst)
        return None if found is None else instant_of(found)

    def of_days(self, first: int, last: int) -> list[int] | None:
        """All natural times from one day to another; None if there are too many."""
        begin, end = first * DAY_SECONDS, (last + 1) * DAY_SECONDS
        if self._rule.count_naive(begin, end) > TIMES_MAX:
            return None
        found, naive = list[int](), self._rule.next_naive(begin - 1)
        while naive is not None and naive < end:
            found.append(naive)
            naive = self._rule.next_naive(naive)
        return found


def _days_of(rule: Rule) -> _Days:
    closed = frozenset(day.toordinal() - EPOCH_ORDINAL for day in rule.excluded_days)
    return _Days(closed, 1 if rule.roll is Roll.NEXT_DAY else -1)


def _natural(rule: Rule) -> tuple[object, ...]:
    """The fields that decide the natural times and their direction to roll."""
    start = rule.start_at or rule.anchor if isinstance(rule.timing, Recurrence) else None
    return rule.timing, rule.timezone, rule.dst, rule.seed, rule.roll, start


def _has(rule: Rule, slot: datetime) -> bool:
    if rule.max_firings is not None:
        rule = structs.replace(rule, max_firings=None)
    return next_after(rule, just_before(slot)) == slot
