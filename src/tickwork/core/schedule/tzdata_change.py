"""New tzdata: moves the next slot of schedules whose local times became other instants.

A schedule stores its rule, its zone and its next slot. The next slot is an instant, computed with
the tzdata of that day. When a country changes its clocks, the same local time is another instant:

```
  old tzdata:    last ─────────────── waiting          slots as they were computed
  new tzdata:          a ──────────────── b            the same local times
```

The old tzdata is gone, so each old slot is matched with the nearest new one. `a` matches the slot
that fired already, so it does not fire again. The schedule continues at `b`. If `b` is in the past,
it was missed and the missed policy applies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.schedule.change import Change, update, with_next_slot
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.next_slot import next_slot_or_excluded
from tickwork.core.schedule.withdraw import Withdrawn
from tickwork.core.when import (
    Interval,
    Once,
    Rule,
    ignoring_days_off,
    just_before,
    last_between,
    next_after,
)
from tickwork.core.when.model import EPOCH
from tickwork.core.when.slot_sources import resolve_local

ZONE_CHANGE_MAX = timedelta(hours=26)
"""Maximum distance that a zone change moves a local time: a day and a DST change."""


class WaitingSchedule(Struct, frozen=True, kw_only=True):
    """The fields of an active schedule that decide whether its next slot moves."""

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
    """Whether new tzdata can move its slots."""
    timing = rule.timing
    if rule.timezone == "UTC" or isinstance(timing, Interval):
        return False
    return not isinstance(timing, Once) or timing.wall is not None


def has_moved(found: WaitingSchedule, rule: Rule, now: datetime) -> bool:
    """Whether new tzdata moves a schedule's slots. `rule` includes its calendar's days."""
    if found.next_slot <= now:
        return False  # It is due: the leader plans it as it was computed.
    last = found.last_slot
    if last is not None and last > now and not _is_slot(rule, last):
        return True
    return _next_slot_now(found, rule, now) != found.next_slot


class RecomputeNextSlot:
    """A change decision that moves the next slot to where the current tzdata has it.

    `must_keep_planned` is set if a planned slot matches a new slot in the past. The slot must stay
    planned: make the change again with nothing withdrawn.
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
        rule, found = self._rule_of(schedule), _waiting_schedule(schedule, slot)
        if not withdrawn:
            then = _next_slot_now(found, rule, now)
            return None if then == slot else _change(schedule, (), rule, then, now)
        is_same = all(_is_slot(rule, planned_slot.slot) for planned_slot in withdrawn)
        if is_same and _next_slot_now(found, rule, now) == slot:
            return None
        planned = min(planned_slot.slot for planned_slot in withdrawn)
        matching = _nearest(rule, planned)
        self.must_keep_planned = matching is None or matching <= now
        if self.must_keep_planned:
            return None
        left = schedule.fired - len(withdrawn)
        found = structs.replace(found, next_slot=planned, last_slot=None, fired=left)
        return _change(schedule, withdrawn, rule, _next_slot_now(found, rule, now), now)


def recompute_on_resume(
    change: Change | None, schedule: Schedule, rule: Rule, now: datetime
) -> Change | None:
    """Corrects the resume of a schedule whose zone changed while it was paused."""
    slot = None if change is None else change.next_slot
    is_paused = schedule.status is ScheduleStatus.PAUSED
    if change is None or slot is None or slot <= now or not (is_paused and depends_on_zone(rule)):
        return change
    then = _next_slot_now(_waiting_schedule(schedule, slot), rule, now)
    return change if then == slot else _with_next_slot(change, rule, then, now)


def with_current_instant(rule: Rule) -> Rule:
    """The rule with its single local time resolved by the current tzdata."""
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
    unchanged = update(schedule.definition, schedule.name, rule, rule)
    change = unchanged(schedule, withdrawn, now)
    assert change is not None
    return _with_next_slot(change, rule, then, now)


def _with_next_slot(change: Change, rule: Rule, then: datetime | None, now: datetime) -> Change:
    definition = change.definition
    # The stored rule does not contain the days of its calendar.
    definition = structs.replace(definition, rule=with_current_instant(definition.rule))
    change = structs.replace(change, definition=definition)
    return with_next_slot(change, with_current_instant(rule), then, now)


def _next_slot_now(found: WaitingSchedule, rule: Rule, now: datetime) -> datetime | None:
    """The next slot under the current tzdata, for a stored next slot in the future."""
    if isinstance(rule.timing, Once):
        return next_slot_or_excluded(with_current_instant(rule), EPOCH) or found.next_slot
    last, waiting = found.last_slot, found.next_slot
    then = next_slot_or_excluded(rule, now if last is None else max(now, last), fired=found.fired)
    if then == waiting:
        return then
    matching = _nearest(rule, waiting)
    fired = None if last is None else _nearest(rule, last)
    if matching is not None and matching <= now:
        since = max(instant for instant in (found.updated_at, last, fired) if instant is not None)
        if next_slot_or_excluded(rule, since, fired=found.fired) == matching:
            return matching
    if then is not None and then == fired and then != matching:
        return next_slot_or_excluded(rule, then, fired=found.fired)
    return then


def _is_slot(rule: Rule, at: datetime) -> bool:
    return next_slot_or_excluded(rule, just_before(at)) == at


def _nearest(rule: Rule, at: datetime) -> datetime | None:
    """The slot nearest to an instant within the maximum distance; of two the later one."""
    every = ignoring_days_off(rule)
    if every.max_firings is not None:
        every = structs.replace(every, max_firings=None)
    after = next_after(every, just_before(at))
    distance = ZONE_CHANGE_MAX if after is None else min(after - at, ZONE_CHANGE_MAX)
    return last_between(every, at - distance, just_before(at)) or (
        after if after is not None and after - at <= ZONE_CHANGE_MAX else None
    )


def _waiting_schedule(schedule: Schedule, slot: datetime) -> WaitingSchedule:
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
