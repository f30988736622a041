"""Records attempts at deliveries on PostgreSQL, and what they say about the health of endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tickwork.core.delivery.breaker import after_attempts, by_endpoint
from tickwork.core.delivery.endpoint import AttemptRecord
from tickwork.core.limits import is_possible_claim
from tickwork.core.message.system_events import endpoint_events
from tickwork.core.model import NewMessage
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.endpoints import rows
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender
from tickwork.store.postgres.messages.system_events import event_groups, receivers
from tickwork.store.shared.columns import HEALTH
from tickwork.store.shared.endpoint_health import EndpointChange, log_changes


class AttemptRecorder:
    """Records attempts."""

    def __init__(self, database: Database, moment: Moment, sender: Sender) -> None:
        self._database = database
        self._moment = moment
        self._sender = sender

    async def record(self, records: Sequence[AttemptRecord]) -> tuple[bool, ...]:
        """Records attempts whose claims are still valid, in one transaction; which these are."""
        possible = [record for record in records if is_possible_claim(record.claim)]
        if not possible:
            return (False,) * len(records)

        async def work(
            connection: Connection,
        ) -> tuple[set[int], list[Group], list[EndpointChange]]:
            found = await connection.fetch(SQL.record_attempts, self._moment(), *_columns(possible))
            new = [possible[row["position"] - 1] for row in found if row["is_new"]]
            stored, changes = list[Group](), list[EndpointChange]()
            if new:
                changes = await self._update_health(connection, new, found[0]["now"])
                stored = await self._publish(connection, changes)
            return {id(possible[row["position"] - 1]) for row in found}, stored, changes

        try:
            valid, stored, changes = await self._database.transact(work)
        except NotFound:
            # A queue that subscribes to an event was deleted.
            valid, stored, changes = await self._database.transact(work)
        self._sender.after_commit(stored)
        log_changes(changes)
        return tuple(id(record) in valid for record in records)

    async def _update_health(
        self, connection: Connection, records: Sequence[AttemptRecord], now: datetime
    ) -> list[EndpointChange]:
        """Writes the health of endpoints that attempts change."""
        attempts = by_endpoint(records)
        failed = {record.endpoint_id for record in records if not record.attempt.is_delivered}
        found = await connection.fetch(
            SQL.endpoints_of_attempts, [endpoint_id for _, endpoint_id in attempts], list(failed)
        )
        endpoints = [
            endpoint
            for endpoint in map(rows.endpoint, found)
            if (endpoint.tenant, endpoint.id) in attempts
        ]
        if not endpoints:
            return []
        changes = [
            after_attempts(endpoint, attempts[endpoint.tenant, endpoint.id], now)
            for endpoint in endpoints
        ]
        await connection.execute(
            SQL.write_health,
            now,
            [endpoint.id for endpoint in endpoints],
            *([getattr(change.health, name) for change in changes] for name in HEALTH),
            [change.disabled_reason for change in changes],
        )
        return [
            EndpointChange(endpoint, change, attempts[endpoint.tenant, endpoint.id])
            for endpoint, change in zip(endpoints, changes, strict=True)
        ]

    async def _publish(
        self, connection: Connection, changes: Sequence[EndpointChange]
    ) -> list[Group]:
        """Publishes the events of changes of endpoints."""
        events: dict[str, list[NewMessage]] = {}
        for endpoint, change, _ in changes:
            if change.events:
                events.setdefault(endpoint.tenant, []).extend(endpoint_events(endpoint, change))
        if not events:
            return []
        found_receivers = await receivers(connection, self._moment, events)
        groups = await event_groups(connection, events, found_receivers)
        if not groups:
            return []
        backlog = BacklogChange()
        stored = await self._sender.store(connection, groups, new_id(), backlog)
        await change_backlog(connection, backlog)
        return stored


def _columns(records: Sequence[AttemptRecord]) -> tuple[list[object], ...]:
    claims, attempts = [record.claim for record in records], [record.attempt for record in records]
    return (
        [claim.tenant for claim in claims],
        [claim.id for claim in claims],
        [claim.number for claim in claims],
        [claim.holder for claim in claims],
        [record.delivery_id for record in records],
        [attempt.took_seconds for attempt in attempts],
        [attempt.code for attempt in attempts],
        [attempt.kind for attempt in attempts],
        [attempt.error for attempt in attempts],
        [attempt.excerpt for attempt in attempts],
    )
