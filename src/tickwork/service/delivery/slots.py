"""Delivers the slots of schedules whose target is an endpoint."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from tickwork.core.answers.ids import parse_public_id
from tickwork.core.delivery.callback import NO_PUBLIC_URL, callback_target
from tickwork.core.delivery.channels import outcome_of, result_row, retry_terms
from tickwork.core.delivery.endpoint import DeliveryStatus, Endpoint
from tickwork.core.delivery.endpoint_request import spread
from tickwork.core.delivery.slot_delivery import (
    SlotDelivery,
    no_endpoint,
    slot_delivery,
    slot_outcome,
    slot_request,
)
from tickwork.core.delivery.target import (
    DELIVERIES_SETTINGS,
    ENDPOINT_CHANNEL,
    EndpointTarget,
    Envelope,
)
from tickwork.core.message.outcome import Delivered, Failed, Outcome, Snoozed, Succeeded
from tickwork.core.model import Message, Scope
from tickwork.errors import ClaimLost, NotFound, StoreUnavailable
from tickwork.service.delivery.endpoints import (
    NO_KEYS_SECONDS,
    UNAVAILABLE_SECONDS,
    EndpointDeliverer,
    OnAnswer,
)
from tickwork.service.delivery.progress import DeliveryProgress
from tickwork.store.contract import Store


class SlotDeliverer:
    """Delivers slots to endpoints, with their signature, health and limits."""

    def __init__(
        self, store: Store, deliverer: EndpointDeliverer, *, public_url: str | None = None
    ) -> None:
        self._store = store
        self._deliverer = deliverer
        self._public_url = public_url
        self._progress = DeliveryProgress(store)

    async def deliver(self, stored: Message, envelope: Envelope) -> Outcome:
        """Delivers the message of a slot and returns its outcome."""
        assert isinstance(envelope.target, EndpointTarget)
        name = envelope.target.endpoint
        try:
            endpoint = await self._deliverer.endpoint(stored.tenant, parse_public_id(name) or name)
            delivery = slot_delivery(stored, endpoint.id, envelope)
            if not await self._begin(stored, delivery):
                return Delivered(Succeeded())
            if known := await self._progress.known(stored, envelope):
                return outcome_of(known, retry=retry_terms(envelope))
            send = partial(self._send, endpoint, stored, envelope, delivery)
            return await self._deliverer.through(endpoint, stored, send, DELIVERIES_SETTINGS)
        except NotFound:
            return no_endpoint(name)
        except ClaimLost:
            return Snoozed(0.0)  # The store refuses it: another worker has the message.
        except StoreUnavailable:
            return Snoozed(spread(UNAVAILABLE_SECONDS, stored.id))

    async def _begin(self, stored: Message, delivery: SlotDelivery) -> bool:
        """Makes a delivery one can list; False if it arrived before, under an earlier claim or in
        an earlier message."""
        scope = Scope(stored.tenant)
        if stored.claim > 1:
            with suppress(NotFound):
                known = await self._store.endpoints.delivery(scope, delivery.id)
                if known.message_id == stored.id and known.status is not DeliveryStatus.DELIVERED:
                    return True
        return await self._store.endpoints.begin(scope, delivery)

    async def _send(
        self,
        endpoint: Endpoint,
        stored: Message,
        envelope: Envelope,
        delivery: SlotDelivery,
        is_probe: bool,
        on_answer: OnAnswer,
    ) -> Outcome:
        deliverer = self._deliverer
        progress = self._progress
        at = self._deliverer.clock()
        if (keys := await deliverer.keys(endpoint)) is None:
            return Snoozed(spread(NO_KEYS_SECONDS, stored.id))
        headers: dict[str, str] = {}
        if callback_target(envelope) is not None:
            if self._public_url is None:
                return Delivered(Failed(NO_PUBLIC_URL))
            headers = await progress.callback_headers(stored, self._public_url)
        await progress.begin(stored, envelope, {})
        request = slot_request(endpoint.settings, keys, delivery, stored, headers, at)
        result = await deliverer.webhooks.deliver(request)
        on_answer()
        if envelope.is_at_most_once and not result.is_delivered:
            with suppress(StoreUnavailable):  # A replay reads it; the attempt's record follows.
                await progress.record(stored, result_row(ENDPOINT_CHANNEL, result))
        is_valid = await deliverer.record(
            endpoint, stored, result, delivery_id=delivery.id, at=at, is_probe=is_probe
        )
        if not is_valid:
            return Snoozed(0.0)  # The store refuses it: another worker has the message.
        return slot_outcome(result, envelope, stored, endpoint.id)
