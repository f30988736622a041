"""The slots that a rule leaves out because of their day, and the runs that they come in.

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

from msgspec import structs

from tickwork.core.when.missed import SkippedRun
from tickwork.core.when.model import Roll, Rule
from tickwork.core.when.slots import count_between, last_between, next_after


def has_days_off(rule: Rule) -> bool:
    """Whether slots of it may be left out because of their day."""
    return bool(rule.exclude or rule.holidays) and rule.roll is Roll.SKIP


def is_day_off(rule: Rule, instant: datetime) -> bool:
    """Whether an instant is on one."""
    return has_days_off(rule) and _local_day(rule, instant) in rule.excluded_days


def everyday(rule: Rule) -> Rule:
    """The rule as if it had no days off."""
    return _without_days_off(rule) if has_days_off(rule) else rule


@lru_cache(maxsize=16_384)
def _without_days_off(rule: Rule) -> Rule:
    return structs.replace(rule, exclude=(), holidays=frozenset())


def days_off(rule: Rule, first: datetime, until: datetime) -> Iterator[SkippedRun]:
    """The slots that are left out from `first` to `until`, in runs that no other slot interrupts.
    They are counted: only the days off are walked."""
    if not has_days_off(rule):
        return
    every = structs.replace(everyday(rule), max_firings=None)
    after, days = _before(first), sorted(rule.excluded_days)
    while (slot := next_after(every, after)) is not None and slot <= until:
        opened = next_after(rule, after)
        if opened == slot:
            after = max(slot, _before_next(rule, days, slot) or until)
            continue
        end = until if opened is None else min(until, _before(opened))
        last = last_between(every, after, end) or slot
        yield SkippedRun(slot, last, count_between(every, after, end))
        after = end


def apart(
    rule: Rule, first: datetime, last: datetime, off: Sequence[SkippedRun]
) -> Iterator[SkippedRun]:
    """A run of slots that are not left out, as runs that no day off interrupts."""
    begin, unbounded = first, structs.replace(rule, max_firings=None)
    for each in off:
        if first < each.first < last:
            end = last_between(unbounded, _before(begin), each.first) or begin
            yield SkippedRun(begin, end, count_between(unbounded, _before(begin), end))
            begin = next_after(unbounded, each.last) or last
    yield SkippedRun(begin, last, count_between(unbounded, _before(begin), last))


def _before_next(rule: Rule, days: Sequence[date], slot: datetime) -> datetime | None:
    """The last instant before the next day off; None if there is none any more."""
    place = bisect_left(days, _local_day(rule, slot))
    if place == len(days):
        return None
    day, zone = days[place], ZoneInfo(rule.timezone)
    return _before(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC))


def _local_day(rule: Rule, instant: datetime) -> date:
    return instant.astimezone(ZoneInfo(rule.timezone)).date()


def _before(instant: datetime) -> datetime:
    return instant - timedelta.resolution
