"""What an event becomes when it is published: one delivery for each endpoint that receives it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.delivery.endpoint import (
    RESENT_AT_ONCE_MAX,
    EndpointEnvelope,
    EndpointSettings,
)
from tickwork.core.delivery.pace import RETURNS_PER_SECOND
from tickwork.core.delivery.receiver import receiver_of_endpoint
from tickwork.core.limits import DELAY_SECONDS_MAX, check_message
from tickwork.core.message.subscription import matches
from tickwork.core.message.system_events import is_about
from tickwork.core.model import ContentType, NewMessage
from tickwork.core.stable_hash import derived_id
from tickwork.core.when import iso
from tickwork.errors import Conflict, FieldError, InvalidInput


class NewDelivery(Struct, frozen=True):
    """A delivery of a published event to store, and its first message, which has the same id."""

    event: NewMessage
    endpoint_id: UUID
    message: NewMessage

    @property
    def id(self) -> UUID:
        return self.message.id


class _EventBody(Struct, frozen=True):
    """An event as its receivers get it."""

    type: str
    timestamp: str
    data: msgspec.Raw


_BODIES = msgspec.json.Decoder(_EventBody)


def check_event(event: NewMessage) -> None:
    """Raises `InvalidInput` for an event that cannot be published."""
    check_message(event)
    faults: list[FieldError] = []
    if event.type is None:
        faults.append(FieldError("type", "must be set: endpoints select events by type"))
    try:
        msgspec.json.decode(event.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        faults.append(FieldError("data", "must be JSON"))
    if event.content_type is not ContentType.JSON:
        faults.append(FieldError("content_type", "must be json"))
    if faults:
        raise InvalidInput(faults)


def check_same_event(event: NewMessage, stored: NewMessage | None) -> None:
    """Raises `Conflict` if another event was published with the id of this one."""
    if stored is None:
        return
    data = _BODIES.decode(stored.body).data
    if stored.type != event.type or _in_order(bytes(data)) != _in_order(event.body):
        name = event_name(event)
        raise Conflict(f"event_id {name!r} was used for another event; use a new one")


def _in_order(body: bytes) -> bytes:
    """JSON with the keys of objects in order."""
    return msgspec.json.encode(msgspec.json.decode(body), order="sorted")


def check_resend(
    deliveries: int, rate_per_second: float | None, first_after_seconds: float
) -> None:
    """Raises `InvalidInput` for too many deliveries, or too long a delay of the last one."""
    faults: list[FieldError] = []
    if deliveries > RESENT_AT_ONCE_MAX:
        faults.append(FieldError("delivery_ids", f"must be at most {RESENT_AT_ONCE_MAX}"))
    if rate_per_second is not None and not rate_per_second > 0:
        faults.append(FieldError("rate_per_second", "must be above 0"))
    elif not 0 <= first_after_seconds + deliveries * spacing(rate_per_second) <= DELAY_SECONDS_MAX:
        fault = f"delays the last delivery by more than {DELAY_SECONDS_MAX} seconds; send faster"
        faults.append(FieldError("rate_per_second", fault))
    if faults:
        raise InvalidInput(faults)


def spacing(rate_per_second: float | None) -> float:
    """Seconds between two deliveries at a rate."""
    return 0.0 if rate_per_second is None else 1 / rate_per_second


def spacing_after_enable(settings: EndpointSettings) -> float:
    """Seconds between two deliveries that a disabled endpoint kept, once it is enabled."""
    return spacing(settings.rate_per_second or RETURNS_PER_SECOND)


def event_name(event: NewMessage) -> str:
    """The id by which the publisher knows an event."""
    return event.event_id or str(event.id)


def published(event: NewMessage, now: datetime) -> NewMessage:
    """An event with the body that its receivers get."""
    assert event.type is not None
    body = _EventBody(event.type, iso(now), msgspec.Raw(event.body))
    return structs.replace(event, body=msgspec.json.encode(body))


def new_deliveries(
    event: NewMessage,
    endpoints: Iterable[tuple[UUID, EndpointSettings]],
    owner: str | None,
) -> list[NewDelivery]:
    """The deliveries of a published event. Their ids are derived, so that a repeat makes the same
    ones."""
    return [
        _delivery(event, endpoint_id, settings)
        for endpoint_id, settings in endpoints
        if _receives(settings, event.type, owner)
    ]


def system_deliveries(
    events: Iterable[NewMessage],
    endpoints: Sequence[tuple[UUID, EndpointSettings]],
    now: datetime,
) -> list[NewDelivery]:
    """The deliveries of system events. An endpoint receives those that it names exactly: `*` is
    meant for the events of an application. No endpoint gets events about its own health."""
    return [
        _delivery(published(event, now), endpoint_id, settings)
        for event in events
        for endpoint_id, settings in endpoints
        if settings.owner is None
        and event.type in settings.types
        and not is_about(event, endpoint_id)
    ]


def direct_delivery(
    event: NewMessage, endpoint_id: UUID, settings: EndpointSettings, now: datetime
) -> NewDelivery:
    """The delivery of an event to one endpoint, whatever its types."""
    return _delivery(published(event, now), endpoint_id, settings)


def delivery_message(
    event: NewMessage,
    endpoint_id: UUID,
    settings: EndpointSettings,
    *,
    delivery_id: UUID,
    message_id: UUID | None = None,
) -> NewMessage:
    """The message of a delivery of a published event. It has no `event_id`: the deliveries of an
    event share a queue, which would take them for duplicates."""
    envelope = EndpointEnvelope(endpoint_id, delivery_id, msgspec.Raw(event.body))
    return NewMessage(
        id=message_id or delivery_id,
        body=msgspec.json.encode(envelope),
        delay_seconds=event.delay_seconds,
        priority=event.priority,
        key=endpoint_id.hex if settings.ordered else None,
        type=event.type,
        source=event.source,
        correlation_id=event.correlation_id,
        causation_id=event.causation_id,
        traceparent=event.traceparent,
        receiver=receiver_of_endpoint(endpoint_id),
        hops=event.hops,
        expires_after_seconds=event.expires_after_seconds,
    )


def _delivery(event: NewMessage, endpoint_id: UUID, settings: EndpointSettings) -> NewDelivery:
    own_id = derived_id(event.id, endpoint_id.hex)
    message = delivery_message(event, endpoint_id, settings, delivery_id=own_id)
    return NewDelivery(event, endpoint_id, message)


def _receives(settings: EndpointSettings, event_type: str | None, owner: str | None) -> bool:
    """An event with an owner reaches its endpoints and those without one; an event without an owner
    reaches only the latter."""
    return settings.owner in (None, owner) and any(
        matches(types, event_type) for types in settings.types
    )
