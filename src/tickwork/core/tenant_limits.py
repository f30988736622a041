"""What a tenant may be, checked before anything is stored, and how many schedules it may have.

What a schedule may be, as far as a store must know: sizes, ranges and characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tickwork.core.limits import DELAY_SECONDS_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX, text_faults
from tickwork.core.model import Scope, Tenant
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN, bucket_of
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

_OVER = frozenset({ScheduleStatus.COMPLETED, ScheduleStatus.DELETED})
"""Schedules that do not count any more."""


def check_tenant(scope: Scope, tenant: Tenant) -> None:
    """Raises `InvalidInput` for a tenant that may not exist, or that this scope may not make."""
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
    if faults:
        raise InvalidInput(faults)


def becomes_active(before: ScheduleStatus, after: ScheduleStatus) -> bool:
    """Whether a change lets a schedule count that did not: it was over, and goes on."""
    return before in _OVER and after not in _OVER


def check_schedule_count(tenant: str, schedules: int, schedules_max: int) -> None:
    """Raises `TooMany` if a tenant has more schedules than it may."""
    if schedules > schedules_max:
        raise TooMany(
            f"tenant {tenant} may have {schedules_max} schedules; delete some, or raise its "
            "schedules_max"
        )


def check_schedules(new: Sequence[NewSchedule]) -> None:
    """Raises `InvalidInput` for schedules that may not be stored together; none of them is."""
    faults: list[FieldError] = []
    if len(new) > SCHEDULES_AT_ONCE_MAX:
        said = f"has {len(new)}; at most {SCHEDULES_AT_ONCE_MAX} at once"
        faults.append(FieldError("schedules", said))
    for index, each in enumerate(new[:SCHEDULES_AT_ONCE_MAX]):
        if not _is_plain(each):
            faults += _schedule_faults(each, f"schedules[{index}].")
    if faults:
        raise InvalidInput(faults)


def limit_bulk(
    tenant: str, rate_per_second: float | None, new: Iterable[NewSchedule]
) -> Iterable[NewSchedule]:
    """The schedules of a bulk, if the tenant's rate allows so many at all; else `TooMany`.

    A bulk does not wait for a rate: what is allowed in a second it makes at once, and more it does
    not begin with.
    """
    if rate_per_second is None:
        return new
    most = bucket_of(rate_per_second)
    first = tuple(islice(new, most + 1))
    if len(first) > most:
        raise TooMany(
            f"tenant {tenant} may make {rate_per_second:g} schedules a second, and this bulk has "
            f"more; make {most} at a time, or raise its schedules_per_second meanwhile"
        )
    return first


def check_same_schedule(new: NewSchedule, known: Schedule | NewSchedule) -> None:
    """Raises `Conflict` unless a schedule that is there, under the key or the id of a new one, may
    stand for it: it has the same contents, and was not deleted since."""
    key = new.idempotency_key
    is_of_key = key is not None and key == known.idempotency_key
    what = f"idempotency_key {key}" if is_of_key else f"id {new.id}"
    if known.fingerprint != new.fingerprint:
        raise Conflict(f"the {what} is in use by a schedule with other contents")
    if known.status is ScheduleStatus.DELETED:
        raise Conflict(
            f"the {what} is that of schedule {known.id}, which was deleted and fires no more; "
            "take another one"
        )


def check_change(name: str | None, definition: Definition) -> None:
    """Raises `InvalidInput` for what a schedule may not become."""
    faults = [*_definition_faults(definition, "")]
    if name is not None:
        faults += text_faults("name", name, NAME_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


def _is_plain(new: NewSchedule) -> bool:
    """Whether nothing can be wrong with it: bulk makes a million of them."""
    said = new.definition
    return (
        new.name is new.idempotency_key is None
        and said.expires_after_seconds is None
        and len(said.body) <= SCHEDULE_BODY_BYTES_MAX
        and len(said.metadata) <= METADATA_BYTES_MAX
        and 0 <= said.priority <= 9
        and 0 < len(said.type) <= TEXT_LENGTH_MAX
        and said.type.isascii()
        and "\0" not in said.type
    )


def _schedule_faults(new: NewSchedule, prefix: str) -> Iterator[FieldError]:
    if new.name is not None:
        yield from text_faults(f"{prefix}name", new.name, NAME_LENGTH_MAX)
    if new.idempotency_key is not None:
        yield from text_faults(f"{prefix}idempotency_key", new.idempotency_key, TEXT_LENGTH_MAX)
    yield from _definition_faults(new.definition, prefix)


def _definition_faults(said: Definition, prefix: str) -> Iterator[FieldError]:
    yield from text_faults(f"{prefix}type", said.type, TEXT_LENGTH_MAX)
    for field, size, most in (
        ("body", len(said.body), SCHEDULE_BODY_BYTES_MAX),
        ("metadata", len(said.metadata), METADATA_BYTES_MAX),
    ):
        if size > most:
            yield FieldError(f"{prefix}{field}", f"has {size} bytes; at most {most}")
    if not 0 <= said.priority <= 9:
        yield FieldError(f"{prefix}priority", f"must be from 0 to 9, not {said.priority}")
    expiry = said.expires_after_seconds
    if expiry is not None and not 0 < expiry <= DELAY_SECONDS_MAX:
        fault = f"must be above 0 and at most {DELAY_SECONDS_MAX}"
        yield FieldError(f"{prefix}expires_after_seconds", fault)
