"""Publishes events on SQLite: to the queues that subscribe, and to endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from uuid import UUID

from tickwork.core.delivery.endpoint import Published
from tickwork.core.delivery.publish import (
    check_event,
    check_same_event,
    event_name,
    new_deliveries,
    published,
)
from tickwork.core.model import NewMessage
from tickwork.store.nouns.endpoint_rows import read_published, read_settings
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.shared.columns import Kind
from tickwork.store.sqlite.endpoints.deliveries import store_deliveries
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.send import send_copies
from tickwork.store.steps import Statement

_FIND = Statement("find_published", id=Kind.ID)


async def publish(
    database: Database, tenant: str, event: NewMessage, owner: str | None
) -> Published:
    """Publishes an event in one transaction."""
    check_event(event)

    def work(transaction: Transaction) -> Published:
        if event.event_id is not None:
            known = carry_out(transaction, _FIND.fetch_row(tenant, event.id))
            check_same_event(event, None if known is None else read_published(known))
        found = transaction.execute(SQL.endpoint_settings, (tenant,)).fetchall()
        sent = published(event, from_microseconds(transaction.now))
        endpoints = ((UUID(bytes=id_), read_settings(text)) for id_, text in found)
        deliveries = new_deliveries(sent, endpoints, owner)
        made = store_deliveries(transaction, tenant, deliveries)
        queues = send_copies(transaction, tenant, [event])
        return Published(
            event_id=event_name(event),
            queues=len(queues),
            endpoints=len(deliveries),
            is_repeat=made < len(deliveries)
            or not all(queues.values())
            or _is_done(transaction, tenant, queues, event),
        )

    return await database.write(work)


def _is_done(
    transaction: Transaction, tenant: str, queue_ids: Iterable[bytes], event: NewMessage
) -> bool:
    """Whether the event was handled before in one of the queues."""
    ids = json.dumps([] if event.event_id is None else [event.event_id])
    return any(
        transaction.execute(SQL.done_events, (tenant, queue_id, ids)).fetchone()
        for queue_id in queue_ids
    )
