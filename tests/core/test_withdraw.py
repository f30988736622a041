"""Withdrawn slots are kept or dropped."""

from datetime import UTC, datetime

from msgspec import structs

from tickwork.core import when
from tickwork.core.schedule.withdraw import SplitWithdrawn, Withdrawn, split_withdrawn

NOW = datetime(2026, 3, 2, 9, 3, tzinfo=UTC)
RULE = when.parse({"cron_expr": "* * * * *"}, created_at=NOW, seed="x", calendars={})


def at(minute: int) -> datetime:
    return NOW.replace(minute=minute)


def taken(minute: int, **fields: bool) -> Withdrawn:
    return Withdrawn(at(minute), at(minute), **fields)


def test_due_slots_are_kept_while_the_rule_has_no_other_slot_between() -> None:
    first, third, fourth = taken(0), taken(2), taken(3)
    assert split_withdrawn(RULE, at(4), [fourth, third, first], NOW) == SplitWithdrawn(
        third, (first,)
    )
    assert split_withdrawn(RULE, at(9), [first], NOW) == SplitWithdrawn(None, (first,))


def test_without_a_next_slot_the_withdrawn_slots_are_kept() -> None:
    assert split_withdrawn(RULE, None, [taken(2), taken(3)], NOW) == SplitWithdrawn(taken(2), ())


def test_a_slot_that_is_not_due_is_kept_even_if_the_rule_lacks_it() -> None:
    rolled = Withdrawn(at(10), at(10))
    assert split_withdrawn(RULE, at(59), [rolled], NOW) == SplitWithdrawn(rolled, ())


def test_a_slot_before_a_future_record_is_kept_only_for_intervals() -> None:
    again = taken(2, has_future_record=True)
    assert split_withdrawn(RULE, at(3), [again], NOW) == SplitWithdrawn(None, (again,))
    grid = when.parse({"interval_seconds": 60}, created_at=at(0), seed="x", calendars={})
    assert split_withdrawn(grid, at(3), [again], NOW) == SplitWithdrawn(again, ())


def test_slots_of_a_rule_with_an_unknown_zone_are_dropped() -> None:
    lost = structs.replace(RULE, timezone="Nowhere/Gone")
    assert split_withdrawn(lost, at(4), [taken(3)], NOW) == SplitWithdrawn(None, (taken(3),))
