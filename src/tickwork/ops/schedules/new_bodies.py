"""Reads the bodies of new schedules: beside the event loop where that takes long, and never longer
than a request may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork import clock
from tickwork.core import when
from tickwork.core.fields import FAULTS_MAX
from tickwork.core.schedule.fields import (
    SCHEDULE_FIELDS,
    read_definition,
    read_name,
    read_new_name,
)
from tickwork.core.schedule.model import NewSchedule, ScheduleStatus, depends_on_id
from tickwork.core.schedule.next_slot import first_slot_or_excluded, slot_times
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.schedules.lookup import Holidays
from tickwork.store.ids import new_id

INLINE_SCHEDULES_MAX = 10
"""Number of schedules that are read in the event loop; more are read in a thread."""

READ_SECONDS_MAX = 2.0
"""Seconds of processor time that reading the schedules of one call may take."""

_SEARCHED_FIELDS = frozenset({"rrule", "exclude", "calendar"})

T = TypeVar("T")


async def read_beside(bodies: Collection[Mapping[str, object]], read: Callable[[], T]) -> T:
    """Reads bodies; in a thread if that could block the event loop: there are many, or a rule with
    centuries between its slots, or one with many days off."""
    has_search = any(not _SEARCHED_FIELDS.isdisjoint(fields) for fields in bodies)
    if has_search or len(bodies) > INLINE_SCHEDULES_MAX:
        return await asyncio.to_thread(read)
    return read()


def read_bodies(
    bodies: Mapping[int, Mapping[str, object]],
    now: datetime,
    holidays: Holidays,
    limits: when.Limits,
    ids: Sequence[UUID],
    *,
    may_be_over: bool,
) -> tuple[list[NewSchedule], list[FieldError]]:
    """The schedules that the bodies describe, and the faults of the others. It stops after a
    hundred faults, or when it has used the processor for too long."""
    new: list[NewSchedule] = []
    faults: list[FieldError] = []
    began = clock.thread_seconds()
    for index, fields in bodies.items():
        try:
            own_id = ids[index] if index < len(ids) else new_id()
            new.append(new_schedule(fields, now, holidays, limits, own_id, may_be_over=may_be_over))
        except InvalidInput as error:
            faults += indexed(index, error)
        if len(faults) >= FAULTS_MAX:
            break
        if clock.thread_seconds() - began > READ_SECONDS_MAX and len(bodies) > 1:
            fault = f"takes too long to check, after {len(new)} of {len(bodies)}: their slots are "
            faults.append(FieldError("schedules", f"{fault}years apart; create fewer at once"))
            break
    return new, faults


def indexed(index: int, error: InvalidInput) -> list[FieldError]:
    """The faults of one body of a list, by its index."""
    return [fault._replace(field=f"[{index}].{fault.field}") for fault in error.errors]


def new_schedule(
    fields: Mapping[str, object],
    now: datetime,
    holidays: Holidays,
    limits: when.Limits,
    schedule_id: UUID,
    *,
    may_be_over: bool = False,
) -> NewSchedule:
    """The schedule that a body describes. Raises `InvalidInput` with all its faults."""
    faults: list[FieldError] = []
    name = read_new_name(fields, faults)
    key = read_name(fields, "idempotency_key", faults)
    owner = read_name(fields, "owner", faults)
    try:
        definition, rule = read_definition(
            fields,
            schedule_id=schedule_id,
            created_at=now,
            calendars=holidays,
            limits=limits.for_owner(owner),
        )
    except InvalidInput as error:
        raise InvalidInput([*faults, *error.errors]) from None
    plain = rule if depends_on_id(rule) else structs.replace(rule, seed="")
    slot = first_slot_or_excluded(plain, now)
    if slot is None and not may_be_over:
        faults.append(_over(rule))
    if faults:
        raise InvalidInput(faults)
    soon = None if slot is None else slot_times(rule, definition.overlap, slot)
    return NewSchedule(
        id=schedule_id,
        definition=definition,
        next_slot=slot,
        due_at=None if soon is None else soon.due_at,
        look_at=None if soon is None else max(soon.look_at, now),
        name=name,
        status=ScheduleStatus.COMPLETED if slot is None else ScheduleStatus.ACTIVE,
        owner=owner,
        idempotency_key=key,
        fingerprint=None if key is None else fingerprint(fields),
    )


def _over(rule: when.Rule) -> FieldError:
    """Returns the fault of a rule whose slots are all in the past."""
    fault = "is before every future slot: the schedule would never fire; give a later one"
    return FieldError("rrule" if rule.end_at is None else "end_at", fault)


def fingerprint(fields: Mapping[str, object]) -> bytes:
    """Returns a hash of the fields in any order, without the key itself."""
    known = {name: fields[name] for name in fields if name in SCHEDULE_FIELDS - {"idempotency_key"}}
    return blake2b(msgspec.json.encode(known, order="sorted"), digest_size=16).digest()


def fingerprint_of_any(fields: Mapping[str, object]) -> bytes | None:
    """As `fingerprint`; None for invalid fields, which no stored schedule has."""
    try:
        return fingerprint(fields)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
