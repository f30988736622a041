"""Changes of a schedule: pure functions from its current state to a `Change`.

A store withdraws planned slots that no worker has claimed, and then calls a `Decision` with the
schedule, the withdrawn slots and the time. Both happen in one transaction, so no slot is lost and
none fires twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, structs

from tickwork.core.schedule.calendar_change import pin_rolled, without_pins
from tickwork.core.schedule.model import Definition, Schedule, ScheduleStatus
from tickwork.core.schedule.next_slot import (
    first_slot_or_excluded,
    next_slot_or_excluded,
    slot_times,
)
from tickwork.core.schedule.plan import (
    DELETED,
    EXCLUDED,
    PAUSED,
    SKIPPED_MISSED,
    SKIPPED_OVERLAP,
    DueSchedule,
    Fire,
    Skip,
    plan,
    skips_of,
    with_excluded_runs,
)
from tickwork.core.schedule.withdraw import Withdrawn, skips_of_withdrawn, split_withdrawn
from tickwork.core.when import (
    Interval,
    Missed,
    MissedPolicy,
    Once,
    Rule,
    due_at,
    has_days_off,
    has_one_known_slot,
    is_expired,
    is_fixed_delay,
    just_before,
    next_after,
    plan_missed,
)


class Change(Struct, frozen=True, kw_only=True):
    """The state of a schedule after a change. `fires` use its old definition."""

    status: ScheduleStatus
    name: str | None
    definition: Definition
    next_slot: datetime | None
    due_at: datetime | None
    look_at: datetime | None
    fired: int
    runs: int
    error_count: int
    last_error: str | None
    fires: tuple[Fire, ...] = ()
    skips: tuple[Skip, ...] = ()


Decision = Callable[[Schedule, Sequence[Withdrawn], datetime], Change | None]
"""Decides a change. None means that nothing changes and nothing is withdrawn."""


def pause(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
    """Pauses a schedule. Slots that come due meanwhile are recorded when it is resumed."""
    first_kept, dropped = split_withdrawn(
        schedule.definition.rule, schedule.next_slot, withdrawn, now
    )
    known = (schedule.next_slot, None if first_kept is None else first_kept.slot)
    kept = min((slot for slot in known if slot is not None), default=None)
    return structs.replace(
        _unchanged(schedule),
        status=ScheduleStatus.PAUSED,
        next_slot=kept,
        due_at=None if kept is None else due_at(schedule.definition.rule, kept),
        look_at=None,
        fired=schedule.fired - len(withdrawn),
        skips=tuple(
            Skip(planned_slot.slot, planned_slot.slot, 1, PAUSED) for planned_slot in dropped
        ),
    )


def delete(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
    """Deletes a schedule, but not its history. Due slots that never started are recorded."""
    return delete_with_rule(schedule.definition.rule)(schedule, withdrawn, now)


def delete_with_rule(rule: Rule) -> Callable[[Schedule, Sequence[Withdrawn], datetime], Change]:
    """Like `delete`, for a rule that includes the days of its calendar."""

    def decide(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
        due = [planned_slot for planned_slot in withdrawn if planned_slot.due_at <= now]
        slot, passed = schedule.next_slot, tuple[Skip, ...]()
        if schedule.status is ScheduleStatus.PARKED:
            slot = None  # Already recorded, and its rule may be unreadable.
        is_known = any(planned_slot.slot == slot and not planned_slot.run for planned_slot in due)
        if slot is not None and not is_known and due_at(rule, slot) <= now:
            _, passed = _skip_passed(rule, slot, now, schedule.fired)
        if schedule.status is not ScheduleStatus.PAUSED:
            passed = tuple(
                skip if skip.reason == EXCLUDED else structs.replace(skip, reason=DELETED)
                for skip in passed
            )
        return structs.replace(
            _unchanged(schedule),
            status=ScheduleStatus.DELETED,
            next_slot=None,
            due_at=None,
            look_at=None,
            skips=(*skips_of_withdrawn(due, DELETED), *passed),
        )

    return decide


def resume(rule: Rule) -> Decision:
    """Resumes a schedule from now on. `rule` includes the days of its calendar."""

    def decide(schedule: Schedule, _: Sequence[Withdrawn], now: datetime) -> Change | None:
        slot = schedule.next_slot
        if schedule.status is ScheduleStatus.PARKED and slot is not None:
            # The slot whose planning failed is already recorded.
            if has_one_known_slot(rule):
                return _restart(schedule, rule, slot, now)
            slot = next_slot_or_excluded(rule, slot, fired=schedule.fired)
        if slot is None or due_at(rule, slot) > now:
            return _continue_at(schedule, rule, slot, now)
        then, passed = _skip_passed(rule, slot, now, schedule.fired)
        changed = _continue_at(schedule, rule, then, now)
        if then is None and not is_fixed_delay(rule):
            changed = structs.replace(changed, status=ScheduleStatus.COMPLETED)
        return structs.replace(changed, skips=passed)

    return decide


def update(definition: Definition, name: str | None, old_rule: Rule, new_rule: Rule) -> Decision:
    """Replaces the definition of a schedule. Due slots stay as planned.

    `old_rule` and `new_rule` include the days of their calendars.
    """
    # A seed is stored only where something depends on it.
    rules = _RuleChange(structs.replace(old_rule, seed=new_rule.seed), new_rule)

    def decide(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
        failed = schedule.next_slot if schedule.status is ScheduleStatus.PARKED else None
        if failed is None:
            due_slots = _plan_due_slots(schedule, old_rule, now)
            before = _slots_before(schedule, new_rule, withdrawn, due_slots, now)
        else:
            skips = skips_of(sorted(planned_slot.slot for planned_slot in withdrawn), PAUSED)
            if rules.can_read_old:
                skips += _skips_after_failed(schedule, old_rule, failed, now)
            due_slots = _DueSlots(skips=tuple(skips))
            before = _SlotsBefore((), max(now, failed))
        fired = schedule.fired - len(withdrawn) + len(due_slots.fires)
        rule = new_rule
        if failed is None or rules.can_read_old:
            has_fired = schedule.last_slot is not None or bool(due_slots.fires)
            done_until = before.done_until
            rule = pin_rolled(rules.old, rule, now, done_until=done_until, has_fired=has_fired)
        slot = failed
        if not rules.keeps_next_slot(schedule, withdrawn):
            slot = _next_slot_under(rules._replace(new=rule), before, now, fired=fired)
        is_over = slot is None and not due_slots.fires and not withdrawn
        status = _status_after(rules, schedule.status, has_slot=slot is not None, is_over=is_over)
        stored_rule = structs.replace(definition.rule, pinned=rule.pinned)
        changed = structs.replace(
            _unchanged(schedule),
            status=status,
            name=name,
            definition=structs.replace(definition, rule=stored_rule),
            fired=fired,
            fires=due_slots.fires,
            skips=due_slots.skips,
        )
        return with_next_slot(changed, rule, slot, now)

    return decide


class _RuleChange(NamedTuple):
    """The rules before and after an update, with the days of their calendars."""

    old: Rule
    new: Rule

    @property
    def has_new_timing(self) -> bool:
        return self.old.timing != self.new.timing

    @property
    def has_new_rule(self) -> bool:
        return without_pins(self.old) != without_pins(self.new)

    @property
    def stays_parked(self) -> bool:
        """Whether a parked schedule stays parked: its rule stays, or its only known slot failed."""
        return not self.has_new_rule or (has_one_known_slot(self.new) and not self.has_new_timing)

    @property
    def can_read_old(self) -> bool:
        """Whether the old rule of a parked schedule may be used: its zone may be gone."""
        is_same_zone = self.old.timezone == self.new.timezone
        return is_same_zone and not self.stays_parked and not has_one_known_slot(self.old)

    def is_raised(self, fired: int) -> bool:
        """Whether `max_firings` stops the old rule but not the new one."""
        return _is_used_up(self.old, fired) and not _is_used_up(self.new, fired)

    def keeps_next_slot(self, schedule: Schedule, withdrawn: Sequence[Withdrawn]) -> bool:
        """Whether the next slot stays as it is: that of a schedule that stays parked, and that of
        a fixed delay under both rules, which is counted from a run that has not finished."""
        if schedule.status is ScheduleStatus.PARKED:
            return self.stays_parked
        if self.is_raised(schedule.fired):
            return False  # The unfinished run was to be the last one and sets no next slot.
        is_live = schedule.status in (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)
        has_no_slot = schedule.next_slot is None and not withdrawn
        return is_live and has_no_slot and is_fixed_delay(self.old) and is_fixed_delay(self.new)


def _is_used_up(rule: Rule, fired: int) -> bool:
    return rule.max_firings is not None and fired >= rule.max_firings


class _SlotsBefore(NamedTuple):
    """The slots of the old rule that the new rule may still have, in order, and the instant up to
    which no other slot may fire, even if the clock went back."""

    waiting: tuple[datetime, ...]
    since: datetime

    @property
    def done_until(self) -> datetime:
        return just_before(self.waiting[0]) if self.waiting else self.since


def _slots_before(
    schedule: Schedule,
    rule: Rule,
    withdrawn: Sequence[Withdrawn],
    due_slots: _DueSlots,
    now: datetime,
) -> _SlotsBefore:
    slots = [planned_slot.slot for planned_slot in withdrawn]
    waiting = tuple(sorted([*slots, *([due_slots.then] if due_slots.then else [])]))
    last, old = schedule.last_slot, schedule.definition.rule
    if isinstance(rule.timing, Interval) and rule.timing != old.timing and rule.start_at is None:
        return _SlotsBefore(waiting, now)  # It counts from now and shares no slot with the old one.
    if last is not None and slots:
        last = min(last, just_before(min(slots)))
    return _SlotsBefore(waiting, now if last is None else max(now, last))


def _next_slot_under(
    rules: _RuleChange, before: _SlotsBefore, now: datetime, *, fired: int
) -> datetime | None:
    """The next slot under the new rule.

    If the new rule has a withdrawn or unplanned slot of the old one, that slot comes first, also if
    it is on an excluded day. Otherwise it is the first future slot.
    """
    new, since = rules.new, before.since
    is_unmoved = is_fixed_delay(new) and not rules.has_new_timing and not rules.is_raised(fired)
    if not rules.has_new_rule or is_unmoved:
        return min(before.waiting, default=None)
    if isinstance(new.timing, Once) and rules.has_new_timing:
        first = first_slot_or_excluded(new, now)
        return first if first is None or not now < first == since else first + timedelta.resolution
    for slot in before.waiting:
        if slot <= now and next_slot_or_excluded(new, just_before(slot), fired=fired) == slot:
            return slot
    return next_slot_or_excluded(new, since, fired=fired)


def _status_after(
    rules: _RuleChange, status: ScheduleStatus, *, has_slot: bool, is_over: bool
) -> ScheduleStatus:
    """The status after an update. `is_over`: no slot is left, and none is on its way."""
    has_ended = status is ScheduleStatus.COMPLETED or (
        status is ScheduleStatus.PARKED and not rules.stays_parked
    )
    if has_ended and (rules.has_new_timing or (has_slot and rules.has_new_rule)):
        status = ScheduleStatus.ACTIVE
    ends = is_over and rules.has_new_timing and not is_fixed_delay(rules.new)
    return ScheduleStatus.COMPLETED if status is ScheduleStatus.ACTIVE and ends else status


def trigger(schedule: Schedule, _: Sequence[Withdrawn], now: datetime) -> Change:
    """Fires a schedule once, now, as an extra run."""
    run = schedule.runs + 1
    fire = Fire(slot=now, due_at=now, visible_at=now, run=run)
    return structs.replace(_unchanged(schedule), runs=run, fires=(fire,))


def backfill(slots: Sequence[datetime]) -> Decision:
    """Fires past slots again, together as one extra run."""

    def decide(schedule: Schedule, _: Sequence[Withdrawn], now: datetime) -> Change | None:
        if not slots:
            return None
        run = schedule.runs + 1
        fires = (
            Fire(slot=slot, due_at=now, visible_at=now, catch_up=True, run=run) for slot in slots
        )
        return structs.replace(_unchanged(schedule), runs=run, fires=tuple(fires))

    return decide


def _unchanged(schedule: Schedule) -> Change:
    return Change(
        status=schedule.status,
        name=schedule.name,
        definition=schedule.definition,
        next_slot=schedule.next_slot,
        due_at=schedule.due_at,
        look_at=schedule.look_at,
        fired=schedule.fired,
        runs=schedule.runs,
        error_count=schedule.error_count,
        last_error=schedule.last_error,
    )


def _continue_at(schedule: Schedule, rule: Rule, slot: datetime | None, now: datetime) -> Change:
    active = structs.replace(
        _unchanged(schedule), status=ScheduleStatus.ACTIVE, error_count=0, last_error=None
    )
    return with_next_slot(active, rule, slot, now)


def with_next_slot(change: Change, rule: Rule, slot: datetime | None, now: datetime) -> Change:
    """The change with this next slot. Leaders look only at active schedules."""
    if slot is None:
        return structs.replace(change, next_slot=None, due_at=None, look_at=None)
    times = slot_times(rule, change.definition.overlap, slot)
    look_at = max(times.look_at, now) if change.status is ScheduleStatus.ACTIVE else None
    return structs.replace(change, next_slot=slot, due_at=times.due_at, look_at=look_at)


def _restart(schedule: Schedule, rule: Rule, slot: datetime, now: datetime) -> Change:
    """Resumes a schedule whose only known slot could not be planned.

    A new slot replaces it as times as possible, unless it is too late by the schedule's policies.
    """
    if is_fixed_delay(rule):
        then = next_slot_or_excluded(rule, max(now, slot), fired=schedule.fired)
    else:
        expires, grace = schedule.definition.expires_after_seconds, rule.missed.grace_seconds
        is_late = due_at(rule, slot) < now - timedelta(seconds=grace)
        is_skipped = is_late and rule.missed.policy is MissedPolicy.SKIP
        is_over = is_skipped or is_expired(rule, slot, now, expires)
        then = None if is_over else max(now, slot + timedelta.resolution)
    changed = _continue_at(schedule, rule, then, now)
    return changed if then else structs.replace(changed, status=ScheduleStatus.COMPLETED)


def _skip_passed(
    rule: Rule, slot: datetime, now: datetime, fired: int
) -> tuple[datetime | None, tuple[Skip, ...]]:
    """The next slot after now, and skips for the slots from `slot` on whose time has passed."""
    if has_one_known_slot(rule):
        return next_slot_or_excluded(rule, now, fired=fired), (Skip(slot, slot, 1, PAUSED),)
    # A slot that is due exactly now counts as passed.
    found = plan_missed(
        rule, just_before(slot), now + timedelta.resolution, _SKIP_ALL_PASSED, fired=fired
    )
    then = found.fire[0].slot if found.fire else next_after(rule, found.until, fired=fired)
    runs = [run for run in found.skipped if then is None or run.last < then]
    passed = tuple(Skip(run.first, run.last, run.count, PAUSED) for run in runs)
    if not has_days_off(rule):
        return then, passed
    until = now if then is None else min(now, just_before(then))
    passed = tuple(with_excluded_runs(rule, passed, slot, until))
    return then if then is None else next_slot_or_excluded(rule, until), passed


_SKIP_ALL_PASSED = Missed(policy=MissedPolicy.SKIP, grace_seconds=0)
"""A policy that skips every slot that is not in the future."""


_PLANS_MAX = 10
"""Maximum number of plans for due slots in one update. Due slots beyond them are skipped."""


class _DueSlots(NamedTuple):
    """Slots of the old rule that were due but not planned, and the slot after them."""

    fires: tuple[Fire, ...] = ()
    skips: tuple[Skip, ...] = ()
    then: datetime | None = None


def _plan_due_slots(schedule: Schedule, rule: Rule, now: datetime) -> _DueSlots:
    slot, overlap = schedule.next_slot, schedule.definition.overlap
    if schedule.status is ScheduleStatus.PAUSED and slot is not None and due_at(rule, slot) <= now:
        then, passed = _skip_passed(rule, slot, now, schedule.fired)
        return _DueSlots((), passed, then)
    if schedule.status is not ScheduleStatus.ACTIVE or slot is None or slot > now:
        return _DueSlots(then=slot)
    due = DueSchedule(
        tenant=schedule.tenant,
        id=schedule.id,
        shard=0,  # No leader plans it.
        version=schedule.version,
        next_slot=slot,
        rule=rule,
        overlap=overlap,
        fired=schedule.fired,
        unfinished=schedule.unfinished,
        expires_after_seconds=schedule.definition.expires_after_seconds,
    )
    return _plan_up_to_now(due, now)


def _plan_up_to_now(due: DueSchedule, now: datetime) -> _DueSlots:
    """Plans every slot up to now.

    This may take several plans: one plan holds a limited number of slots.
    """
    fires = list[Fire]()
    skips = list[Skip]()
    reason = SKIPPED_MISSED
    for _ in range(_PLANS_MAX):
        planned = plan(due, now, ahead_seconds=0)
        fires += planned.fires
        skips += planned.skips
        then = planned.then_slot
        if then is None or then > now or then == due.next_slot:
            return _DueSlots(tuple(fires), tuple(skips), then)
        fired, unfinished = due.fired + len(planned.fires), due.unfinished + len(planned.fires)
        due = structs.replace(due, next_slot=then, fired=fired, unfinished=unfinished)
        if any(skip.reason == SKIPPED_OVERLAP for skip in planned.skips):
            reason = SKIPPED_OVERLAP  # The overlap policy has no room for the rest either.
            break
    then, passed = _skip_passed(due.rule, due.next_slot, now, due.fired)
    skips += (
        skip if skip.reason == EXCLUDED else structs.replace(skip, reason=reason) for skip in passed
    )
    return _DueSlots(tuple(fires), tuple(skips), then)


def _skips_after_failed(
    schedule: Schedule, rule: Rule, failed: datetime, now: datetime
) -> tuple[Skip, ...]:
    """Records, as on resume, for the slots that have passed after one whose planning failed.

    That one is recorded already.
    """
    slot = next_slot_or_excluded(rule, failed, fired=schedule.fired)
    if slot is None or due_at(rule, slot) > now:
        return ()
    _, passed = _skip_passed(rule, slot, now, schedule.fired)
    return passed
