"""What settlements do for deliveries, on SQLite; and the deliveries of what is published."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from uuid import UUID

from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE, EndpointWait
from tickwork.core.delivery.publish import NewDelivery, event_name
from tickwork.core.model import SYSTEM, NewMessage
from tickwork.store.nouns.endpoint_rows import published_values
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.effects import EffectWriter
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages
from tickwork.store.sqlite.messages.queue_rows import find_queue


class EndpointWaitWriter(EffectWriter[EndpointWait]):
    """Makes messages visible that were released to wait for endpoints that are not disabled any
    more: enabling them did not find the messages while they were claimed."""

    def released(self, transaction: Transaction, released: Collection[int]) -> None:
        for claim, wait, _ in self._of(released):
            asked = (claim.tenant, claim.id.bytes, transaction.now, wait.endpoint_id.bytes)
            row = transaction.execute(SQL.wake_enabled, asked).fetchone()
            if row is not None:
                transaction.queues_to_wake.add(UUID(bytes=row[0]))


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
    values = [(*common, *_published_values(event)) for event in events.values()]
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


def _published_values(event: NewMessage) -> tuple[object, ...]:
    return (event.id.bytes, *published_values(event)[1:])


def _delivery_values(delivery: NewDelivery) -> tuple[object, ...]:
    event = delivery.event
    names = (delivery.id.bytes, delivery.endpoint_id.bytes, event.id.bytes)
    return (*names, event_name(event), event.type)
