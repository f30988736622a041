"""Deliveries of a schedule's slots, and of results that found no endpoint, to an endpoint.

The message of the slot is that of the delivery: its schedule says how often it is retried, and the
delivery ends with the firing. Everything else is the endpoint's: address, headers, secrets, health
and limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.delivery.callback import ACCEPTED, callback_target, waiting
from tickwork.core.delivery.channels import outcome_of, retry_terms
from tickwork.core.delivery.endpoint import EndpointSettings, EndpointWait
from tickwork.core.delivery.endpoint_request import DISABLED_SECONDS, Keys, endpoint_request
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.request import WebhookRequest, own_headers
from tickwork.core.delivery.target import ENDPOINT_CHANNEL, Envelope
from tickwork.core.message.outcome import Delivered, Permanent, Snoozed
from tickwork.core.model import Message, NewMessage
from tickwork.core.schedule.model import FIRED_TYPE
from tickwork.core.stable_hash import derived_id


class SlotDelivery(Struct, frozen=True, kw_only=True):
    """A delivery whose message exists already. Its event is kept so that it can be sent again,
    unless it `is_sent_once`. An answer with the `running_code` does not end it."""

    id: UUID
    endpoint_id: UUID
    message_id: UUID
    event: NewMessage
    is_sent_once: bool = False
    running_code: int | None = None


def slot_delivery(message: Message, endpoint_id: UUID, envelope: Envelope) -> SlotDelivery:
    """The delivery of a slot to an endpoint: the same for every attempt and every replay."""
    own_id = derived_id(endpoint_id, f"{message.tenant}:{message.work_key}")
    event = NewMessage(
        id=own_id,
        body=msgspec.json.encode(envelope.payload),
        type=FIRED_TYPE if message.slot is not None else message.type or FIRED_TYPE,
        event_id=message.work_key,
        priority=message.priority,
        source=message.source,
        correlation_id=message.correlation_id,
        causation_id=message.causation_id,
        hops=message.hops,
    )
    return SlotDelivery(
        id=own_id,
        endpoint_id=endpoint_id,
        message_id=message.id,
        event=event,
        is_sent_once=envelope.is_at_most_once,
        running_code=None if callback_target(envelope) is None else ACCEPTED,
    )


def slot_request(
    settings: EndpointSettings,
    keys: Keys,
    delivery: SlotDelivery,
    message: Message,
    headers: Mapping[str, str],
    sent_at: datetime,
) -> WebhookRequest:
    """The signed request of a slot, with the payload as its body and some more headers."""
    return endpoint_request(
        settings,
        keys,
        webhook_id=str(delivery.id),
        body=delivery.event.body,
        headers={**own_headers(message), **headers},
        sent_at=sent_at,
    )


def slot_outcome(
    result: Delivery, envelope: Envelope, message: Message, endpoint_id: UUID
) -> Delivered | Snoozed:
    """What follows for the message. It waits if the receiver is gone, because its endpoint is
    disabled, unless it is sent at most once; and if the receiver completes it later."""
    callback = callback_target(envelope)
    if callback is not None and result.code == ACCEPTED:
        return waiting(message, callback)
    if result.is_gone and not envelope.is_at_most_once:
        return Snoozed(DISABLED_SECONDS, effects=(EndpointWait(endpoint_id),))
    return outcome_of({ENDPOINT_CHANNEL: result}, retry=retry_terms(envelope))


def no_endpoint(name: str) -> Delivered:
    """The endpoint does not exist: the firing dies, and can be replayed."""
    advice = "create it and replay this dead letter, or change the schedule"
    return Delivered(Permanent(f"there is no endpoint {name}; {advice}"))
