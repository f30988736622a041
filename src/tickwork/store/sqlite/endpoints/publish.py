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
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.send import Sent, send_copies
from tickwork.store.steps import Statement

_FIND = Statement("find_published", id=Kind.ID)


class NewEvent:
    """An event to publish, in one transaction."""

    def __init__(self, tenant: str, event: NewMessage, owner: str | None) -> None:
        check_event(event)
        self._tenant = tenant
        self._event = event
        self._owner = owner

    def find(self, transaction: Transaction) -> None:
        """Raises `Conflict` if its `event_id` was used for another event."""
        if self._event.event_id is not None:
            known = carry_out(transaction, _FIND.fetch_row(self._tenant, self._event.id))
            check_same_event(self._event, None if known is None else read_published(known))

    def deliver(self, transaction: Transaction) -> tuple[int, int]:
        """Stores its deliveries to endpoints, without copies for queues. Returns how many endpoints
        receive it, and how many of them did not have it before."""
        found = transaction.execute(SQL.endpoint_settings, (self._tenant,)).fetchall()
        sent = published(self._event, from_microseconds(transaction.now))
        endpoints = ((UUID(bytes=id_), read_settings(text)) for id_, text in found)
        deliveries = new_deliveries(sent, endpoints, self._owner)
        return len(deliveries), store_deliveries(transaction, self._tenant, deliveries)

    def store_own(self, transaction: Transaction) -> Sent:
        """Stores its deliveries to endpoints, without copies for queues."""
        self.find(transaction)  # An event of the same settlement may have its `event_id`.
        self.deliver(transaction)
        return self._tenant, [self._event], None

    def publish(self, transaction: Transaction) -> Published:
        """Stores its deliveries and its copies."""
        self.find(transaction)
        endpoints, new = self.deliver(transaction)
        queues = send_copies(transaction, self._tenant, [self._event])
        return Published(
            event_id=event_name(self._event),
            queues=len(queues),
            endpoints=endpoints,
            is_repeat=new < endpoints
            or not all(queues.values())
            or _is_done(transaction, self._tenant, queues, self._event),
        )


def _is_done(
    transaction: Transaction, tenant: str, queue_ids: Iterable[bytes], event: NewMessage
) -> bool:
    """Whether the event was handled before in one of the queues."""
    ids = json.dumps([] if event.event_id is None else [event.event_id])
    return any(
        transaction.execute(SQL.done_events, (tenant, queue_id, ids)).fetchone()
        for queue_id in queue_ids
    )
