"""The slots of a rule, and their due times.

Jitter and fire windows spread a thousand schedules at nine o'clock over time. Jitter is one offset
per schedule, the window one offset per schedule and slot. Both come from a fixed hash, so every
node computes the same due times in every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from tickwork.core.stable_hash import stable_hash
from tickwork.core.when.model import Once, Rule
from tickwork.core.when.slot_sources import source_of
from tickwork.core.when.zone import instant_of, just_before, seconds_of

SLOTS_MAX = 1_000_000
"""Maximum number of slots that one call returns."""

SLOTS_CACHED_MAX = 4_096
"""Maximum number of cached successors of slots. They save time if many schedules of the same rule
are planned together; a slot is never looked up again later."""


def next_after(rule: Rule, after: datetime, *, fired: int = 0) -> datetime | None:
    """The first slot strictly after `after`; None if there is none.

    `fired` is the number of slots that fired so far, for `max_firings`.
    """
    if rule.max_firings is not None and fired >= rule.max_firings:
        return None
    # In UTC: two local times that differ only in `fold` are equal as cache keys.
    return _next(rule, after if after.tzinfo is UTC else after.astimezone(UTC))


def slots_between(
    rule: Rule, after: datetime, until: datetime, *, fired: int = 0, limit: int = SLOTS_MAX
) -> list[datetime]:
    """The slots in `(after, until]`, at most `limit`: the same as iterating `next_after`."""
    slots: list[datetime] = []
    for slot in iterate_slots(rule, after, fired=fired):
        if slot > until or len(slots) >= limit:
            break
        slots.append(slot)
    return slots


def iterate_slots(rule: Rule, after: datetime, *, fired: int = 0) -> Iterator[datetime]:
    """Iterates the slots after `after`; endless for most rules."""
    slot = next_after(rule, after, fired=fired)
    while slot is not None:
        yield slot
        fired += 1
        slot = next_after(rule, slot, fired=fired)


def count_between(rule: Rule, after: datetime, until: datetime, *, fired: int = 0) -> int:
    """Number of slots in `(after, until]`, without iterating them."""
    low = after if rule.start_at is None else max(after, just_before(rule.start_at))
    high = until if rule.end_at is None else min(until, rule.end_at)
    count = source_of(rule).count_between(low, high) if low < high else 0
    if rule.max_firings is not None:
        count = min(count, max(rule.max_firings - fired, 0))
    return count


def last_between(rule: Rule, after: datetime, until: datetime) -> datetime | None:
    """The last slot in `(after, until]`, without iterating."""
    if after >= until or not count_between(rule, after, until):
        return None
    return next_after(rule, instant_before_last(rule, after, until, 1))


def instant_before_last(rule: Rule, after: datetime, until: datetime, count: int) -> datetime:
    """An instant with exactly `count` slots between it and `until`, by bisection."""
    earliest = seconds_of(after)
    high = seconds_of(until) + 1
    reach = 60
    low = max(high - reach, earliest)
    while low > earliest and count_between(rule, instant_of(low), until) < count:
        high, reach = low, reach * 2
        low = max(high - reach, earliest)
    while high - low > 1:
        middle = (low + high) // 2
        if count_between(rule, instant_of(middle), until) >= count:
            low = middle
        else:
            high = middle
    return max(after, instant_of(low))


def first_slot(rule: Rule, created_at: datetime) -> datetime | None:
    """The first slot of a new schedule. A single instant in the past fires immediately."""
    if isinstance(rule.timing, Once) and rule.timing.at <= created_at:
        return created_at
    return next_after(rule, created_at)


@lru_cache(maxsize=SLOTS_CACHED_MAX)
def _next(rule: Rule, after: datetime) -> datetime | None:
    if rule.start_at is not None and after < rule.start_at:
        after = just_before(rule.start_at)
    slot = source_of(rule).next_after(after)
    if slot is not None and rule.end_at is not None and slot > rule.end_at:
        return None
    return slot


_MILLISECOND = timedelta(milliseconds=1)


def due_at(rule: Rule, slot: datetime) -> datetime:
    """When a slot is due: its nominal time plus jitter and its offset in the window."""
    if not (rule.jitter_seconds or rule.fire_window_seconds):
        return slot
    return slot + _jitter(rule, slot) + _window(rule, slot)


def spread_max(rule: Rule) -> timedelta:
    """Maximum delay between a slot's nominal time and its due time."""
    return timedelta(seconds=rule.jitter_seconds + rule.fire_window_seconds)


def _jitter(rule: Rule, slot: datetime) -> timedelta:
    if not rule.jitter_seconds:
        return timedelta()
    number = stable_hash(f"{rule.seed}/jitter")
    offset = (number % (rule.jitter_seconds * 1000 + 1)) * _MILLISECOND
    following = next_after(rule, slot)
    if following is not None and slot + offset >= following:
        offset %= following - slot
    return offset


def _window(rule: Rule, slot: datetime) -> timedelta:
    if not rule.fire_window_seconds:
        return timedelta()
    number = stable_hash(f"{rule.seed}/{slot.astimezone(UTC).isoformat()}/window")
    return (number % (rule.fire_window_seconds * 1000)) * _MILLISECOND
