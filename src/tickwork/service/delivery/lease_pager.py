"""Notifies the operator that a node is about to lose its lease, without the database.

An alert goes through a queue of the database (`service.delivery.alerts`). A node that cannot renew
its lease usually cannot reach that queue. So it keeps where the operator's alerts go, and the
secrets that sign them, in memory: it reads them while the database answers, and sends the alert
itself when a third of the lease is left. Nothing of it is written to disk or to the log.

The operator is the tenant `default`. A node sends at most one such alert in fifteen minutes. The
system event that it publishes when the database answers again says that the alert was delivered;
then no second one is sent (`ALERTED`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from tickwork.channel.channels import Channels
from tickwork.clock import monotonic, now
from tickwork.core.delivery.alert import (
    REST_SECONDS,
    AlertTarget,
    alert_payload,
    outside_target,
)
from tickwork.core.entity.call import entered_message
from tickwork.core.message.system_events import SYSTEM_TENANT
from tickwork.core.model import NewMessage, Scope
from tickwork.errors import StoreUnavailable, TickworkError
from tickwork.ops.alerts import get_alerts
from tickwork.ops.context import Context
from tickwork.ops.outside import Box, Outside
from tickwork.ops.webhook_secret import signing_keys
from tickwork.store.contract import Store

REFRESH_SECONDS = 30.0
"""Seconds between two reads of the target and its secrets."""

PAGE_SECONDS = 10.0
"""Seconds that the delivery of an alert may take."""

_NO_QUEUE = UUID(int=0)
_log = logging.getLogger("tickwork")


class LeasePager:
    """Sends alerts of one node. Used by the thread of its heartbeat alone."""

    def __init__(self, channels: Channels, box: Callable[[], Box]) -> None:
        self._channels, self._box = channels, box
        self._target: AlertTarget | None = None
        self._keys: Sequence[bytes] = ()
        self._read_at = self._sent_at = float("-inf")

    async def refresh(self, store: Store) -> None:
        """Reads where alerts go, unless that was done a moment ago. Keeps what it has if the
        database does not answer."""
        if monotonic() < self._read_at + REFRESH_SECONDS:
            return
        context = Context(store, Scope(SYSTEM_TENANT), outside=Outside(secret_box=self._box))
        try:
            target = await get_alerts(context)
            keys = await signing_keys(context) if target is not None else ()
        except StoreUnavailable:
            return
        except (TickworkError, msgspec.MsgspecError) as error:
            _log.debug("alerts of this node cannot be sent without the database: %s", error)
            target, keys = None, ()
        self._target = target
        self._keys = keys
        self._read_at = monotonic()

    async def page(self, event: NewMessage, node_id: UUID) -> bool:
        """Sends an alert about an event of this node; returns whether it was delivered. Never
        raises, and takes at most ten seconds."""
        target = self._target
        if target is None or monotonic() < self._sent_at + REST_SECONDS:
            return False
        self._sent_at = monotonic()
        message = entered_message(
            SYSTEM_TENANT, _NO_QUEUE, event, node_id, is_claimed=True, at=now()
        )
        about = [(event.type or "", msgspec.json.decode(event.body))]
        results = await self._channels.deliver(
            {target.way: outside_target(target)},
            alert_payload(about, target.way),
            message,
            keys=self._keys,
            schedule_name=None,
            timeout_seconds=PAGE_SECONDS,
        )
        result = results[target.way]
        if not result.is_delivered:
            self._sent_at = float("-inf")
            _log.error("the alert about this node's lease was not delivered: %s", result.error)
        return result.is_delivered

    async def close(self) -> None:
        """Closes the connections that were kept."""
        await self._channels.close()
