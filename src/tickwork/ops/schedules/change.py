"""Updates, pauses, resumes, deletes, triggers and backfills schedules.

`core.schedule.change` decides each change and the store carries it out in one transaction. A
`reference` is the id or the name of a schedule. Changes of a calendar or of the zone data, which
move the next slots of many schedules, are applied here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from tickwork.core import when
from tickwork.core.answers.ids import GivenId, Id, Prefix, public_id
from tickwork.core.answers.schedule import MovedSchedule
from tickwork.core.fields import Reader
from tickwork.core.model import Scope
from tickwork.core.schedule import change, tzdata_change
from tickwork.core.schedule.change import Decision
from tickwork.core.schedule.clock_change import anchor_after_update
from tickwork.core.schedule.fields import (
    merge_patch,
    read_definition,
    read_name,
    read_new_name,
    render_definition,
)
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.tzdata_change import (
    RecomputeNextSlot,
    WaitingSchedule,
    depends_on_zone,
    has_moved,
)
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.core.when import is_fixed_delay, just_before
from tickwork.errors import Conflict, FieldError, InvalidInput, NotFound, PreconditionFailed
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.quotas import admit_runs, payload_check
from tickwork.ops.schedules.lookup import (
    TARGET_FIELDS,
    Holidays,
    audited_fields,
    calendar_of,
    check_owner_target,
    get_schedule,
    holidays_among,
    limits_of,
    queues_named,
    rule_with,
    target_faults,
    with_holidays,
    with_typed_payload,
)
from tickwork.ops.schedules.new_bodies import read_beside
from tickwork.ops.schedules.outside import (
    emails_allowed,
    ensure_deliveries,
    outside_faults,
    seal_secrets,
)
from tickwork.ops.schedules.views import next_fire_in_row
from tickwork.ops.types import known_types
from tickwork.store.contract import Store

BACKFILL_SLOTS_MAX = 10_000
"""Maximum number of slots in one backfill."""


async def update(
    context: Context,
    reference: GivenId,
    patch: Mapping[str, object],
    *,
    version: int | None = None,
) -> Schedule:
    """Applies a merge patch to a schedule; slots that are not due yet follow the new fields.

    A new payload or target must fit the types that the app declares. Raises
    `PreconditionFailed` if the schedule is not of the `version` that is given.
    """
    known = await get_schedule(context, reference)
    check_version(known, version)
    if "idempotency_key" in patch:
        fault = "identifies the request that created the schedule and cannot be changed"
        raise InvalidInput([FieldError("idempotency_key", fault)])
    if "owner" in patch:
        fault = "is set when the schedule is created and cannot be changed"
        raise InvalidInput([FieldError("owner", fault)])
    if "name" in patch:
        _check_name(patch)
    fields: Mapping[str, object] = merge_patch(fields_of(known), patch)
    is_anew = any(patch.get(name) is not None for name in when.TIMING_FIELDS)
    faults: list[FieldError] = []
    if any(patch.get(name) is not None for name in TARGET_FIELDS):
        faults += await target_faults(context, fields)
    if "payload" in patch or "target" in patch:
        try:
            types = await known_types(context, queues_named([fields]))
            fields = with_typed_payload(fields, types, has_new_target="target" in patch)
        except InvalidInput as error:
            faults += error.errors
            fields = {**fields, "payload": None}
    return await replace(
        context,
        known,
        fields,
        is_anew=is_anew,
        keeps_rule=when.RULE_FIELDS.isdisjoint(patch),
        faults=faults,
        version=version,
    )


def check_version(schedule: Schedule, version: int | None) -> None:
    """Raises `PreconditionFailed` if the schedule is not of the version that is given."""
    if version is not None and schedule.version != version:
        raise PreconditionFailed("schedule", schedule.id)


async def replace(
    context: Context,
    known: Schedule,
    fields: Mapping[str, object],
    *,
    is_anew: bool,
    keeps_rule: bool = False,
    faults: Sequence[FieldError] = (),
    version: int | None = None,
) -> Schedule:
    """Replaces the fields of a schedule.

    With `is_anew` an interval counts from now. With `keeps_rule` the rule is not checked against
    limits that were introduced after it. `faults` are raised with those found here. Raises
    `Conflict` if the schedule has changed since it was read.
    """
    limits = (await limits_of(context)).for_owner(known.owner)
    now = await context.store.now()
    holidays = await holidays_among(context, [fields, {"calendar": calendar_of(known)}])
    anchor = now if is_anew else known.definition.rule.anchor
    found = [*faults]
    name = read_name(fields, "name", found)
    try:
        definition, rule = await read_beside(
            [fields],
            lambda: read_definition(
                {name: value for name, value in fields.items() if name != "name"},
                schedule_id=known.id,
                created_at=anchor,
                calendars=holidays,
                limits=limits,
                is_known=keeps_rule,
            ),
        )
    except InvalidInput as error:
        raise InvalidInput([*found, *error.errors]) from None
    if not found and definition.body != known.definition.body:
        found += outside_faults(context, definition, await emails_allowed(context))
    if found:
        raise InvalidInput(found)
    await ensure_deliveries(context.store, [definition])
    await check_owner_target(context, definition)
    (await payload_check(context))(definition)
    definition = seal_secrets(context, known.id, definition, known.definition)
    anchor = anchor_after_update(rule, known.definition.rule, is_anew=is_anew)
    rule = structs.replace(rule, anchor=anchor)
    definition = structs.replace(definition, rule=structs.replace(definition.rule, anchor=anchor))
    old_rule = with_holidays(known, holidays)
    decide = change.update(definition, name, old_rule, rule)

    def unchanged_since(schedule: Schedule, withdrawn: Any, at: datetime) -> change.Change | None:
        check_version(schedule, version)
        # The fields were computed from the schedule as we read it.
        if schedule.definition != known.definition or schedule.name != known.name:
            shown = public_id(Prefix.SCHEDULE, schedule.id)
            raise Conflict(f"schedule {shown} was changed concurrently; read it and try again")
        return decide(schedule, withdrawn, at)

    return await _change(context, "update", known, WithdrawScope.NOT_DUE, unchanged_since)


def _check_name(fields: Mapping[str, object]) -> None:
    faults: list[FieldError] = []
    read_new_name(fields, faults)
    if faults:
        raise InvalidInput(faults)


def fields_of(schedule: Schedule) -> dict[str, object]:
    """Returns the fields of a schedule in the form that `create` accepts."""
    return {**render_definition(schedule.definition), "name": schedule.name}


async def pause(context: Context, reference: GivenId) -> Schedule:
    """Pauses a schedule and withdraws the slots that no worker has claimed. Idempotent."""
    known = await get_schedule(context, reference)

    def decide(schedule: Schedule, withdrawn: Any, now: datetime) -> change.Change | None:
        if schedule.status is ScheduleStatus.PAUSED:
            return None
        if schedule.status is not ScheduleStatus.ACTIVE:
            shown = public_id(Prefix.SCHEDULE, schedule.id)
            raise Conflict(
                f"schedule {shown} is {schedule.status}: only an active one can be paused"
            )
        return change.pause(schedule, withdrawn, now)

    return await _change(context, "pause", known, WithdrawScope.UNCLAIMED, decide)


async def resume(context: Context, reference: GivenId) -> Schedule:
    """Resumes a schedule; slots missed during the pause are recorded as paused. Idempotent."""
    known = await get_schedule(context, reference)
    holidays = await holidays_among(context, [{"calendar": calendar_of(known)}])

    def decide(schedule: Schedule, withdrawn: Any, now: datetime) -> change.Change | None:
        if schedule.status is ScheduleStatus.ACTIVE:
            return None
        is_over = schedule.status is ScheduleStatus.COMPLETED or schedule.next_slot is None
        if is_over and not _waits_for_a_run(schedule):
            shown = public_id(Prefix.SCHEDULE, schedule.id)
            raise Conflict(
                f"schedule {shown} is {schedule.status} and has no slot left: "
                "give it a new timing, or trigger it"
            )
        rule = with_holidays(schedule, holidays)
        resumed = change.resume(rule)(schedule, withdrawn, now)
        return tzdata_change.recompute_on_resume(resumed, schedule, rule, now)

    return await _change(context, "resume", known, WithdrawScope.NOTHING, decide)


async def delete(context: Context, reference: GivenId, *, version: int | None = None) -> Schedule:
    """Deletes a schedule and withdraws the slots and extra runs that no worker has started. Its
    firings are kept for their retention."""
    known = await get_schedule(context, reference)
    holidays = await holidays_among(context, [{"calendar": calendar_of(known)}])

    def decide(schedule: Schedule, withdrawn: Any, now: datetime) -> change.Change:
        check_version(schedule, version)
        rule = with_holidays(schedule, holidays)
        return change.delete_with_rule(rule)(schedule, withdrawn, now)

    return await _change(context, "delete", known, WithdrawScope.ALL, decide)


async def _change(
    context: Context,
    verb: str,
    known: Schedule,
    withdraw: WithdrawScope,
    decide: change.Decision,
) -> Schedule:
    """Changes a schedule as decided, with a record of what is decided."""
    async with recorded(context, f"schedule.{verb}", known.id) as record:

        def decided(
            schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime
        ) -> change.Change | None:
            decision = decide(schedule, withdrawn, now)
            record.is_void = decision is None
            if decision is not None:
                record.before = lambda: audited_fields(schedule, schedule.owner)
                record.after = lambda: audited_fields(decision, schedule.owner)
            return decision

        return await context.store.schedules.change(context.scope, known.id, withdraw, decided)


async def trigger(context: Context, reference: GivenId) -> Schedule:
    """Fires a schedule once, now, as an extra run, whatever its status. It counts as a message
    that the caller sends: `TooMany` if that exceeds a quota."""
    known = await get_schedule(context, reference)
    await admit_runs(context, known.definition, 1)
    return await _change(context, "trigger", known, WithdrawScope.NOTHING, change.trigger)


async def backfill(
    context: Context,
    reference: GivenId,
    *,
    since: datetime,
    until: datetime,
    force: bool = False,
    on_chosen: Callable[[tuple[datetime, ...]], None] = lambda _: None,
) -> tuple[datetime, ...]:
    """Fires a schedule for the slots from `since` to `until` as an extra run; returns the slots.

    It leaves out slots that are planned or running, and unless `force`, slots that succeeded.
    `on_chosen` gets the slots before they fire. They count as messages that the caller sends:
    `TooMany` if they exceed a quota.
    """
    known = await get_schedule(context, reference)
    if is_fixed_delay(known.definition.rule):
        fault = "is fixed_delay: each slot follows the previous run, so there are none to backfill"
        raise InvalidInput([FieldError("interval_mode", f"{fault}; trigger it instead")])
    now = await context.store.now()
    _check_span(since, until, now)
    holidays = await holidays_among(context, [{"calendar": calendar_of(known)}])
    rule = structs.replace(with_holidays(known, holidays), max_firings=None)
    first, last = just_before(since.astimezone(UTC)), until.astimezone(UTC)
    # In a thread: ten thousand slots take longer than other requests should wait.
    slots = await asyncio.to_thread(
        when.slots_between, rule, first, last, limit=BACKFILL_SLOTS_MAX + 1
    )
    if len(slots) > BACKFILL_SLOTS_MAX:
        fault = f"there are more than {BACKFILL_SLOTS_MAX} slots in the range; backfill it in parts"
        raise InvalidInput([FieldError("to", fault)])
    if known.status is ScheduleStatus.ACTIVE and known.next_slot is not None:
        slots = [slot for slot in slots if slot < known.next_slot]
    done: frozenset[datetime] = frozenset()
    if slots:
        # In this order: a slot that finishes between the two queries is then among the succeeded.
        done = await context.store.firings.unfinished(context.scope, known.id, slots[0], slots[-1])
    if slots and not force:
        done |= await context.store.firings.succeeded(context.scope, known.id, slots[0], slots[-1])
    wanted = tuple(slot for slot in slots if slot not in done)
    await admit_runs(context, known.definition, len(wanted))
    on_chosen(wanted)
    after = {"slots": len(wanted)}
    async with recorded(context, "schedule.backfill", known.id, after=after):
        decide = change.backfill(wanted)
        await context.store.schedules.change(context.scope, known.id, WithdrawScope.NOTHING, decide)
    return wanted


def _check_span(since: datetime, until: datetime, now: datetime) -> None:
    faults: list[FieldError] = []
    reader = Reader({}, faults)
    given: tuple[tuple[str, object], ...] = (("from", since), ("to", until))
    for field, moment in given:
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            reader.fault(field, "must have a time zone offset, such as 2027-03-14T09:00:00Z")
        else:
            reader.is_in_years(field, moment)
    if not faults and until < since:
        faults.append(FieldError("to", "must not be before from"))
    if not faults and until > now:
        faults.append(
            FieldError("to", "must not be in the future: future slots fire by themselves")
        )
    if faults:
        raise InvalidInput(faults)


def _waits_for_a_run(schedule: Schedule) -> bool:
    """Whether its next slot is computed when the current run finishes."""
    return is_fixed_delay(schedule.definition.rule) and schedule.status is ScheduleStatus.PAUSED


async def change_times(
    store: Store,
    schedule: Schedule | WaitingSchedule,
    decide: Decision,
    *,
    withdraw: WithdrawScope = WithdrawScope.NOT_DUE,
    under: Grant | None = None,
) -> MovedSchedule | None:
    """Applies a decision to a schedule and withdraws its slots that are not due yet."""
    own, before = Scope(schedule.tenant), _next_slot_of(schedule)
    try:
        changed = await store.schedules.change(own, schedule.id, withdraw, decide, under=under)
    except NotFound:
        return None  # It was deleted concurrently.
    after = next_fire_in_row(changed) if isinstance(schedule, Schedule) else changed.next_slot
    if after == before:
        return None
    shown = Id.of(Prefix.SCHEDULE, schedule.id)
    return MovedSchedule(id=shown, name=schedule.name, before=before, after=after)


def _next_slot_of(schedule: Schedule | WaitingSchedule) -> datetime | None:
    """Returns its next slot; for a `Schedule`, the next one that is not on a day off."""
    return next_fire_in_row(schedule) if isinstance(schedule, Schedule) else schedule.next_slot


async def rezone(
    store: Store, grant: Grant, found: Sequence[WaitingSchedule], now: datetime
) -> tuple[MovedSchedule, ...]:
    """Recomputes the next slots of a shard's schedules with the zone data of this process.

    Returns the schedules that moved. Schedules that stay cost no write. If one cannot be computed,
    none is changed. Nothing is changed once the shard is no longer granted.
    """
    known: dict[tuple[str, str | None], Holidays] = {}
    touched: list[WaitingSchedule] = []
    for schedule in found:
        if not depends_on_zone(schedule.rule):
            continue
        calendar = schedule.tenant, schedule.rule.calendar
        if calendar not in known:
            known[calendar] = await _holidays(store, *calendar)
        if has_moved(schedule, rule_with(schedule.rule, known[calendar]), now):
            touched.append(schedule)
    changes = [
        await _rezone(store, grant, schedule, known[schedule.tenant, schedule.rule.calendar])
        for schedule in touched
    ]
    return tuple(moved for moved in changes if moved is not None)


async def _rezone(
    store: Store, grant: Grant, found: WaitingSchedule, days: Holidays
) -> MovedSchedule | None:
    decide = RecomputeNextSlot(lambda schedule: rule_with(schedule.definition.rule, days))
    moved = await change_times(store, found, decide, under=grant)
    if decide.must_keep_planned:
        return await change_times(store, found, decide, withdraw=WithdrawScope.NOTHING, under=grant)
    return moved


async def _holidays(store: Store, tenant: str, calendar: str | None) -> Holidays:
    if calendar is None:
        return {}
    return await holidays_among(Context(store, Scope(tenant)), [{"calendar": calendar}])
