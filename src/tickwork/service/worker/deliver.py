"""Delivers the messages of the hidden queue of deliveries: the built-in handler.

Every node with the role `worker` runs it. A delivery is an ordinary message: claims, retries, dead
letters and fair shares between tenants are those of its queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tickwork.app.declarations import Consumer, HandlerDeclaration, QueueDeclaration
from tickwork.app.message import ClaimedMessage, Message
from tickwork.app.payloads import Payload
from tickwork.channel.channels import Channels
from tickwork.channel.host_limits import HostLimits
from tickwork.clock import monotonic
from tickwork.core.delivery.callback import (
    ACCEPTED,
    NO_PUBLIC_URL,
    SECRET_BYTES,
    callback_headers,
    callback_target,
    new_token,
    timed_out,
    token_row,
    waiting,
)
from tickwork.core.delivery.channels import (
    as_first_sent,
    known_results,
    may_have_progress,
    outcome_of,
    result_row,
    retries_of,
    retry_terms,
    sending_rows,
)
from tickwork.core.delivery.endpoint_request import spread
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.target import (
    CHANNEL_TIMEOUT_SECONDS,
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    TIMEOUT_SECONDS,
    Envelope,
    read_envelope,
    urls_of,
)
from tickwork.core.message.outcome import Delivered, Failed, Permanent, Snoozed
from tickwork.core.model import Message as Stored
from tickwork.core.model import QueueSettings, Scope
from tickwork.errors import ClaimLost, InvalidInput, NotFound, StoreBroken, StoreUnavailable
from tickwork.ops.schedules.lookup import get_schedule
from tickwork.ops.webhook_secret import Box, signing_keys
from tickwork.store.contract import Store
from tickwork.store.ids import new_id, random_bytes

KEYS_KEPT_SECONDS = 30.0
"""Seconds that signing keys are kept before they are read again."""

KEYS_KEPT_MAX = 10_000

IN_FLIGHT_MAX = 1_000
"""Number of deliveries that a node has under way, unless it is set."""

STORE_PAUSE_SECONDS = 5.0
"""Seconds until a delivery is tried again that could not read its progress."""

NO_SECRET_SECONDS = 60.0
"""Seconds until a delivery is tried again that could not be signed."""

_log = logging.getLogger("tickwork")


class Deliverer:
    """Delivers messages over channels. Receivers complete firings at the `public_url`."""

    def __init__(
        self,
        store: Store,
        channels: Channels,
        box: Callable[[], Box],
        limits: HostLimits,
        *,
        public_url: str | None = None,
    ) -> None:
        self._store, self._channels, self._box, self._limits = store, channels, box, limits
        self._public_url = public_url
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
        callback = callback_target(envelope)
        if callback is not None and stored.waits_since is not None:
            message.settle(timed_out(stored, callback))
            return
        urls = [url for _, url in urls_of(envelope.target)]
        with self._limits.admitted(stored.tenant, urls) as wait_seconds:
            outcome = Snoozed(wait_seconds) if wait_seconds else await self._try(stored, envelope)
        message.settle(outcome)

    async def _try(self, stored: Stored, envelope: Envelope) -> Delivered | Snoozed:
        """Delivers over the channels that may be sent to."""
        try:
            keys = await self._keys_of(stored.tenant) if envelope.is_signed else ()
            known = await self._known(stored, envelope)
            headers = {}
            if callback := callback_target(envelope):
                if self._public_url is None:
                    return Delivered(Failed(NO_PUBLIC_URL))
                headers = await self._callback_headers(stored, self._public_url)
        except (StoreUnavailable, ClaimLost):  # Nothing was sent, so it costs no attempt.
            return Snoozed(STORE_PAUSE_SECONDS)
        except (InvalidInput, StoreBroken) as error:  # Another node may have the key.
            _log.error("tenant %s: its signing secret cannot be read: %s", stored.tenant, error)
            return Snoozed(spread(NO_SECRET_SECONDS, stored.id))
        results = known | await self._deliver(stored, envelope, known, keys, headers)
        if callback is not None and [each.code for each in results.values()] == [ACCEPTED]:
            return waiting(stored, callback)
        in_order = {name: results[name] for name in envelope.channels}
        retries = retries_of(envelope, stored, in_order, new_id)
        return outcome_of(retries.results, retries=retries.sends, retry=retry_terms(envelope))

    async def _known(self, stored: Stored, envelope: Envelope) -> dict[str, Delivery]:
        """The results of channels that must not be sent again. Records the others if they are sent
        at most once; `ClaimLost` if another worker may send them."""
        known: dict[str, Delivery] = {}
        if may_have_progress(stored, envelope):
            rows = await self._store.progress.get(Scope(stored.tenant), stored.work_key)
            known = known_results(rows, envelope)
        if envelope.is_at_most_once:
            rest = [each for each in envelope.channels if each not in known]
            if rest and not await self._record(stored, sending_rows(rest)):
                raise ClaimLost([stored.id])
        return known

    async def _callback_headers(self, stored: Stored, public_url: str) -> dict[str, str]:
        """The headers with a new token, whose hash is recorded before it is sent: a receiver may be
        done before it has answered."""
        token = new_token(stored, random_bytes(SECRET_BYTES))
        if not await self._record(stored, token_row(stored, token)):
            raise ClaimLost([stored.id])
        return callback_headers(public_url, stored, token)

    async def _deliver(
        self,
        stored: Stored,
        envelope: Envelope,
        known: Mapping[str, Delivery],
        keys: Sequence[bytes],
        headers: Mapping[str, str],
    ) -> dict[str, Delivery]:
        seen, is_single = as_first_sent(stored, envelope), len(envelope.channels) == 1

        async def schedule_name() -> str | None:
            if seen.schedule_id is None:
                return None
            try:
                scope = Scope(stored.tenant)
                return (await get_schedule(self._store, scope, seen.schedule_id)).name
            except NotFound:
                return None

        async def arrived(channel: str, result: Delivery) -> None:
            # The settlement is the record of a single channel. A replay reads a failure.
            is_needed = not is_single if result.is_delivered else envelope.is_at_most_once
            if is_needed:
                with suppress(StoreUnavailable):  # The settlement follows, and waits for the store.
                    await self._record(stored, result_row(channel, result))

        return await self._channels.deliver(
            {name: each for name, each in envelope.channels.items() if name not in known},
            envelope.payload,
            seen,
            keys=keys,
            schedule_name=schedule_name,
            timeout_seconds=TIMEOUT_SECONDS if is_single else CHANNEL_TIMEOUT_SECONDS,
            arrived=arrived,
            headers=headers,
        )

    async def _record(self, stored: Stored, rows: Mapping[str, str]) -> bool:
        scope = Scope(stored.tenant)
        claim, work = stored.current_claim, stored.work_key
        return await self._store.progress.record(scope, claim, work, rows)

    async def _keys_of(self, tenant: str) -> tuple[bytes, ...]:
        until, keys = self._keys.get(tenant, (0.0, ()))
        if until < monotonic():
            keys = await signing_keys(self._store, Scope(tenant), self._box())
            if len(self._keys) >= KEYS_KEPT_MAX:
                self._keys.clear()
            self._keys[tenant] = (monotonic() + KEYS_KEPT_SECONDS, keys)
        return keys


def deliveries_consumer(deliverer: Deliverer, max_concurrency: int = IN_FLIGHT_MAX) -> Consumer:
    """The consumer of the hidden queue."""
    return hidden_consumer(DELIVERIES_QUEUE, DELIVERIES_SETTINGS, deliverer.handle, max_concurrency)


def hidden_consumer(
    name: str,
    settings: QueueSettings,
    handle: Callable[..., Any],
    max_concurrency: int | None = None,
    *,
    is_batch: bool = False,
) -> Consumer:
    """The built-in consumer of a hidden queue. For deliveries its concurrency is fixed: automatic
    concurrency grows as handlers finish, and those that wait for a slow host do not."""
    queue = QueueDeclaration(
        name=name,
        settings=settings,
        payload=Payload[Any](Any),
        is_shared=True,
        has_settings=True,
    )
    handler = HandlerDeclaration(
        queue=name,
        function=handle,
        payload=queue.payload,
        is_batch=is_batch,
        max_concurrency=max_concurrency,
    )
    by_type: dict[str | None, HandlerDeclaration] = {} if is_batch else {None: handler}
    return Consumer(queue, handler if is_batch else None, by_type, is_built_in=True)
