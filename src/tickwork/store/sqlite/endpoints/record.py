"""Records attempts at deliveries on SQLite, and what they say about the health of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from tickwork.core.delivery.breaker import after_attempts, by_endpoint
from tickwork.core.delivery.endpoint import AttemptRecord
from tickwork.core.limits import is_possible_claim
from tickwork.core.message.system_events import endpoint_events
from tickwork.store.shared.endpoint_health import EndpointChange, log_changes
from tickwork.store.sqlite.endpoints import rows
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    from_microseconds,
    in_chunks,
    microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.system_events import publish_events


async def record(database: Database, records: Sequence[AttemptRecord]) -> tuple[bool, ...]:
    """Records attempts whose claims are still valid, in one transaction; which these are."""
    if not records:
        return ()

    def work(transaction: Transaction) -> tuple[tuple[bool, ...], list[EndpointChange]]:
        valid = _valid(transaction, records)
        new = [records[index] for index, is_new in valid.items() if is_new]
        kept = [
            (attempt_record, attempt_record.delivery_id.bytes)
            for attempt_record in new
            if attempt_record.delivery_id is not None
        ]
        transaction.connection.executemany(
            SQL.record_attempts, [_attempt_values(*pair, transaction.now) for pair in kept]
        )
        transaction.connection.executemany(
            SQL.show_attempts, [_shown_values(*pair, transaction.now) for pair in kept]
        )
        changes = _update_health(transaction, new)
        return tuple(index in valid for index in range(len(records))), changes

    are_valid, changes = await database.write(work, rows=len(records))
    log_changes(changes)
    return are_valid


def _valid(transaction: Transaction, records: Sequence[AttemptRecord]) -> dict[int, bool]:
    """The positions of records with a valid claim, and whether their attempt is new."""
    wanted = [
        (
            index,
            claim.tenant,
            claim.id.bytes,
            claim.number,
            claim.holder.bytes,
            delivery_id and delivery_id.bytes,
        )
        for index, (claim, delivery_id) in enumerate(
            (attempt_record.claim, attempt_record.delivery_id) for attempt_record in records
        )
        if is_possible_claim(claim)
    ]
    valid: dict[int, bool] = {}
    for some in in_chunks(wanted):
        statement = for_rows(SQL.claimed_attempts, len(some))
        found = transaction.execute(statement, tuple(chain.from_iterable(some)))
        valid |= {index: is_new == 1 for index, is_new in found}
    return dict(sorted(valid.items()))


def _attempt_values(record: AttemptRecord, delivery_id: bytes, now: int) -> tuple[object, ...]:
    claim, attempt = record.claim, record.attempt
    return (
        delivery_id, claim.id.bytes, claim.number,
        now - microseconds(attempt.took_seconds), attempt.took_seconds, attempt.code,
        attempt.kind and str(attempt.kind), attempt.error, attempt.excerpt,
    )  # fmt: skip


def _shown_values(record: AttemptRecord, delivery_id: bytes, now: int) -> tuple[object, ...]:
    attempt = record.attempt
    return (
        delivery_id, now - microseconds(attempt.took_seconds),
        attempt.code, attempt.error, now if attempt.is_delivered else None,
    )  # fmt: skip


def _update_health(
    transaction: Transaction, records: Iterable[AttemptRecord]
) -> list[EndpointChange]:
    """Writes the health of endpoints that attempts change, and publishes its events."""
    changes: list[EndpointChange] = []
    for (tenant, endpoint_id), own in by_endpoint(records).items():
        has_failed = not all(attempt_record.attempt.is_delivered for attempt_record in own)
        asked = (endpoint_id.bytes, has_failed)
        row = transaction.execute(SQL.endpoints_of_attempts, asked).fetchone()
        if row is None or rows.endpoint(row).tenant != tenant:
            continue
        endpoint = rows.endpoint(row)
        change = after_attempts(endpoint, own, from_microseconds(transaction.now))
        health = rows.health_values(change.health)
        values = (endpoint_id.bytes, *health, transaction.now, change.disabled_reason)
        transaction.execute(SQL.write_health, values)
        publish_events(transaction, endpoint.tenant, endpoint_events(endpoint, change))
        changes.append(EndpointChange(endpoint, change, own))
    return changes
