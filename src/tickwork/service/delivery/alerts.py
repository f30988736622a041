"""Sends owners what died or was disabled: the built-in consumer of the hidden queue of alerts.

It is a batch consumer: events that come together are one alert. A tenant gets at most one alert in
fifteen minutes; what happens meanwhile waits, without losing an attempt. An alert that cannot be
delivered becomes a dead letter, about which no event is published.

Several nodes may have events of one tenant at once. Each node that wants to send

```
  1. writes its own row with the time        2. reads the rows of all nodes
        another row is from the last 15 minutes: takes its own back, and waits
        otherwise: sends; takes its row back if that fails
```

Of two nodes, the one that writes later sees the row of the other. A node that stops after step 1
delays the next alert by at most fifteen minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tickwork.app.declarations import Consumer, hidden_consumer
from tickwork.app.message import ClaimedBatch, ClaimedMessage, MessageBatch
from tickwork.channel.channels import Channels
from tickwork.core.delivery.alert import (
    ALERTS_QUEUE,
    ALERTS_SETTINGS,
    NOT_SENT,
    alert_payload,
    outside_target,
    rest_seconds,
)
from tickwork.core.delivery.endpoint_request import spread
from tickwork.core.delivery.target import TIMEOUT_SECONDS
from tickwork.core.message.outcome import Failed, Outcome, Permanent, Snoozed, Succeeded
from tickwork.core.message.system_events import ALERTED
from tickwork.core.model import Message as Stored
from tickwork.core.model import Scope
from tickwork.core.when import iso
from tickwork.errors import StoreUnavailable, TickworkError
from tickwork.ops.alerts import get_alerts
from tickwork.ops.context import Context
from tickwork.ops.outside import Box, Outside
from tickwork.ops.webhook_secret import signing_keys
from tickwork.store.contract import Store

WORK = "tickwork.alerts"
"""Work key under which a tenant's alerts are recorded: one row for each node, with the time."""

BUSY_SECONDS = 5.0
"""Seconds that events wait if two nodes want to send at once, or the database does not answer."""

NO_SECRET_SECONDS = 60.0
"""Seconds that events wait if the target or the secret of their tenant cannot be read."""

_log = logging.getLogger("tickwork")


class Alerter:
    """Sends alerts over channels."""

    def __init__(self, store: Store, channels: Channels, box: Callable[[], Box]) -> None:
        self._store = store
        self._channels = channels
        self._box = box

    async def handle(self, batch: MessageBatch[Any]) -> None:
        """Sends one alert for each tenant of a batch. A failure is that of its tenant alone."""
        assert isinstance(batch, ClaimedBatch)
        by_tenant = defaultdict[str, list[ClaimedMessage[Any]]](list)
        for message in batch.claimed:
            by_tenant[message.tenant].append(message)
        await asyncio.gather(*(self._settle(*group) for group in by_tenant.items()))

    async def _settle(self, tenant: str, messages: Sequence[ClaimedMessage[Any]]) -> None:
        first = messages[0].stored
        outcome: Outcome
        try:
            outcome = await self._alert(Scope(tenant), messages)
        except StoreUnavailable:
            outcome = Snoozed(spread(BUSY_SECONDS, first.id))
        except (TickworkError, msgspec.MsgspecError) as error:
            _log.error("tenant %s: its alert cannot be sent: %s", tenant, error)
            outcome = Snoozed(spread(NO_SECRET_SECONDS, first.id))
        for message in messages:
            message.settle(outcome)

    async def _alert(self, scope: Scope, messages: Sequence[ClaimedMessage[Any]]) -> Outcome:
        """Sends an alert about the messages, unless the tenant must rest."""
        messages = [message for message in messages if not _is_alerted(message)]
        context = Context(self._store, scope, outside=Outside(secret_box=self._box))
        if not messages or not (target := await get_alerts(context)):
            return Succeeded()
        first, now = messages[0].stored, await self._store.now()
        keys = await signing_keys(context)
        if wait_seconds := rest_seconds(await self._store.progress.get(scope, WORK), now):
            return Snoozed(wait_seconds)
        if not await self._record(first, iso(now)):
            return Snoozed(0.0)  # The store refuses it: another worker has the messages.
        rows = await self._store.progress.get(scope, WORK)
        if rest_seconds(rows, now, besides=str(first.holder)):
            await self._record(first, NOT_SENT)
            return Snoozed(spread(BUSY_SECONDS, first.id))
        results = await self._channels.deliver(
            {target.way: outside_target(target)},
            alert_payload([(message.type or "", message.body) for message in messages], target.way),
            first,
            keys=keys,
            schedule_name=None,
            timeout_seconds=TIMEOUT_SECONDS,
        )
        result = results[target.way]
        if result.is_delivered:
            return Succeeded()
        with suppress(StoreUnavailable):  # Then the retry waits for the whole rest.
            await self._record(first, NOT_SENT)
        error = result.error or "failed"
        return Permanent(error) if result.is_permanent else Failed(error)

    async def _record(self, first: Stored, sent_at: str) -> bool:
        """Writes the row of this node; False if it has lost the messages."""
        return await self._store.progress.record(
            Scope(first.tenant), first.current_claim, WORK, {str(first.holder): sent_at}
        )


def _is_alerted(message: ClaimedMessage[Any]) -> bool:
    """Whether the node has sent the alert itself, before it could publish the event."""
    return isinstance(message.body, dict) and message.body.get(ALERTED) is True


def alerts_consumer(alerter: Alerter) -> Consumer:
    """The consumer of the hidden queue. One batch at a time: a node has one row."""
    return hidden_consumer(ALERTS_QUEUE, ALERTS_SETTINGS, alerter.handle, 1, is_batch=True)
