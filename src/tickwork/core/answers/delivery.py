"""Deliveries to endpoints as a user sees them."""

from __future__ import annotations

from msgspec import structs

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.delivery.endpoint import Attempt, DeliveryFields, EndpointDelivery


class DeliveryAnswer(DeliveryFields[Id], frozen=True, kw_only=True):
    """A delivery of an event to an endpoint: waiting, delivered or dead."""

    id: Id
    endpoint_id: Id
    message_id: Id

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
