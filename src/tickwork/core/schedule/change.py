"""What an operation makes of a schedule: pure functions from how it stands to a `Change`.

A store takes back what was planned and not claimed, and then asks: given the schedule, the slots
that were taken back, and now, how shall it soon? All of it is one transaction, so that no slot is
lost between the two, and none comes twice.

Which slot a schedule goes on with when it is given another rule.

`taken` are the slots that were planned and are taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, structs

from tickwork.core.schedule.calendar_change import carry_over, without_carry_over
from tickwork.core.schedule.model import Definition, Schedule, ScheduleStatus, bucket_of
from tickwork.core.schedule.next_slot import (
    first_slot_or_excluded,
    just_before,
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
    next_after,
    plan_missed,
)


def _awaits_running_slot(
    schedule: Schedule, old: Rule, new: Rule, *, taken: Sequence[datetime]
) -> bool:
    """Whether a run is under way from whose end the next slot is counted, with either rule."""
    if _is_raised(old, new, schedule.fired):
        return False  # Its run was to be the last one, and its end sets no slot.
    is_going = schedule.status in (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)
    is_away = schedule.next_slot is None and not taken
    return is_going and is_away and is_fixed_delay(old) and is_fixed_delay(new)


def _is_raised(old: Rule, new: Rule, fired: int) -> bool:
    """Whether the old rule may not fire any more, by their number, and the new one may."""
    return _is_used_up(old, fired) and not _is_used_up(new, fired)


def _is_used_up(rule: Rule, fired: int) -> bool:
    return rule.max_firings is not None and fired >= rule.max_firings


def _done_until(
    schedule: Schedule, rule: Rule, now: datetime, *, taken: Sequence[datetime]
) -> datetime:
    """No slot up to here may come again, even if the clock went back."""
    last, old = schedule.last_slot, schedule.definition.rule
    if isinstance(rule.timing, Interval) and rule.timing != old.timing and rule.start_at is None:
        return now  # It counts from now on: it has no slot in common with the one before.
    if last is not None and taken:
        last = min(last, just_before(min(taken)))
    return now if last is None else max(now, last)


def _next_slot_under(
    old: Rule,
    new: Rule,
    now: datetime,
    *,
    waiting: Sequence[datetime],
    since: datetime,
    fired: int,
) -> datetime | None:
    """The first slot under the new rule: one that was taken back, or was not planned yet, if the
    new rule has it, too, also on a day off; else the first one that is still to come."""
    is_same = old.timing == new.timing
    is_unmoved = is_same and is_fixed_delay(new) and not _is_raised(old, new, fired)
    if without_carry_over(new) == without_carry_over(old) or is_unmoved:
        return min(waiting, default=None)
    if isinstance(new.timing, Once) and not is_same:
        first = first_slot_or_excluded(new, now)
        return first if first is None or not now < first == since else first + timedelta.resolution
    for slot in waiting:
        if slot <= now and next_slot_or_excluded(new, just_before(slot), fired=fired) == slot:
            return slot
    return next_slot_or_excluded(new, since, fired=fired)


class Change(Struct, frozen=True, kw_only=True):
    """How a schedule stands afterwards. The fires are of its definition as it was before."""

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
"""None: nothing changes, and nothing is taken back."""


def pause(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
    """It fires no more; what passes meanwhile is recorded when it is resumed."""
    begin, over = split_withdrawn(schedule.definition.rule, schedule.next_slot, withdrawn, now)
    known = (schedule.next_slot, None if begin is None else begin.slot)
    kept = min((slot for slot in known if slot is not None), default=None)
    return structs.replace(
        _as_it_is(schedule),
        status=ScheduleStatus.PAUSED,
        next_slot=kept,
        due_at=None if kept is None else due_at(schedule.definition.rule, kept),
        look_at=None,
        fired=schedule.fired - len(withdrawn),
        skips=tuple(Skip(each.slot, each.slot, 1, PAUSED) for each in over),
    )


def delete(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
    """It is gone, but for its history: what was due, and did not begin, is on record."""
    return delete_with_rule(schedule.definition.rule)(schedule, withdrawn, now)


def delete_with_rule(rule: Rule) -> Callable[[Schedule, Sequence[Withdrawn], datetime], Change]:
    """`delete`, with the days of its calendar in its rule."""

    def decide(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
        due = [each for each in withdrawn if each.due_at <= now]
        slot, passed = schedule.next_slot, tuple[Skip, ...]()
        if schedule.status is ScheduleStatus.PARKED:
            slot = None  # It is on record already; and its rule may be what nobody can read.
        is_known = any(each.slot == slot and not each.run for each in due)
        if slot is not None and not is_known and due_at(rule, slot) <= now:
            _, passed = _passed(rule, slot, now, schedule.fired)
        if schedule.status is not ScheduleStatus.PAUSED:
            passed = tuple(
                each if each.reason == EXCLUDED else structs.replace(each, reason=DELETED)
                for each in passed
            )
        return structs.replace(
            _as_it_is(schedule),
            status=ScheduleStatus.DELETED,
            next_slot=None,
            due_at=None,
            look_at=None,
            skips=(*skips_of_withdrawn(due, DELETED), *passed),
        )

    return decide


def resume(rule: Rule) -> Decision:
    """It fires again, from now on; `rule` is its rule with the days of its calendar."""

    def decide(schedule: Schedule, _: Sequence[Withdrawn], now: datetime) -> Change | None:
        slot = schedule.next_slot
        if schedule.status is ScheduleStatus.PARKED and slot is not None:
            # The slot that could not be planned is on record already.
            if has_one_known_slot(rule):
                return _begins_anew(schedule, rule, slot, now)
            slot = next_slot_or_excluded(rule, slot, fired=schedule.fired)
        if slot is None or due_at(rule, slot) > now:
            return _goes_on(schedule, rule, slot, now)
        then, passed = _passed(rule, slot, now, schedule.fired)
        changed = _goes_on(schedule, rule, then, now)
        if then is None and not is_fixed_delay(rule):
            changed = structs.replace(changed, status=ScheduleStatus.COMPLETED)
        return structs.replace(changed, skips=passed)

    return decide


def update(definition: Definition, name: str | None, old_rule: Rule, new_rule: Rule) -> Decision:
    """It has another definition; slots that are due stay as they were planned.

    `old_rule` and `new_rule` are the rules of the two definitions with the days of their calendars.
    """

    def decide(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
        # A seed is stored only where something depends on it.
        old = structs.replace(old_rule, seed=new_rule.seed)
        taken = [each.slot for each in withdrawn]
        is_anew = old.timing != new_rule.timing
        is_other = without_carry_over(old) != without_carry_over(new_rule)
        is_parked = schedule.status is ScheduleStatus.PARKED
        # With another rule it goes on by itself, but for a single slot that could not be planned.
        stays = is_parked and (not is_other or (has_one_known_slot(new_rule) and not is_anew))
        failed = schedule.next_slot if is_parked else None
        tells_nothing = False
        if failed is not None:
            # The zone of a rule that could not be planned may be gone: then it tells nothing.
            tells_nothing = stays or has_one_known_slot(old) or old.timezone != new_rule.timezone
            passed_from = None if tells_nothing else failed
            owed = _after_failed(schedule, old_rule, passed_from, withdrawn, now)
            waiting, since = [], max(now, failed)
        else:
            owed = _owed(schedule, old_rule, now)
            waiting = [*taken, *([owed.then] if owed.then else [])]
            since = _done_until(schedule, new_rule, now, taken=taken)
        waiting.sort()
        fired = schedule.fired - len(withdrawn) + len(owed.fires)
        slot, rule = failed, new_rule
        if not tells_nothing:
            done_until = just_before(waiting[0]) if waiting else since
            has_fired = schedule.last_slot is not None or bool(owed.fires)
            rule = carry_over(old, new_rule, now, done_until=done_until, has_fired=has_fired)
        if not stays and not _awaits_running_slot(schedule, old, new_rule, taken=taken):
            slot = _next_slot_under(old, rule, now, waiting=waiting, since=since, fired=fired)
        status = schedule.status
        has_more = slot is not None and is_other
        is_ended = status is ScheduleStatus.COMPLETED or (is_parked and not stays)
        if (is_anew or has_more) and is_ended:
            status = ScheduleStatus.ACTIVE
        is_over = slot is None and not owed.fires and not withdrawn
        if status is ScheduleStatus.ACTIVE and is_anew and is_over and not is_fixed_delay(new_rule):
            status = ScheduleStatus.COMPLETED
        soon = None if slot is None else slot_times(rule, definition.overlap, slot)
        is_active = status is ScheduleStatus.ACTIVE
        said = structs.replace(definition.rule, kept=rule.kept, spent=rule.spent)
        return structs.replace(
            _as_it_is(schedule),
            status=status,
            name=name,
            definition=structs.replace(definition, rule=said),
            next_slot=slot,
            due_at=None if soon is None else soon.due_at,
            look_at=max(soon.look_at, now) if soon is not None and is_active else None,
            fired=fired,
            fires=owed.fires,
            skips=owed.skips,
        )

    return decide


def trigger(schedule: Schedule, _: Sequence[Withdrawn], now: datetime) -> Change:
    """It fires now, once, in a run of its own."""
    run = schedule.runs + 1
    fire = Fire(slot=now, due_at=now, visible_at=now, run=run)
    return structs.replace(_as_it_is(schedule), runs=run, fires=(fire,))


def backfill(slots: Sequence[datetime]) -> Decision:
    """It fires for these slots of the past, in one run of their own."""

    def decide(schedule: Schedule, _: Sequence[Withdrawn], now: datetime) -> Change | None:
        if not slots:
            return None
        run = schedule.runs + 1
        fires = (
            Fire(slot=slot, due_at=now, visible_at=now, catch_up=True, run=run) for slot in slots
        )
        return structs.replace(_as_it_is(schedule), runs=run, fires=tuple(fires))

    return decide


def _as_it_is(schedule: Schedule) -> Change:
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


def _goes_on(schedule: Schedule, rule: Rule, slot: datetime | None, now: datetime) -> Change:
    soon = None if slot is None else slot_times(rule, schedule.definition.overlap, slot)
    return structs.replace(
        _as_it_is(schedule),
        status=ScheduleStatus.ACTIVE,
        next_slot=slot,
        due_at=None if soon is None else soon.due_at,
        look_at=None if soon is None else max(soon.look_at, now),
        error_count=0,
        last_error=None,
    )


def _begins_anew(schedule: Schedule, rule: Rule, slot: datetime, now: datetime) -> Change:
    """After the one slot that was known could not be planned: another one takes its place, as soon
    as it may, unless that is too late by the schedule's policies."""
    if is_fixed_delay(rule):
        then = next_slot_or_excluded(rule, max(now, slot), fired=schedule.fired)
    else:
        expires, grace = schedule.definition.expires_after_seconds, rule.missed.grace_seconds
        is_late = due_at(rule, slot) < now - timedelta(seconds=grace)
        is_left_out = is_late and rule.missed.policy is MissedPolicy.SKIP
        is_over = is_left_out or is_expired(rule, slot, now, expires)
        then = None if is_over else max(now, slot + timedelta.resolution)
    changed = _goes_on(schedule, rule, then, now)
    return changed if then else structs.replace(changed, status=ScheduleStatus.COMPLETED)


def _passed(
    rule: Rule, slot: datetime, now: datetime, fired: int
) -> tuple[datetime | None, tuple[Skip, ...]]:
    """The slot to go on with, and those from the given one on whose time has passed before it."""
    if has_one_known_slot(rule):
        return next_slot_or_excluded(rule, now, fired=fired), (Skip(slot, slot, 1, PAUSED),)
    # What is due just now has passed, too.
    found = plan_missed(
        rule, just_before(slot), now + timedelta.resolution, _NONE_LATE, fired=fired
    )
    then = found.fire[0].slot if found.fire else next_after(rule, found.until, fired=fired)
    runs = [run for run in found.skipped if then is None or run.last < then]
    passed = tuple(Skip(run.first, run.last, run.count, PAUSED) for run in runs)
    if not has_days_off(rule):
        return then, passed
    until = now if then is None else min(now, just_before(then))
    passed = tuple(with_excluded_runs(rule, passed, slot, until))
    return then if then is None else next_slot_or_excluded(rule, until), passed


_NONE_LATE = Missed(policy=MissedPolicy.SKIP, grace_seconds=0)
"""Every slot that is not still to come is left out."""


_PLANS_MAX = 10
"""So many plans of what is owed are made; what is due beyond them is left out, and on record."""


class _Owed(NamedTuple):
    """Slots of the old rule that were due and nobody had planned."""

    fires: tuple[Fire, ...] = ()
    skips: tuple[Skip, ...] = ()
    then: datetime | None = None


def _owed(schedule: Schedule, rule: Rule, now: datetime) -> _Owed:
    slot, overlap = schedule.next_slot, schedule.definition.overlap
    if schedule.status is ScheduleStatus.PAUSED and slot is not None and due_at(rule, slot) <= now:
        then, passed = _passed(rule, slot, now, schedule.fired)
        return _Owed((), passed, then)
    if schedule.status is not ScheduleStatus.ACTIVE or slot is None or slot > now:
        return _Owed(then=slot)
    due = DueSchedule(
        tenant=schedule.tenant,
        id=schedule.id,
        bucket=bucket_of(schedule.id),
        version=schedule.version,
        next_slot=slot,
        rule=rule,
        overlap=overlap,
        fired=schedule.fired,
        unfinished=schedule.unfinished,
        expires_after_seconds=schedule.definition.expires_after_seconds,
    )
    return _accounted(due, now)


def _accounted(due: DueSchedule, now: datetime) -> _Owed:
    """Every slot up to now. One plan may end before: it holds only so many slots, and knows of no
    more than may still fire."""
    fires, skips, reason = list[Fire](), list[Skip](), SKIPPED_MISSED
    for _ in range(_PLANS_MAX):
        planned = plan(due, now, ahead_seconds=0)
        fires += planned.fires
        skips += planned.skips
        then = planned.then_slot
        if then is None or then > now or then == due.next_slot:
            return _Owed(tuple(fires), tuple(skips), then)
        fired, unfinished = due.fired + len(planned.fires), due.unfinished + len(planned.fires)
        due = structs.replace(due, next_slot=then, fired=fired, unfinished=unfinished)
        if any(skip.reason == SKIPPED_OVERLAP for skip in planned.skips):
            reason = SKIPPED_OVERLAP  # No room was left, and so there is none for the rest.
            break
    then, passed = _passed(due.rule, due.next_slot, now, due.fired)
    skips += (
        each if each.reason == EXCLUDED else structs.replace(each, reason=reason) for each in passed
    )
    return _Owed(tuple(fires), tuple(skips), then)


def _after_failed(
    schedule: Schedule,
    rule: Rule,
    failed: datetime | None,
    withdrawn: Sequence[Withdrawn],
    now: datetime,
) -> _Owed:
    """Where a slot could not be planned, which is on record: nothing up to it comes again. What
    passed after it is recorded, as when it is resumed, if it is given."""
    skips = skips_of(sorted(each.slot for each in withdrawn), PAUSED)
    slot = None if failed is None else next_slot_or_excluded(rule, failed, fired=schedule.fired)
    if slot is not None and due_at(rule, slot) <= now:
        slot, passed = _passed(rule, slot, now, schedule.fired)
        skips += passed
    return _Owed((), tuple(skips), slot)
