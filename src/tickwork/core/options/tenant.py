"""The limits of a tenant: `app.tenants.create` and `set_limits`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from tickwork.core.fields import NAME_LENGTH_MAX
from tickwork.core.limits import (
    BODY_BYTES_MAX,
    CLAIMED_MAX,
    DELAY_SECONDS_MAX,
    ENDPOINTS_MAX,
)
from tickwork.core.message.subscription import SUBSCRIPTIONS_MAX
from tickwork.core.options.declared import Between, Length
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN

OWNER_SCHEDULES_MAX = 100_000
QUEUES_MAX = 100_000
SESSIONS_MAX = 10_000

_ANY = Between(0, 10**9)
_SECONDS = Between(1, DELAY_SECONDS_MAX)
_RATE = Between(RATE_MIN, RATE_MAX)


class TenantLimits(TypedDict, total=False):
    """Limits of a tenant; null is no limit, or the default."""

    weight: Annotated[int | None, Between(1, 1_000), "Share of shared queues; default 1."]
    min_interval_seconds: Annotated[
        int | None, _SECONDS, "Shortest interval between two slots of a schedule."
    ]
    owner_min_interval_seconds: Annotated[
        int | None, _SECONDS, "Shortest interval of a schedule that has an owner."
    ]
    schedules_max: Annotated[int | None, _ANY, "Most schedules it may have."]
    owner_schedules_max: Annotated[
        int | None, Between(0, OWNER_SCHEDULES_MAX), "Most schedules that one owner may have."
    ]
    schedules_per_second: Annotated[
        float | None, _RATE, "Most schedules it may create in a second."
    ]
    messages_per_second: Annotated[float | None, _RATE, "Most messages it may send in a second."]
    requests_per_second: Annotated[
        float | None, _RATE, "Most HTTP requests that its keys may make in a second."
    ]
    payload_bytes_max: Annotated[
        int | None, Between(0, BODY_BYTES_MAX), "Largest body or payload it may send."
    ]
    backlog_max: Annotated[int | None, _ANY, "Most messages it may have in all queues."]
    claimed_max: Annotated[
        int | None, Between(1, CLAIMED_MAX), "Most messages that may run at a time; others wait."
    ]
    emails_per_day: Annotated[
        int | None, _ANY, "Most emails in a day of UTC; without it only `default` may send any."
    ]
    queues_max: Annotated[int | None, Between(0, QUEUES_MAX), "Most queues it may have."]
    endpoints_max: Annotated[
        int | None, Between(0, ENDPOINTS_MAX), "Most endpoints it may have; default 1000."
    ]
    subscriptions_max: Annotated[
        int | None, Between(0, SUBSCRIPTIONS_MAX), "Most subscriptions it may have; default 1000."
    ]
    sessions_max: Annotated[
        int | None, Between(0, SESSIONS_MAX), "Most sessions of the console; default 10000."
    ]
    owner_targets: Annotated[
        Sequence[str] | None,
        "Targets that its owners may use, such as queue:reminders or email.",
    ]


class NewTenant(TenantLimits):
    """A new tenant and its limits."""

    id: Annotated[str, Length(NAME_LENGTH_MAX), "Name of the tenant."]
