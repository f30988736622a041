"""Endpoints on PostgreSQL: the contract's methods. The modules beside it have the deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.delivery.breaker import (
    PROBE_CANDIDATES_MAX,
    PULLED_AGAIN_SECONDS,
    PULLED_AT_ONCE_MAX,
)
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    Attempt,
    AttemptRecord,
    DeliverySelection,
    Endpoint,
    EndpointDelivery,
    EndpointSettings,
    EndpointStats,
    Published,
    check_same_endpoint,
    secrets_owner,
)
from tickwork.core.delivery.publish import event_name, spacing_after_enable
from tickwork.core.delivery.push import PushQueue
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.health_facts import DEAD_LOOKED_AT_MAX, DeliveryFacts, EndpointFacts
from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.model import NewMessage, Scope
from tickwork.core.tenant_limits import check_room
from tickwork.errors import NotFound
from tickwork.store.delivery_contract import CheckEndpoint
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.nouns.queues import read_queue
from tickwork.store.postgres.endpoints import rows
from tickwork.store.postgres.endpoints.deliveries import Deliveries
from tickwork.store.postgres.endpoints.publish import Publisher
from tickwork.store.postgres.endpoints.record import AttemptRecorder
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.removal import Purger, bury_deliveries
from tickwork.store.postgres.messages.send import Sender

CHUNK_DELIVERIES = 1_000
"""Number of deliveries whose messages one transaction changes."""

_Position = tuple[datetime | None, UUID]
_FIRST: _Position = (None, UUID(int=0))


class PostgresEndpoints:
    """Endpoints, and what is published to them."""

    def __init__(self, database: Database, moment: Moment, sender: Sender, purger: Purger) -> None:
        self._database, self._moment = database, moment
        self._sender, self._purger = sender, purger
        self._publisher = Publisher(database, moment, sender)
        self._recorder = AttemptRecorder(database, moment, sender)
        self._deliveries = Deliveries(database, moment, sender, self._publisher)

    async def create(self, scope: Scope, endpoint: Endpoint) -> Endpoint:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            raise NotFound("tenant", tenant)
        text = msgspec.json.encode(endpoint.settings).decode()
        values = (self._moment(), endpoint.id, tenant, endpoint.name, text)

        async def work(connection: Connection) -> Endpoint:
            quotas = await connection.fetchrow(SQL.lock_counted_quotas, tenant)
            if quotas is None:
                raise NotFound("tenant", tenant)
            count = await connection.fetchval(SQL.count_endpoints, tenant)
            is_new = await connection.execute(SQL.create_endpoint, *values) == "INSERT 0 1"
            if is_new:
                check_room(tenant, "endpoints_max", count, quotas["endpoints_max"])
            row = await connection.fetchrow(SQL.find_endpoint, tenant, endpoint.name)
            return check_same_endpoint(endpoint, None if row is None else rows.endpoint(row))

        return await self._database.change(work)

    async def get(self, scope: Scope, name_or_id: str | UUID) -> Endpoint:
        row, values = None, tuple[object, ...]()
        if isinstance(name_or_id, UUID):
            statement, values = SQL.get_endpoint, (name_or_id, scope.tenant)
            is_possible = scope.tenant is None or is_name(scope.tenant)
        else:
            statement, values = SQL.find_endpoint, (own_tenant(scope), name_or_id)
            is_possible = is_name(own_tenant(scope)) and is_name(name_or_id)
        if is_possible:
            row = await self._database.run(
                lambda connection: connection.fetchrow(statement, *values)
            )
        if row is None:
            raise NotFound("endpoint", name_or_id)
        return rows.endpoint(row)

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[Endpoint, ...]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant) or (after and not is_name(after)):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_endpoints, tenant, after or "", limit)
        )
        return tuple(map(rows.endpoint, found))

    async def troubled(self, scope: Scope, limit: int) -> tuple[EndpointFacts, ...]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.troubled_endpoints, tenant, limit)
        )
        return tuple(EndpointFacts(*row) for row in found)

    async def dead_since(self, scope: Scope, since: datetime, limit: int) -> DeliveryFacts:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return DeliveryFacts()
        values = (tenant, since, limit, DEAD_LOOKED_AT_MAX)
        (row,) = await self._database.fetch_with_custom_plan(SQL.dead_deliveries_since, *values)
        return DeliveryFacts(*row)

    async def update(
        self,
        scope: Scope,
        endpoint_id: UUID,
        settings: EndpointSettings,
        *,
        check: CheckEndpoint | None = None,
    ) -> Endpoint:
        text = msgspec.json.encode(settings).decode()
        return await self._change(scope, endpoint_id, SQL.update_endpoint, text, check=check)

    async def disable(self, scope: Scope, endpoint_id: UUID, reason: str) -> Endpoint:
        return await self._change(scope, endpoint_id, SQL.disable_endpoint, reason)

    async def enable(self, scope: Scope, endpoint_id: UUID) -> Endpoint:
        endpoint = await self._change(scope, endpoint_id, SQL.enable_endpoint)
        every = spacing_after_enable(endpoint.settings)
        shown = 0
        position = _FIRST
        while True:
            asked = (endpoint.tenant, endpoint_id, *position, CHUNK_DELIVERIES)
            found = await self._database.run(
                lambda connection, asked=asked: connection.fetch(  # type: ignore[misc]
                    SQL.waiting_deliveries, *asked
                )
            )
            shown += await self._show(found, shown, every)
            if len(found) < CHUNK_DELIVERIES:
                return endpoint
            position = _position(found)

    async def delete(
        self, scope: Scope, endpoint_id: UUID, *, check: CheckEndpoint | None = None
    ) -> int:
        tenant = (await self.get(scope, endpoint_id)).tenant
        # Not those of slots: these become dead letters of their schedules, now.
        queue_id = await self._database.run(
            lambda connection: connection.fetchval(SQL.find_queue, None, ENDPOINTS_QUEUE)
        )

        async def work(connection: Connection) -> None:
            await _check(connection, endpoint_id, tenant, check)
            await connection.execute(SQL.delete_secrets, tenant, secrets_owner(endpoint_id))
            if await connection.fetchval(SQL.delete_endpoint, endpoint_id, tenant) is None:
                raise NotFound("endpoint", endpoint_id)

        await self._database.change(work, repeatable=False)
        deleted, position = 0, _FIRST
        while True:
            found = await self._database.run(
                lambda connection, position=position: connection.fetch(  # type: ignore[misc]
                    SQL.waiting_deliveries, tenant, endpoint_id, *position, CHUNK_DELIVERIES
                )
            )
            waiting = [
                row for row in found if row["queue_id"] is not None and row["queue_id"] == queue_id
            ]
            deleted += await self._purger.delete_all(waiting, REASON_DELETED)
            # What is under way is not sent again if it fails.
            bury = partial(bury_deliveries, moment=self._moment, gone=waiting)
            await self._database.run(bury)
            await self._show([row for row in found if row["queue_id"] != queue_id], 0, 0.0)
            if len(found) < CHUNK_DELIVERIES:
                return deleted
            position = _position(found)

    async def probe(self, scope: Scope, endpoint_id: UUID, seconds: float) -> bool:
        check_system(scope)
        probed = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.probe_endpoint, self._moment(), endpoint_id, seconds
            ),
            repeatable=False,
        )
        return probed is not None

    async def pull_probes(self) -> None:
        """Makes a waiting delivery of each endpoint visible whose breaker may be probed."""
        pulled = await self._database.run(
            lambda connection: connection.fetch(
                SQL.pull_probes,
                self._moment(),
                ENDPOINTS_QUEUE,
                PULLED_AT_ONCE_MAX,
                PROBE_CANDIDATES_MAX,
                PULLED_AGAIN_SECONDS,
            ),
            repeatable=False,
        )
        if woken := {row["queue_id"] for row in pulled if row["queue_id"] is not None}:
            self._sender.wake(woken)

    async def pushing_queues(self, scope: Scope, limit: int) -> tuple[PushQueue, ...]:
        check_system(scope)
        check_limit(limit)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.pushing_queues, self._moment(), limit)
        )
        return tuple(
            PushQueue(read_queue(row), row["has_endpoint"], row["is_disabled"], row["open_until"])
            for row in found
        )

    async def publish(self, scope: Scope, event: NewMessage, owner: str | None) -> Published:
        return await self._publisher.publish(own_tenant(scope), event, owner)

    async def begin(self, scope: Scope, delivery: SlotDelivery) -> bool:
        event = delivery.event
        values = (
            self._moment(),
            own_tenant(scope),
            delivery.message_id,
            delivery.endpoint_id,
            event_name(event),
            *rows.published_values(event),
            delivery.is_sent_once,
            delivery.running_code,
        )
        return bool(
            await self._database.run(
                lambda connection: connection.fetchval(SQL.begin_delivery, *values)
            )
        )

    async def record(self, scope: Scope, records: Sequence[AttemptRecord]) -> tuple[bool, ...]:
        check_system(scope)
        return await self._recorder.record(records)

    async def delivery(self, scope: Scope, delivery_id: UUID) -> EndpointDelivery:
        return await self._deliveries.get(scope, delivery_id)

    async def deliveries(
        self, scope: Scope, selection: DeliverySelection, *, before: UUID | None = None
    ) -> tuple[EndpointDelivery, ...]:
        return await self._deliveries.select(scope, selection, before)

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
        return await self._deliveries.undelivered(
            scope, endpoint_id, since=since, until=until, limit=limit, after=after
        )

    async def attempts(
        self, scope: Scope, delivery_id: UUID, *, limit: int | None = None, after: int = 0
    ) -> tuple[Attempt, ...]:
        return await self._deliveries.attempts(scope, delivery_id, limit, after)

    async def resend(
        self,
        scope: Scope,
        delivery_ids: Sequence[UUID],
        *,
        rate_per_second: float | None = None,
        first_after_seconds: float = 0.0,
    ) -> int:
        return await self._deliveries.resend(
            scope, delivery_ids, rate_per_second, first_after_seconds
        )

    async def stats(self, scope: Scope, endpoint_id: UUID, since: datetime) -> EndpointStats:
        tenant = (await self.get(scope, endpoint_id)).tenant
        return await self._deliveries.stats(tenant, endpoint_id, since)

    async def _change(
        self,
        scope: Scope,
        endpoint_id: UUID,
        statement: str,
        *values: str,
        check: CheckEndpoint | None = None,
    ) -> Endpoint:
        given = (self._moment(), endpoint_id, scope.tenant, *values)

        async def work(connection: Connection) -> Endpoint:
            row = None
            if scope.tenant is None or is_name(scope.tenant):
                await _check(connection, endpoint_id, scope.tenant, check)
                row = await connection.fetchrow(statement, *given)
            if row is None:
                raise NotFound("endpoint", endpoint_id)
            return rows.endpoint(row)

        return await self._database.change(work)

    async def _show(self, found: Sequence[Any], earlier: int, every: float) -> int:
        """Makes the messages of deliveries visible, one after the other, so that they are claimed
        in this order; returns how many there are."""
        waiting = [row for row in found if row["queue_id"] is not None]
        if not waiting:
            return 0
        await self._database.run(
            lambda connection: connection.execute(
                SQL.show_messages,
                self._moment(),
                [row["tenant"] for row in waiting],
                [row["id"] for row in waiting],
                [(earlier + index) * every for index in range(len(waiting))],
            )
        )
        self._sender.wake({row["queue_id"] for row in waiting})
        return len(waiting)


def _position(found: Sequence[Any]) -> _Position:
    """The position of the last delivery."""
    return found[-1]["published_at"], found[-1]["delivery_id"]


async def _check(
    connection: Connection, endpoint_id: UUID, tenant: str | None, check: CheckEndpoint | None
) -> None:
    """Locks an endpoint and lets the caller refuse the change."""
    if check is None:
        return
    row = await connection.fetchrow(SQL.lock_endpoint, endpoint_id, tenant)
    if row is not None:
        check(rows.endpoint(row))
