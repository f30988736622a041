"""Publishes events on SQLite: to the queues that subscribe, and to endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from uuid import UUID

from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE, Published
from tickwork.core.delivery.publish import (
    NewDelivery,
    check_event,
    event_name,
    new_deliveries,
    published,
)
from tickwork.core.model import SYSTEM, NewMessage
from tickwork.store.sqlite.endpoints import rows
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, for_rows, from_microseconds, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.send import PreparedMessages, find_queue, send_copies


async def publish(
    database: Database, tenant: str, event: NewMessage, owner: str | None
) -> Published:
    """Publishes an event in one transaction."""
    check_event(event)

    def work(transaction: Transaction) -> Published:
        found = transaction.execute(SQL.endpoint_settings, (tenant,)).fetchall()
        sent = published(event, from_microseconds(transaction.now))
        endpoints = ((UUID(bytes=id_), rows.settings(text)) for id_, text in found)
        deliveries = new_deliveries(sent, endpoints, owner)
        store_deliveries(transaction, tenant, deliveries)
        return Published(
            event_id=event_name(event),
            queues=send_copies(transaction, tenant, [event]),
            endpoints=len(deliveries),
        )

    return await database.write(work)


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
    events = {each.event.id: each.event for each in deliveries}
    common = (tenant, transaction.now)
    values = [(*common, *rows.published_values(each)) for each in events.values()]
    transaction.connection.executemany(SQL.record_published, values)
    new: set[bytes] = set()
    for some in in_chunks(deliveries):
        own = chain.from_iterable(map(_delivery_values, some))
        statement = for_rows(SQL.record_deliveries, len(some))
        new.update(id_ for (id_,) in transaction.execute(statement, (*common, *own)))
    messages = [each.message for each in deliveries if each.id.bytes in new]
    if messages:
        queue = find_queue(transaction, SYSTEM, ENDPOINTS_QUEUE)
        PreparedMessages(messages).store(transaction, tenant, queue, is_exempt=is_exempt)
    return len(messages)


def _delivery_values(delivery: NewDelivery) -> tuple[object, ...]:
    event = delivery.event
    names = (delivery.id.bytes, delivery.endpoint_id.bytes, event.id.bytes)
    return (*names, event_name(event), event.type)
