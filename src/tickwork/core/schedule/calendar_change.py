"""What becomes of slots that roll to another day when the days off change.

A slot that falls on a day off, of a rule with `roll`, is on another day, at the same time of day.
It stands for one time of the rule as it would be without days off, a *natural* one, and that has
one firing, wherever it goes:

```
  by the old days:    Mon 13:00 ──▶ Tue 13:00     waits, or has fired
  by the new days:    Mon 13:00 ──▶ …             is in the past, or still to come
```

If it waits, and its place by the new days is in the past, it stays where it is (`Rule.kept`). If it
has fired, and its place by the new days is still to come, it does not come again (`Rule.spent`).
Only times around now can be either: those of the days off that lie side by side with today.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import structs

from tickwork.core.schedule.next_slot import just_before
from tickwork.core.when import Interval, Recurrence, Roll, Rule, has_one_known_slot, next_after
from tickwork.core.when.calendar_rule import DAY_SECONDS, EPOCH_ORDINAL
from tickwork.core.when.excluded_days import ROLL_DAYS_MAX
from tickwork.core.when.model import RolledSlot
from tickwork.core.when.slot_sources import naive_rule
from tickwork.core.when.wall_clock import AROUND_THE_CLOCK_DST, resolve
from tickwork.core.when.zone import instant_of, naive_seconds, seconds_of, timeline

TIMES_MAX = 10_000
"""Of a rule that has more times around now nothing is kept or spent: it fires every few minutes,
and has a slot anyway wherever one could go."""


def can_roll(rule: Rule) -> bool:
    """Whether slots of it may go to another day."""
    has_no_wall = has_one_known_slot(rule) or isinstance(rule.timing, Interval)
    return rule.roll is not Roll.SKIP and not has_no_wall


def without_carry_over(rule: Rule) -> Rule:
    """The rule as somebody said it, with nothing kept or spent."""
    if not rule.kept and not rule.spent:
        return rule
    return structs.replace(rule, kept=(), spent=())


def carry_over(
    old: Rule, new: Rule, now: datetime, *, done_until: datetime, has_fired: bool = True
) -> Rule:
    """The new rule with what it has to keep, and what is spent, if only its days and bounds are
    others. Of the old rule's slots all are done up to `done_until`, and none after it."""
    new = without_carry_over(new)
    if not can_roll(new) or _natural(old) != _natural(new):
        return new
    if old.excluded_days == new.excluded_days:
        return structs.replace(new, kept=old.kept, spent=old.spent)
    times, old_days, new_days = _Times(old), _days_of(old), _days_of(new)
    beside = _beside(old_days, new_days, times.day_of(now), times.day_of(max(now, done_until)))
    around = times.of_days(*beside)
    if around is None:
        return new
    stays = {_seconds(each.natural): each.slot for each in old.kept}
    was_spent = {_seconds(each.natural) for each in old.spent}
    known = {*around, *stays, *was_spent}
    # Where one of them goes there may be others.
    places = {new_days.rolled(each) for each in known}
    known.update(*(new_days.roll_to(place) for place in places if place is not None))
    kept, spent, coming = dict[int, datetime](), dict[int, datetime](), set[datetime]()
    for natural in sorted(filter(times.has, known)):
        place = stays.get(natural) or times.instant(old_days.rolled(natural))
        then = times.instant(new_days.rolled(natural))
        was_slot = place is not None and _has(old, place)
        is_done = was_slot and place is not None and place <= done_until and has_fired
        if natural in was_spent or is_done:
            if then is not None and then > min(now, done_until):
                spent[natural] = then
        elif then is not None and then > now:
            coming.add(then)
        elif was_slot and place is not None and place > now:
            kept[natural] = place
    shared = coming.union(kept.values())
    return structs.replace(
        new,
        kept=tuple(RolledSlot(_wall(each), slot) for each, slot in kept.items()),
        spent=tuple(
            RolledSlot(_wall(each), None if slot in shared else slot)
            for each, slot in spent.items()
        ),
    )


def with_pending_slot(rule: Rule, slot: datetime) -> Rule:
    """The rule with a slot that waits and that it has not, if it may be one by other days: whoever
    computed it had not heard of those of now. It fires, and what it stands for comes no more."""
    if not can_roll(rule) or _has(rule, slot):
        return rule
    times, days = _Times(rule), _days_of(rule)
    natural = next(filter(times.has, days.may_roll_to(times.wall_of(slot))), None)
    if natural is None:
        return rule
    kept, there = RolledSlot(_wall(natural), slot), days.rolled(natural)
    rule = structs.replace(rule, kept=(*rule.kept, kept))
    if there is None or [*filter(times.has, days.roll_to(there))] != [natural]:
        return rule
    return structs.replace(
        rule, spent=(*rule.spent, RolledSlot(_wall(natural), times.instant(there)))
    )


class _Days(NamedTuple):
    """Days off, counted from 1970, and where one goes from them."""

    closed: frozenset[int]
    step: int

    def rolled(self, naive: int) -> int | None:
        """Where a time is that would be there without them."""
        for far in range(ROLL_DAYS_MAX + 1):
            there = naive + self.step * far * DAY_SECONDS
            if there // DAY_SECONDS not in self.closed:
                return there
        return None

    def may_roll_to(self, naive: int) -> Iterator[int]:
        """The times that may be there with some days off, the nearest first."""
        return (naive - self.step * far * DAY_SECONDS for far in range(ROLL_DAYS_MAX + 1))

    def roll_to(self, naive: int) -> Iterator[int]:
        """The times that are there with these."""
        for each in self.may_roll_to(naive):
            if each != naive and each // DAY_SECONDS not in self.closed:
                return
            yield each


def _beside(old: _Days, new: _Days, first: int, last: int) -> tuple[int, int]:
    """Days, and the days off before them, or after them, from which times may have rolled there."""
    closed = old.closed | new.closed
    for _ in range(ROLL_DAYS_MAX):
        if (first - 1 if old.step > 0 else last + 1) not in closed:
            break
        first, last = (first - 1, last) if old.step > 0 else (first, last + 1)
    return first, last


class _Times:
    """The natural times of a rule, as seconds on a clock on the wall."""

    def __init__(self, rule: Rule) -> None:
        self._line = timeline(rule.timezone)
        self._rule, through = naive_rule(rule, self._line)
        self._dst = AROUND_THE_CLOCK_DST if through else rule.dst

    def has(self, naive: int) -> bool:
        return self._rule.count_naive(naive, naive + 1) > 0

    def wall_of(self, instant: datetime) -> int:
        return naive_seconds(instant, self._line)

    def day_of(self, instant: datetime) -> int:
        return self.wall_of(instant) // DAY_SECONDS

    def instant(self, naive: int | None) -> datetime | None:
        """When the clock shows it; of a time that comes twice the first."""
        found = None if naive is None else resolve(naive, self._line, self._dst)
        return None if found is None else instant_of(found)

    def of_days(self, first: int, last: int) -> list[int] | None:
        """All from one day to another; None if they are very many."""
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
    """What decides the natural times, and which way they roll."""
    start = rule.start_at or rule.anchor if isinstance(rule.timing, Recurrence) else None
    return rule.timing, rule.timezone, rule.dst, rule.seed, rule.roll, start


def _has(rule: Rule, slot: datetime) -> bool:
    if rule.max_firings is not None:
        rule = structs.replace(rule, max_firings=None)
    return next_after(rule, just_before(slot)) == slot


def _wall(naive: int) -> datetime:
    return instant_of(naive).replace(tzinfo=None)


def _seconds(wall: datetime) -> int:
    return seconds_of(wall.replace(tzinfo=UTC))
