"""Of a rule whose slots roll to another day, every time of it has one firing, whenever its days off
change: before, between or after the places that it has by the old days and by the new ones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tickwork.core import when
from tickwork.core.coming import following
from tickwork.core.planning import Due, plan
from tickwork.core.rolling import goes_on_with, is_promised
from tickwork.core.schedule import OverlapPolicy

CREATED = datetime(2027, 2, 10, tzinfo=UTC)
END = datetime(2027, 4, 20, tzinfo=UTC)
HOUR, CHANGES = timedelta(hours=1), datetime(2027, 2, 26, tzinfo=UTC)
MARCH = [date(2027, 3, day) for day in range(1, 7)]
CLOSED = st.frozensets(st.sampled_from(MARCH))
CHANGED = st.integers(0, 24 * 12).map(lambda hours: CHANGES + hours * HOUR)


def rule_of(roll: str, zone: str, **fields: object) -> when.Rule:
    """On the third of each month at one o'clock; the days are given later."""
    body = {"monthly_time": {"day": 3, "hour": 13, "minute": 0}, "timezone": zone, "roll": roll}
    return when.parse(body | fields, created_at=CREATED)


def closed_on(rule: when.Rule, days: frozenset[date]) -> when.Rule:
    return structs.replace(rule, holidays=days)


def fired_until(
    rule: when.Rule, slot: datetime | None, end: datetime
) -> tuple[list[datetime], datetime | None]:
    """What leaders make of it up to an instant, and the slot that is next then."""
    found: list[datetime] = []
    while slot is not None and slot <= end:
        due = Due(
            tenant="default",
            id=UUID(int=7),
            bucket=1,
            version=1,
            next_slot=slot,
            rule=rule,
            overlap=OverlapPolicy.ALLOW,
            fired=len(found),
        )
        made = plan(due, slot, ahead_seconds=0)
        assert [each.slot for each in made.fires] == [slot]
        found.append(slot)
        slot = made.then_slot
    return found, slot


@pytest.mark.parametrize("roll", ["next_day", "previous_day"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("is_heard_of", [True, False])
@given(before=CLOSED, after=CLOSED, changed=CHANGED)
def test_every_time_has_one_firing(
    *,
    roll: str,
    zone: str,
    is_heard_of: bool,
    before: frozenset[date],
    after: frozenset[date],
    changed: datetime,
) -> None:
    """Also if whoever changed the days died before the schedule was computed anew."""
    rule = rule_of(roll, zone)
    old, new = closed_on(rule, before), closed_on(rule, after)
    fired, waits = fired_until(old, following(old, CREATED), changed)
    last = fired[-1] if fired else None
    if is_heard_of:
        then = following(new, changed)
        waits = goes_on_with(old, new, then, changed, waits=waits, last=last)
    later, _ = fired_until(new, waits, END)
    times = [each.astimezone(UTC).month for each in (*fired, *later)]
    assert len(times) == 2, (fired, later)
    assert later[-1] == following(new, datetime(2027, 4, 1, tzinfo=UTC))


def test_a_slot_is_promised_only_if_the_days_of_now_do_not_have_it() -> None:
    rule = rule_of("next_day", "UTC")
    slot = datetime(2027, 3, 4, 13, tzinfo=UTC)
    assert not is_promised(closed_on(rule, frozenset({date(2027, 3, 3)})), slot)
    assert is_promised(rule, slot)
    assert not is_promised(structs.replace(rule, roll=when.Roll.SKIP), slot)


def test_where_the_one_that_waits_has_a_place_to_come_it_goes_there() -> None:
    rule, now = rule_of("next_day", "UTC"), datetime(2027, 3, 4, 10, tzinfo=UTC)
    old, new = (closed_on(rule, frozenset(MARCH[2:end])) for end in (3, 4))
    waits = datetime(2027, 3, 4, 13, tzinfo=UTC)
    then = following(new, now)
    assert then == datetime(2027, 3, 5, 13, tzinfo=UTC)
    assert goes_on_with(old, new, then, now, waits=waits, last=None) == then
