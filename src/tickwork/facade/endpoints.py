"""Events and who receives them: `app.events`, `app.endpoints`, `app.deliveries`; `app.limits`.

Each call is done when it returns, also inside a handler; but there an event is published with the
ack of the handled message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from tickwork.core.answers.delivery import DeliveryAnswer, DeliveryHistory
from tickwork.core.answers.endpoint import CreatedEndpoint, EndpointAnswer
from tickwork.core.answers.ids import GivenId
from tickwork.core.delivery.endpoint import (
    RECOVER_RATE_PER_SECOND,
    Attempt,
    DeliverySelection,
    DeliveryStatus,
    EndpointStats,
    Published,
)
from tickwork.core.delivery.publish import event_name
from tickwork.core.fields import choice_error, read_id, read_instant
from tickwork.core.model import Send
from tickwork.core.options.endpoint import EndpointFields, EndpointOptions
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops import endpoints, events, limits
from tickwork.ops.context import Context
from tickwork.ops.types import check_event


class Events:
    """Publishes events, of an app or of one owner."""

    def __init__(self, engine: AppEngine, owner: str | None = None) -> None:
        self._engine = engine
        self._owner = owner

    async def publish(
        self,
        type: str,  # noqa: A002  the name of the field
        data: Any,
        *,
        key: str | None = None,
        event_id: str | None = None,
        owner: str | None = None,
        connection: object = None,
    ) -> Published:
        """Publishes an event to the queues that subscribe to its type, and to the endpoints whose
        types match, in one transaction.

        The same `event_id` is published once; the answer to a repeat has `is_repeat`. With another
        type or data it raises `Conflict`. With an `owner` the event also reaches the endpoints of
        that owner. Inside a handler the event is published with the ack of the handled message, or
        not at all; the answer has its `event_id` only, and a `Conflict` fails the message. With
        your own `connection` it is published if the transaction that is open on it commits.
        """
        engine, scope = self._engine, self._engine.scope_of(self._owner)
        receiver = events.event_owner(scope, owner)
        event = events.new_event(scope, type, data, key=key, event_id=event_id)
        if connection is not None:
            (event,) = engine.composer.caused([event])
        elif (handling := engine.composer.handling()) is not None:
            if handling.can_ask:
                await check_event(engine.context_on(await engine.open(), self._owner), event)
            handling.send(Send(None, event, receiver))
            return Published(event_id=event_name(event))
        async with engine.verb_context(connection, owner=self._owner) as context:
            return await events.publish_event(context, event, receiver)


class Endpoints:
    """The addresses that receive events, of an app or of one owner. An endpoint is given by its
    name or its id."""

    def __init__(self, engine: AppEngine, owner: str | None = None) -> None:
        self._engine = engine
        self._owner = owner

    async def _context(self) -> Context:
        return await self._engine.context(owner=self._owner)

    async def create(
        self,
        name: str,
        *,
        url: str,
        types: str | Sequence[str],
        **options: Unpack[EndpointOptions],
    ) -> CreatedEndpoint:
        """Creates an endpoint. Its signing secret, `.secret`, is not shown again.

        With `signature="v1a"` it is signed with a private key that is never shown; `.secret` is its
        public key.

        `types` are types of events, or prefixes such as `order.*`. `EndpointOptions` describes the
        options.
        """
        context = await self._context()
        return await endpoints.create_endpoint(
            context, name, {"url": url, "types": types, **options}
        )

    async def get(self, name: GivenId) -> EndpointAnswer:
        """One endpoint with its settings and its health. Raises `NotFound`."""
        return await endpoints.get_endpoint(await self._context(), name)

    async def list(
        self, *, limit: int = 100, after: str | None = None
    ) -> tuple[EndpointAnswer, ...]:
        """Endpoints by name. The next page: `after=endpoints[-1].name`."""
        return await endpoints.list_endpoints(await self._context(), limit=limit, after=after)

    async def update(self, name: GivenId, **fields: Unpack[EndpointFields]) -> EndpointAnswer:
        """Changes the given fields; None means the default again. What waits is delivered with the
        new ones. `secret_headers` replaces all of them."""
        return await endpoints.update_endpoint(await self._context(), name, {**fields})

    async def rotate_secret(self, name: GivenId) -> str:
        """Replaces the signing secret and returns the new one; with `signature="v1a"`, its public
        key. The one before stays valid for a day: until then deliveries carry both signatures.
        Only the last two are valid: rotate twice to end a leaked one at once."""
        return await endpoints.rotate_secret(await self._context(), name)

    async def public_keys(self, name: GivenId) -> tuple[str, ...]:
        """The public keys of an endpoint with `signature="v1a"`, the current one first; the one
        before it stays valid for a day after a rotation."""
        return await endpoints.public_keys(await self._context(), name)

    async def test(self, name: GivenId) -> Attempt:
        """Sends an event of type `endpoint.test` at once and returns the attempt: its `code`, or
        its `error`. Nothing is stored, and the result changes nothing: it closes no breaker."""
        return await endpoints.test_endpoint(await self._context(), name)

    async def disable(self, name: GivenId, reason: str = "disabled by hand") -> EndpointAnswer:
        """Stops deliveries. What waits, and what is published meanwhile, is kept."""
        return await endpoints.disable_endpoint(await self._context(), name, reason)

    async def enable(self, name: GivenId) -> EndpointAnswer:
        """Resumes deliveries, oldest first; also at once, if the breaker is open."""
        return await endpoints.enable_endpoint(await self._context(), name)

    async def delete(self, name: GivenId) -> int:
        """Deletes an endpoint, its secrets and what waits for it; returns how many waited."""
        return await endpoints.delete_endpoint(await self._context(), name)

    async def stats(self, name: GivenId, *, since: datetime | str | None = None) -> EndpointStats:
        """Deliveries and attempts since a time, by default of the last 7 days."""
        start = read_instant("since", since)
        return await endpoints.endpoint_stats(await self._context(), name, since=start)


class Limits:
    """Limits that queues and endpoints share. Each names one by its setting `limit`."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def put(
        self,
        name: str,
        *,
        rate: float | None = None,
        period_seconds: float = 1.0,
        concurrency: int | None = None,
    ) -> NamedLimit:
        """Creates a limit or replaces its numbers: at most `rate` messages in `period_seconds`, and
        `concurrency` at a time, of all queues and endpoints that name it together."""
        fields = {"rate": rate, "period_seconds": period_seconds, "concurrency": concurrency}
        context = await self._engine.context()
        return await limits.put_limit(context, name, fields)

    async def get(self, name: str) -> NamedLimit:
        """One limit. Raises `NotFound`."""
        return await limits.get_limit(await self._engine.context(), name)

    async def list(self) -> tuple[NamedLimit, ...]:
        """All limits, by name."""
        return await limits.list_limits(await self._engine.context())

    async def delete(self, name: str) -> None:
        """Deletes a limit. Who names it is not limited any more. Raises `NotFound`."""
        await limits.delete_limit(await self._engine.context(), name)


class Deliveries:
    """What became of published events, endpoint by endpoint."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(
        self,
        *,
        endpoint: GivenId | None = None,
        status: DeliveryStatus | str | None = None,
        undelivered: bool = False,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 100,
        before: GivenId | None = None,
    ) -> tuple[DeliveryAnswer, ...]:
        """Deliveries, newest first. `status` is waiting, delivered or dead; `undelivered` selects
        those that are waiting or dead. The next page: `before=deliveries[-1].id`."""
        selection = DeliverySelection(
            status=_status(status),
            is_undelivered=undelivered,
            since=read_instant("since", since),
            until=read_instant("until", until),
            limit=limit,
        )
        context = await self._engine.context()
        return await events.list_deliveries(
            context,
            await endpoints.select_endpoint(context, selection, endpoint),
            before=None if before is None else read_id("before", before),
        )

    async def get(self, delivery_id: GivenId) -> DeliveryHistory:
        """One delivery with its attempts, `.history`. Raises `NotFound`."""
        wanted = read_id("delivery_id", delivery_id)
        return await events.get_delivery(await self._engine.context(), wanted)

    async def resend(self, delivery_id: GivenId) -> None:
        """Sends a delivery again with the same id, also a delivered one. Raises `NotFound`, and
        `Conflict` for one that is sent at most once."""
        wanted = read_id("delivery_id", delivery_id)
        await events.resend_delivery(await self._engine.context(), wanted)

    async def recover(
        self,
        endpoint: GivenId,
        *,
        since: datetime | str,
        until: datetime | str | None = None,
        rate_per_second: float = RECOVER_RATE_PER_SECOND,
    ) -> int:
        """Sends everything again that was published in a span of time and did not arrive, oldest
        first, dead or waiting. Returns how many."""
        start, end = read_instant("since", since), read_instant("until", until)
        context = await self._engine.context()
        stored = await endpoints.find_endpoint(context, endpoint)
        return await events.recover_deliveries(
            context,
            stored.id,
            since=start,
            until=end,
            rate_per_second=rate_per_second,
        )


def _status(given: DeliveryStatus | str | None) -> DeliveryStatus | None:
    if given is None:
        return None
    if (fault := choice_error(given, DeliveryStatus)) is not None:
        raise InvalidInput([FieldError("status", fault)])
    return DeliveryStatus(given)
