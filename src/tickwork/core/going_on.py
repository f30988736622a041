"""Which slot a schedule goes on with when it is given another rule.

`taken` are the slots that were planned and are taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tickwork.core.coming import before, first_of, following
from tickwork.core.rolling import plainly
from tickwork.core.schedule import Schedule, ScheduleStatus
from tickwork.core.when import Interval, Once, Rule, is_delay


def waits_for_its_run(
    schedule: Schedule, old: Rule, new: Rule, *, taken: Sequence[datetime]
) -> bool:
    """Whether a run is under way from whose end the next slot is counted, with either rule."""
    if _is_raised(old, new, schedule.fired):
        return False  # Its run was to be the last one, and its end sets no slot.
    is_going = schedule.status in (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)
    is_away = schedule.next_slot is None and not taken
    return is_going and is_away and is_delay(old) and is_delay(new)


def _is_raised(old: Rule, new: Rule, fired: int) -> bool:
    """Whether the old rule may not fire any more, by their number, and the new one may."""
    return _is_used_up(old, fired) and not _is_used_up(new, fired)


def _is_used_up(rule: Rule, fired: int) -> bool:
    return rule.max_firings is not None and fired >= rule.max_firings


def since_when(
    schedule: Schedule, rule: Rule, now: datetime, *, taken: Sequence[datetime]
) -> datetime:
    """No slot up to here may come again, even if the clock went back."""
    last, old = schedule.last_slot, schedule.definition.rule
    if isinstance(rule.timing, Interval) and rule.timing != old.timing and rule.start_at is None:
        return now  # It counts from now on: it has no slot in common with the one before.
    if last is not None and taken:
        last = min(last, before(min(taken)))
    return now if last is None else max(now, last)


def next_slot(
    old: Rule,
    new: Rule,
    now: datetime,
    *,
    waiting: Sequence[datetime],
    since: datetime,
    fired: int,
) -> datetime | None:
    """The first slot under the new rule: one that was taken back, or was not planned yet, if the
    new rule has it, too, also on a day off; else the first one that is still to come."""
    is_same = old.timing == new.timing
    is_unmoved = is_same and is_delay(new) and not _is_raised(old, new, fired)
    if plainly(new) == plainly(old) or is_unmoved:
        return min(waiting, default=None)
    if isinstance(new.timing, Once) and not is_same:
        first = first_of(new, now)
        return first if first is None or not now < first == since else first + timedelta.resolution
    for slot in waiting:
        if slot <= now and following(new, before(slot), fired=fired) == slot:
            return slot
    return following(new, since, fired=fired)
