"""The contract of a store for deliveries: subscriptions, endpoints and what is published, progress,
and secrets.

It continues `contract.py`, whose rules hold here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.delivery.endpoint import (
    Attempt,
    AttemptRecord,
    DeliverySelection,
    Endpoint,
    EndpointDelivery,
    EndpointSettings,
    EndpointStats,
    Published,
)
from tickwork.core.delivery.push import PushQueue
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.health_facts import DeliveryFacts, EndpointFacts
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import Claim, NewMessage, Scope
from tickwork.core.queue.named_limit import NamedLimit

CheckEndpoint = Callable[[Endpoint], None]
"""Refuses a change of an endpoint by an error."""


class Subscriptions(Protocol):
    """Subscriptions: which queues get copies of which messages."""

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        """Subscribes a queue; a repeat has no effect. In the system scope: a shared queue, to the
        messages of all tenants."""

    async def list(self, scope: Scope) -> tuple[Subscription, ...]:
        """Returns the scope's own subscriptions, by types and queue."""

    async def delete(self, scope: Scope, types: str, queue: str) -> bool:
        """Deletes a subscription; False if there is none."""


class Endpoints(Protocol):
    """Endpoints of a tenant, the events published to them, and their deliveries.

    In the system scope an id names a record of any tenant; names and lists are those of the default
    tenant.
    """

    async def create(self, scope: Scope, endpoint: Endpoint) -> Endpoint:
        """Stores a new endpoint; the store sets its tenant and times. A repeat with the same id,
        name and settings returns the stored one. `Conflict` if the name or id is in use, `TooMany`
        at the tenant's maximum."""

    async def get(self, scope: Scope, name_or_id: str | UUID) -> Endpoint:
        """Returns one endpoint."""

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[Endpoint, ...]:
        """Returns endpoints by name, after a given name."""

    async def troubled(self, scope: Scope, limit: int) -> tuple[EndpointFacts, ...]:
        """Returns endpoints that are failing or disabled, by name."""

    async def dead_since(self, scope: Scope, since: datetime, limit: int) -> DeliveryFacts:
        """Counts the deliveries that died after a time, up to a limit, of the newest
        `DEAD_LOOKED_AT_MAX` dead ones."""

    async def update(
        self,
        scope: Scope,
        endpoint_id: UUID,
        settings: EndpointSettings,
        *,
        check: CheckEndpoint | None = None,
    ) -> Endpoint:
        """Replaces the settings. What waits is delivered with the new ones. `check` gets the
        endpoint in the transaction and may refuse the change."""

    async def disable(self, scope: Scope, endpoint_id: UUID, reason: str) -> Endpoint:
        """Stops deliveries; what waits is kept until it expires. A disabled endpoint keeps its
        first reason."""

    async def enable(self, scope: Scope, endpoint_id: UUID) -> Endpoint:
        """Closes the breaker and makes what waits visible, oldest first, one after the other at the
        rate of the endpoint, or of a host; nothing comes later than it would have."""

    async def delete(
        self, scope: Scope, endpoint_id: UUID, *, check: CheckEndpoint | None = None
    ) -> int:
        """Deletes an endpoint, its secrets and the messages that wait for it, and returns their
        number. Messages that are claimed stay, and its deliveries for their retention. Messages of
        slots become visible. `check` as for `update`."""

    async def publish(self, scope: Scope, event: NewMessage, owner: str | None) -> Published:
        """Copies an event to the queues that subscribe to it, and makes a delivery for each
        endpoint whose types match, in one transaction. `event.body` is JSON.

        An event with an owner reaches endpoints of that owner and those without one, an event
        without an owner only the latter. Disabled endpoints get their deliveries, too. A repeat
        with the same id makes no second delivery, and says that it is one; copies in queues follow
        the rules of `Messages.send`. `Conflict` if the `event_id` is that of an event with another
        type or body that an endpoint received. `NotFound` if the queue of deliveries does not exist
        and an endpoint matches."""

    async def begin(self, scope: Scope, delivery: SlotDelivery) -> bool:
        """Stores a delivery whose message exists already, once; a replay gives it another message.
        One whose last answer was its `running_code` is waiting again. Whether it is still to be
        made."""

    async def record(self, scope: Scope, records: Sequence[AttemptRecord]) -> tuple[bool, ...]:
        """Records attempts whose claims are still valid, and keeps the claims; system only.

        Updates the health of their endpoints, which `core.delivery.breaker` decides, and
        publishes its events. False for a claim that is no longer valid. A claim has one attempt at
        a delivery: a repeat records nothing."""

    async def probe(self, scope: Scope, endpoint_id: UUID, seconds: float) -> bool:
        """Whether the caller may try an endpoint whose breaker was open until now. It then stays
        open for others for some seconds; system only."""

    async def pushing_queues(self, scope: Scope, limit: int) -> tuple[PushQueue, ...]:
        """Returns the queues of all tenants that push to an endpoint; system only."""

    async def delivery(self, scope: Scope, delivery_id: UUID) -> EndpointDelivery:
        """Returns one delivery."""

    async def deliveries(
        self, scope: Scope, selection: DeliverySelection, *, before: UUID | None = None
    ) -> tuple[EndpointDelivery, ...]:
        """Returns the selected deliveries, newest first, before a given one."""

    async def undelivered(
        self,
        scope: Scope,
        endpoint_id: UUID,
        *,
        since: datetime | None,
        until: datetime,
        limit: int,
        after: UUID | None = None,
    ) -> tuple[UUID, ...]:
        """Returns the ids of deliveries to an endpoint that were published in a span and did not
        arrive, oldest first, after a given one."""

    async def attempts(
        self, scope: Scope, delivery_id: UUID, *, limit: int | None = None, after: int = 0
    ) -> tuple[Attempt, ...]:
        """Returns the attempts at a delivery in order, after a given number; with a limit the first
        ones."""

    async def resend(
        self,
        scope: Scope,
        delivery_ids: Sequence[UUID],
        *,
        rate_per_second: float | None = None,
        first_after_seconds: float = 0.0,
    ) -> int:
        """Sends up to `RESENT_AT_ONCE_MAX` deliveries again, oldest first, also delivered ones, and
        returns their number. One that waits becomes visible; a dead or delivered one gets a new
        message and is waiting again, and its dead letter is resolved. One that arrived once is
        delivered at that time, whatever becomes of its resend. Unknown deliveries, and
        those of deleted endpoints, are left out."""

    async def stats(self, scope: Scope, endpoint_id: UUID, since: datetime) -> EndpointStats:
        """Returns the numbers of the deliveries published to an endpoint since a time."""


class Limits(Protocol):
    """Limits that queues and endpoints share by name; in the system scope those of shared queues.
    A claim from a queue takes from its limit in its own transaction."""

    async def put(self, scope: Scope, limit: NamedLimit) -> NamedLimit:
        """Creates a limit or replaces its numbers. `TooMany` at the tenant's maximum."""

    async def get(self, scope: Scope, name: str) -> NamedLimit:
        """Returns one limit."""

    async def list(self, scope: Scope) -> tuple[NamedLimit, ...]:
        """Returns the limits by name."""

    async def delete(self, scope: Scope, name: str) -> None:
        """Deletes a limit. Who names it is not limited any more."""

    async def take(self, scope: Scope, name: str, claim: Claim) -> float:
        """Lets a claimed message be delivered, and returns 0, or returns the seconds after which to
        ask again. It counts towards the concurrency until its claim ends. A limit that does not
        exist allows everything."""


class Secrets(Protocol):
    """Encrypted values by owner and field: what they contain is not the store's concern."""

    async def get(self, scope: Scope, owner: str, field: str) -> tuple[bytes, ...]:
        """The valid values: the current one, and while it rotates the one before."""

    async def put(self, scope: Scope, owner: str, field: str, value: bytes) -> None:
        """Stores a value, unless there is one."""

    async def rotate(
        self,
        scope: Scope,
        owner: str,
        field: str,
        value: bytes,
        *,
        keep_seconds: float,
        endpoint_id: UUID | None = None,
    ) -> None:
        """Replaces the value; the old one stays valid for some seconds. Sets the `updated_at` of
        the endpoint, if one is given: workers keep its secrets until that changes."""

    async def delete(self, scope: Scope, owner: str) -> None:
        """Deletes all values of an owner."""


class Progress(Protocol):
    """What claimed messages have completed so far: named JSON texts under a work key. Rows are kept
    for 30 days."""

    async def record(self, scope: Scope, claim: Claim, work: str, rows: Mapping[str, str]) -> bool:
        """Records rows and keeps the claim; False, and no row, if the claim is no longer valid. A
        row of the same name is replaced."""

    async def get(self, scope: Scope, work: str) -> dict[str, str]:
        """Returns the rows of a work key by name."""
