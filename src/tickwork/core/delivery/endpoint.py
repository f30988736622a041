"""Endpoints: addresses of a tenant that receive events, and the deliveries made to them.

An event is published once. For every endpoint whose types match, it makes one delivery: a row that
can be listed, and a message of the hidden queue `tickwork.endpoints`, which carries the event.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.model import Claim, QueueSettings

ENDPOINTS_QUEUE = "tickwork.endpoints"
"""Name of the hidden queue of deliveries to endpoints, which all tenants share."""

RETRY_SECONDS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds before each retry, unless the endpoint has its own."""

RETRIES_MAX = 20
"""Maximum number of retries an endpoint may ask for."""

ENDPOINTS_MAX = 1_000
"""Maximum number of endpoints of a tenant."""

TYPES_MAX = 50
"""Maximum number of patterns of an endpoint."""

ENDPOINTS_SETTINGS = QueueSettings(
    max_retries=RETRIES_MAX, retention_seconds=14 * 86_400, timeout_seconds=360
)
"""Settings of the hidden queue. The retries are those of the endpoint."""


class EndpointSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user sets of an endpoint. `headers` are sent with every delivery; the values of
    `secret_headers` are stored encrypted and not shown. `rate_per_second` and `concurrency` hold
    on each node."""

    url: str
    types: tuple[str, ...]
    owner: str | None = None
    description: str | None = None
    method: str = "POST"
    headers: dict[str, str] = {}
    secret_headers: tuple[str, ...] = ()
    is_ordered: bool = msgspec.field(default=False, name="ordered")
    rate_per_second: float | None = None
    concurrency: int | None = None
    timeout_seconds: int = 30
    retry_seconds: tuple[float, ...] = RETRY_SECONDS
    permanent_statuses: tuple[int, ...] = ()


class Health(Struct, frozen=True, kw_only=True):
    """What recent attempts say about an endpoint.

    `open_until` is when the breaker lets the next delivery through; None if it is closed.
    `openings` counts how often it opened without a success in between. `notices` counts the
    `endpoint.failing` events since `failing_since`.
    """

    failures_in_row: int = 0
    failing_since: datetime | None = None
    open_until: datetime | None = None
    openings: int = 0
    notices: int = 0


HEALTHY = Health()


class Endpoint(Struct, frozen=True, kw_only=True):
    """A stored endpoint. `disabled_reason` is set while it is disabled."""

    id: UUID
    tenant: str
    name: str
    settings: EndpointSettings
    health: Health = HEALTHY
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    created_at: datetime
    updated_at: datetime


class EndpointEnvelope(Struct, frozen=True):
    """The body of an endpoint's message. `delivery` is the id of the delivery."""

    endpoint: UUID
    delivery: UUID
    event: Any


class DeliveryStatus(StrEnum):
    """Whether a delivery arrived. `dead`: nobody tries again, unless it is resent."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt at a delivery. `number` starts at 1."""

    number: int
    at: datetime
    took_seconds: float
    code: int | None = None
    kind: ErrorKind | None = None
    error: str | None = None
    excerpt: str | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver accepted it."""
        return self.kind is None


class EndpointDelivery(Struct, frozen=True, kw_only=True):
    """A delivery of an event to an endpoint. It is `waiting` while its message exists."""

    id: UUID
    tenant: str
    endpoint_id: UUID
    message_id: UUID
    event_id: str
    type: str
    status: DeliveryStatus
    attempts: int = 0
    published_at: datetime
    delivered_at: datetime | None = None
    last_attempt_at: datetime | None = None
    last_code: int | None = None
    last_error: str | None = None


class DeliverySelection(Struct, frozen=True, kw_only=True):
    """Which deliveries to list. `is_undelivered` selects those that are waiting or dead."""

    endpoint_id: UUID | None = None
    status: DeliveryStatus | None = None
    is_undelivered: bool = False
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100


class AttemptRecord(Struct, frozen=True, kw_only=True):
    """An attempt to record, and the claim under which it was made. `is_probe`: the breaker let it
    through."""

    claim: Claim
    delivery_id: UUID
    endpoint_id: UUID
    attempt: Attempt
    is_probe: bool = False
    is_gone: bool = False


class Published(Struct, frozen=True, kw_only=True):
    """To how many queues and endpoints an event went."""

    event_id: str
    queues: int
    endpoints: int


class EndpointStats(Struct, frozen=True, kw_only=True):
    """Numbers of an endpoint over a span: deliveries by status, attempts, and their times."""

    waiting: int = 0
    delivered: int = 0
    dead: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    p50_seconds: float | None = None
    p95_seconds: float | None = None


_ENVELOPES = msgspec.json.Decoder(EndpointEnvelope)


def read_endpoint_envelope(body: bytes) -> EndpointEnvelope:
    """The envelope of a message. Raises `msgspec.MsgspecError`."""
    return _ENVELOPES.decode(body)
