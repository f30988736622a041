"""Delivers the messages of the hidden queue of deliveries: the built-in handler.

Every node with the role `worker` runs it. A delivery is an ordinary message: claims, retries, dead
letters and fair shares between tenants are those of its queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tickwork.app.declarations import Consumer, HandlerDeclaration, QueueDeclaration
from tickwork.app.message import ClaimedMessage, Message
from tickwork.app.payloads import Payload
from tickwork.channel.channels import Channels
from tickwork.channel.host_limits import HostLimits
from tickwork.clock import monotonic
from tickwork.core.delivery.request import outcome_of
from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    read_envelope,
    urls_of,
)
from tickwork.core.message.outcome import Delivered, Permanent, Snoozed
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.ops.schedules.lookup import get_schedule
from tickwork.ops.webhook_secret import Box, signing_keys
from tickwork.store.contract import Store

KEYS_KEPT_SECONDS = 30.0
"""Seconds that signing keys are kept before they are read again."""

KEYS_KEPT_MAX = 10_000


class Deliverer:
    """Delivers messages over channels."""

    def __init__(
        self, store: Store, channels: Channels, box: Callable[[], Box], limits: HostLimits
    ) -> None:
        self._store, self._channels, self._box, self._limits = store, channels, box, limits
        self._keys: dict[str, tuple[float, tuple[bytes, ...]]] = {}

    async def handle(self, message: Message[Any]) -> None:
        """Delivers one message and settles it."""
        assert isinstance(message, ClaimedMessage)
        stored = message.stored
        try:
            envelope = read_envelope(stored.body)
        except msgspec.MsgspecError as error:
            message.settle(Delivered(Permanent(f"the delivery has no valid target: {error}")))
            return
        scope = Scope(stored.tenant)

        async def schedule_name() -> str | None:
            if stored.schedule_id is None:
                return None
            try:
                return (await get_schedule(self._store, scope, stored.schedule_id)).name
            except NotFound:
                return None

        with self._limits.admitted(url for _, url in urls_of(envelope.target)) as wait_seconds:
            if wait_seconds:
                message.settle(Snoozed(wait_seconds))
                return
            keys = await self._keys_of(stored.tenant)
            results = await self._channels.deliver(
                envelope, stored, keys=keys, schedule_name=schedule_name
            )
        message.settle(outcome_of(results))

    async def _keys_of(self, tenant: str) -> tuple[bytes, ...]:
        until, keys = self._keys.get(tenant, (0.0, ()))
        if until < monotonic():
            keys = await signing_keys(self._store, Scope(tenant), self._box())
            if len(self._keys) >= KEYS_KEPT_MAX:
                self._keys.clear()
            self._keys[tenant] = (monotonic() + KEYS_KEPT_SECONDS, keys)
        return keys


def deliveries_consumer(deliverer: Deliverer) -> Consumer:
    """The consumer of the hidden queue."""
    queue = QueueDeclaration(
        name=DELIVERIES_QUEUE,
        settings=DELIVERIES_SETTINGS,
        payload=Payload[Any](Any),
        is_shared=True,
        has_settings=True,
    )
    handler = HandlerDeclaration(
        queue=DELIVERIES_QUEUE,
        function=deliverer.handle,
        payload=queue.payload,
        is_batch=False,
    )
    return Consumer(queue, None, {None: handler})
