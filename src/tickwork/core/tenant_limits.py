"""What a tenant may be, checked before anything is stored."""

from __future__ import annotations

from tickwork.core.limits import DELAY_SECONDS_MAX, NAME_LENGTH_MAX, text_faults
from tickwork.core.model import Scope, Tenant
from tickwork.core.policy.rate import RATE_MAX, RATE_MIN
from tickwork.errors import FieldError, InvalidInput

SCHEDULES_MAX = 10**9


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
