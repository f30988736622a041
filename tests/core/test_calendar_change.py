"""Every natural time of a rule with `roll` fires once, however often the excluded days change.

The change may come before, between or after its slots under the old and the new days.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from tests.core.schedules import a_schedule
from tickwork.core import when
from tickwork.core.schedule.calendar_change import with_pending_slot
from tickwork.core.schedule.change import Decision, pause, resume, update
from tickwork.core.schedule.next_slot import next_slot_or_excluded
from tickwork.core.schedule.plan import DueSchedule, plan
from tickwork.core.when.slot_sources import resolve_local

BEGIN, END = datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 4, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DAYS = [date(2027, 3, 22) + timedelta(days=number) for number in range(9)]
"""Clocks go forward in Berlin in the middle of them, on the 28th at 02:00."""

TIMINGS: list[dict[str, Any]] = [
    {"cron_expr": "0 9,17 * * FRI"},
    {"cron_expr": "0 9,13 * * WED,THU"},
    {"cron_expr": "0 9 * * *"},
    {"cron_expr": "30 2 * * SAT"},
    {"cron_expr": "30 2,15 * * SAT,MON"},
    {"monthly_time": {"day": 25, "hour": 13, "minute": 0}},
    {
        "rrule": "FREQ=WEEKLY;BYDAY=TU,SA;BYHOUR=8,20;BYMINUTE=0;BYSECOND=0",
        "start_at": "2027-02-02T08:00",
    },
]
CLOSED = st.frozensets(st.sampled_from(DAYS))
CHANGED = st.integers(0, 24 * 13).map(
    lambda hours: datetime(2027, 3, 20, tzinfo=UTC) + hours * HOUR
)
CHANGES = st.lists(st.tuples(CHANGED, CLOSED), max_size=4).map(
    lambda found: sorted(found, key=lambda change: change[0])
)


class Life:
    """A schedule with simulated leaders and calendar changes."""

    def __init__(self, closed: frozenset[date], **fields: Any) -> None:
        self.schedule = a_schedule(fields)
        self.closed, self.fired, self.skipped = closed, list[datetime](), list[datetime]()
        self._goes_on(next_slot_or_excluded(self.rule, BEGIN))

    @property
    def rule(self) -> when.Rule:
        return structs.replace(self.schedule.definition.rule, holidays=self.closed)

    def run(self, until: datetime) -> None:
        """Plans as leaders do, up to an instant."""
        while (slot := self.schedule.next_slot) is not None and slot <= until:
            due = DueSchedule(
                tenant=self.schedule.tenant,
                id=self.schedule.id,
                shard=1,
                version=1,
                next_slot=slot,
                rule=self.rule,
                overlap=self.schedule.definition.overlap,
                fired=self.schedule.fired,
            )
            planned = plan(due, slot, ahead_seconds=0)
            assert [fire.slot for fire in planned.fires] == [slot]
            self.fired.append(slot)
            self._goes_on(planned.then_slot, last_slot=slot, fired=self.schedule.fired + 1)

    def change(self, now: datetime, closed: frozenset[date], **fields: Any) -> None:
        """Changes the excluded days and the bounds of the rule."""
        old, self.closed = self.rule, closed
        said = structs.replace(self.schedule.definition.rule, pinned=(), **fields)
        definition = structs.replace(self.schedule.definition, rule=said)
        new = structs.replace(said, holidays=closed)
        self._take(update(definition, None, old, new), now)

    def pause(self, now: datetime, until: datetime) -> None:
        self._take(pause, now)
        self._take(resume(self.rule), until)

    def _take(self, decide: Decision, now: datetime) -> None:
        change = decide(self.schedule, [], now)
        assert change is not None
        self.skipped += [skip.first for skip in change.skips]
        self._goes_on(change.next_slot, status=change.status, definition=change.definition)

    def _goes_on(self, slot: datetime | None, **changes: Any) -> None:
        self.schedule = structs.replace(self.schedule, next_slot=slot, **changes)


def natural_times(rule: when.Rule) -> list[datetime]:
    """The natural times of the rule, as local times."""
    start = rule.start_at and rule.start_at.astimezone(ZoneInfo(rule.timezone)).replace(tzinfo=UTC)
    plain = structs.replace(
        rule, timezone="UTC", start_at=start, roll=when.Roll.SKIP, holidays=frozenset()
    )
    return [
        slot.replace(tzinfo=None)
        for slot in when.slots_between(plain, BEGIN - 9 * DAY, END + 9 * DAY)
    ]


def place(rule: when.Rule, natural: datetime, closed: frozenset[date]) -> datetime | None:
    step = DAY if rule.roll is when.Roll.NEXT_DAY else -DAY
    while natural.date() in closed:
        natural += step
    return resolve_local(natural, rule.timezone, rule.dst)


def expected(
    rule: when.Rule, closed: frozenset[date], changes: list[tuple[datetime, frozenset[date]]]
) -> list[datetime]:
    """A reference for each natural time: it moves by the current days, unless that is past."""
    places = {time: place(rule, time, closed) for time in natural_times(rule)}
    for now, days in changes:
        for natural, known in places.items():
            there = place(rule, natural, days)
            if known is not None and known > now and there is not None and there > now:
                places[natural] = there
    return sorted({slot for slot in places.values() if slot is not None and BEGIN < slot <= END})


@pytest.mark.parametrize("roll", ["next_day", "previous_day"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@given(timing=st.sampled_from(TIMINGS), closed=CLOSED, changes=CHANGES)
@example(  # Both have fired: neither comes again on the next day.
    timing=TIMINGS[1],
    closed=frozenset(),
    changes=[(datetime(2027, 3, 24, 20, tzinfo=UTC), frozenset({date(2027, 3, 24)}))],
)
@example(  # One is past by the new days, one to come: the first stays where it waits.
    timing=TIMINGS[0],
    closed=frozenset({date(2027, 3, 26)}),
    changes=[(datetime(2027, 3, 26, 12, tzinfo=UTC), frozenset())],
)
@example(  # A slot that rolls into the hour that a clock leaves out.
    timing=TIMINGS[3],
    closed=frozenset(),
    changes=[(datetime(2027, 3, 22, tzinfo=UTC), frozenset({date(2027, 3, 27)}))],
)
def test_every_natural_time_fires_once(
    *,
    roll: str,
    zone: str,
    timing: dict[str, Any],
    closed: frozenset[date],
    changes: list[tuple[datetime, frozenset[date]]],
) -> None:
    life = Life(closed, **timing, timezone=zone, roll=roll)
    natural = life.rule
    for now, days in changes:
        life.run(now)
        life.change(now, days)
    life.run(END)
    assert life.fired == expected(natural, closed, changes)


FRIDAY, SATURDAY = date(2027, 3, 26), date(2027, 3, 27)
MONTHLY = {"monthly_time": {"day": 26, "hour": 13, "minute": 0}, "roll": "next_day"}


def kept_on_saturday(zone: str = "Europe/Berlin") -> tuple[Life, datetime]:
    """A slot pending on Saturday for Friday, which is opened on Friday evening; and its time."""
    life = Life(frozenset({FRIDAY}), **MONTHLY, timezone=zone)
    life.run(datetime(2027, 3, 26, 19, tzinfo=UTC))
    waits = life.schedule.next_slot
    assert waits is not None
    assert waits.date() == SATURDAY
    life.change(datetime(2027, 3, 26, 20, tzinfo=UTC), frozenset())
    assert life.schedule.next_slot == waits
    return life, waits


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_kept_slot_survives_a_pause(zone: str) -> None:
    life, waits = kept_on_saturday(zone)
    life.pause(waits - 3 * HOUR, waits - 2 * HOUR)
    life.run(END)
    assert waits in life.fired
    assert len(life.fired) == 2


def test_a_kept_slot_that_passes_during_a_pause_is_recorded() -> None:
    life, waits = kept_on_saturday()
    life.pause(waits - HOUR, waits + HOUR)
    life.run(END)
    assert life.skipped == [waits]
    assert waits not in life.fired
    assert len(life.fired) == 1


@pytest.mark.parametrize(
    "bounds",
    [
        {"end_at": datetime(2027, 3, 26, 21, tzinfo=UTC)},
        {"start_at": datetime(2027, 6, 1, tzinfo=UTC)},
        {"max_firings": 0},
    ],
)
def test_a_kept_slot_obeys_the_bounds_of_its_rule(bounds: dict[str, Any]) -> None:
    life, waits = kept_on_saturday()
    life.change(datetime(2027, 3, 26, 21, tzinfo=UTC), frozenset(), **bounds)
    life.run(END)
    assert waits not in life.fired


def test_a_kept_slot_is_a_slot_of_the_rule() -> None:
    life, waits = kept_on_saturday()
    assert when.slots_between(life.rule, waits - HOUR, waits) == [waits]
    assert when.count_between(life.rule, waits - HOUR, waits) == 1
    assert when.last_between(life.rule, waits - HOUR, waits + HOUR) == waits


def test_a_spent_slot_is_not_a_slot_of_the_rule() -> None:
    life = Life(frozenset(), **MONTHLY, timezone="UTC")
    life.run(datetime(2027, 3, 26, 14, tzinfo=UTC))
    life.change(datetime(2027, 3, 26, 14, tzinfo=UTC), frozenset({FRIDAY}))
    (spent,) = life.rule.pinned
    assert spent.moved_to is None
    saturday = datetime(2027, 3, 27, 13, tzinfo=UTC)
    assert when.count_between(life.rule, saturday - HOUR, saturday) == 0
    assert life.schedule.next_slot == datetime(2027, 4, 26, 13, tzinfo=UTC)


@pytest.mark.parametrize("roll", ["next_day", "previous_day"])
@given(closed=CLOSED, now=CHANGED, days=CLOSED)
def test_a_pending_slot_computed_under_other_days_fires_once(
    *, roll: str, closed: frozenset[date], now: datetime, days: frozenset[date]
) -> None:
    """The current days lack the pending slot.

    It fires, and its natural time does not fire again.
    """
    life = Life(closed, **MONTHLY | {"roll": roll}, timezone="Europe/Berlin")
    life.run(now)
    waits, life.closed = life.schedule.next_slot, days
    life.run(END)
    assert waits in life.fired
    assert len(life.fired) == 2


def test_a_slot_that_no_excluded_day_explains_is_not_pinned() -> None:
    """It may come from other tzdata, and another slot stands for its natural time."""
    rule = Life(frozenset(), **MONTHLY, timezone="Europe/Berlin").rule
    slot = datetime(2027, 3, 26, 11, tzinfo=UTC)
    assert with_pending_slot(rule, slot) is rule
    assert with_pending_slot(rule, slot + HOUR) is rule
    assert with_pending_slot(rule, slot + DAY + HOUR) is not rule


def test_a_rule_with_very_many_times_pins_none() -> None:
    life = Life(frozenset(DAYS), cron_expr="* * * * *", timezone="UTC", roll="next_day")
    life.change(datetime(2027, 3, 30, 12, tzinfo=UTC), frozenset(DAYS[:-1]))
    assert life.rule.pinned == ()
