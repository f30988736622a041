"""The next slot of a schedule, its due time, and when a leader must look at it.

A schedule accounts for every slot of its rule. Slots on excluded days never fire, but they are
recorded, so `next_slot` may be one of them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from tickwork.core.schedule.model import OverlapPolicy
from tickwork.core.when import (
    Once,
    Rule,
    due_at,
    first_slot,
    has_days_off,
    has_one_known_slot,
    ignoring_days_off,
    is_day_off,
    is_fixed_delay,
    just_before,
    next_after,
)

AHEAD_SECONDS = 30.0
"""Seconds before its due time that a slot becomes a message.

A burst of slots is in its queue before it is due."""


class SlotTimes(NamedTuple):
    """When the next firing slot is due, and when a leader must look at the schedule."""

    due_at: datetime
    look_at: datetime


def first_slot_or_excluded(rule: Rule, created_at: datetime) -> datetime | None:
    """The first slot of a new schedule, which may be on an excluded day."""
    return first_slot(ignoring_days_off(rule), created_at)


def next_slot_or_excluded(rule: Rule, after: datetime, *, fired: int = 0) -> datetime | None:
    """The first slot after an instant, which may be on an excluded day."""
    return next_after(ignoring_days_off(rule), after, fired=fired)


def slot_times(
    rule: Rule,
    overlap: OverlapPolicy,
    slot: datetime,
    now: datetime | None = None,
    *,
    ahead: timedelta = timedelta(seconds=AHEAD_SECONDS),
) -> SlotTimes:
    """When the first slot from `slot` on that fires is due, and when a leader must look.

    An excluded slot is looked at when its time comes, not ahead of it.
    """
    open_slot = first_open_slot(rule, slot) if has_days_off(rule) else slot
    if open_slot is None:
        return SlotTimes(due_at(rule, slot), slot)
    look = look_at(rule, overlap, open_slot, now, ahead=ahead)
    return SlotTimes(due_at(rule, open_slot), look if open_slot == slot else min(slot, look))


def first_open_slot(rule: Rule, slot: datetime) -> datetime | None:
    """The first slot from this one on that is not on an excluded day."""
    if not has_one_known_slot(rule):
        return next_after(rule, just_before(slot))
    if not is_excluded(rule, slot):
        return slot
    return next_after(rule, slot) if is_fixed_delay(rule) else None


def look_at(
    rule: Rule,
    overlap: OverlapPolicy,
    slot: datetime,
    now: datetime | None = None,
    *,
    ahead: timedelta = timedelta(seconds=AHEAD_SECONDS),
) -> datetime:
    """When a leader must look at a schedule with this next slot.

    Pass `now` if everything up to the horizon is planned. A frequent schedule is then looked at
    twice per horizon instead of once per slot.
    """
    if overlap.is_decided_when_due:
        return due_at(rule, slot)
    if now is None or slot <= now + ahead:
        return slot - ahead
    return max(slot - ahead, now + ahead / 2)


def is_excluded(rule: Rule, slot: datetime) -> bool:
    """Whether a rule with one known slot excludes it.

    A single instant in the past fires at once, so its nominal day counts, not today.
    """
    return is_day_off(rule, rule.timing.at if isinstance(rule.timing, Once) else slot)
