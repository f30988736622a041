"""Widened windows: while the fleet is overloaded, the operator spreads the firings of all
schedules.

A slot is due later, by the offset that a fire window of that length would give it, and never after
the next slot. Only the message of a slot that is planned on time moves: the rule of its schedule,
its next slot and what counts as missed stay the same. A schedule with `fire_window_seconds: 0` is
exact and keeps its times; catch-up slots and extra runs are paced already, or wanted now.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import structs

from tickwork.core.fields import Reader
from tickwork.core.schedule.plan import Fire, Plan
from tickwork.core.when import Rule, due_at, next_after
from tickwork.errors import FieldError, InvalidInput

WIDEN_SECONDS_MAX = 86_400
"""Maximum seconds of a widened window."""


def read_widen(fields: Mapping[str, object]) -> int:
    """The length of the window, `{"seconds": 600}`; 0 for none. Raises `InvalidInput`."""
    faults: list[FieldError] = []
    reader = Reader(fields, faults)
    reader.refuse_unknown({"seconds"})
    seconds = reader.integer("seconds", 0, WIDEN_SECONDS_MAX)
    if faults or seconds is None:
        raise InvalidInput(faults)
    return seconds


def widened_due_at(rule: Rule, schedule_id: UUID, slot: datetime, seconds: int) -> datetime:
    """When a slot is due with a window of at least so many seconds."""
    if rule.is_exact or seconds <= rule.fire_window_seconds:
        return due_at(rule, slot)
    following = next_after(rule, slot)
    if following is not None:
        seconds = min(seconds, int((following - slot).total_seconds()))
    window = max(seconds, rule.fire_window_seconds)
    return due_at(structs.replace(rule, fire_window_seconds=window, seed=str(schedule_id)), slot)


def widen(planned: Plan, rule: Rule, seconds: int) -> Plan:
    """A plan whose slots that are on time are spread over so many seconds."""
    if not planned.fires or rule.is_exact:
        return planned

    def later(fire: Fire) -> Fire:
        if fire.catch_up:
            return fire
        at = widened_due_at(rule, planned.id, fire.slot, seconds)
        return structs.replace(fire, due_at=at, visible_at=at)

    return structs.replace(planned, fires=tuple(map(later, planned.fires)))
