"""Which slot of a rule comes next, when it is due, and when a leader has to look."""

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
    next_after,
)

AHEAD_SECONDS = 30.0
"""So far ahead slots become messages, so that a burst is in its queue when its time comes."""


class SlotTimes(NamedTuple):
    """Before a slot: when the next one that fires is due, and when a leader has to look."""

    due_at: datetime
    look_at: datetime


def first_slot_or_excluded(rule: Rule, created_at: datetime) -> datetime | None:
    """The first slot of a new schedule that is to be accounted for."""
    return first_slot(ignoring_days_off(rule), created_at)


def next_slot_or_excluded(rule: Rule, after: datetime, *, fired: int = 0) -> datetime | None:
    """The next slot that is to be accounted for: it may be on a day off."""
    return next_after(ignoring_days_off(rule), after, fired=fired)


def slot_times(
    rule: Rule,
    overlap: OverlapPolicy,
    slot: datetime,
    now: datetime | None = None,
    *,
    ahead: timedelta = timedelta(seconds=AHEAD_SECONDS),
) -> SlotTimes:
    """When the next one that fires is due, from this slot on, and when a leader has to look. A day
    off is looked at when its time has come, and not ahead."""
    opened = first_open_slot(rule, slot) if has_days_off(rule) else slot
    if opened is None:
        return SlotTimes(due_at(rule, slot), slot)
    look = look_at(rule, overlap, opened, now, ahead=ahead)
    return SlotTimes(due_at(rule, opened), look if opened == slot else min(slot, look))


def first_open_slot(rule: Rule, slot: datetime) -> datetime | None:
    """The first slot from this one on that is not on a day off."""
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
    """When a leader has to look at a schedule with this next slot.

    With `now` everything up to the horizon is planned: then a frequent schedule is looked at
    twice per horizon, and not for each of its slots.
    """
    if overlap.is_decided_when_due:
        return due_at(rule, slot)
    if now is None or slot <= now + ahead:
        return slot - ahead
    return max(slot - ahead, now + ahead / 2)


def just_before(instant: datetime) -> datetime:
    """The last instant before: intervals are open at the start."""
    return instant - timedelta.resolution


def is_excluded(rule: Rule, slot: datetime) -> bool:
    """Of a single slot. One in the past fires at once, whatever day it is by now."""
    return is_day_off(rule, rule.timing.at if isinstance(rule.timing, Once) else slot)
