"""What new zone data makes of schedules that wait for their next slot.

Rule and zone are stored; so is the next slot, an instant, as the zone data of its day had it. When
a country changes its clocks, the same local time is another instant:

```
  known then:    last ─────────────── waiting          slots, as they were computed
  known now:           a ──────────────── b            the same local times, as they are
```

`a` is the slot that fired already, so that it does not come again: of the slots as they are now,
the nearest one stands for one of before. `b` is where the schedule goes on; if that is in the past,
it was missed, and its policy says what happens. Nothing here knows the zone data of before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.schedule import change as changing
from tickwork.core.schedule.change import Change
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.next_slot import just_before, next_slot_or_excluded, slot_times
from tickwork.core.schedule.withdraw import Withdrawn
from tickwork.core.when import Interval, Once, Rule, ignoring_days_off, last_between, next_after
from tickwork.core.when.model import EPOCH
from tickwork.core.when.slot_sources import resolve_local

ZONE_CHANGE_MAX = timedelta(hours=26)
"""No change of a zone moves a local time by more: a day, and what else may fall on it."""


class WaitingSchedule(Struct, frozen=True, kw_only=True):
    """An active schedule that waits for its next slot, as far as that matters for it."""

    tenant: str
    id: UUID
    name: str | None
    next_slot: datetime
    look_at: datetime
    last_slot: datetime | None
    updated_at: datetime
    fired: int
    rule: Rule


def depends_on_zone(rule: Rule) -> bool:
    """Whether other zone data may mean other slots."""
    timing = rule.timing
    if rule.timezone == "UTC" or isinstance(timing, Interval):
        return False
    return not isinstance(timing, Once) or timing.wall is not None


def has_moved(found: WaitingSchedule, rule: Rule, now: datetime) -> bool:
    """Whether a schedule's slots are other ones now; `rule` has the days of its calendar."""
    if found.next_slot <= now:
        return False  # It is due: that is for the leader, and as it was.
    last = found.last_slot
    if last is not None and last > now and not _is_slot(rule, last):
        return True
    return _goes_on(found, rule, now) != found.next_slot


class RecomputeNextSlot:
    """A decision: the schedule goes on where the zone data of now has its next slot.

    `keeps` says afterwards whether a planned slot has to stay, because the one that it stands for
    is in the past: then it is to be asked again, with nothing taken back.
    """

    def __init__(self, rule_of: Callable[[Schedule], Rule]) -> None:
        self._rule_of = rule_of
        self.must_keep_planned = False

    def __call__(
        self, schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime
    ) -> Change | None:
        slot = schedule.next_slot
        if schedule.status is not ScheduleStatus.ACTIVE or slot is None or slot <= now:
            return None
        rule, found = self._rule_of(schedule), _waiting(schedule, slot)
        if not withdrawn:
            then = _goes_on(found, rule, now)
            return None if then == slot else _change(schedule, (), rule, then, now)
        is_same = all(_is_slot(rule, each.slot) for each in withdrawn)
        if is_same and _goes_on(found, rule, now) == slot:
            return None
        planned = min(each.slot for each in withdrawn)
        stands_for = _nearest(rule, planned)
        self.must_keep_planned = stands_for is None or stands_for <= now
        if self.must_keep_planned:
            return None
        left = schedule.fired - len(withdrawn)
        found = structs.replace(found, next_slot=planned, last_slot=None, fired=left)
        return _change(schedule, withdrawn, rule, _goes_on(found, rule, now), now)


def recompute_on_resume(
    change: Change | None, schedule: Schedule, rule: Rule, now: datetime
) -> Change | None:
    """What is made of a schedule that was paused, while nobody looked at it: it goes on where the
    zone data of now has its next slot."""
    slot = None if change is None else change.next_slot
    is_paused = schedule.status is ScheduleStatus.PAUSED
    if change is None or slot is None or slot <= now or not (is_paused and depends_on_zone(rule)):
        return change
    then = _goes_on(_waiting(schedule, slot), rule, now)
    return change if then == slot else _moved(change, rule, then, now)


def with_current_instant(rule: Rule) -> Rule:
    """The rule under the zone data of now: a single local time may be another instant."""
    timing = rule.timing
    if not isinstance(timing, Once) or timing.wall is None:
        return rule
    at = resolve_local(timing.wall, rule.timezone, rule.dst)
    if at is None or at == timing.at:
        return rule
    return structs.replace(rule, timing=structs.replace(timing, at=at))


def _change(
    schedule: Schedule,
    withdrawn: Sequence[Withdrawn],
    rule: Rule,
    then: datetime | None,
    now: datetime,
) -> Change:
    as_it_is = changing.update(schedule.definition, schedule.name, rule, rule)
    change = as_it_is(schedule, withdrawn, now)
    assert change is not None
    return _moved(change, rule, then, now)


def _moved(change: Change, rule: Rule, then: datetime | None, now: datetime) -> Change:
    said = change.definition
    # Without the days of its calendar, which are no part of what is stored.
    said = structs.replace(said, rule=with_current_instant(said.rule))
    if then is None:
        return structs.replace(change, definition=said, next_slot=None, due_at=None, look_at=None)
    found = slot_times(with_current_instant(rule), said.overlap, then)
    return structs.replace(
        change,
        definition=said,
        next_slot=then,
        due_at=found.due_at,
        look_at=max(found.look_at, now),
    )


def _goes_on(found: WaitingSchedule, rule: Rule, now: datetime) -> datetime | None:
    """The slot to go on with, from one that is still to come."""
    if isinstance(rule.timing, Once):
        return next_slot_or_excluded(with_current_instant(rule), EPOCH) or found.next_slot
    last, waiting = found.last_slot, found.next_slot
    then = next_slot_or_excluded(rule, now if last is None else max(now, last), fired=found.fired)
    if then == waiting:
        return then
    stands_for = _nearest(rule, waiting)
    fired = None if last is None else _nearest(rule, last)
    if stands_for is not None and stands_for <= now:
        since = max(each for each in (found.updated_at, last, fired) if each is not None)
        if next_slot_or_excluded(rule, since, fired=found.fired) == stands_for:
            return stands_for
    if then is not None and then == fired and then != stands_for:
        return next_slot_or_excluded(rule, then, fired=found.fired)
    return then


def _is_slot(rule: Rule, at: datetime) -> bool:
    return next_slot_or_excluded(rule, just_before(at)) == at


def _nearest(rule: Rule, at: datetime) -> datetime | None:
    """The slot that is nearest to an instant, if one is near; of two the later one."""
    every = ignoring_days_off(rule)
    if every.max_firings is not None:
        every = structs.replace(every, max_firings=None)
    after = next_after(every, just_before(at))
    distance = ZONE_CHANGE_MAX if after is None else min(after - at, ZONE_CHANGE_MAX)
    return last_between(every, at - distance, just_before(at)) or (
        after if after is not None and after - at <= ZONE_CHANGE_MAX else None
    )


def _waiting(schedule: Schedule, slot: datetime) -> WaitingSchedule:
    return WaitingSchedule(
        tenant=schedule.tenant,
        id=schedule.id,
        name=schedule.name,
        next_slot=slot,
        look_at=slot,
        last_slot=schedule.last_slot,
        updated_at=schedule.updated_at,
        fired=schedule.fired,
        rule=schedule.definition.rule,
    )
