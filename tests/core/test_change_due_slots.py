"""Updates account for every due slot of the old rule."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.core.schedules import CREATED, ID, a_schedule, at
from tickwork.core.schedule.change import Change, update
from tickwork.core.schedule.model import OverlapPolicy, Schedule
from tickwork.core.schedule.plan import EXCLUDED, SKIPPED_MISSED, SKIPPED_OVERLAP
from tickwork.core.when import parse

EVERY_MINUTE = {"cron_expr": "* * * * *"}
NOON = {"daily_time": {"hour": 12, "minute": 0}}
MONTHS = {"grace_seconds": 200 * 86_400}


def owing(fields: dict[str, Any], overlap: OverlapPolicy, **changes: Any) -> Schedule:
    """A schedule whose slots from nine o'clock on are not planned."""
    schedule = a_schedule(fields, next_slot=at("09:00"), **changes)
    return structs.replace(
        schedule, definition=structs.replace(schedule.definition, overlap=overlap)
    )


def updated(schedule: Schedule, fields: dict[str, Any], now: str) -> Change:
    rule = parse(fields, created_at=CREATED, seed=str(ID))
    definition = structs.replace(schedule.definition, rule=rule)
    decide = update(definition, None, schedule.definition.rule, rule)
    change = decide(schedule, (), at(now))
    assert change is not None
    return change


def told(change: Change) -> list[tuple[str, int]]:
    return [(skip.reason, skip.count) for skip in change.skips]


@pytest.mark.parametrize(("unfinished", "fires"), [(0, 1), (1, 0), (2, 0)])
def test_slots_without_room_are_recorded_despite_max_firings(unfinished: int, fires: int) -> None:
    for few in (1, 2, 3):
        limited = {**EVERY_MINUTE, "max_firings": few + fires}
        schedule = owing(limited, OverlapPolicy.SKIP, unfinished=unfinished)
        change = updated(schedule, NOON, "09:09:30")
        assert [fire.slot for fire in change.fires] == [at("09:00")][:fires]
        assert {reason for reason, _ in told(change)} == {SKIPPED_OVERLAP}
        assert sum(count for _, count in told(change)) == 10 - fires
        assert change.skips[-1].last == at("09:09")


def test_a_schedule_that_used_up_max_firings_fires_nothing() -> None:
    schedule = owing({**EVERY_MINUTE, "max_firings": 1}, OverlapPolicy.SKIP)
    change = updated(schedule, NOON, "09:09:30")
    assert ([fire.slot for fire in change.fires], change.skips) == ([at("09:00")], ())


def test_more_due_slots_than_one_plan_holds_all_fire() -> None:
    schedule = owing({**EVERY_MINUTE, "missed": MONTHS}, OverlapPolicy.ALLOW)
    change = updated(schedule, NOON, "2026-03-12T08:59:30")
    assert [len(change.fires), len({fire.slot for fire in change.fires})] == [10 * 1_440] * 2
    assert (change.fires[-1].slot, change.skips) == (at("2026-03-12T08:59"), ())
    assert (change.fired, change.next_slot) == (10 * 1_440, at("2026-03-12T12:00"))


@pytest.mark.parametrize("overlap", [OverlapPolicy.ALLOW, OverlapPolicy.BUFFER_ONE])
def test_due_slots_beyond_all_plans_are_recorded(overlap: OverlapPolicy) -> None:
    closed = {"exclude": ["2026-05-31"]}
    schedule = owing({**EVERY_MINUTE, **closed, "missed": MONTHS}, overlap)
    change = updated(schedule, NOON, "2026-06-01T08:59:30")
    reason = SKIPPED_MISSED if overlap is OverlapPolicy.ALLOW else SKIPPED_OVERLAP
    assert {said for said, _ in told(change)} == {reason, EXCLUDED}
    assert sum(count for said, count in told(change) if said == EXCLUDED) == 1_440
    assert len(change.fires) + sum(count for _, count in told(change)) == 91 * 1_440
    assert change.skips[-1].last == at("2026-06-01T08:59")
    slots = [fire.slot for fire in change.fires]
    assert max(slots) < min(skip.first for skip in change.skips)
