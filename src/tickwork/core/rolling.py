"""What becomes of slots that roll to another day when the days off change.

A slot that falls on a day off, of a rule with `roll`, is on another day, at the same time of day.
It stands for one time of the rule as it would be without days off, and that has one firing,
wherever it goes:

```
  closed then:       Mon x ──▶ Tue 13:00        waits, or has fired
  closed now:        Mon 13:00                  is in the past, or still to come
```

If it waits, and is in the past by the new days, it stays where it is: nobody else stands for it. If
it has fired, it does not come again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import structs

from tickwork.core.coming import before, following
from tickwork.core.when import Once, Rule, is_single
from tickwork.core.when.excluded import ROLL_DAYS_MAX
from tickwork.core.when.model import Roll
from tickwork.core.when.sources import resolve_local


def rolls(rule: Rule) -> bool:
    """Whether slots of it may go to another day."""
    return rule.roll is not Roll.SKIP


def is_promised(rule: Rule, slot: datetime) -> bool:
    """Whether a slot that waits is none by the days of now: it stands for one that is past by
    them, or whoever computed it had not heard of them. It fires all the same."""
    return rolls(rule) and not is_single(rule) and not _has(rule, slot)


def alone(rule: Rule, slot: datetime) -> Rule:
    """A rule with this slot, whatever day it is on, and no other."""
    return structs.replace(_naturally(rule), timing=Once(at=slot), start_at=None, end_at=None)


def after_promised(rule: Rule, slot: datetime, *, fired: int) -> datetime | None:
    """The slot after one that was promised: not one that stands for the same."""
    then = following(rule, slot, fired=fired)
    if then is not None and {*_stands_for(rule, then)} == {_nearest(rule, slot)}:
        return following(rule, then, fired=fired)
    return then


def goes_on_with(
    old: Rule,
    new: Rule,
    then: datetime | None,
    now: datetime,
    *,
    waits: datetime | None,
    last: datetime | None,
) -> datetime | None:
    """The slot to go on with, of a rule of which only the days are others now: `then`, the next
    one by the new days, unless the one that waits has no place to come, or `then` has fired."""
    if waits is not None and waits > now and not _has(new, waits):
        places = [_place(new, each) for each in _stands_for(old, waits)]
        is_past = bool(places) and all(place is not None and place <= now for place in places)
        if is_past or not _has(old, waits):
            return waits if then is None else min(waits, then)
    if last is not None and then is not None and not _has(old, then):
        done = {*_stands_for(old, last)}
        if done and done.issuperset(_stands_for(new, then)):
            return following(new, then)
    return then


def _stands_for(rule: Rule, slot: datetime) -> Iterator[datetime]:
    """The times of the rule without days off that are at this slot with them."""
    natural, local = _naturally(rule), slot.astimezone(ZoneInfo(rule.timezone)).replace(tzinfo=None)
    for days in range(-ROLL_DAYS_MAX, ROLL_DAYS_MAX + 1):
        at = resolve_local(local + timedelta(days=days), rule.timezone, rule.dst)
        if at is not None and _place(rule, at) == slot and _has(natural, at):
            yield at


def _nearest(rule: Rule, slot: datetime) -> datetime | None:
    """The time of the rule without days off that can have rolled to a slot, if any, and that is
    nearest to it."""
    natural, local = _naturally(rule), slot.astimezone(ZoneInfo(rule.timezone)).replace(tzinfo=None)
    back = -1 if rule.roll is Roll.NEXT_DAY else 1
    for days in range(ROLL_DAYS_MAX + 1):
        at = resolve_local(local + timedelta(days=back * days), rule.timezone, rule.dst)
        if at is not None and _has(natural, at):
            return at
    return None


def _place(rule: Rule, at: datetime) -> datetime | None:
    """Where a time of the rule without days off is with them."""
    local, closed = at.astimezone(ZoneInfo(rule.timezone)).replace(tzinfo=None), rule.excluded_days
    step = timedelta(days=1 if rule.roll is Roll.NEXT_DAY else -1)
    for _ in range(ROLL_DAYS_MAX + 1):
        if local.date() not in closed:
            return resolve_local(local, rule.timezone, rule.dst)
        local += step
    return None


def _has(rule: Rule, slot: datetime) -> bool:
    return following(rule, before(slot)) == slot


def _naturally(rule: Rule) -> Rule:
    """The rule without days off, however often it fires."""
    return structs.replace(
        rule, exclude=(), holidays=frozenset(), calendar=None, roll=Roll.SKIP, max_firings=None
    )
