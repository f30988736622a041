"""The circuit breaker of an endpoint: what an attempt does to its health.

Failures in a row open the breaker: deliveries wait, and lose no attempt. After its time one probe
goes through: a waiting delivery is pulled forward, and loses no attempt either. A success closes
the breaker, a failure opens it for twice as long. An endpoint that only fails for days is disabled.
The days count from the first `endpoint.failing`, so none is disabled without a notice that long
before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.delivery.endpoint import HEALTHY, AttemptRecord, Endpoint, Health

FAILURES_IN_ROW_MAX = 5
OPEN_SECONDS_MIN, OPEN_SECONDS_MAX = 60.0, 3_600.0

WISH_SECONDS_MAX = 86_400.0
"""Maximum number of seconds that a `Retry-After` keeps the breaker open."""

PULLED_AT_ONCE_MAX = 100
"""Maximum number of endpoints for which one pass pulls a waiting delivery forward."""

PROBE_CANDIDATES_MAX = 1_000
"""Number of the oldest undelivered deliveries of an endpoint, and of the newest, among which its
breaker finds a probe."""

PULLED_AGAIN_SECONDS = OPEN_SECONDS_MAX
"""Seconds after which a breaker looks for another probe, if the last one was not sent."""

NOTICES_AFTER = (timedelta(0), timedelta(days=1), timedelta(days=3), timedelta(days=4))
"""When `endpoint.failing` is published, after the breaker first opened."""

DISABLED_AFTER = timedelta(days=5)

GONE = "the receiver answered 410 (gone)"
FAILED_FOR_DAYS = "nothing but failures for 5 days"


class HealthEvent(StrEnum):
    """What an attempt made known."""

    FAILING = "endpoint.failing"
    DISABLED = "endpoint.disabled"


class HealthChange(Struct, frozen=True):
    """The health after an attempt. `disabled_reason` is set if the endpoint is disabled now."""

    health: Health
    events: tuple[HealthEvent, ...] = ()
    disabled_reason: str | None = None


def by_endpoint(records: Iterable[AttemptRecord]) -> dict[tuple[str, UUID], list[AttemptRecord]]:
    """Attempts by tenant and endpoint, in their order."""
    found: dict[tuple[str, UUID], list[AttemptRecord]] = {}
    for record in records:
        found.setdefault((record.claim.tenant, record.endpoint_id), []).append(record)
    return found


def open_seconds(openings: int) -> float:
    """Seconds for which the breaker is open after it opened so often, at least once."""
    return min(OPEN_SECONDS_MIN * 2.0 ** min(openings - 1, 10), OPEN_SECONDS_MAX)


def after_attempts(
    endpoint: Endpoint, records: Iterable[AttemptRecord], now: datetime
) -> HealthChange:
    """The change that attempts make, in their order. A disabled endpoint publishes no events."""
    health = endpoint.health
    events = list[HealthEvent]()
    reason = endpoint.disabled_reason
    for record in records:
        change = after_attempt(
            health,
            now,
            is_delivered=record.attempt.is_delivered,
            is_probe=record.is_probe,
            is_gone=record.is_gone,
            wish_seconds=record.wish_seconds,
        )
        health = change.health
        if reason is None:
            events += change.events
            reason = change.disabled_reason
    if reason is not None:  # Nothing is sent at that time.
        health = structs.replace(health, open_until=None)
    is_disabled_now = endpoint.disabled_reason is None
    return HealthChange(health, tuple(events), reason if is_disabled_now else None)


def after_attempt(
    health: Health,
    at: datetime,
    *,
    is_delivered: bool,
    is_probe: bool = False,
    is_gone: bool = False,
    wish_seconds: float = 0.0,
) -> HealthChange:
    """The change that an attempt makes. Attempts that were under way when the breaker opened do not
    open it for longer; a probe does. It is open at least as long as the receiver wishes."""
    if is_delivered:
        return HealthChange(HEALTHY)
    failures = health.failures_in_row + 1
    changed = structs.replace(health, failures_in_row=failures)
    if is_gone:
        return HealthChange(changed, (HealthEvent.DISABLED,), GONE)
    if failures < FAILURES_IN_ROW_MAX:
        return HealthChange(changed)
    since = health.failing_since or at
    changed = structs.replace(changed, failing_since=since)
    if at - since >= DISABLED_AFTER:
        return HealthChange(changed, (HealthEvent.DISABLED,), FAILED_FOR_DAYS)
    if is_probe or changed.open_until is None or changed.open_until <= at:
        openings = changed.openings + 1
        seconds = max(open_seconds(openings), min(wish_seconds, WISH_SECONDS_MAX))
        until = at + timedelta(seconds=seconds)
        changed = structs.replace(changed, open_until=until, openings=openings)
    due = sum(1 for after in NOTICES_AFTER if at - since >= after)
    if due > health.notices:
        return HealthChange(structs.replace(changed, notices=due), (HealthEvent.FAILING,))
    return HealthChange(changed)
