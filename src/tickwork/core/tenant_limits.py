"""Limits of tenants and their schedules, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tickwork.core.limits import DELAY_SECONDS_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX, text_faults
from tickwork.core.model import Scope, Tenant
from tickwork.core.owner_targets import check_owner_targets
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN, bucket_size
from tickwork.core.schedule.model import (
    METADATA_BYTES_MAX,
    SCHEDULE_BODY_BYTES_MAX,
    SCHEDULES_AT_ONCE_MAX,
    Definition,
    NewSchedule,
    Schedule,
    ScheduleStatus,
)
from tickwork.errors import Conflict, FieldError, InvalidInput, TooMany

SCHEDULES_MAX = 10**9

_INACTIVE = frozenset({ScheduleStatus.COMPLETED, ScheduleStatus.DELETED})
"""Statuses of schedules that do not count towards the limit."""


def check_tenant(scope: Scope, tenant: Tenant) -> None:
    """Raises `InvalidInput` for an invalid tenant, or if the scope may not create tenants."""
    faults = text_faults("id", tenant.id, NAME_LENGTH_MAX)
    if not scope.is_system:
        faults.append(FieldError("id", "only the system may create or change tenants"))
    if not 1 <= tenant.weight <= 1_000:
        faults.append(FieldError("weight", f"must be from 1 to 1000, not {tenant.weight}"))
    for field, value, least, most in (
        ("min_interval_seconds", tenant.min_interval_seconds, 1, DELAY_SECONDS_MAX),
        ("schedules_max", tenant.schedules_max, 0, SCHEDULES_MAX),
        ("schedules_per_second", tenant.schedules_per_second, RATE_MIN, RATE_MAX),
    ):
        if value is not None and not least <= value <= most:
            faults.append(FieldError(field, f"must be from {least:g} to {most:g}, not {value:g}"))
    faults += check_owner_targets(tenant.owner_targets)
    if faults:
        raise InvalidInput(faults)


def becomes_active(before: ScheduleStatus, after: ScheduleStatus) -> bool:
    """Whether a change makes a completed or deleted schedule active again."""
    return before in _INACTIVE and after not in _INACTIVE


def check_schedule_count(tenant: str, schedules: int, schedules_max: int) -> None:
    """Raises `TooMany` if a tenant has more schedules than its limit."""
    if schedules > schedules_max:
        raise TooMany(
            f"tenant {tenant} may have {schedules_max} schedules; delete some or raise its "
            "schedules_max"
        )


def check_schedules(new: Sequence[NewSchedule]) -> None:
    """Raises `InvalidInput` for schedules that cannot be stored together."""
    faults: list[FieldError] = []
    if len(new) > SCHEDULES_AT_ONCE_MAX:
        fault = f"has {len(new)} schedules; at most {SCHEDULES_AT_ONCE_MAX}"
        faults.append(FieldError("schedules", fault))
    for index, each in enumerate(new[:SCHEDULES_AT_ONCE_MAX]):
        if not _is_simple(each):
            faults += _schedule_faults(each, f"schedules[{index}].")
    if faults:
        raise InvalidInput(faults)


def limit_bulk(
    tenant: str, rate_per_second: float | None, new: Iterable[NewSchedule]
) -> Iterable[NewSchedule]:
    """The schedules of a bulk, or `TooMany` if they exceed the tenant's rate.

    A bulk does not wait for the rate: it may create one second's worth at once, and no more.
    """
    if rate_per_second is None:
        return new
    most = bucket_size(rate_per_second)
    first = tuple(islice(new, most + 1))
    if len(first) > most:
        raise TooMany(
            f"tenant {tenant} may create {rate_per_second:g} schedules a second, and this bulk has "
            f"more; create {most} at a time, or raise its schedules_per_second"
        )
    return first


def check_same_schedule(new: NewSchedule, known: Schedule | NewSchedule) -> None:
    """Raises `Conflict` unless a stored schedule with the same key or id is the same as a new one:
    it has the same contents and is not deleted."""
    key = new.idempotency_key
    is_of_key = key is not None and key == known.idempotency_key
    what = f"idempotency_key {key}" if is_of_key else f"id {new.id}"
    if known.fingerprint != new.fingerprint:
        raise Conflict(f"the {what} is used by a schedule with different contents")
    if known.status is ScheduleStatus.DELETED:
        raise Conflict(
            f"the {what} was used by schedule {known.id}, which is deleted; use another one"
        )


def check_change(name: str | None, definition: Definition) -> None:
    """Raises `InvalidInput` for an invalid change of a schedule."""
    faults = [*_definition_faults(definition, "")]
    if name is not None:
        faults += text_faults("name", name, NAME_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


def _is_simple(new: NewSchedule) -> bool:
    """Whether a schedule is so simple that it needs no further checks. A bulk has a million."""
    definition = new.definition
    return (
        new.name is new.owner is new.idempotency_key is None
        and definition.expires_after_seconds is None
        and len(definition.body) <= SCHEDULE_BODY_BYTES_MAX
        and len(definition.metadata) <= METADATA_BYTES_MAX
        and 0 <= definition.priority <= 9
        and 0 < len(definition.type) <= TEXT_LENGTH_MAX
        and definition.type.isascii()
        and "\0" not in definition.type
    )


def _schedule_faults(new: NewSchedule, prefix: str) -> Iterator[FieldError]:
    if new.name is not None:
        yield from text_faults(f"{prefix}name", new.name, NAME_LENGTH_MAX)
    if new.owner is not None:
        yield from text_faults(f"{prefix}owner", new.owner, NAME_LENGTH_MAX)
    if new.idempotency_key is not None:
        yield from text_faults(f"{prefix}idempotency_key", new.idempotency_key, TEXT_LENGTH_MAX)
    yield from _definition_faults(new.definition, prefix)


def _definition_faults(definition: Definition, prefix: str) -> Iterator[FieldError]:
    yield from text_faults(f"{prefix}type", definition.type, TEXT_LENGTH_MAX)
    for field, size, most in (
        ("body", len(definition.body), SCHEDULE_BODY_BYTES_MAX),
        ("metadata", len(definition.metadata), METADATA_BYTES_MAX),
    ):
        if size > most:
            yield FieldError(f"{prefix}{field}", f"has {size} bytes; at most {most}")
    if not 0 <= definition.priority <= 9:
        yield FieldError(f"{prefix}priority", f"must be from 0 to 9, not {definition.priority}")
    expiry = definition.expires_after_seconds
    if expiry is not None and not 0 < expiry <= DELAY_SECONDS_MAX:
        fault = f"must be above 0 and at most {DELAY_SECONDS_MAX}"
        yield FieldError(f"{prefix}expires_after_seconds", fault)
