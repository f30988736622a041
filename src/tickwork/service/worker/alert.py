"""Tells owners what died or was disabled: the built-in consumer of the hidden queue of alerts.

It is a batch consumer: events that come together are one alert. A tenant gets at most one alert in
fifteen minutes; what happens meanwhile waits, without losing an attempt. An alert that cannot be
delivered becomes a dead letter, about which no event is published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tickwork.app.declarations import Consumer
from tickwork.app.message import ClaimedBatch, ClaimedMessage, MessageBatch
from tickwork.channel.channels import Channels
from tickwork.core.delivery.alert import (
    ALERTS_QUEUE,
    ALERTS_SETTINGS,
    REST_SECONDS,
    alert_payload,
    outside_target,
)
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.target import TIMEOUT_SECONDS
from tickwork.core.message.outcome import Failed, Permanent, Snoozed
from tickwork.core.model import Scope
from tickwork.core.when import iso
from tickwork.ops.alerts import get_alerts
from tickwork.ops.webhook_secret import Box, signing_keys
from tickwork.service.worker.deliver import hidden_consumer
from tickwork.store.contract import Store

WORK, SENT_AT = "tickwork.alerts", "sent_at"
"""Work key and name under which a tenant's last alert is recorded."""


class Alerter:
    """Sends alerts over channels."""

    def __init__(self, store: Store, channels: Channels, box: Callable[[], Box]) -> None:
        self._store, self._channels, self._box = store, channels, box

    async def handle(self, batch: MessageBatch[Any]) -> None:
        """Sends one alert for each tenant of a batch."""
        assert isinstance(batch, ClaimedBatch)
        by_tenant = defaultdict[str, list[ClaimedMessage[Any]]](list)
        for message in batch.claimed:
            by_tenant[message.tenant].append(message)
        for tenant, messages in by_tenant.items():
            await self._alert(Scope(tenant), messages)

    async def _alert(self, scope: Scope, messages: Sequence[ClaimedMessage[Any]]) -> None:
        if not (target := await get_alerts(self._store, scope, self._box())):
            return
        now = await self._store.now()
        sent = (await self._store.progress.get(scope, WORK)).get(SENT_AT)
        passed = None if sent is None else (now - datetime.fromisoformat(sent)).total_seconds()
        if passed is not None and 0 <= passed < REST_SECONDS:
            for each in messages:
                each.settle(Snoozed(REST_SECONDS - passed))
            return
        first = messages[0].stored
        results = await self._channels.deliver(
            {target.way: outside_target(target)},
            alert_payload([(each.type or "", each.body) for each in messages]),
            first,
            keys=await signing_keys(self._store, scope, self._box()),
            schedule_name=_no_name,
            timeout_seconds=TIMEOUT_SECONDS,
            arrived=_ignore,
        )
        result = results[target.way]
        if result.is_delivered:
            await self._store.progress.record(scope, first.current_claim, WORK, {SENT_AT: iso(now)})
            return
        error = result.error or "failed"
        for each in messages:
            each.settle(Permanent(error) if result.is_permanent else Failed(error))


def alerts_consumer(alerter: Alerter) -> Consumer:
    """The consumer of the hidden queue."""
    return hidden_consumer(ALERTS_QUEUE, ALERTS_SETTINGS, alerter.handle, is_batch=True)


async def _no_name() -> None:
    """An alert belongs to no schedule."""


async def _ignore(_name: str, _result: Delivery) -> None:
    """There is one channel: its result is that of the alert."""
