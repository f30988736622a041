"""Deliveries on SQLite: list them with their attempts, count them, and send them again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    Attempt,
    DeliverySelection,
    DeliveryStatus,
    EndpointDelivery,
    EndpointStats,
)
from tickwork.core.delivery.publish import (
    NewDelivery,
    check_resend,
    delivery_message,
    event_name,
    spacing,
)
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import SYSTEM, NewMessage, Scope
from tickwork.errors import NotFound
from tickwork.store.ids import new_id, own_tenant
from tickwork.store.sqlite.endpoints import rows
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks, microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.rows import Row

_LAST = 2**62
_LAST_ID = b"\xff" * 17
_FIRST_ID = b""


class Deliveries:
    """Deliveries to endpoints."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, scope: Scope, delivery_id: UUID) -> EndpointDelivery:
        """One delivery."""
        return await self._database.read(lambda transaction: _get(transaction, scope, delivery_id))

    async def select(
        self, scope: Scope, selection: DeliverySelection, before: UUID | None
    ) -> tuple[EndpointDelivery, ...]:
        """The selected deliveries, newest first."""
        check_limit(selection.limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()

        def work(transaction: Transaction) -> list[Row]:
            position = (_LAST, _LAST_ID)
            if before is not None:
                first = _get(transaction, scope, before)
                position = (to_microseconds(first.published_at), before.bytes)
            if selection.until is not None:
                position = min(position, (to_microseconds(selection.until), _FIRST_ID))
            since = -_LAST if selection.since is None else to_microseconds(selection.since)
            statement, status = _listing(selection)
            endpoint_id = selection.endpoint_id and selection.endpoint_id.bytes
            values = (tenant, endpoint_id, *position, since, status, selection.limit)
            return transaction.execute(statement, values).fetchall()

        return tuple(map(rows.delivery, await self._database.read(work)))

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

        def work(transaction: Transaction) -> list[Row]:
            position = (-_LAST if since is None else to_microseconds(since), _FIRST_ID)
            if after is not None:
                last = _get(transaction, scope, after)
                position = (to_microseconds(last.published_at), after.bytes)
            values = (tenant, endpoint_id.bytes, *position, to_microseconds(until), limit)
            return transaction.execute(SQL.undelivered_ids, values).fetchall()

        return tuple(UUID(bytes=id_) for (id_,) in await self._database.read(work))

    async def attempts(
        self, scope: Scope, delivery_id: UUID, limit: int | None, after: int
    ) -> tuple[Attempt, ...]:
        """The attempts at a delivery in order, after a given number."""

        def work(transaction: Transaction) -> list[Row]:
            _get(transaction, scope, delivery_id)
            asked = (delivery_id.bytes, after, limit)
            return transaction.execute(SQL.list_attempts, asked).fetchall()

        return tuple(map(rows.attempt, await self._database.read(work)))

    async def resend(
        self,
        scope: Scope,
        delivery_ids: Sequence[UUID],
        rate_per_second: float | None,
        first_after_seconds: float,
    ) -> int:
        """Sends deliveries again, oldest first; returns how many."""
        ids = tuple(dict.fromkeys(delivery_ids))
        check_resend(len(ids), rate_per_second, first_after_seconds)
        if scope.tenant is not None and not is_name(scope.tenant):
            return 0
        every = spacing(rate_per_second)

        def work(transaction: Transaction) -> int:
            found = _resent(transaction, scope, ids)
            for index, delivery in enumerate(found):
                _resend(transaction, delivery, first_after_seconds + index * every)
            return len(found)

        return await self._database.change(work, rows=len(ids))

    async def stats(self, tenant: str, endpoint_id: UUID, since: datetime) -> EndpointStats:
        """The numbers of the deliveries published to an endpoint since a time."""
        values = (tenant, endpoint_id.bytes, to_microseconds(since))

        def work(transaction: Transaction) -> tuple[Any, ...]:
            statuses = transaction.execute(SQL.delivery_stats, values[1:]).fetchone()
            return (*statuses, *transaction.execute(SQL.attempt_stats, values).fetchone())

        waiting, delivered, dead, attempts, failed, p50, p95 = await self._database.read(work)
        return EndpointStats(
            waiting=waiting,
            delivered=delivered,
            dead=dead,
            attempts=attempts,
            failed_attempts=failed,
            p50_seconds=p50,
            p95_seconds=p95,
        )


def _get(transaction: Transaction, scope: Scope, delivery_id: UUID) -> EndpointDelivery:
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        values = (delivery_id.bytes, scope.tenant)
        row = transaction.execute(SQL.get_delivery, values).fetchone()
    if row is None:
        raise NotFound("delivery", delivery_id)
    return rows.delivery(row)


def _listing(selection: DeliverySelection) -> tuple[str, int | None]:
    """The statement for a selection, and its condition on the status."""
    is_of_endpoint, status = selection.endpoint_id is not None, selection.status
    if status is DeliveryStatus.DEAD:
        return SQL.endpoint_dead if is_of_endpoint else SQL.tenant_dead, None
    if selection.is_undelivered or status is DeliveryStatus.WAITING:
        statement = SQL.endpoint_undelivered if is_of_endpoint else SQL.tenant_undelivered
        return statement, None if status is None else 1
    statement = SQL.endpoint_deliveries if is_of_endpoint else SQL.tenant_deliveries
    return statement, None if status is None else 1


class _Resent(NamedTuple):
    """A delivery to send again. It waits, or `message` is its new message."""

    id: UUID
    tenant: str
    message_id: bytes
    published_at: int
    message: NewMessage | None


def _resent(transaction: Transaction, scope: Scope, ids: Sequence[UUID]) -> list[_Resent]:
    """The deliveries that can be sent again, oldest first."""
    found: list[_Resent] = []
    for delivery_id in ids:
        row = transaction.execute(
            SQL.deliveries_to_resend, (delivery_id.bytes, scope.tenant)
        ).fetchone()
        if row is None:
            continue
        tenant, endpoint_id, text, message_id, published_at, has_message, *published = row
        message = None
        if not has_message:
            if published[0] is None:
                continue
            message = delivery_message(
                rows.published(published),
                UUID(bytes=endpoint_id),
                rows.settings(text),
                delivery_id=delivery_id,
                message_id=new_id(),
            )
        found.append(_Resent(delivery_id, tenant, message_id, published_at, message))
    return sorted(found, key=lambda delivery: (delivery.published_at, delivery.id.bytes))


def _resend(transaction: Transaction, resent: _Resent, delay_seconds: float) -> None:
    queue = find_queue(transaction, SYSTEM, ENDPOINTS_QUEUE)
    if resent.message is None:
        show_message(transaction, resent.tenant, resent.message_id, microseconds(delay_seconds))
        return
    message = structs.replace(resent.message, delay_seconds=delay_seconds)
    PreparedMessages([message]).store(transaction, resent.tenant, queue)
    values = (resent.id.bytes, message.id.bytes, resent.tenant)
    transaction.execute(SQL.resend_deliveries, values)
    resolved = (resent.tenant, resent.message_id, message.id.bytes, transaction.now)
    transaction.execute(SQL.resolve_dead_letters, resolved)


def show_message(
    transaction: Transaction, tenant: str, message_id: bytes, delay_microseconds: int
) -> int:
    """Makes a message that waits visible after a delay; returns 1 if it did, else 0."""
    values = (tenant, message_id, transaction.now + delay_microseconds)
    found = transaction.execute(SQL.show_messages, values).fetchall()
    transaction.queues_to_wake.update(UUID(bytes=queue_id) for (queue_id,) in found)
    return len(found)


def begin_delivery(transaction: Transaction, tenant: str, delivery: SlotDelivery) -> bool:
    """Stores a delivery whose message exists already; whether it is still to be made."""
    event, common = delivery.event, (tenant, transaction.now)
    if not delivery.is_sent_once:
        transaction.execute(SQL.record_published, (*common, *rows.published_values(event)))
    ids = (delivery.id.bytes, delivery.message_id.bytes, delivery.endpoint_id.bytes)
    row = transaction.execute(
        SQL.begin_delivery,
        (*common, *ids, event_name(event), event.type, delivery.running_code),
    ).fetchone()
    return bool(row[0])


def store_deliveries(
    transaction: Transaction,
    tenant: str,
    deliveries: Sequence[NewDelivery],
    *,
    is_exempt: bool = False,
) -> int:
    """Stores published events, and the deliveries that are new with their messages; returns their
    number."""
    if not deliveries:
        return 0
    events = {delivery.event.id: delivery.event for delivery in deliveries}
    common = (tenant, transaction.now)
    values = [(*common, *rows.published_values(event)) for event in events.values()]
    transaction.connection.executemany(SQL.record_published, values)
    new: set[bytes] = set()
    for some in in_chunks(deliveries):
        own = chain.from_iterable(map(_delivery_values, some))
        statement = for_rows(SQL.record_deliveries, len(some))
        new.update(id_ for (id_,) in transaction.execute(statement, (*common, *own)))
    messages = [delivery.message for delivery in deliveries if delivery.id.bytes in new]
    if messages:
        queue = find_queue(transaction, SYSTEM, ENDPOINTS_QUEUE)
        PreparedMessages(messages).store(transaction, tenant, queue, is_exempt=is_exempt)
    return len(messages)


def _delivery_values(delivery: NewDelivery) -> tuple[object, ...]:
    event = delivery.event
    names = (delivery.id.bytes, delivery.endpoint_id.bytes, event.id.bytes)
    return (*names, event_name(event), event.type)
