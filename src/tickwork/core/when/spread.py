"""Spreading: a stable distance between a slot and the time it is due.

A thousand schedules at nine o'clock need not arrive at once. Jitter is one offset per
schedule, the window one place per schedule and slot; both come from the fixed hash, so that
every node, today and tomorrow, computes the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tickwork.core.hashing import stable_number
from tickwork.core.when.model import Rule
from tickwork.core.when.slots import next_after

_MILLISECOND = timedelta(milliseconds=1)


def due_at(rule: Rule, slot: datetime) -> datetime:
    """When a slot is due: its nominal time plus jitter and its place in the window."""
    if not (rule.jitter_seconds or rule.fire_window_seconds):
        return slot
    return slot + _jitter(rule, slot) + _window(rule, slot)


def spread_max(rule: Rule) -> timedelta:
    """No slot is due later than this after its nominal time."""
    return timedelta(seconds=rule.jitter_seconds + rule.fire_window_seconds)


def _jitter(rule: Rule, slot: datetime) -> timedelta:
    if not rule.jitter_seconds:
        return timedelta()
    place = stable_number(f"{rule.seed}/jitter")
    offset = (place % (rule.jitter_seconds * 1000 + 1)) * _MILLISECOND
    following = next_after(rule, slot)
    if following is not None and slot + offset >= following:
        offset %= following - slot
    return offset


def _window(rule: Rule, slot: datetime) -> timedelta:
    if not rule.fire_window_seconds:
        return timedelta()
    place = stable_number(f"{rule.seed}/{slot.astimezone(UTC).isoformat()}/window")
    return (place % (rule.fire_window_seconds * 1000)) * _MILLISECOND
