"""Endpoints on SQLite: the contract's methods. The modules beside it have the deliveries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
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
from tickwork.core.delivery.publish import spacing_after_enable
from tickwork.core.delivery.push import PushQueue
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.health_facts import DEAD_LOOKED_AT_MAX, DeliveryFacts, EndpointFacts
from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.model import SYSTEM, NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.core.tenant_limits import check_room
from tickwork.errors import NotFound
from tickwork.store.delivery_contract import CheckEndpoint
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.queues import read_queue
from tickwork.store.sqlite.endpoints import rows
from tickwork.store.sqlite.endpoints.deliveries import Deliveries, begin_delivery, show_message
from tickwork.store.sqlite.endpoints.publish import publish
from tickwork.store.sqlite.endpoints.record import record
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES, finish_removal
from tickwork.store.sqlite.messages.rows import Row

_Work = Callable[[Transaction, Sequence[Row], int], int]
"""Takes deliveries, and the sum of its results for those before them."""


class SqliteEndpoints:
    """Endpoints, and what is published to them."""

    def __init__(self, database: Database) -> None:
        self._database, self._deliveries = database, Deliveries(database)

    async def create(self, scope: Scope, endpoint: Endpoint) -> Endpoint:
        tenant = own_tenant(scope)
        return await self._database.change(
            lambda transaction: _create(transaction, tenant, endpoint)
        )

    async def get(self, scope: Scope, name_or_id: str | UUID) -> Endpoint:
        if isinstance(name_or_id, UUID):
            return await self._database.read(
                lambda transaction: get(transaction, scope, name_or_id)
            )
        named = (own_tenant(scope), name_or_id)
        row = None
        if all(map(is_name, named)):
            row = await self._database.read(
                lambda transaction: transaction.execute(SQL.find_endpoint, named).fetchone()
            )
        if row is None:
            raise NotFound("endpoint", name_or_id)
        return rows.endpoint(row)

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[Endpoint, ...]:
        check_limit(limit)
        values = (own_tenant(scope), after or "", limit)
        if not is_name(values[0]) or (after and not is_name(after)):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_endpoints, values).fetchall()
        )
        return tuple(map(rows.endpoint, found))

    async def troubled(self, scope: Scope, limit: int) -> tuple[EndpointFacts, ...]:
        check_limit(limit)
        values = (own_tenant(scope), limit)
        if not is_name(values[0]):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.troubled_endpoints, values).fetchall()
        )
        return tuple(
            EndpointFacts(UUID(bytes=row[0]), row[1], _time(row[2]), _time(row[3]), row[4])
            for row in found
        )

    async def dead_since(self, scope: Scope, since: datetime, limit: int) -> DeliveryFacts:
        check_limit(limit)
        values = (own_tenant(scope), to_microseconds(since), limit, DEAD_LOOKED_AT_MAX)
        if not is_name(values[0]):
            return DeliveryFacts()
        dead, first = await self._database.read(
            lambda transaction: transaction.execute(SQL.dead_deliveries_since, values).fetchone()
        )
        return DeliveryFacts(dead, _time(first))

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
        every = microseconds(spacing_after_enable(endpoint.settings))

        def show(transaction: Transaction, found: Sequence[Row], shown: int) -> int:
            # One after the other, so that they are claimed in this order.
            first = shown
            for message_id, *_ in found:
                shown += show_message(transaction, endpoint.tenant, message_id, shown * every)
            return shown - first

        await self._for_waiting(endpoint.tenant, endpoint_id, show)
        return endpoint

    async def delete(
        self, scope: Scope, endpoint_id: UUID, *, check: CheckEndpoint | None = None
    ) -> int:
        tenant = await self._database.change(
            lambda transaction: _delete(transaction, scope, endpoint_id, check)
        )

        def remove(transaction: Transaction, found: Sequence[Row], _removed: int) -> int:
            # Not those of slots: these become dead letters of their schedules, now.
            queue_id = find_queue(transaction, SYSTEM, ENDPOINTS_QUEUE).id
            removed = [
                row
                for message_id, *_ in found
                for row in transaction.execute(SQL.delete_message, (queue_id, message_id, tenant))
            ]
            finish_removal(transaction, removed, CounterName.PURGED, REASON_DELETED)
            # What is under way is not sent again if it fails.
            claimed = [
                (delivery_id, tenant, queue_id, transaction.now) for *_, delivery_id in found
            ]
            transaction.connection.executemany(SQL.bury_claimed_deliveries, claimed)
            for message_id, *_ in found:
                show_message(transaction, tenant, message_id, 0)
            return len(removed)

        return await self._for_waiting(tenant, endpoint_id, remove)

    async def probe(self, scope: Scope, endpoint_id: UUID, seconds: float) -> bool:
        check_system(scope)

        def work(transaction: Transaction) -> bool:
            until = transaction.now + microseconds(seconds)
            values = (endpoint_id.bytes, transaction.now, until)
            return transaction.execute(SQL.probe_endpoint, values).rowcount == 1

        return await self._database.write(work)

    async def pushing_queues(self, scope: Scope, limit: int) -> tuple[PushQueue, ...]:
        check_system(scope)
        check_limit(limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.pushing_queues, (transaction.now, limit)
            ).fetchall()
        )
        return tuple(
            PushQueue(
                read_queue(
                    {
                        "id": UUID(bytes=id_),
                        "tenant": tenant,
                        "name": name,
                        "settings": text,
                        "paused": paused == 1,
                    }
                ),
                has_endpoint == 1,
                is_disabled == 1,
                rows.time(open_until),
            )
            for id_, tenant, name, text, paused, has_endpoint, is_disabled, open_until in found
        )

    async def publish(self, scope: Scope, event: NewMessage, owner: str | None) -> Published:
        return await publish(self._database, own_tenant(scope), event, owner)

    async def begin(self, scope: Scope, delivery: SlotDelivery) -> bool:
        tenant = own_tenant(scope)
        return await self._database.write(
            lambda transaction: begin_delivery(transaction, tenant, delivery)
        )

    async def record(self, scope: Scope, records: Sequence[AttemptRecord]) -> tuple[bool, ...]:
        check_system(scope)
        return await record(self._database, records)

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
        def work(transaction: Transaction) -> Endpoint:
            known = get(transaction, scope, endpoint_id)
            if check is not None:
                check(known)
            transaction.execute(
                statement, (endpoint_id.bytes, scope.tenant, *values, transaction.now)
            )
            return get(transaction, scope, endpoint_id)

        return await self._database.change(work)

    async def _for_waiting(self, tenant: str, endpoint_id: UUID, work: _Work) -> int:
        """Does the work for the undelivered deliveries of an endpoint, oldest first, in chunks;
        returns the sum of its results."""
        done = 0
        position: tuple[Any, ...] = (-1, b"")
        while True:
            asked = (tenant, endpoint_id.bytes, *position, REMOVAL_CHUNK_MESSAGES)

            def chunk(
                transaction: Transaction, asked: tuple[Any, ...] = asked, done: int = done
            ) -> tuple[int, Sequence[Row]]:
                found = transaction.execute(SQL.waiting_deliveries, asked).fetchall()
                return (work(transaction, found, done) if found else 0), found

            results, found = await self._database.write(chunk, rows=REMOVAL_CHUNK_MESSAGES)
            done += results
            if len(found) < REMOVAL_CHUNK_MESSAGES:
                return done
            position = found[-1][1:]


def get(transaction: Transaction, scope: Scope, endpoint_id: UUID) -> Endpoint:
    """One endpoint; `NotFound` if the scope has none with this id."""
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        values = (endpoint_id.bytes, scope.tenant)
        row = transaction.execute(SQL.get_endpoint, values).fetchone()
    if row is None:
        raise NotFound("endpoint", endpoint_id)
    return rows.endpoint(row)


def pull_probes(transaction: Transaction) -> None:
    """Makes a waiting delivery of each endpoint visible whose breaker may be probed."""
    now = transaction.now
    due = transaction.execute(SQL.due_probes, (now, PULLED_AT_ONCE_MAX)).fetchall()
    for endpoint_id, tenant, last_id, back_at in due:
        asked = (tenant, endpoint_id, ENDPOINTS_QUEUE, last_id, now, PROBE_CANDIDATES_MAX)
        found = transaction.execute(SQL.choose_probe, asked).fetchone() or (None, None)
        if found[0] is not None:
            show_message(transaction, tenant, found[0], 0)
            if last_id not in (None, found[0]):
                transaction.execute(SQL.put_back_probe, (tenant, last_id, back_at, now))
        again = now + microseconds(PULLED_AGAIN_SECONDS)
        transaction.execute(SQL.pull_probes, (endpoint_id, again, *found))


def _create(transaction: Transaction, tenant: str, endpoint: Endpoint) -> Endpoint:
    quotas = None
    if is_name(tenant):
        quotas = transaction.execute(SQL.lock_counted_quotas, (tenant,)).fetchone()
    if quotas is None:
        raise NotFound("tenant", tenant)
    (count,) = transaction.execute(SQL.count_endpoints, (tenant,)).fetchone()
    text = msgspec.json.encode(endpoint.settings).decode()
    values = (endpoint.id.bytes, tenant, endpoint.name, text, transaction.now)
    is_new = transaction.execute(SQL.create_endpoint, values).rowcount == 1
    if is_new:
        check_room(tenant, "endpoints_max", count, quotas[1])
    row = transaction.execute(SQL.find_endpoint, (tenant, endpoint.name)).fetchone()
    stored = None if row is None else rows.endpoint(row)
    return check_same_endpoint(endpoint, stored)


def _delete(
    transaction: Transaction, scope: Scope, endpoint_id: UUID, check: CheckEndpoint | None
) -> str:
    """Deletes an endpoint and its secrets; returns its tenant."""
    known = get(transaction, scope, endpoint_id)
    if check is not None:
        check(known)
    tenant = known.tenant
    transaction.execute(SQL.delete_endpoint, (endpoint_id.bytes, tenant)).fetchall()
    transaction.execute(SQL.delete_secrets, (tenant, secrets_owner(endpoint_id)))
    return tenant


def _time(stored: int | None) -> datetime | None:
    return None if stored is None else from_microseconds(stored)
