"""Deliveries to endpoints as a user sees them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, structs

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.delivery.endpoint import Attempt, DeliveryStatus, EndpointDelivery


class DeliveryAnswer(Struct, frozen=True, kw_only=True):
    """A delivery of an event to an endpoint: waiting, delivered or dead."""

    id: Id
    tenant: str
    endpoint_id: Id
    message_id: Id
    event_id: str
    type: str
    status: DeliveryStatus
    attempts: int
    published_at: datetime
    delivered_at: datetime | None
    last_attempt_at: datetime | None
    last_code: int | None
    last_error: str | None

    @classmethod
    def of(cls, delivery: EndpointDelivery) -> DeliveryAnswer:
        """The answer for a stored delivery."""
        return cls(id=Id.of(Prefix.DELIVERY, delivery.id), **fields_as_in(delivery, cls))


class DeliveryHistory(DeliveryAnswer, frozen=True, kw_only=True):
    """A delivery with its attempts, in order."""

    history: tuple[Attempt, ...]

    @classmethod
    def with_attempts(
        cls, delivery: DeliveryAnswer, history: tuple[Attempt, ...]
    ) -> DeliveryHistory:
        """The delivery with these attempts."""
        return cls(**structs.asdict(delivery), history=history)
