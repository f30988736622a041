"""Limits of tenants and their schedules, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.fields import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, text_faults
from tickwork.core.limits import DELAY_SECONDS_MAX, ENDPOINTS_MAX
from tickwork.core.message.subscription import SUBSCRIPTIONS_MAX
from tickwork.core.model import Scope, Tenant
from tickwork.core.options.declared import faults_of
from tickwork.core.options.tenant import QUEUES_MAX, SESSIONS_MAX, TenantLimits
from tickwork.core.owner_targets import check_owner_targets
from tickwork.core.queue.rate_limit import (
    allowance,
    bucket_size,
    spend,
    wait_seconds,
)
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


class CountedQuota(NamedTuple):
    """A quota for how many of something a tenant may have: how they are called, how many there may
    be at most, how many without a quota, and how to get rid of some."""

    noun: str
    most: int
    default: int | None = None
    advice: str = "delete some"


COUNTED = {
    "queues_max": CountedQuota("queues", QUEUES_MAX),
    "endpoints_max": CountedQuota("endpoints", ENDPOINTS_MAX, ENDPOINTS_MAX),
    "subscriptions_max": CountedQuota("subscriptions", SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_MAX),
    "sessions_max": CountedQuota(
        "sessions",
        SESSIONS_MAX,
        SESSIONS_MAX,
        "sign out somewhere, sign in with end_others, or wait until one ends",
    ),
}


class QuotaUse(NamedTuple):
    """How much of a quota is used: `most` may be."""

    name: str
    used: int
    most: int


_INACTIVE = frozenset({ScheduleStatus.COMPLETED, ScheduleStatus.DELETED})
"""Statuses of schedules that do not count towards the limit."""


def check_tenant(scope: Scope, tenant: Tenant) -> None:
    """Raises `InvalidInput` for an invalid tenant, or if the scope may not create tenants."""
    faults = text_faults("id", tenant.id, NAME_LENGTH_MAX)
    if not scope.is_system:
        faults.append(FieldError("id", "only the system may create or change tenants"))
    faults += faults_of(TenantLimits, tenant)
    faults += check_owner_targets(tenant.owner_targets)
    if faults:
        raise InvalidInput(faults)


def is_active(status: ScheduleStatus) -> bool:
    """Whether a schedule of this status counts towards the limit."""
    return status not in _INACTIVE


def becomes_active(before: ScheduleStatus, after: ScheduleStatus) -> bool:
    """Whether a change makes a completed or deleted schedule active again."""
    return before in _INACTIVE and after not in _INACTIVE


def check_schedule_count(tenant: str, schedules: int, schedules_max: int) -> None:
    """Raises `TooMany` if a tenant has more schedules than its limit."""
    if schedules > schedules_max:
        raise TooMany(
            f"tenant {tenant} may have {schedules_max} schedules; delete some or raise its "
            "schedules_max",
            "schedules_max",
        )


def check_owner_counts(tenant: str, counts: Mapping[str, int], owner_schedules_max: int) -> None:
    """Raises `TooMany` if an owner has more schedules than the limit. `counts` has the number of
    schedules of each owner."""
    for owner, schedules in counts.items():
        if schedules > owner_schedules_max:
            raise TooMany(
                f"owner {owner} would have {schedules} schedules, and each owner of tenant "
                f"{tenant} may have {owner_schedules_max}; delete some or raise its "
                "owner_schedules_max",
                "owner_schedules_max",
            )


def check_room(tenant: str | None, name: str, count: int, most: int | None) -> None:
    """Raises `TooMany` if a tenant, or the system, has so many of what a quota counts that it may
    not have one more. `most` is the tenant's quota; without one the default holds."""
    quota = COUNTED[name]
    most = quota.default if most is None else most
    if most is None or count < most:
        return
    who = "the system" if tenant is None else f"tenant {tenant}"
    advice = quota.advice
    if tenant is not None and most < quota.most:
        advice += f", or raise its {name}"
    raise TooMany(f"{who} has {count} {quota.noun} and may have {most}; {advice}", name)


class MessageQuota(Struct, frozen=True, kw_only=True):
    """The quotas of a tenant for what callers send and ask, and for its emails."""

    tenant: str
    messages_per_second: float | None = None
    payload_bytes_max: int | None = None
    backlog_max: int | None = None
    emails_per_day: int | None = None
    requests_per_second: float | None = None

    @property
    def is_none(self) -> bool:
        """Whether the tenant may send any messages."""
        return self.messages_per_second is self.payload_bytes_max is self.backlog_max is None


def messages_at_once(quota: MessageQuota) -> int | None:
    """How many messages the tenant may send in one call; None if any number."""
    rate = quota.messages_per_second
    limits = (None if rate is None else bucket_size(rate), quota.backlog_max)
    return min((limit for limit in limits if limit is not None), default=None)


def quota_of(tenant: Tenant) -> MessageQuota:
    """The quotas for messages among the limits of a tenant."""
    return MessageQuota(
        tenant=tenant.id,
        messages_per_second=tenant.messages_per_second,
        payload_bytes_max=tenant.payload_bytes_max,
        backlog_max=tenant.backlog_max,
        emails_per_day=tenant.emails_per_day,
        requests_per_second=tenant.requests_per_second,
    )


def check_payload(tenant: str, payload_bytes: int, payload_bytes_max: int | None) -> None:
    """Raises `TooMany` if a body is larger than the tenant may send."""
    if payload_bytes_max is not None and payload_bytes > payload_bytes_max:
        raise TooMany(
            f"tenant {tenant} may send bodies of {payload_bytes_max} bytes, and this one has "
            f"{payload_bytes}; send a reference instead, or raise its payload_bytes_max",
            "payload_bytes_max",
        )


def check_backlog(tenant: str, messages: int, backlog_max: int) -> None:
    """Raises `TooMany` if so many messages would be in all queues of the tenant."""
    if messages > backlog_max:
        raise TooMany(
            f"tenant {tenant} may have {backlog_max} messages in its queues; wait until some are "
            "processed, or raise its backlog_max",
            "backlog_max",
            BACKLOG_RETRY_SECONDS,
        )


BACKLOG_RETRY_SECONDS = 1.0
"""Seconds after which a caller may try again whose tenant has too many messages."""


def spend_rate(
    tenant: str, field: str, rate: float, spent_until: datetime | None, now: datetime, made: int
) -> datetime:
    """Until when a tenant's rate is spent after so many more; `TooMany` if it does not allow
    them. More than one second's worth at once is never allowed."""
    if made > allowance(spent_until, now, rate):
        most, what = bucket_size(rate), field.removesuffix("_per_second")
        wait: float | None = wait_seconds(spent_until, now, rate, made)
        advice = "try again later"
        if made > most:
            wait, advice = None, f"these are {made}: try {most} at a time"
        raise TooMany(
            f"tenant {tenant} may create {rate:g} {what} a second; {advice}, or raise its {field}",
            field,
            wait,
        )
    return spend(spent_until, now, rate, made)


def check_schedules(new: Sequence[NewSchedule]) -> None:
    """Raises `InvalidInput` for schedules that cannot be stored together."""
    faults: list[FieldError] = []
    if len(new) > SCHEDULES_AT_ONCE_MAX:
        fault = f"has {len(new)} schedules; at most {SCHEDULES_AT_ONCE_MAX}"
        faults.append(FieldError("schedules", fault))
    for index, schedule in enumerate(new[:SCHEDULES_AT_ONCE_MAX]):
        if not _is_simple(schedule):
            faults += _schedule_faults(schedule, f"schedules[{index}].")
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
            f"more; create {most} at a time, or raise its schedules_per_second",
            "schedules_per_second",
        )
    return first


def check_same_schedule(new: NewSchedule, known: Schedule | NewSchedule) -> None:
    """Raises `Conflict` unless a stored schedule with the same key or id is the same as a new one:
    it has the same contents and is not deleted."""
    key = new.idempotency_key
    is_of_key = key is not None and key == known.idempotency_key
    what = f"idempotency_key {key}" if is_of_key else f"id {public_id(Prefix.SCHEDULE, new.id)}"
    if known.fingerprint != new.fingerprint:
        raise Conflict(f"the {what} is used by a schedule with different contents")
    if known.status is ScheduleStatus.DELETED:
        shown = public_id(Prefix.SCHEDULE, known.id)
        raise Conflict(
            f"the {what} was used by schedule {shown}, which is deleted; use another one"
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
