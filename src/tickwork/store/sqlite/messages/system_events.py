"""System events on SQLite: published to subscribers, without a queue of their own."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tickwork.core.message.system_events import (
    DeadMessage,
    dead_message_events,
    matches_system_event,
    schedule_paused_event,
)
from tickwork.core.model import NewMessage
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.send import send_copies


def publish_dead_letters(transaction: Transaction, letters: Mapping[bytes, str]) -> None:
    """Publishes new dead letters, given by id with their tenant."""
    for tenant in {*letters.values()}:
        if not _has_subscriber(transaction, tenant):
            continue
        events: list[NewMessage] = []
        for dead_letter_id, owner in letters.items():
            if owner == tenant:
                events += dead_message_events(dead_message(transaction, dead_letter_id))
        send_copies(transaction, tenant, events, is_exempt=True)


def publish_pause(
    transaction: Transaction, tenant: str, schedule_id: bytes, slot: int, error: str | None
) -> None:
    """Publishes that a dead firing has paused a schedule."""
    if _has_subscriber(transaction, tenant):
        event = schedule_paused_event(
            tenant, UUID(bytes=schedule_id), from_microseconds(slot), error
        )
        send_copies(transaction, tenant, [event], is_exempt=True)


def _has_subscriber(transaction: Transaction, tenant: str) -> bool:
    found = transaction.execute(SQL.subscriptions_of, (tenant,)).fetchall()
    return any(matches_system_event(types) for types, *_ in found)


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
