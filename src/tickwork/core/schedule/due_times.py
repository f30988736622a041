"""When the coming firings of a schedule are due, and how jitter and fire windows spread many.

`due_times` is exact for one schedule. `spread_shares` is what to expect of many alike ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from tickwork.core.schedule.model import OverlapPolicy
from tickwork.core.schedule.plan import DueSchedule, plan
from tickwork.core.schedule.widen import widen, widened_due_at
from tickwork.core.when import (
    Rule,
    has_one_known_slot,
    is_fixed_delay,
    just_before,
    next_after,
    slots_between,
)

NOBODY = UUID(int=0)
"""Stands for the id of a schedule where it decides nothing."""


def due_times(
    rule: Rule,
    *,
    next_slot: datetime | None,
    last_slot: datetime | None,
    fired: int,
    now: datetime,
    end: datetime,
    schedule_id: UUID = NOBODY,
    widened_seconds: int = 0,
) -> Iterator[datetime]:
    """When the firings of a schedule are due from now to the end: planned ones that wait for their
    due time, and those that a leader will plan. Overdue ones are due now. The operator may have
    widened the windows, by which the `schedule_id` decides."""
    waiting = [*_planned(rule, next_slot, last_slot, now, schedule_id, widened_seconds)]
    yield from (at for at in waiting if at < end)
    if next_slot is None and is_fixed_delay(rule):
        next_slot = next_after(rule, max([now, *waiting]), fired=fired)
    due = None if next_slot is None else _due(rule, schedule_id, next_slot, fired)
    ahead_seconds = (end - now).total_seconds()
    while due is not None and due.next_slot < end:
        planned = plan(due, now, ahead_seconds=ahead_seconds)
        if widened_seconds:
            planned = widen(planned, rule, widened_seconds)
        times = (max(fire.due_at, now) for fire in planned.fires)
        yield from (at for at in times if at < end)
        fired, then = fired + len(planned.fires), planned.then_slot
        if then is None and planned.fires and is_fixed_delay(rule):
            then = next_after(rule, planned.fires[-1].due_at, fired=fired)
        is_over = then is None or then <= due.next_slot
        due = None if then is None or is_over else _due(rule, schedule_id, then, fired)


def _due(rule: Rule, schedule_id: UUID, next_slot: datetime, fired: int) -> DueSchedule:
    return DueSchedule(
        tenant="",
        id=schedule_id,
        shard=0,
        version=0,
        next_slot=next_slot,
        rule=rule,
        overlap=OverlapPolicy.ALLOW,
        fired=fired,
    )


def _planned(
    rule: Rule,
    next_slot: datetime | None,
    last_slot: datetime | None,
    now: datetime,
    schedule_id: UUID,
    widened_seconds: int,
) -> Iterator[datetime]:
    """When the slots that are messages already are due, if that is later than now."""
    if last_slot is None or (next_slot is not None and last_slot >= next_slot):
        return
    window = max(rule.fire_window_seconds, widened_seconds)
    first = just_before(now - timedelta(seconds=rule.jitter_seconds + window))
    if last_slot <= first:
        return
    slots = [last_slot] if has_one_known_slot(rule) else slots_between(rule, first, last_slot)
    times = (widened_due_at(rule, schedule_id, slot, widened_seconds) for slot in slots)
    yield from (at for at in times if at > now)


def spread_shares(
    offset: float, jitter: int, window: int, *, since: float = 0.0
) -> Iterator[tuple[int, float]]:
    """The share of each minute of a slot at `offset` seconds that is spread, after `since`."""
    last = offset + jitter + window
    minute, done = int(max(offset, since) // 60), _spread_by(since - offset, jitter, window)
    while minute * 60 <= last:
        until = _spread_by((minute + 1) * 60 - offset, jitter, window)
        if until > done:
            yield minute, until - done
        minute, done = minute + 1, until


def _spread_by(seconds: float, jitter: int, window: int) -> float:
    """The probability that jitter and window together are less than so many seconds."""
    if jitter and window:
        squares = (max(seconds - less, 0.0) ** 2 for less in (0, jitter, window, jitter + window))
        whole, late, later, both = squares
        return (whole - late - later + both) / (2.0 * jitter * window)
    longest = jitter + window
    if not longest:
        return float(seconds > 0)
    return min(max(seconds / longest, 0.0), 1.0)
