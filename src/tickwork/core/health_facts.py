"""What is read to judge the health of a tenant and its processes; `core/health.py` judges it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from tickwork.core.tenant_limits import QuotaUse

RECENT_SECONDS = 86_400
"""Seconds for which a failed run or a dead delivery is reported."""

LISTED_MAX = 100
"""Maximum number of things of one kind that are read."""

DEAD_LOOKED_AT_MAX = 10_000
"""Maximum number of dead deliveries that are looked at for those that died lately."""


class Pauses(Struct, frozen=True, kw_only=True):
    """What an operator has stopped or slowed."""

    paused_at: datetime | None = None
    widened_seconds: int = 0
    suspended_tenant: str | None = None


class SilentNode(NamedTuple):
    """A process whose heartbeats stopped, and of whose work nobody took care yet."""

    name: str
    since: datetime


class Processes(Struct, frozen=True, kw_only=True):
    """What no live process does, and the processes that do not answer."""

    missing_roles: tuple[str, ...] = ()
    shards_without_leader: int = 0
    silent_nodes: tuple[SilentNode, ...] = ()


class QueueFacts(Struct, frozen=True, kw_only=True):
    """A queue: `failed` counts attempts that failed in the last 30 minutes, `taken` messages that
    ended or were tried in the last five. The numbers of `at_least` may be larger. `bytes_max` is
    the cap for the bytes that wait, if it has one."""

    name: str
    paused: bool = False
    ready: int = 0
    claimed: int = 0
    dead: int = 0
    at_least: tuple[str, ...] = ()
    oldest_age_seconds: float | None = None
    failed: int = 0
    taken: int = 0
    bytes: int = 0
    bytes_max: int | None = None


class ScheduleFacts(Struct, frozen=True):
    """A schedule that is parked (`is_parked`), late or failing, and since when. It `is_over` if no
    slot is left, so that resuming it would not help, and `is_paused` if a dead slot paused it."""

    id: UUID
    name: str | None
    is_parked: bool
    since: datetime | None
    error: str | None = None
    is_over: bool = False
    is_paused: bool = False


class EndpointFacts(Struct, frozen=True):
    """An endpoint that is failing, or disabled for a reason."""

    id: UUID
    name: str
    failing_since: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None


class DeliveryFacts(Struct, frozen=True):
    """Number of deliveries that died lately, and when the first of them did."""

    dead: int = 0
    since: datetime | None = None


class RunFacts(Struct, frozen=True):
    """Number of runs of a workflow that diverged, or failed lately, and when the first did."""

    workflow: str
    status: str
    runs: int
    since: datetime | None


class Facts(Struct, frozen=True, kw_only=True):
    """What was read. None: it was not."""

    now: datetime
    tenant: str = "default"
    pauses: Pauses | None = None
    processes: Processes | None = None
    quotas: tuple[QuotaUse, ...] | None = None
    queues: tuple[QueueFacts, ...] | None = None
    has_more_queues: bool = False
    schedules: tuple[ScheduleFacts, ...] | None = None
    late_schedules: tuple[ScheduleFacts, ...] = ()
    endpoints: tuple[EndpointFacts, ...] | None = None
    deliveries: DeliveryFacts | None = None
    runs: tuple[RunFacts, ...] | None = None
