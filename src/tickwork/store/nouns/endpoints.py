"""Endpoints: who gets deliveries, their health, and what is done about those that fail.

Publishing, and taking the time of a probe, is in each store.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.delivery.breaker import HealthChange, after_attempts, by_endpoint
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    AttemptRecord,
    Endpoint,
    EndpointSettings,
    EndpointStats,
    check_same_endpoint,
    secrets_owner,
)
from tickwork.core.delivery.publish import spacing_after_enable
from tickwork.core.delivery.push import PushQueue
from tickwork.core.fields import iso
from tickwork.core.health_facts import DEAD_LOOKED_AT_MAX, DeliveryFacts, EndpointFacts
from tickwork.core.limits import check_limit, check_system, is_name, is_possible_claim
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.message.message_list import NO_ID, START_OF_TIME
from tickwork.core.message.system_events import endpoint_events
from tickwork.core.model import SYSTEM, NewMessage, Scope, StoredQueue
from tickwork.core.tenant_limits import check_room
from tickwork.errors import NotFound
from tickwork.store.delivery_contract import CheckEndpoint
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.deliveries import Deliveries, show_messages
from tickwork.store.nouns.endpoint_rows import ENDPOINT_KINDS, read_endpoint
from tickwork.store.nouns.queues import read_queue
from tickwork.store.nouns.secrets import DELETE_SECRETS
from tickwork.store.nouns.tenants import LOCK_QUOTAS
from tickwork.store.shared.columns import HEALTH, Kind
from tickwork.store.steps import (
    NOW,
    After,
    Row,
    Statement,
    Steps,
    changes,
    changes_once,
    page,
    reads,
    searches,
    writes,
)

CHUNK_DELIVERIES = 1_000
"""Number of deliveries whose messages one transaction changes."""

_GET = Statement("get_endpoint", Endpoint, **ENDPOINT_KINDS)
_FIND = Statement("find_endpoint", Endpoint, **ENDPOINT_KINDS)
_LIST = Statement("list_endpoints", Endpoint, **ENDPOINT_KINDS)
_LOCK = Statement("lock_endpoint", Endpoint, **ENDPOINT_KINDS)
_TROUBLED = Statement("troubled_endpoints", EndpointFacts)
_DEAD_SINCE = Statement("dead_deliveries_since", DeliveryFacts)
_COUNT = Statement("count_endpoints")
_CREATE = Statement("create_endpoint")
_UPDATE = Statement("update_endpoint", Endpoint, **ENDPOINT_KINDS)
_DISABLE = Statement("disable_endpoint", Endpoint, **ENDPOINT_KINDS)
_ENABLE = Statement("enable_endpoint", Endpoint, **ENDPOINT_KINDS)
_DELETE = Statement("delete_endpoint")
_WAITING = Statement(
    "waiting_deliveries",
    id=Kind.ID,
    queue_id=Kind.ID,
    published_at=Kind.TIME,
    delivery_id=Kind.ID,
)
_PROBE = Statement("probe_endpoint", id=Kind.ID)
_PUSHING = Statement(
    "pushing_queues",
    StoredQueue,
    has_endpoint=Kind.FLAG,
    is_disabled=Kind.FLAG,
    open_until=Kind.TIME,
)
_OF_ATTEMPTS = Statement("endpoints_of_attempts", Endpoint, **ENDPOINT_KINDS)
_WRITE_HEALTH = Statement("write_health")
_STATS = Statement("delivery_stats")
_ATTEMPT_STATS = Statement("attempt_stats")

_log = logging.getLogger("tickwork")

_Position = tuple[datetime, UUID]


class EndpointChange(NamedTuple):
    """An endpoint as it was before some attempts, and what they changed."""

    endpoint: Endpoint
    change: HealthChange
    records: Sequence[AttemptRecord]


class Endpoints(Deliveries):
    """Endpoints, and what is published to them."""

    @changes
    def create(self, scope: Scope, endpoint: Endpoint) -> Steps[Endpoint]:
        tenant = own_tenant(scope)
        quotas = (yield from LOCK_QUOTAS.fetch_row(tenant)) if is_name(tenant) else None
        if quotas is None:
            raise NotFound("tenant", tenant)
        count = yield from _COUNT.fetch_value(tenant)
        text = msgspec.json.encode(endpoint.settings).decode()
        if (yield from _CREATE.execute(NOW, endpoint.id, tenant, endpoint.name, text)):
            check_room(tenant, "endpoints_max", count, quotas["endpoints_max"])
        stored = yield from find_endpoint(tenant, endpoint.name)
        return check_same_endpoint(endpoint, stored)

    @reads
    def get(self, scope: Scope, name_or_id: str | UUID) -> Steps[Endpoint]:
        if isinstance(name_or_id, UUID):
            return (yield from _get(scope, name_or_id))
        tenant, endpoint = own_tenant(scope), None
        if is_name(tenant) and is_name(name_or_id):
            endpoint = yield from find_endpoint(tenant, name_or_id)
        if endpoint is None:
            raise NotFound("endpoint", name_or_id)
        return endpoint

    @reads
    def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> Steps[tuple[Endpoint, ...]]:
        if after and not is_name(after):
            return ()
        return (yield from page(_LIST, read_endpoint, scope, after or "", limit=limit))

    @reads
    def troubled(self, scope: Scope, limit: int) -> Steps[tuple[EndpointFacts, ...]]:
        return (yield from page(_TROUBLED, lambda row: EndpointFacts(**row), scope, limit=limit))

    @searches
    def dead_since(self, scope: Scope, since: datetime, limit: int) -> Steps[DeliveryFacts]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return DeliveryFacts()
        row = yield from _DEAD_SINCE.fetch_row(tenant, since, limit, DEAD_LOOKED_AT_MAX)
        assert row is not None
        return DeliveryFacts(**row)

    @changes
    def update(
        self,
        scope: Scope,
        endpoint_id: UUID,
        settings: EndpointSettings,
        *,
        check: CheckEndpoint | None = None,
    ) -> Steps[Endpoint]:
        yield from _check(scope.tenant, endpoint_id, check)
        text = msgspec.json.encode(settings).decode()
        return (yield from _changed(_UPDATE, scope, endpoint_id, text))

    @changes
    def disable(self, scope: Scope, endpoint_id: UUID, reason: str) -> Steps[Endpoint]:
        return (yield from _changed(_DISABLE, scope, endpoint_id, reason))

    async def enable(self, scope: Scope, endpoint_id: UUID) -> Endpoint:
        endpoint = await self._enable(scope, endpoint_id)
        every = spacing_after_enable(endpoint.settings)
        shown, position = 0, (START_OF_TIME, NO_ID)
        while True:
            rows = await self._waiting(endpoint.tenant, endpoint_id, position)
            shown += await self._show(rows, shown, every)
            if len(rows) < CHUNK_DELIVERIES:
                return endpoint
            position = _position(rows)

    async def delete(
        self, scope: Scope, endpoint_id: UUID, *, check: CheckEndpoint | None = None
    ) -> int:
        tenant = await self._delete(scope, endpoint_id, check)
        removed, position = 0, (START_OF_TIME, NO_ID)
        while True:
            rows = await self._waiting(tenant, endpoint_id, position)
            removed += await self._remove(rows)
            if len(rows) < CHUNK_DELIVERIES:
                return removed
            position = _position(rows)

    @writes(repeatable=False, is_single=True)
    def probe(self, scope: Scope, endpoint_id: UUID, seconds: float) -> Steps[bool]:
        check_system(scope)
        return (yield from _PROBE.fetch_row(NOW, endpoint_id, seconds)) is not None

    @reads
    def pushing_queues(self, scope: Scope, limit: int) -> Steps[tuple[PushQueue, ...]]:
        check_system(scope)
        check_limit(limit)
        rows = yield from _PUSHING.fetch(NOW, limit)
        return tuple(
            PushQueue(read_queue(row), row["has_endpoint"], row["is_disabled"], row["open_until"])
            for row in rows
        )

    async def record(self, scope: Scope, records: Sequence[AttemptRecord]) -> tuple[bool, ...]:
        check_system(scope)
        try:
            return await self._record(records)
        except NotFound:
            # A queue that subscribes to an event was deleted.
            return await self._record(records)

    @reads
    def stats(self, scope: Scope, endpoint_id: UUID, since: datetime) -> Steps[EndpointStats]:
        tenant = (yield from _get(scope, endpoint_id)).tenant
        statuses = yield from _STATS.fetch_row(endpoint_id, since)
        attempts = yield from _ATTEMPT_STATS.fetch_row(tenant, endpoint_id, since)
        assert statuses is not None
        assert attempts is not None
        return EndpointStats(**statuses, **attempts)

    @changes
    def _enable(self, scope: Scope, endpoint_id: UUID) -> Steps[Endpoint]:
        return (yield from _changed(_ENABLE, scope, endpoint_id))

    @changes_once
    def _delete(self, scope: Scope, endpoint_id: UUID, check: CheckEndpoint | None) -> Steps[str]:
        """Deletes an endpoint and its secrets; returns its tenant."""
        tenant = (yield from _get(scope, endpoint_id)).tenant
        yield from _check(tenant, endpoint_id, check)
        yield from DELETE_SECRETS.execute(tenant, secrets_owner(endpoint_id))
        if (yield from _DELETE.fetch_value(endpoint_id, tenant)) is None:
            raise NotFound("endpoint", endpoint_id)
        return tenant

    @reads
    def _waiting(self, tenant: str, endpoint_id: UUID, position: _Position) -> Steps[Sequence[Row]]:
        """Undelivered deliveries with their messages, if they have one, oldest first."""
        return (yield from _WAITING.fetch(tenant, endpoint_id, *position, CHUNK_DELIVERIES))

    @writes(repeatable=True, is_single=True)
    def _show(self, rows: Sequence[Row], earlier: int, every: float) -> Steps[int]:
        """Makes the messages of deliveries visible, one after the other, so that they are claimed
        in this order; returns how many there are."""
        waiting = [row for row in rows if row["queue_id"] is not None]
        yield from show_messages(
            [
                (row["tenant"], row["id"], (earlier + index) * every)
                for index, row in enumerate(waiting)
            ]
        )
        return len(waiting)

    async def _remove(self, rows: Sequence[Row]) -> int:
        """Removes the messages of deliveries to an endpoint that was deleted."""
        # Not those of slots: these become dead letters of their schedules, now.
        queue_id = await self._queue_id()
        waiting = [row for row in rows if row["queue_id"] == queue_id]
        removed = await self._remove_all(waiting)
        # What is under way is not sent again if it fails.
        await self._bury(waiting)
        await self._show([row for row in rows if row["queue_id"] != queue_id], 0, 0.0)
        return removed

    @reads
    def _queue_id(self) -> Steps[UUID]:
        return (yield from self._paths.queue(SYSTEM, ENDPOINTS_QUEUE)).id

    @writes(repeatable=False)
    def _remove_all(self, rows: Sequence[Row]) -> Steps[int]:
        return (yield from self._paths.remove(rows, REASON_DELETED)) if rows else 0

    @writes(repeatable=True)
    def _bury(self, rows: Sequence[Row]) -> Steps[None]:
        if rows:
            yield from self._paths.bury_deliveries(rows)

    @writes(repeatable=True)
    def _record(self, records: Sequence[AttemptRecord]) -> Steps[tuple[bool, ...]]:
        possible = [record for record in records if is_possible_claim(record.claim)]
        if not possible:
            return (False,) * len(records)
        valid, now = yield from self._store_attempts(possible)
        changes = yield from _update_health(
            [possible[index] for index, is_new in sorted(valid.items()) if is_new], now
        )
        events: dict[str, list[NewMessage]] = {}
        for endpoint, change, _ in changes:
            if change.events:
                events.setdefault(endpoint.tenant, []).extend(endpoint_events(endpoint, change))
        if events:
            yield from self._paths.publish_events(events)
        yield After(lambda: _log_changes(changes))
        valid_records = {id(possible[index]) for index in valid}
        return tuple(id(record) in valid_records for record in records)

    @abstractmethod
    def _store_attempts(
        self, records: Sequence[AttemptRecord]
    ) -> Steps[tuple[dict[int, bool], datetime]]:
        """Records attempts under claims that are still valid: the positions of these, and whether
        the attempt is new; and the time."""


def find_endpoint(tenant: str, name: str | None) -> Steps[Endpoint | None]:
    """The endpoint of a tenant with a name."""
    row = yield from _FIND.fetch_row(tenant, name)
    return None if row is None else read_endpoint(row)


def _get(scope: Scope, endpoint_id: UUID) -> Steps[Endpoint]:
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        row = yield from _GET.fetch_row(endpoint_id, scope.tenant)
    if row is None:
        raise NotFound("endpoint", endpoint_id)
    return read_endpoint(row)


def _check(tenant: str | None, endpoint_id: UUID, check: CheckEndpoint | None) -> Steps[None]:
    """Locks an endpoint and lets the caller refuse the change."""
    if check is None or not (tenant is None or is_name(tenant)):
        return
    row = yield from _LOCK.fetch_row(endpoint_id, tenant)
    if row is not None:
        check(read_endpoint(row))


def _changed(
    statement: Statement, scope: Scope, endpoint_id: UUID, *values: str
) -> Steps[Endpoint]:
    """Runs a statement that changes an endpoint, and returns that."""
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        row = yield from statement.fetch_row(NOW, endpoint_id, scope.tenant, *values)
    if row is None:
        raise NotFound("endpoint", endpoint_id)
    return read_endpoint(row)


def _position(rows: Sequence[Row]) -> _Position:
    """The position of the last delivery."""
    return rows[-1]["published_at"], rows[-1]["delivery_id"]


def _update_health(records: Sequence[AttemptRecord], now: datetime) -> Steps[list[EndpointChange]]:
    """Writes the health of endpoints that attempts change."""
    attempts = by_endpoint(records)
    has_failed = {endpoint_id: False for _, endpoint_id in attempts}
    for record in records:
        has_failed[record.endpoint_id] |= not record.attempt.is_delivered
    rows = yield from _OF_ATTEMPTS.fetch_each([*has_failed.items()])
    changes = [
        EndpointChange(endpoint, after_attempts(endpoint, own, now), own)
        for endpoint in map(read_endpoint, rows)
        if (own := attempts.get((endpoint.tenant, endpoint.id)))
    ]
    yield from _WRITE_HEALTH.fetch_each(
        [
            (
                endpoint.id,
                *(getattr(change.health, name) for name in HEALTH),
                change.disabled_reason,
            )
            for endpoint, change, _ in changes
        ],
        now,
    )
    return changes


def _log_changes(changes: Iterable[EndpointChange]) -> None:
    """Logs each change that starts or stops deliveries to an endpoint."""
    for endpoint, change, records in changes:
        before, after = endpoint.health, change.health
        name = f"endpoint {endpoint.name} of tenant {endpoint.tenant}"
        errors = [record.attempt.error for record in records if record.attempt.error is not None]
        failures = f"{after.failures_in_row} failures in a row"
        if errors:
            failures += f", the last one: {errors[-1]}"
        fields = {"endpoint": endpoint.name, "tenant": endpoint.tenant}
        if change.disabled_reason is not None:
            _log.warning("%s is disabled: %s", name, change.disabled_reason, extra=fields)
        elif after.open_until is not None and after.openings > before.openings:
            until = iso(after.open_until)
            _log.warning(
                "the breaker of %s is open until %s: %s", name, until, failures, extra=fields
            )
        elif before.openings and not after.openings:
            _log.info("the breaker of %s is closed: an attempt succeeded", name, extra=fields)
