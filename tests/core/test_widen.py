"""Widened windows: which slots are due later, and by how much."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core import when
from tickwork.core.schedule.model import OverlapPolicy
from tickwork.core.schedule.plan import DueSchedule, plan
from tickwork.core.schedule.widen import read_widen, widen, widened_due_at
from tickwork.errors import InvalidInput

NOW = datetime(2026, 3, 2, 8, 59, 45, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
ID = UUID("018f0000-0000-7000-8000-000000000001")


def rule(**fields: Any) -> when.Rule:
    return when.parse({"daily_time": {"hour": 9, "minute": 0}} | fields, seed=str(ID))


@given(st.integers(1, 86_400))
def test_a_slot_has_the_offset_of_a_window_of_that_length(seconds: int) -> None:
    own = rule(fire_window_seconds=seconds)
    assert widened_due_at(rule(), ID, NINE, seconds) == when.due_at(own, NINE)


@given(st.uuids(), st.integers(0, 86_400), st.integers(10, 7_200))
def test_a_slot_is_never_due_after_the_next_one(
    schedule_id: UUID, seconds: int, every: int
) -> None:
    often = when.parse(
        {"interval_seconds": every},
        created_at=NINE,
        seed=str(schedule_id),
        limits=when.Limits(min_interval_seconds=1),
    )
    slot = when.next_after(often, NINE)
    assert slot is not None
    due = widened_due_at(often, schedule_id, slot, seconds)
    assert slot <= due <= slot + timedelta(seconds=min(seconds, every))


def test_an_exact_schedule_and_a_wider_window_stay_as_they_are() -> None:
    exact, wide = rule(fire_window_seconds=0), rule(fire_window_seconds=7_200)
    assert (exact.is_exact, rule().is_exact, wide.is_exact) == (True, False, False)
    assert widened_due_at(exact, ID, NINE, 600) == NINE
    assert widened_due_at(wide, ID, NINE, 600) == when.due_at(wide, NINE)
    assert when.render(exact)["fire_window_seconds"] == 0
    assert "fire_window_seconds" not in when.render(rule())


def test_slots_on_time_move_and_catch_ups_do_not() -> None:
    hourly = when.parse({"cron_expr": "0 * * * *"})
    due = DueSchedule(
        tenant="default", id=ID, shard=0, version=1, next_slot=NINE - timedelta(hours=3),
        rule=hourly, overlap=OverlapPolicy.ALLOW, fired=0,
    )  # fmt: skip
    planned = plan(due, NOW)
    moved = widen(planned, hourly, 600)
    assert [fire.catch_up for fire in planned.fires] == [True, True, True, False]
    assert moved.fires[:3] == planned.fires[:3]
    last = moved.fires[3]
    assert last.slot == NINE
    assert NINE < last.due_at == last.visible_at <= NINE + timedelta(minutes=10)
    assert (moved.then_slot, moved.then_due_at) == (planned.then_slot, planned.then_due_at)
    assert moved.look_at == planned.look_at


@pytest.mark.parametrize("fields", [{}, {"seconds": -1}, {"seconds": 1.5}, {"seconds": True}])
def test_a_length_that_is_none_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="seconds"):
        read_widen(fields)
