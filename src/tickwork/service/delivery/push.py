"""Pushes the messages of queues to endpoints: their built-in consumers.

Every node with the role `worker` looks every few seconds which queues push, and consumes them. It
claims nothing while the endpoint of a queue is missing or disabled, or its breaker is open: the
messages stay where they are, in order, and lose no attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from tickwork.app.declarations import hidden_consumer
from tickwork.app.message import ClaimedMessage, Message
from tickwork.core.delivery.endpoint import HEALTHY, Endpoint
from tickwork.core.delivery.endpoint_request import spread
from tickwork.core.delivery.push import (
    PUSH_QUEUES_MAX,
    WAITING_SECONDS,
    PushQueue,
    is_busy,
    push_outcome,
    push_request,
)
from tickwork.core.delivery.receiver import receiver_of_endpoint
from tickwork.core.message.outcome import Outcome, Snoozed
from tickwork.core.model import SYSTEM, Scope, StoredQueue
from tickwork.core.model import Message as Stored
from tickwork.core.queue.rooms import ClaimGate
from tickwork.errors import NotFound, StoreUnavailable
from tickwork.service.delivery.deliver import IN_FLIGHT_MAX
from tickwork.service.delivery.endpoints import (
    NO_KEYS_SECONDS,
    UNAVAILABLE_SECONDS,
    EndpointDeliverer,
    OnAnswer,
)
from tickwork.service.worker.found_consumers import FoundConsumer, FoundNow
from tickwork.store.contract import Store

_log = logging.getLogger("tickwork")


class Pusher:
    """Finds queues that push, and makes their consumers, each with the gate of its receiver."""

    def __init__(
        self,
        store: Store,
        deliverer: EndpointDeliverer,
        max_concurrency: int = IN_FLIGHT_MAX,
        gate_of: Callable[[str], ClaimGate] | None = None,
    ) -> None:
        self._store, self._deliverer = store, deliverer
        self._max_concurrency, self._gate_of = max_concurrency, gate_of
        self._warned: set[UUID] = set()

    async def find(self) -> FoundNow:
        """A consumer for each queue that pushes and whose endpoint takes messages now."""
        found = await self._store.endpoints.pushing_queues(SYSTEM, PUSH_QUEUES_MAX)
        if len(found) == PUSH_QUEUES_MAX:
            _log.warning("%d queues push; a node pushes no more than that", len(found))
        self._warn_of_missing(found)
        opening = [
            push_queue.open_until for push_queue in found if push_queue.open_until is not None
        ]
        ready = [self._consumer(push_queue.queue) for push_queue in found if push_queue.is_ready]
        return FoundNow(ready, min(opening, default=None))

    def _consumer(self, queue: StoredQueue) -> FoundConsumer:
        async def handle(message: Message[Any]) -> None:
            await self.handle(queue, message)

        assert queue.settings.push_to is not None
        receiver = receiver_of_endpoint(queue.settings.push_to)
        gate = None if self._gate_of is None else self._gate_of(receiver)
        consumer = hidden_consumer(
            queue.name, queue.settings, handle, self._max_concurrency, gate=gate
        )
        return FoundConsumer(consumer, queue, Scope(queue.tenant))

    async def handle(self, queue: StoredQueue, message: Message[Any]) -> None:
        """Pushes one message and settles it."""
        assert isinstance(message, ClaimedMessage)
        stored, name = message.stored, queue.settings.push_to
        assert name is not None
        outcome: Outcome
        try:
            endpoint = await self._deliverer.endpoint(stored.tenant, name)
            if endpoint.disabled_at is not None:
                outcome = Snoozed(spread(WAITING_SECONDS, stored.id))
            else:
                send = partial(self._send, endpoint, stored, queue.name)
                outcome = await self._deliverer.through(
                    endpoint, stored, send, receiver=receiver_of_endpoint(name)
                )
        except NotFound:
            outcome = Snoozed(spread(WAITING_SECONDS, stored.id))
        except StoreUnavailable:
            outcome = Snoozed(spread(UNAVAILABLE_SECONDS, stored.id))
        message.settle(outcome)

    async def _send(
        self,
        endpoint: Endpoint,
        stored: Stored,
        queue: str,
        is_probe: bool,
        on_answer: OnAnswer,
    ) -> Outcome:
        deliverer, at = self._deliverer, self._deliverer.clock()
        if (keys := await deliverer.keys(endpoint)) is None:
            return Snoozed(spread(NO_KEYS_SECONDS, stored.id))
        request = push_request(endpoint.settings, keys, stored, queue, at)
        result = await deliverer.webhooks.deliver(request)
        on_answer()
        is_news = not result.is_delivered or is_probe or endpoint.health != HEALTHY
        if is_news and not is_busy(result):
            # A success of a healthy endpoint says nothing new, so that a push writes nothing more.
            await deliverer.record(
                endpoint, stored, result, delivery_id=None, at=at, is_probe=is_probe
            )
        return push_outcome(result)

    def _warn_of_missing(self, found: Sequence[PushQueue]) -> None:
        """Once for each queue without an endpoint."""
        missing = {
            push_queue.queue.id: push_queue.queue
            for push_queue in found
            if push_queue.queue.tenant is not None and not push_queue.has_endpoint
        }
        for queue_id, queue in missing.items():
            if queue_id not in self._warned:
                _log.warning(
                    "queue %s of %s pushes to the endpoint %s, which does not exist; its messages "
                    "wait until you create it",
                    queue.name,
                    queue.tenant,
                    queue.settings.push_to,
                )
        self._warned = set(missing)
