"""Endpoints: addresses of a tenant that receive events, and the deliveries made to them.

An event is published once. For every endpoint whose types match, it makes one delivery: a row that
can be listed, and a message of the hidden queue `tickwork.endpoints`, which carries the event. The
status of a delivery is not stored: it follows from `delivered_at` and from whether its message
exists.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Generic
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import AnId, Prefix, public_id
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.delivery.signature import V1
from tickwork.core.delivery.target import first_byte_fault
from tickwork.core.effects import Effect, LockRank
from tickwork.core.model import Claim, NewMessage, QueueSettings
from tickwork.errors import Conflict, FieldError, InvalidInput

ENDPOINTS_QUEUE = "tickwork.endpoints"
"""Name of the hidden queue of deliveries to endpoints, which all tenants share."""

RETRY_SECONDS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds before each retry, unless the endpoint has its own."""

RETRIES_MAX = 20
"""Maximum number of retries an endpoint may ask for."""

TYPES_MAX = 50
"""Maximum number of patterns of an endpoint."""

RESENT_AT_ONCE_MAX = 1_000
"""Maximum number of deliveries that one transaction sends again."""

RECOVER_RATE_PER_SECOND = 10.0
"""Deliveries that `recover` sends in a second, unless the caller gives a rate."""

DELIVERY_RETENTION_SECONDS = 30 * 86_400
"""Seconds to keep a delivery and its attempts."""

PUBLISHED_RETENTION_SECONDS = DELIVERY_RETENTION_SECONDS + 86_400
"""Seconds to keep a published event: longer than its deliveries, which may be sent again."""

ENDPOINTS_SETTINGS = QueueSettings(
    max_retries=RETRIES_MAX, retention_seconds=14 * 86_400, timeout_seconds=360
)
"""Settings of the hidden queue. The retries are those of the endpoint."""


class EndpointWait(Effect, frozen=True):
    """A message that was released waits for a disabled endpoint. If that is enabled by now, the
    message is visible at once."""

    RANK = LockRank.MESSAGE

    endpoint_id: UUID


class EndpointSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user sets of an endpoint. `headers` are sent with every delivery; the values of
    `secret_headers` are stored encrypted and not shown. `rate_per_second` and `concurrency` hold
    on each node. `limit` is the name of a limit that is shared with queues and other endpoints,
    `signature` the kind of the next signing secret."""

    url: str
    types: tuple[str, ...]
    owner: str | None = None
    description: str | None = None
    method: str = "POST"
    headers: dict[str, str] = {}
    secret_headers: tuple[str, ...] = ()
    ordered: bool = False
    rate_per_second: float | None = None
    concurrency: int | None = None
    limit: str | None = None
    timeout_seconds: int = 30
    first_byte_seconds: int | None = None
    retry_seconds: tuple[float, ...] = RETRY_SECONDS
    permanent_statuses: tuple[int, ...] = ()
    signature: str = V1


def settings_faults(settings: EndpointSettings) -> list[FieldError]:
    """The errors of settings that do not fit each other."""
    plain = {name.lower() for name in settings.headers}
    faults = [
        FieldError(f"secret_headers.{name}", "is also in headers; give it once")
        for name in settings.secret_headers
        if name.lower() in plain
    ]
    if fault := first_byte_fault(settings.first_byte_seconds, settings.timeout_seconds):
        faults.append(FieldError("first_byte_seconds", fault))
    return faults


class Health(Struct, frozen=True, kw_only=True):
    """What recent attempts say about an endpoint.

    `failing_since` is when the breaker first opened and `endpoint.failing` was published first.
    `open_until` is when the breaker lets the next delivery through; None if it is closed,
    or the endpoint disabled.
    `openings` counts how often it opened without a success in between. `notices` counts the
    `endpoint.failing` events since `failing_since`.
    """

    failures_in_row: int = 0
    failing_since: datetime | None = None
    open_until: datetime | None = None
    openings: int = 0
    notices: int = 0


HEALTHY = Health()


class PulledProbe(Struct, frozen=True):
    """The message that the breaker made visible last so that it probes the endpoint, and when that
    message was due by itself. A failure before that time costs it no attempt."""

    message_id: UUID
    back_at: datetime


class Endpoint(Struct, frozen=True, kw_only=True):
    """A stored endpoint. `disabled_reason` is set while it is disabled."""

    id: UUID
    tenant: str
    name: str
    settings: EndpointSettings
    health: Health = HEALTHY
    pulled: PulledProbe | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    created_at: datetime
    updated_at: datetime


def secrets_owner(endpoint_id: UUID) -> str:
    """The owner of an endpoint's secrets."""
    return f"endpoint:{endpoint_id}"


def check_same_endpoint(new: Endpoint, stored: Endpoint | None) -> Endpoint:
    """The stored endpoint with the name of a new one; `Conflict` if it is another one. None: the id
    is in use under another name."""
    if stored is None:
        raise Conflict(f"the id {public_id(Prefix.ENDPOINT, new.id)} is in use by another endpoint")
    if (stored.id, stored.settings) != (new.id, new.settings):
        raise Conflict(f"there is an endpoint {new.name} already; choose another name")
    return stored


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


def status_of(delivered_at: datetime | None, *, is_dead: bool) -> DeliveryStatus:
    """The status of a delivery."""
    if delivered_at is not None:
        return DeliveryStatus.DELIVERED
    return DeliveryStatus.DEAD if is_dead else DeliveryStatus.WAITING


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt at a delivery, which began `at` a time. `number` starts at 1."""

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


class DeliveryFields(Struct, Generic[AnId], frozen=True, kw_only=True):
    """A delivery of an event to an endpoint. It is `waiting` while its message exists."""

    id: AnId
    tenant: str
    endpoint_id: AnId
    message_id: AnId
    event_id: str
    type: str
    status: DeliveryStatus
    attempts: int
    published_at: datetime
    delivered_at: datetime | None
    last_attempt_at: datetime | None
    last_code: int | None
    last_error: str | None


class EndpointDelivery(DeliveryFields[UUID], frozen=True, kw_only=True):
    """A stored delivery."""


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
    through. `is_gone`: the receiver wants no more deliveries. `wish_seconds`: it wants none before.
    The store sets the attempt's number and time. Without a delivery, as for a message that a queue
    pushes, only the health of the endpoint changes."""

    claim: Claim
    delivery_id: UUID | None
    endpoint_id: UUID
    attempt: Attempt
    is_probe: bool = False
    is_gone: bool = False
    wish_seconds: float = 0.0


class Published(Struct, frozen=True, kw_only=True):
    """How many queues and endpoints receive an event. `is_repeat`: some have it already, because it
    was published before; they do not get it again. Inside a handler all three are None: the event
    is published with the ack."""

    event_id: str
    queues: int | None = None
    endpoints: int | None = None
    is_repeat: bool | None = None


class EndpointStats(Struct, frozen=True, kw_only=True):
    """Numbers of the deliveries that were published to an endpoint in a span: how many have which
    status, their attempts, and how long these took."""

    waiting: int = 0
    delivered: int = 0
    dead: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    p50_seconds: float | None = None
    p95_seconds: float | None = None


class _DeliveryName(Struct):
    delivery: UUID


_ENVELOPES = msgspec.json.Decoder(EndpointEnvelope)
_DELIVERY_NAMES = msgspec.json.Decoder(_DeliveryName)


def delivery_of(message: NewMessage) -> UUID | None:
    """The delivery that a message of the hidden queue belongs to; None if it names none."""
    try:
        return _DELIVERY_NAMES.decode(message.body).delivery
    except msgspec.MsgspecError:
        return None


def check_edited_envelope(before: bytes, after: bytes) -> None:
    """Raises `InvalidInput` if an edit changes more of an envelope than its event."""
    try:
        old, new = read_endpoint_envelope(before), read_endpoint_envelope(after)
    except msgspec.MsgspecError as error:
        raise InvalidInput([FieldError("body", f"is not a delivery: {error}")]) from None
    if (new.endpoint, new.delivery) != (old.endpoint, old.delivery):
        raise InvalidInput([FieldError("body", "may change the event only")])


def read_endpoint_envelope(body: bytes) -> EndpointEnvelope:
    """The envelope of a message. Raises `msgspec.MsgspecError`."""
    return _ENVELOPES.decode(body)
