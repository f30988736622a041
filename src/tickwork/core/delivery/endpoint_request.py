"""Decides about a delivery to an endpoint: whether it may go, what is sent, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from tickwork.core.delivery.breaker import open_seconds
from tickwork.core.delivery.endpoint import Attempt, Endpoint, EndpointSettings, EndpointWait
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.redact import header_secrets, url_secrets
from tickwork.core.delivery.request import WebhookRequest
from tickwork.core.delivery.signature import Sign, signature_headers
from tickwork.core.message.outcome import (
    Delivered,
    Failed,
    Outcome,
    Permanent,
    RetryRequested,
    RetryTerms,
    Snoozed,
    Succeeded,
)
from tickwork.core.model import Message
from tickwork.core.stable_hash import stable_hash

TEST_TYPE = "endpoint.test"
"""Type of the event that tests an endpoint."""

DISABLED_SECONDS = 86_400.0
"""Seconds after which a message of a disabled endpoint asks again; enabling it calls it back."""

PROBE_GRACE_SECONDS = 5.0
"""Seconds that a probe may take beyond the timeout of its endpoint."""

_SPREAD_MIN_SECONDS, _SPREAD = 1.0, 0.1
"""What waits for an endpoint comes back over at least a second, and a tenth of the wait."""


class Keys(Struct, frozen=True):
    """The secrets of an endpoint: what its deliveries are signed with, the current key first, and
    the values of its secret headers."""

    signing: tuple[bytes | Sign, ...]
    headers: Mapping[str, str]


class Gate(Struct, frozen=True):
    """Whether a delivery may go now. It waits for `wait_seconds` if these are above 0, and dies
    with the error if there is one. A probe has to ask the store first: only one may go."""

    wait_seconds: float = 0.0
    is_probe: bool = False
    error: str | None = None


def gate(endpoint: Endpoint, message: Message, now: datetime, retention_seconds: float) -> Gate:
    """What the endpoint's health says. What waits comes back spread over some time. A disabled
    endpoint keeps its messages as long as their queue does. The queue cannot see it: each wait
    makes a message visible anew."""
    message_id = message.id
    if endpoint.disabled_at is not None:
        left = retention_seconds - (now - message.sent_at).total_seconds()
        if left > 0:
            wait_seconds = spread(DISABLED_SECONDS, message_id)
            return Gate(min(wait_seconds, spread(0.0, message_id) + left))
        reason = endpoint.disabled_reason or "no reason was given"
        return Gate(error=f"the endpoint {endpoint.name} is disabled: {reason}")
    until = endpoint.health.open_until
    if until is None:
        return Gate()
    if now < until:
        own = seconds_until_own_time(endpoint, message_id, now)
        return Gate(max(spread((until - now).total_seconds(), message_id), own))
    return Gate(is_probe=True)


def seconds_until_own_time(endpoint: Endpoint, message_id: UUID, now: datetime) -> float:
    """Seconds until a message that the breaker pulled forward is due by itself; 0 for others, and
    for one that was due before and waited only for the breaker."""
    pulled = endpoint.pulled
    if pulled is None or pulled.message_id != message_id:
        return 0.0
    seconds = (pulled.back_at - now).total_seconds()
    return seconds if seconds > _spread_max(open_seconds(endpoint.health.openings)) else 0.0


def spread(seconds: float, message_id: UUID) -> float:
    """The seconds and a little more, different for each message."""
    share = stable_hash(str(message_id)) / 2**64
    return seconds + share * _spread_max(seconds)


def _spread_max(seconds: float) -> float:
    return max(_SPREAD_MIN_SECONDS, _SPREAD * seconds)


def probe_seconds(settings: EndpointSettings) -> float:
    """Seconds for which others wait while a probe is under way."""
    return settings.timeout_seconds + PROBE_GRACE_SECONDS


def delivery_headers(delivery_id: UUID, *, attempt: int, fence: int) -> dict[str, str]:
    """The headers of a delivery of an event."""
    return {
        "Idempotency-Key": str(delivery_id),
        "Tickwork-Attempt": str(attempt),
        "Tickwork-Fence": str(fence),
    }


def endpoint_request(
    settings: EndpointSettings,
    keys: Keys,
    *,
    webhook_id: str,
    body: bytes,
    headers: Mapping[str, str],
    sent_at: datetime,
) -> WebhookRequest:
    """The signed request of a delivery. Its id is the same for every attempt."""
    own = {**settings.headers, **keys.headers}
    has_type = any(name.lower() == "content-type" for name in own)
    return WebhookRequest(
        url=settings.url,
        method=settings.method,
        headers={
            **({} if has_type else {"Content-Type": "application/json"}),
            **own,
            **headers,
            **signature_headers(keys.signing, webhook_id, sent_at, body),
        },
        body=body,
        timeout_seconds=float(settings.timeout_seconds),
        first_byte_seconds=settings.first_byte_seconds,
        permanent_statuses=frozenset(settings.permanent_statuses),
        secrets=url_secrets(settings.url).union(*map(header_secrets, keys.headers.values())),
    )


def attempt_of(result: Delivery, number: int, at: datetime) -> Attempt:
    """The attempt with this result, as it is recorded."""
    return Attempt(
        number=number,
        at=at,
        took_seconds=result.took_seconds,
        code=result.code,
        kind=result.kind,
        error=result.error,
        excerpt=result.excerpt,
    )


def outcome_of(
    result: Delivery,
    settings: EndpointSettings,
    attempt: int,
    *,
    endpoint_id: UUID | None = None,
    own_seconds: float = 0.0,
) -> Outcome:
    """What follows for the message. If the receiver is gone, the message is kept: its endpoint is
    disabled. A failed probe waits for the seconds until its own time, and loses no attempt, unless
    the receiver refused it for good."""
    if result.is_delivered:
        return Succeeded()
    error = result.error or "failed"
    if result.is_permanent and not result.is_gone:
        return Permanent(error)
    wish = result.retry_after_seconds or 0.0
    if own_seconds > 0:
        return Snoozed(max(wish, own_seconds))
    if result.is_gone:
        waits = () if endpoint_id is None else (EndpointWait(endpoint_id),)
        return Snoozed(DISABLED_SECONDS, effects=waits)
    if attempt > len(settings.retry_seconds):
        return Delivered(Failed(error), retry=RetryTerms(max_attempts=attempt))
    return RetryRequested(max(wish, settings.retry_seconds[attempt - 1]), error)
