"""What a tenant may be, checked before anything is stored, and how many schedules it may have."""

from __future__ import annotations

from tickwork.core.limits import DELAY_SECONDS_MAX, NAME_LENGTH_MAX, text_faults
from tickwork.core.model import Scope, Tenant
from tickwork.core.policy.rate import RATE_MAX, RATE_MIN
from tickwork.core.schedule import ScheduleStatus
from tickwork.errors import FieldError, InvalidInput, TooMany

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


def is_one_more(before: ScheduleStatus, after: ScheduleStatus) -> bool:
    """Whether a change lets a schedule count that did not: it was over, and goes on."""
    return before in _OVER and after not in _OVER


def check_number(tenant: str, schedules: int, schedules_max: int) -> None:
    """Raises `TooMany` if a tenant has more schedules than it may."""
    if schedules > schedules_max:
        raise TooMany(
            f"tenant {tenant} may have {schedules_max} schedules; delete some, or raise its "
            "schedules_max"
        )
