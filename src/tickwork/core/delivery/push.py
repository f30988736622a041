"""Push: a queue whose consumer is an endpoint, so that any language can consume it.

| answer | what follows |
|---|---|
| 2xx | ack |
| 429 or 503 with `Retry-After` | the message waits that long, and loses no attempt |
| 410 | the endpoint is disabled; the message waits |
| a status in the endpoint's `permanent_statuses` | dead letter |
| all else, or none | the attempt failed; the queue's `max_retries` and `backoff` apply |
"""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.endpoint import EndpointSettings
from tickwork.core.delivery.endpoint_request import Keys, endpoint_request
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.request import WebhookRequest, own_headers
from tickwork.core.message.outcome import (
    Delivered,
    Failed,
    Permanent,
    Snoozed,
    Succeeded,
)
from tickwork.core.model import (
    REASON_ENDPOINT_DISABLED,
    REASON_EXPIRED,
    ContentType,
    Message,
    StoredQueue,
)

PUSH_QUEUES_MAX = 1_000
"""Maximum number of queues that a node pushes."""

WAITING_SECONDS = 60.0
"""Seconds that a message waits whose endpoint is gone or disabled. Few do: a node soon stops
claiming from its queue."""

_BUSY = (429, 503)
_BUSY_SECONDS_MIN = 1.0


class PushQueue(Struct, frozen=True):
    """A queue that pushes. `open_until` is set while the breaker of its endpoint is open. The
    messages of a shared queue go to the endpoint of their own tenant."""

    queue: StoredQueue
    has_endpoint: bool
    is_disabled: bool
    open_until: datetime | None

    @property
    def is_ready(self) -> bool:
        """Whether to claim from it."""
        is_waiting = self.is_disabled or self.open_until is not None
        return self.queue.tenant is None or (self.has_endpoint and not is_waiting)


class PushedMessage(Struct, frozen=True, kw_only=True):
    """The body of a request. `attempts` starts at 1, `timestamp` is when the message was sent.
    A `body` of bytes is base64."""

    id: str
    queue: str
    type: str | None
    source: str | None
    timestamp: datetime
    attempts: int
    key: str | None
    event_id: str | None
    correlation_id: str | None
    causation_id: str | None
    content_type: ContentType
    body: Any


def pushed_message(message: Message, queue: str) -> PushedMessage:
    """A message as its receiver gets it."""
    body: object = msgspec.Raw(message.body)
    if message.content_type is ContentType.TEXT:
        body = message.body.decode()
    elif message.content_type is ContentType.BYTES:
        body = b64encode(message.body).decode()
    return PushedMessage(
        id=public_id(Prefix.MESSAGE, message.id),
        queue=queue,
        type=message.type,
        source=message.source,
        timestamp=message.sent_at,
        attempts=message.attempts + 1,
        key=message.key,
        event_id=message.event_id,
        correlation_id=message.correlation_id,
        causation_id=message.causation_id,
        content_type=message.content_type,
        body=body,
    )


def push_request(
    settings: EndpointSettings, keys: Keys, message: Message, queue: str, sent_at: datetime
) -> WebhookRequest:
    """The signed request of a message."""
    return endpoint_request(
        settings,
        keys,
        webhook_id=str(message.id),
        body=msgspec.json.encode(pushed_message(message, queue)),
        headers=own_headers(message),
        sent_at=sent_at,
    )


def expiry_reason(*, is_disabled: bool) -> str:
    """Why a message dies that waited longer than its queue's retention, by whether the queue pushes
    to a disabled endpoint."""
    return REASON_ENDPOINT_DISABLED if is_disabled else REASON_EXPIRED


def is_busy(result: Delivery) -> bool:
    """Whether the receiver asks to come again later. That says nothing about its health."""
    return result.code in _BUSY and result.retry_after_seconds is not None


def push_outcome(result: Delivery) -> Delivered | Snoozed:
    """What follows for the message."""
    if is_busy(result):
        return Snoozed(max(result.retry_after_seconds or 0.0, _BUSY_SECONDS_MIN))
    if result.is_gone:
        return Snoozed(WAITING_SECONDS)
    return Delivered(_outcome(result), result_code=result.code, excerpt=result.excerpt)


def _outcome(result: Delivery) -> Succeeded | Permanent | Failed:
    if result.is_delivered:
        return Succeeded()
    error = result.error or "failed"
    if result.is_permanent:
        return Permanent(error)
    return Failed(error, result.retry_after_seconds or 0.0)
