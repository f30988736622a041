"""Rolled slots when the excluded days change.

With `roll`, a slot on an excluded day moves to another day at the same time of day. It stands for
one *natural* time: the time that the rule has without excluded days. A natural time fires once,
whichever day it moves to:

```
  old days:    Mon 13:00 ──▶ Tue 13:00     pending, or has fired
  new days:    Mon 13:00 ──▶ …             is in the past, or in the future
```

If it is pending and its new day is in the past, it stays where it is (`Rule.kept`). If it has fired
and its new day is in the future, it does not fire again (`Rule.spent`). Only natural times near now
can be either: those on today and on the excluded days next to it. Together, `kept` and `spent` are
the rule's *carry-over*.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple, TypeGuard

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
from tickwork.core.when.model import RolledSlot
from tickwork.core.when.slot_sources import naive_rule
from tickwork.core.when.wall_clock import AROUND_THE_CLOCK_DST, resolve
from tickwork.core.when.zone import instant_of, naive_seconds, seconds_of, timeline

TIMES_MAX = 10_000
"""Maximum number of natural times near now that are compared.

A rule with more fires every few minutes and has a slot wherever one could move, so nothing is
carried over."""


def can_roll(rule: Rule) -> bool:
    """Whether its slots can move to another day."""
    has_no_wall = has_one_known_slot(rule) or isinstance(rule.timing, Interval)
    return rule.roll is not Roll.SKIP and not has_no_wall


def without_carry_over(rule: Rule) -> Rule:
    """The rule as the user defined it, with nothing kept or spent."""
    if not rule.kept and not rule.spent:
        return rule
    return structs.replace(rule, kept=(), spent=())


def carry_over(
    old: Rule, new: Rule, now: datetime, *, done_until: datetime, has_fired: bool = True
) -> Rule:
    """The new rule with its carry-over, if only its excluded days and bounds changed.

    The old rule's slots are done up to `done_until`, and none after it.
    """
    new = without_carry_over(new)
    if not can_roll(new) or _natural(old) != _natural(new):
        return new
    if old.excluded_days == new.excluded_days:
        return structs.replace(new, kept=old.kept, spent=old.spent)
    times = _NaturalTimes(old)
    old_days = _days_of(old)
    new_days = _days_of(new)
    days = _with_adjacent_excluded(
        old_days, new_days, times.day_of(now), times.day_of(max(now, done_until))
    )
    near = times.of_days(*days)
    if near is None:
        return new
    kept_before = {_seconds(rolled.natural): rolled.slot for rolled in old.kept}
    spent_before = {_seconds(rolled.natural) for rolled in old.spent}
    known = _with_same_target({*near, *kept_before, *spent_before}, new_days)
    kept = dict[int, datetime]()
    spent = dict[int, datetime]()
    upcoming = set[datetime]()
    for natural in sorted(filter(times.has, known)):
        rolled = kept_before.get(natural) or times.instant(old_days.rolled(natural))
        old_slot = _slot_of(old, rolled)
        new_slot = times.instant(new_days.rolled(natural))
        is_done = has_fired and old_slot is not None and old_slot <= done_until
        if natural in spent_before or is_done:
            if _is_after(new_slot, min(now, done_until)):
                spent[natural] = new_slot
        elif _is_after(new_slot, now):
            upcoming.add(new_slot)
        elif _is_after(old_slot, now):
            kept[natural] = old_slot
    shared = upcoming.union(kept.values())
    return structs.replace(
        new,
        kept=tuple(RolledSlot(_local_time(naive), slot) for naive, slot in kept.items()),
        spent=tuple(
            RolledSlot(_local_time(naive), None if slot in shared else slot)
            for naive, slot in spent.items()
        ),
    )


def _with_same_target(naturals: set[int], days: _Days) -> set[int]:
    """These natural times, and all others that move to one of their slots."""
    targets = {days.rolled(naive) for naive in naturals}
    others = (days.rolled_from(target) for target in targets if target is not None)
    return naturals.union(*others)


def _slot_of(rule: Rule, instant: datetime | None) -> datetime | None:
    """The instant, if it is a slot of the rule."""
    return instant if instant is not None and _has(rule, instant) else None


def _is_after(slot: datetime | None, at: datetime) -> TypeGuard[datetime]:
    return slot is not None and slot > at


def with_pending_slot(rule: Rule, slot: datetime) -> Rule:
    """The rule with a pending slot that it lacks, if other excluded days may have produced it.

    The node that computed the slot did not know the current days yet. The slot fires once, and the
    natural time it stands for does not fire again.
    """
    if not can_roll(rule) or _has(rule, slot):
        return rule
    times, days = _NaturalTimes(rule), _days_of(rule)
    natural = next(filter(times.has, days.may_roll_from(times.local_seconds(slot))), None)
    if natural is None:
        return rule
    kept, there = RolledSlot(_local_time(natural), slot), days.rolled(natural)
    rule = structs.replace(rule, kept=(*rule.kept, kept))
    if there is None or [*filter(times.has, days.rolled_from(there))] != [natural]:
        return rule
    return structs.replace(
        rule, spent=(*rule.spent, RolledSlot(_local_time(natural), times.instant(there)))
    )


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

    def rolled_from(self, naive: int) -> Iterator[int]:
        """The natural times that these excluded days move here."""
        for natural in self.may_roll_from(naive):
            if natural != naive and natural // DAY_SECONDS not in self.closed:
                return
            yield natural


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


def _local_time(naive: int) -> datetime:
    return instant_of(naive).replace(tzinfo=None)


def _seconds(wall: datetime) -> int:
    return seconds_of(wall.replace(tzinfo=UTC))
