"""Deliveries on PostgreSQL: list them with their attempts, count them, and send them again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.core.delivery.endpoint import (
    Attempt,
    DeliverySelection,
    DeliveryStatus,
    EndpointDelivery,
    EndpointStats,
)
from tickwork.core.delivery.publish import check_resend, delivery_message, spacing
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Ending, NewMessage, Scope
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, new_id, own_tenant
from tickwork.store.postgres.endpoints import rows
from tickwork.store.postgres.endpoints.publish import Publisher
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender

_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)


class Deliveries:
    """Deliveries to endpoints."""

    def __init__(
        self, database: Database, moment: Moment, sender: Sender, publisher: Publisher
    ) -> None:
        self._database, self._moment = database, moment
        self._sender, self._publisher = sender, publisher

    async def get(self, scope: Scope, delivery_id: UUID) -> EndpointDelivery:
        """One delivery."""
        row = None
        if scope.tenant is None or is_name(scope.tenant):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_delivery, delivery_id, scope.tenant)
            )
        if row is None:
            raise NotFound("delivery", delivery_id)
        return rows.delivery(row)

    async def select(
        self, scope: Scope, selection: DeliverySelection, before: UUID | None
    ) -> tuple[EndpointDelivery, ...]:
        """The selected deliveries, newest first."""
        check_limit(selection.limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        at, last_id = None, _LAST_ID
        if before is not None:
            at, last_id = (await self.get(scope, before)).published_at, before
        if selection.until is not None and (at is None or selection.until <= at):
            at, last_id = selection.until, _FIRST_ID
        is_of_endpoint = selection.endpoint_id is not None
        found = await self._database.fetch_with_custom_plan(
            SQL.endpoint_deliveries if is_of_endpoint else SQL.tenant_deliveries,
            tenant,
            selection.endpoint_id,
            at,
            last_id,
            selection.since,
            *_wanted(selection),
            selection.limit,
        )
        return tuple(map(rows.delivery, found))

    async def undelivered(
        self,
        scope: Scope,
        endpoint_id: UUID,
        *,
        since: datetime | None,
        until: datetime,
        limit: int,
        after: UUID | None,
    ) -> tuple[UUID, ...]:
        """The ids of deliveries that did not arrive, oldest first."""
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        position: tuple[datetime | None, UUID] = (since, _FIRST_ID)
        if after is not None:
            position = ((await self.get(scope, after)).published_at, after)
        found = await self._database.fetch_with_custom_plan(
            SQL.undelivered_ids, tenant, endpoint_id, *position, until, limit
        )
        return tuple(row["id"] for row in found)

    async def attempts(
        self, scope: Scope, delivery_id: UUID, limit: int | None, after: int
    ) -> tuple[Attempt, ...]:
        """The attempts at a delivery in order, after a given number."""
        await self.get(scope, delivery_id)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_attempts, delivery_id, after, limit)
        )
        return tuple(map(rows.attempt, found))

    async def resend(
        self,
        scope: Scope,
        delivery_ids: Sequence[UUID],
        rate_per_second: float | None,
        first_after_seconds: float,
    ) -> int:
        """Sends deliveries again, oldest first; returns how many."""
        ids = list(dict.fromkeys(delivery_ids))
        check_resend(len(ids), rate_per_second, first_after_seconds)
        if scope.tenant is not None and not is_name(scope.tenant):
            return 0
        every = spacing(rate_per_second)

        async def work(connection: Connection) -> tuple[int, list[Group], UUID]:
            queue_id = await self._publisher.queue_id(connection)
            # Two statements, so that the second sees what was written while the first waited.
            locked = await connection.fetch(SQL.lock_deliveries, ids, scope.tenant)
            found = await connection.fetch(SQL.deliveries_to_resend, [row["id"] for row in locked])
            sent = [row for row in found if row["has_message"] or row["id"] is not None]
            delays = [first_after_seconds + index * every for index in range(len(sent))]
            await self._show(connection, sent, delays)
            return len(sent), await self._send(connection, sent, delays), queue_id

        # Not repeated: a second run might send what the first one has sent.
        number, stored, queue_id = await self._database.change(work, repeatable=False)
        self._sender.after_commit(stored)
        self._sender.wake([queue_id])
        return number

    async def stats(self, tenant: str, endpoint_id: UUID, since: datetime) -> EndpointStats:
        """The numbers of the deliveries published to an endpoint since a time."""
        asked = (tenant, endpoint_id, since)

        async def work(connection: Connection) -> tuple[Any, ...]:
            statuses = await connection.fetchrow(SQL.delivery_stats, *asked[1:])
            attempts = await connection.fetchrow(SQL.attempt_stats, *asked)
            assert statuses is not None
            assert attempts is not None
            return (*statuses, *attempts)

        waiting, delivered, dead, attempts, failed, p50, p95 = await self._database.run(work)
        return EndpointStats(
            waiting=waiting,
            delivered=delivered,
            dead=dead,
            attempts=attempts,
            failed_attempts=failed,
            p50_seconds=p50,
            p95_seconds=p95,
        )

    async def _show(
        self, connection: Connection, sent: Sequence[Any], delays: Sequence[float]
    ) -> None:
        """Makes the messages of deliveries that wait visible."""
        waiting = [pair for pair in zip(sent, delays, strict=True) if pair[0]["has_message"]]
        if waiting:
            await connection.execute(
                SQL.show_messages,
                self._moment(),
                [row["tenant"] for row, _ in waiting],
                [row["message_id"] for row, _ in waiting],
                [delay for _, delay in waiting],
            )

    async def _send(
        self, connection: Connection, sent: Sequence[Any], delays: Sequence[float]
    ) -> list[Group]:
        """Gives deliveries without a message a new one, and resolves their dead letters."""
        new = [
            (row, _message(row, delay))
            for row, delay in zip(sent, delays, strict=True)
            if not row["has_message"]
        ]
        if not new:
            return []
        by_tenant: dict[str, list[NewMessage]] = {}
        for row, message in new:
            by_tenant.setdefault(row["tenant"], []).append(message)
        groups = [
            await self._publisher.group(connection, tenant, messages)
            for tenant, messages in by_tenant.items()
        ]
        message_ids = [message.id for _, message in new]
        tenants = [row["tenant"] for row, _ in new]
        await connection.execute(
            SQL.resend_deliveries, [row["delivery_id"] for row, _ in new], message_ids, tenants
        )
        await connection.execute(
            SQL.resolve_dead_letters,
            self._moment(),
            tenants,
            [row["message_id"] for row, _ in new],
            message_ids,
        )
        backlog = BacklogChange()
        stored = await self._sender.store(connection, groups, new_id(), backlog)
        await change_backlog(connection, backlog)
        return stored


async def wake_enabled(
    connection: Connection, moment: Moment, released: Sequence[Ending]
) -> set[UUID]:
    """Makes messages visible that were released to wait for endpoints that are not disabled any
    more: enabling them did not find the messages while they were claimed. Returns their queues."""
    waiting = [ending for ending in released if ending.endpoint_id is not None]
    if not waiting:
        return set()
    woken = await connection.fetch(
        SQL.wake_enabled,
        moment(),
        [ending.claim.tenant for ending in waiting],
        [ending.claim.id for ending in waiting],
        [ending.endpoint_id for ending in waiting],
    )
    return {row["queue_id"] for row in woken}


def _wanted(selection: DeliverySelection) -> tuple[bool | None, bool | None]:
    """Whether deliveries must be delivered, and whether undelivered ones must be waiting."""
    status = selection.status
    if selection.is_undelivered or status in (DeliveryStatus.WAITING, DeliveryStatus.DEAD):
        return False, None if status is None else status is DeliveryStatus.WAITING
    return (None if status is None else True), None


def _message(row: Any, delay_seconds: float) -> NewMessage:
    message = delivery_message(
        rows.published(row),
        row["endpoint_id"],
        rows.settings(row["settings"]),
        delivery_id=row["delivery_id"],
        message_id=new_id(),
    )
    return structs.replace(message, delay_seconds=delay_seconds)
