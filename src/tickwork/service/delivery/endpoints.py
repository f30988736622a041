"""Delivers events to endpoints: the built-in handler of their hidden queue.

```
  message ──▶ the endpoint is gone: ack     disabled, or its breaker is open: wait
     │        it was delivered before: ack  over a limit: wait
     ▼
  one signed request ──▶ record the attempt, which decides the endpoint's health
                             └──▶ ack · retry after its table · dead letter
```

Waiting costs no attempt. The record is fenced by the claim; when the claim is lost, another worker
has the message. A crash between the record and the ack sends nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from tickwork.app.declarations import Consumer, hidden_consumer
from tickwork.app.message import ClaimedMessage, Message
from tickwork.channel.channels import WebhookSink
from tickwork.channel.host_limits import HostLimits
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    ENDPOINTS_SETTINGS,
    AttemptRecord,
    DeliveryStatus,
    Endpoint,
    EndpointEnvelope,
    EndpointWait,
    read_endpoint_envelope,
)
from tickwork.core.delivery.endpoint_request import (
    Keys,
    attempt_of,
    delivery_headers,
    endpoint_request,
    gate,
    outcome_of,
    probe_seconds,
    seconds_until_own_time,
    spread,
)
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.pace import Limit
from tickwork.core.message.outcome import EndpointDisabled, Outcome, Permanent, Snoozed, Succeeded
from tickwork.core.model import SYSTEM, QueueSettings, Scope
from tickwork.core.model import Message as Stored
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.core.queue.rooms import ClaimGate
from tickwork.errors import InvalidInput, NotFound, StoreBroken, StoreUnavailable
from tickwork.ops.endpoints import endpoint_keys
from tickwork.ops.outside import Box
from tickwork.service.delivery.deliver import IN_FLIGHT_MAX
from tickwork.service.worker.kept_values import KeptValues
from tickwork.store.contract import Store
from tickwork.store.shared.group_commit import Coalescer

ENDPOINT_KEPT_SECONDS, KEYS_KEPT_SECONDS = 1.0, 30.0
"""Seconds that an endpoint and its keys are kept before they are read again. Keys are kept for one
`updated_at` of their endpoint, which a rotation changes."""

UNAVAILABLE_SECONDS = 5.0
"""Seconds that a message waits if the database does not answer."""

NO_KEYS_SECONDS = 60.0
"""Seconds that a message waits if the secrets of its endpoint cannot be read."""

RECORD_TRIES_MAX, RECORD_PAUSE_SECONDS = 5, 1.0

OnAnswer = Callable[[], None]
"""Called when the receiver has answered: the limits let the next one start while it is recorded."""

Send = Callable[[bool, OnAnswer], Awaitable[Outcome]]
"""Sends a message; True for the probe of a breaker."""

_log = logging.getLogger("tickwork")


class EndpointDeliverer:
    """Delivers messages to endpoints. With `keeps` False it reads every endpoint anew."""

    def __init__(
        self,
        store: Store,
        webhooks: WebhookSink,
        box: Callable[[], Box],
        limits: HostLimits,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        keeps: bool = True,
    ) -> None:
        self._store = store
        self.webhooks = webhooks
        self._box = box
        self._limits, self.clock = limits, clock
        self._endpoints: KeptValues[Endpoint] = KeptValues(
            ENDPOINT_KEPT_SECONDS if keeps else 0.0, monotonic
        )
        self._shared: KeptValues[NamedLimit] = KeptValues(
            ENDPOINT_KEPT_SECONDS if keeps else 0.0, monotonic
        )
        self._keys: KeptValues[Keys] = KeptValues(KEYS_KEPT_SECONDS if keeps else 0.0, monotonic)
        self._records: Coalescer[AttemptRecord, bool] = Coalescer(
            lambda records: store.endpoints.record(SYSTEM, records)
        )

    async def handle(self, message: Message[Any]) -> None:
        """Delivers one message and settles it."""
        assert isinstance(message, ClaimedMessage)
        stored = message.stored
        try:
            envelope = read_endpoint_envelope(stored.body)
        except msgspec.MsgspecError as error:
            message.settle(Permanent(f"the message is not a delivery: {error}"))
            return
        try:
            outcome = await self._deliver(envelope, stored)
        except NotFound:
            outcome = Permanent("its endpoint was deleted")
        except StoreUnavailable:
            outcome = Snoozed(spread(UNAVAILABLE_SECONDS, stored.id))
        message.settle(outcome)

    async def endpoint(self, tenant: str, name_or_id: str | UUID) -> Endpoint:
        """An endpoint of a tenant, at most a second old. Raises `NotFound`."""
        read = partial(self._store.endpoints.get, Scope(tenant), name_or_id)
        found = await self._endpoints.get((tenant, name_or_id), read)
        if found.disabled_at is not None or found.health.open_until is not None:
            # What is kept may be older than the call that made this message visible again.
            found = await read()
        return found

    async def through(
        self,
        endpoint: Endpoint,
        stored: Stored,
        send: Send,
        queue: QueueSettings = ENDPOINTS_SETTINGS,
        receiver: str | None = None,
    ) -> Outcome:
        """The outcome of `send`; or a wait, if the endpoint's health or a limit does not let it
        through. `queue` says how long a message
        is kept for a disabled endpoint. `receiver` is that of a message that does not name it."""
        now = await self._now(endpoint)
        through = gate(endpoint, stored, now, queue.retention_seconds)
        if through.error is not None:
            return EndpointDisabled(through.error)
        if through.wait_seconds:
            waits = () if endpoint.disabled_at is None else (EndpointWait(endpoint.id),)
            return Snoozed(through.wait_seconds, effects=waits)
        settings = endpoint.settings
        name = f"endpoint {endpoint.name} of {endpoint.tenant}"
        own = {name: Limit(settings.rate_per_second, settings.concurrency)}
        shared = await self._shared_limit(endpoint)
        if shared is not None:
            name = f"limit {shared.name} of {endpoint.tenant}"
            own[name] = Limit(shared.rate_per_second, shared.concurrency)
        await self._limits.wait_for_share(stored.tenant)
        line = stored.receiver if receiver is None else receiver
        admission = self._limits.admitted(stored.tenant, [settings.url], own, line)
        async with admission as wait_seconds:
            limited_by = admission.limited_by
            if not wait_seconds and shared is not None:
                # Other nodes and queues share it.
                scope, claim = Scope(endpoint.tenant), stored.current_claim
                wait_seconds = await self._store.limits.take(scope, shared.name, claim)
                limited_by = f"limit {shared.name} lets no more through now"
            if wait_seconds:
                return Snoozed(wait_seconds, stored.limit_note(limited_by))
            if through.is_probe:
                seconds = probe_seconds(settings)
                if not await self._store.endpoints.probe(SYSTEM, endpoint.id, seconds):
                    return Snoozed(spread(seconds, stored.id))
            return await send(through.is_probe, admission.answered)

    async def _shared_limit(self, endpoint: Endpoint) -> NamedLimit | None:
        """The limit that an endpoint names; None if it names none, or there is none."""
        name, scope = endpoint.settings.limit, Scope(endpoint.tenant)
        if name is None:
            return None
        try:
            read = partial(self._store.limits.get, scope, name)
            return await self._shared.get((endpoint.tenant, name), read)
        except NotFound:
            return None

    async def keys(self, endpoint: Endpoint) -> Keys | None:
        """The secrets of an endpoint; None if they cannot be read, which is logged."""
        try:
            return await self._keys.get(
                (endpoint.id, endpoint.updated_at), partial(self._read_keys, endpoint)
            )
        except (InvalidInput, StoreBroken) as error:
            _log.error("endpoint %s: its secrets cannot be read: %s", endpoint.name, error)
            return None

    async def record(
        self,
        endpoint: Endpoint,
        stored: Stored,
        result: Delivery,
        *,
        delivery_id: UUID | None,
        at: datetime,
        is_probe: bool,
    ) -> bool:
        """Records an attempt, which decides the endpoint's health; whether the claim is still
        valid."""
        record = AttemptRecord(
            claim=stored.current_claim,
            delivery_id=delivery_id,
            endpoint_id=endpoint.id,
            attempt=attempt_of(result, stored.attempts + 1, at),
            is_probe=is_probe,
            is_gone=result.is_gone,
            wish_seconds=result.retry_after_seconds or 0.0,
        )
        is_valid = await self._record(record)
        if not result.is_delivered or is_probe:
            self._endpoints.forget((endpoint.tenant, endpoint.id))
            self._endpoints.forget((endpoint.tenant, endpoint.name))
        return is_valid

    async def _deliver(self, envelope: EndpointEnvelope, stored: Stored) -> Outcome:
        endpoint = await self.endpoint(stored.tenant, envelope.endpoint)
        if await self._is_delivered(envelope, stored):
            return Succeeded()
        send = partial(self._send, endpoint, envelope, stored)
        return await self.through(endpoint, stored, send)

    async def _send(
        self,
        endpoint: Endpoint,
        envelope: EndpointEnvelope,
        stored: Stored,
        is_probe: bool,
        on_answer: OnAnswer,
    ) -> Outcome:
        settings = endpoint.settings
        attempt = stored.attempts + 1
        at = self.clock()
        if (keys := await self.keys(endpoint)) is None:
            return Snoozed(spread(NO_KEYS_SECONDS, stored.id))
        request = endpoint_request(
            settings,
            keys,
            webhook_id=str(envelope.delivery),
            body=msgspec.json.encode(envelope.event),
            headers=delivery_headers(envelope.delivery, attempt=attempt, fence=stored.claim),
            sent_at=at,
        )
        result = await self.webhooks.deliver(request)
        on_answer()
        is_valid = await self.record(
            endpoint, stored, result, delivery_id=envelope.delivery, at=at, is_probe=is_probe
        )
        if not is_valid:
            return Snoozed(0.0)  # The store refuses it: another worker has the message.
        own = seconds_until_own_time(endpoint, stored.id, await self._now(endpoint))
        return outcome_of(result, settings, attempt, endpoint_id=endpoint.id, own_seconds=own)

    async def _record(self, record: AttemptRecord) -> bool:
        for _ in range(RECORD_TRIES_MAX - 1):
            try:
                return await self._records.submit(record)
            except StoreUnavailable:
                await asyncio.sleep(RECORD_PAUSE_SECONDS)
        return await self._records.submit(record)

    async def _is_delivered(self, envelope: EndpointEnvelope, stored: Stored) -> bool:
        """Whether an earlier claim delivered it and then crashed."""
        if stored.claim <= 1:
            return False
        scope = Scope(stored.tenant)
        found = await self._store.endpoints.delivery(scope, envelope.delivery)
        return found.status is DeliveryStatus.DELIVERED

    async def _now(self, endpoint: Endpoint) -> datetime:
        """The time of the database, if it matters: the breaker's times are its own."""
        return self.clock() if endpoint.health.open_until is None else await self._store.now()

    async def _read_keys(self, endpoint: Endpoint) -> Keys:
        return await endpoint_keys(self._store, endpoint, self._box())


def endpoints_consumer(
    deliverer: EndpointDeliverer,
    max_concurrency: int = IN_FLIGHT_MAX,
    gate: ClaimGate | None = None,
) -> Consumer:
    """The consumer of the hidden queue of endpoints."""
    return hidden_consumer(
        ENDPOINTS_QUEUE,
        ENDPOINTS_SETTINGS,
        deliverer.handle,
        max_concurrency,
        body_type=msgspec.Raw,
        gate=gate,
    )
