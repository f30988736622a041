"""System events on SQLite: published to queues and endpoints, without a queue of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from tickwork.core.delivery.endpoint import EndpointSettings
from tickwork.core.delivery.publish import system_deliveries
from tickwork.core.entity.call import entity_id
from tickwork.core.message.system_events import (
    DeadMessage,
    dead_message_events,
    schedule_paused_event,
    stream_event,
)
from tickwork.core.model import NewMessage
from tickwork.core.stream import NewStreamEvent
from tickwork.store.ids import new_id
from tickwork.store.nouns.endpoint_rows import read_settings
from tickwork.store.sqlite.endpoints.deliveries import store_deliveries
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.prepared_messages import send_exempt_copies


def publish_events(transaction: Transaction, tenant: str, events: Sequence[NewMessage]) -> int:
    """Publishes the events of a tenant; returns how many queues and new deliveries get them."""
    if not events:
        return 0
    _add_stream_events(transaction, [stream_event(new_id(), tenant, event) for event in events])
    now = from_microseconds(transaction.now)
    deliveries = system_deliveries(events, _endpoints(transaction, tenant), now)
    stored = store_deliveries(transaction, tenant, deliveries, is_exempt=True)
    return stored + send_exempt_copies(transaction, tenant, events)


def publish_dead_letters(transaction: Transaction, letters: Mapping[bytes, str]) -> None:
    """Publishes new dead letters, given by id with their tenant."""
    for tenant in {*letters.values()}:
        events: list[NewMessage] = []
        for dead_letter_id, owner in letters.items():
            if owner == tenant:
                death = dead_message(transaction, dead_letter_id)
                events += dead_message_events(death)
                if (call := death.alarm) is not None and call.alarm is not None:
                    id_ = entity_id(call.entity, call.key)
                    transaction.execute(SQL.bury_alarm, (tenant, id_.bytes, call.alarm.bytes))
        publish_events(transaction, tenant, events)


def publish_pause(
    transaction: Transaction, tenant: str, schedule_id: bytes, slot: int, error: str | None
) -> None:
    """Publishes that a dead firing has paused a schedule."""
    event = schedule_paused_event(tenant, UUID(bytes=schedule_id), from_microseconds(slot), error)
    publish_events(transaction, tenant, [event])


def _endpoints(transaction: Transaction, tenant: str) -> list[tuple[UUID, EndpointSettings]]:
    """The endpoints of a tenant that name a system event."""
    found = transaction.execute(SQL.system_event_endpoints, (tenant,)).fetchall()
    return [(UUID(bytes=id_), read_settings(text)) for id_, text in found]


def dead_message(transaction: Transaction, dead_letter_id: bytes) -> DeadMessage:
    """Reads a new dead letter."""
    (
        tenant, message_id, queue_id, queue, type_, source, reason, error, attempts, sent_at,
        correlation_id, hops, schedule_id, slot, run, idempotency_base, failed_at, body,
    ) = transaction.execute(SQL.read_death, (dead_letter_id,)).fetchone()  # fmt: skip
    return DeadMessage(
        tenant=tenant,
        dead_letter_id=UUID(bytes=dead_letter_id),
        message_id=UUID(bytes=message_id),
        queue_id=UUID(bytes=queue_id),
        queue=queue,
        type=type_,
        source=source,
        reason=reason,
        error=error,
        attempts=attempts,
        sent_at=from_microseconds(sent_at),
        correlation_id=correlation_id,
        hops=hops,
        schedule_id=None if schedule_id is None else UUID(bytes=schedule_id),
        slot=None if slot is None else from_microseconds(slot),
        run=run,
        idempotency_base=idempotency_base,
        failed_at=from_microseconds(failed_at),
        body=body,
    )


def _add_stream_events(transaction: Transaction, events: Sequence[NewStreamEvent]) -> None:
    """Stores system events for streams, in the transaction of what they report."""
    for event in events:
        schedule = None if event.schedule_id is None else event.schedule_id.bytes
        values = (event.id.bytes, event.tenant, schedule, transaction.now, event.type, event.data)
        transaction.execute(SQL.add_stream_events, values)
