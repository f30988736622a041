"""System events on SQLite: published to queues and endpoints, without a queue of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from tickwork.core.delivery.endpoint import EndpointSettings
from tickwork.core.delivery.publish import system_deliveries
from tickwork.core.message.system_events import (
    DeadMessage,
    dead_message_events,
    matches_system_event,
    schedule_paused_event,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.endpoints import rows
from tickwork.store.sqlite.endpoints.publish import store_deliveries
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.send import send_copies


async def publish(database: Database, scope: Scope, event: NewMessage) -> int:
    """Publishes one event; returns to how many queues and endpoints."""
    tenant = own_tenant(scope)
    return await database.write(lambda transaction: publish_events(transaction, tenant, [event]))


def publish_events(transaction: Transaction, tenant: str, events: Sequence[NewMessage]) -> int:
    """Publishes the events of a tenant; returns how many queues and new deliveries get them."""
    if not events:
        return 0
    now = from_microseconds(transaction.now)
    deliveries = system_deliveries(events, _endpoints(transaction, tenant), now)
    stored = store_deliveries(transaction, tenant, deliveries, is_exempt=True)
    return stored + send_copies(transaction, tenant, events, is_exempt=True)


def publish_dead_letters(transaction: Transaction, letters: Mapping[bytes, str]) -> None:
    """Publishes new dead letters, given by id with their tenant."""
    for tenant in {*letters.values()}:
        if not _has_receiver(transaction, tenant):
            continue
        events: list[NewMessage] = []
        for dead_letter_id, owner in letters.items():
            if owner == tenant:
                events += dead_message_events(dead_message(transaction, dead_letter_id))
        publish_events(transaction, tenant, events)


def publish_pause(
    transaction: Transaction, tenant: str, schedule_id: bytes, slot: int, error: str | None
) -> None:
    """Publishes that a dead firing has paused a schedule."""
    if _has_receiver(transaction, tenant):
        event = schedule_paused_event(
            tenant, UUID(bytes=schedule_id), from_microseconds(slot), error
        )
        publish_events(transaction, tenant, [event])


def _has_receiver(transaction: Transaction, tenant: str) -> bool:
    found = transaction.execute(SQL.subscriptions_of, (tenant,)).fetchall()
    is_subscribed = any(matches_system_event(types) for types, *_ in found)
    return is_subscribed or bool(_endpoints(transaction, tenant))


def _endpoints(transaction: Transaction, tenant: str) -> list[tuple[UUID, EndpointSettings]]:
    """The endpoints of a tenant that name a system event."""
    found = transaction.execute(SQL.system_event_endpoints, (tenant,)).fetchall()
    return [(UUID(bytes=id_), rows.settings(text)) for id_, text in found]


def dead_message(transaction: Transaction, dead_letter_id: bytes) -> DeadMessage:
    """Reads a new dead letter."""
    (
        tenant, message_id, queue_id, queue, type_, source, reason, error, attempts, sent_at,
        correlation_id, hops, schedule_id, slot, run, idempotency_base, failed_at,
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
    )
