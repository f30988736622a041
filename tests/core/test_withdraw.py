"""What becomes of slots that were taken back."""

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


def test_slots_of_the_rule_are_gone_back_to_as_far_as_nothing_is_missing_between() -> None:
    first, third, fourth = taken(0), taken(2), taken(3)
    assert split_withdrawn(RULE, at(4), [fourth, third, first], NOW) == SplitWithdrawn(
        third, (first,)
    )
    assert split_withdrawn(RULE, at(9), [first], NOW) == SplitWithdrawn(None, (first,))


def test_with_no_next_slot_the_last_one_is_gone_back_to() -> None:
    assert split_withdrawn(RULE, None, [taken(2), taken(3)], NOW) == SplitWithdrawn(taken(2), ())


def test_what_is_still_to_come_is_gone_back_to_whatever_the_rule_says() -> None:
    rolled = Withdrawn(at(10), at(10))
    assert split_withdrawn(RULE, at(59), [rolled], NOW) == SplitWithdrawn(rolled, ())


def test_what_is_on_record_ahead_counts_for_rules_that_did_not_follow_the_clock() -> None:
    again = taken(2, has_future_record=True)
    assert split_withdrawn(RULE, at(3), [again], NOW) == SplitWithdrawn(None, (again,))
    grid = when.parse({"interval_seconds": 60}, created_at=at(0), seed="x", calendars={})
    assert split_withdrawn(grid, at(3), [again], NOW) == SplitWithdrawn(again, ())


def test_a_rule_whose_zone_nobody_knows_is_not_gone_back_to() -> None:
    lost = structs.replace(RULE, timezone="Nowhere/Gone")
    assert split_withdrawn(lost, at(4), [taken(3)], NOW) == SplitWithdrawn(None, (taken(3),))
