"""Delivers the messages of the hidden queue of deliveries: the built-in handler.

Every node with the role `worker` runs it. A delivery is an ordinary message: claims, retries, dead
letters and fair shares between tenants are those of its queue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tickwork.app.declarations import Consumer, hidden_consumer
from tickwork.app.message import ClaimedMessage, Message
from tickwork.channel.channels import Channels, names_schedule
from tickwork.channel.host_limits import HostLimits
from tickwork.channel.receivers import NO_LIMIT
from tickwork.clock import monotonic
from tickwork.core.delivery.callback import (
    ACCEPTED,
    NO_PUBLIC_URL,
    callback_target,
    timed_out,
    waiting,
)
from tickwork.core.delivery.channels import (
    as_first_sent,
    outcome_of,
    result_row,
    retries_of,
    retry_terms,
)
from tickwork.core.delivery.endpoint_request import spread
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.pace import Limit
from tickwork.core.delivery.sealed import SEALED_MARK, SealedText, open_channel
from tickwork.core.delivery.target import (
    CHANNEL_TIMEOUT_SECONDS,
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    TIMEOUT_SECONDS,
    Channel,
    ChannelsTarget,
    EmailTarget,
    EndpointTarget,
    Envelope,
    LostQueueTarget,
    WebhookTarget,
    read_envelope,
)
from tickwork.core.message.outcome import Delivered, Failed, Outcome, Permanent, Snoozed, Succeeded
from tickwork.core.model import Message as Stored
from tickwork.core.model import Scope
from tickwork.core.queue.rooms import ClaimGate
from tickwork.core.schedule.result_message import found_result
from tickwork.core.workflow.queue import workflow_of_queue
from tickwork.errors import ClaimLost, InvalidInput, NotFound, StoreBroken, StoreUnavailable
from tickwork.ops.context import Context
from tickwork.ops.outside import Box, Outside
from tickwork.ops.schedules.lookup import get_schedule, has_queue
from tickwork.ops.webhook_secret import signing_keys
from tickwork.service.delivery.progress import DeliveryProgress
from tickwork.service.worker.kept_values import KeptValues
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

KEYS_KEPT_SECONDS = 1.0
"""Seconds that signing keys are kept before they are read again: so soon a rotation has effect."""

IN_FLIGHT_MAX = 1_000
"""Number of deliveries that a node has under way, unless it is set."""

STORE_PAUSE_SECONDS = 5.0
"""Seconds until a delivery is tried again that could not read its progress."""

NO_SECRET_SECONDS = 60.0
"""Seconds until a delivery is tried again that could not be signed."""

ToEndpoint = Callable[[Stored, Envelope], Awaitable[Outcome]]
"""Delivers the message of a slot to an endpoint."""

_log = logging.getLogger("tickwork")


class Deliverer:
    """Delivers messages over channels, and those for endpoints with `to_endpoint`. A relay or a
    provider of email is a receiver with the `email_limit`. Receivers complete firings at the
    `public_url`."""

    def __init__(
        self,
        store: Store,
        channels: Channels,
        box: Callable[[], Box],
        limits: HostLimits,
        to_endpoint: ToEndpoint,
        *,
        email_limit: Limit = NO_LIMIT,
        public_url: str | None = None,
    ) -> None:
        self._store = store
        self._channels = channels
        self._box = box
        self._limits = limits
        self._email_limit = email_limit
        self._to_endpoint, self._public_url = to_endpoint, public_url
        self._keys: KeptValues[tuple[bytes, ...]] = KeptValues(KEYS_KEPT_SECONDS, monotonic)
        self._progress = DeliveryProgress(store)
        self._opened_box: Box | None = None

    async def handle(self, message: Message[Any]) -> None:
        """Delivers one message and settles it."""
        assert isinstance(message, ClaimedMessage)
        stored = message.stored
        try:
            envelope = read_envelope(stored.body)
        except msgspec.MsgspecError as error:
            message.settle(Delivered(Permanent(f"the delivery has no valid target: {error}")))
            return
        if isinstance(envelope.target, LostQueueTarget):
            message.settle(await self._to_queue(stored, envelope.target, envelope.payload))
            return
        callback = callback_target(envelope)
        if callback is not None and stored.waits_since is not None:
            message.settle(timed_out(stored, callback))
            return
        if isinstance(envelope.target, EndpointTarget):
            message.settle(await self._to_endpoint(stored, envelope))
            return
        try:
            channels = self._opened(stored, envelope)
        except (InvalidInput, StoreBroken) as error:  # Another node may have the key.
            _log.error("tenant %s: secrets of a schedule cannot be read: %s", stored.tenant, error)
            message.settle(Snoozed(spread(NO_SECRET_SECONDS, stored.id)))
            return
        urls = [
            channel.url for channel in channels.values() if not isinstance(channel, EmailTarget)
        ]
        others = {"email": self._email_limit} if len(urls) < len(channels) else None
        outcome: Delivered | Snoozed
        await self._limits.wait_for_share(stored.tenant)
        admission = self._limits.admitted(stored.tenant, urls, others, stored.receiver)
        async with admission as wait_seconds:
            if wait_seconds:
                outcome = Snoozed(wait_seconds, stored.limit_note(admission.limited_by))
            else:
                outcome = await self._try(stored, envelope, channels)
        message.settle(outcome)

    async def _to_queue(
        self, stored: Stored, target: LostQueueTarget, payload: Any
    ) -> Delivered | Snoozed:
        """Sends a result to a queue that did not exist, if it does now."""
        try:
            if await has_queue(Context(self._store, Scope(stored.tenant)), target.queue):
                return Delivered(Succeeded(), sends=(found_result(stored, target, payload),))
        except StoreUnavailable:
            return Snoozed(STORE_PAUSE_SECONDS)
        workflow = workflow_of_queue(target.queue)
        fault = f"there is no queue {target.queue}; create it"
        if workflow is not None:
            fault = f"there is no workflow {workflow}; declare it in an app, run that"
        return Delivered(Permanent(f"{fault} and replay this dead letter, or change the schedule"))

    def _opened(self, stored: Stored, envelope: Envelope) -> dict[str, Channel]:
        """The channels with their secrets. The envelope keeps them sealed: retries have a copy."""
        if SEALED_MARK not in stored.body:
            return envelope.channels

        def decrypt(sealed: SealedText, field: str) -> str:
            box = self._box_once()
            return box.decrypt(sealed.ciphertext, stored.tenant, sealed.row, field)

        return {name: open_channel(channel, decrypt) for name, channel in envelope.channels.items()}

    async def _try(
        self, stored: Stored, envelope: Envelope, channels: Mapping[str, Channel]
    ) -> Delivered | Snoozed:
        """Delivers over the channels that may be sent to."""
        try:
            is_signed = WebhookTarget in map(type, channels.values())
            keys = await self._keys_of(stored.tenant) if is_signed else ()
            known = await self._progress.known(stored, envelope)
            # Everything is read before the record: what may be sent only once is sent after it.
            name = await self._schedule_name(stored, envelope, channels)
            await self._progress.begin(stored, envelope, known)
            headers = {}
            if callback := callback_target(envelope):
                if self._public_url is None:
                    return Delivered(Failed(NO_PUBLIC_URL))
                headers = await self._progress.callback_headers(stored, self._public_url)
        except (StoreUnavailable, ClaimLost):  # Nothing was sent, so it costs no attempt.
            return Snoozed(STORE_PAUSE_SECONDS)
        except (InvalidInput, StoreBroken) as error:  # Another node may have the key.
            _log.error("tenant %s: its signing secret cannot be read: %s", stored.tenant, error)
            return Snoozed(spread(NO_SECRET_SECONDS, stored.id))
        rest = channels
        if known:
            rest = {name: channel for name, channel in channels.items() if name not in known}
        results = known | await self._deliver(stored, envelope, rest, keys, headers, name)
        if callback is not None and [result.code for result in results.values()] == [ACCEPTED]:
            return waiting(stored, callback)
        in_order = {name: results[name] for name in channels}
        retries = retries_of(envelope, stored, in_order, new_id)
        return outcome_of(retries.results, retries=retries.sends, retry=retry_terms(envelope))

    async def _deliver(
        self,
        stored: Stored,
        envelope: Envelope,
        channels: Mapping[str, Channel],
        keys: Sequence[bytes],
        headers: Mapping[str, str],
        schedule_name: str | None,
    ) -> dict[str, Delivery]:
        target = envelope.target
        is_single = not isinstance(target, ChannelsTarget) or len(target.channels) == 1

        async def arrived(channel: str, result: Delivery) -> None:
            # The settlement is the record of a single channel. A replay reads a failure.
            is_needed = not is_single if result.is_delivered else envelope.is_at_most_once
            if is_needed:
                with suppress(StoreUnavailable):  # The settlement follows, and waits for the store.
                    await self._progress.record(stored, result_row(channel, result))

        return await self._channels.deliver(
            channels,
            envelope.payload,
            as_first_sent(stored, envelope),
            keys=keys,
            schedule_name=schedule_name,
            timeout_seconds=TIMEOUT_SECONDS if is_single else CHANNEL_TIMEOUT_SECONDS,
            arrived=None if is_single and not envelope.is_at_most_once else arrived,
            headers=headers,
        )

    async def _schedule_name(
        self, stored: Stored, envelope: Envelope, channels: Mapping[str, Channel]
    ) -> str | None:
        """The name of the schedule, if a text of a channel has it."""
        schedule_id = as_first_sent(stored, envelope).schedule_id
        if schedule_id is None or not any(map(names_schedule, channels.values())):
            return None
        try:
            return (
                await get_schedule(Context(self._store, Scope(stored.tenant)), schedule_id)
            ).name
        except NotFound:
            return None

    async def _keys_of(self, tenant: str) -> tuple[bytes, ...]:
        if (kept := self._keys.kept(tenant)) is not None:
            return kept

        async def read() -> tuple[bytes, ...]:
            return await signing_keys(self._context(tenant))

        return await self._keys.get(tenant, read)

    def _context(self, tenant: str) -> Context:
        return Context(self._store, Scope(tenant), outside=Outside(secret_box=self._box_once))

    def _box_once(self) -> Box:
        if self._opened_box is None:
            self._opened_box = self._box()
        return self._opened_box


def deliveries_consumer(
    deliverer: Deliverer, max_concurrency: int = IN_FLIGHT_MAX, gate: ClaimGate | None = None
) -> Consumer:
    """The consumer of the hidden queue."""
    return hidden_consumer(
        DELIVERIES_QUEUE,
        DELIVERIES_SETTINGS,
        deliverer.handle,
        max_concurrency,
        body_type=msgspec.Raw,
        gate=gate,
    )
