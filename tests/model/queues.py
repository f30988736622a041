"""Tenants, queues and subscriptions in the model."""

from __future__ import annotations

import sys
from collections.abc import Callable

from msgspec import structs

from tests.model.removal import Departures
from tests.model.state import Now, Tables
from tickwork.core.limits import check_limit, check_subscription
from tickwork.core.message.batch import REASON_PURGED
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import (
    SYSTEM,
    Counts,
    QueuePosition,
    QueueSettings,
    Scope,
    State,
    StoredQueue,
    Tenant,
)
from tickwork.core.queue.fields import check_queue
from tickwork.core.tenant_limits import MessageQuota, check_tenant
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import new_id, own_tenant
from tickwork.store.message_contract import CheckQueue


class MemoryTenants:
    """Tenants and their limits."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def put(self, scope: Scope, tenant: Tenant) -> None:
        check_tenant(scope, tenant)
        self._tables.tenants[tenant.id] = tenant

    async def change(
        self, scope: Scope, tenant_id: str, decide: Callable[[Tenant], Tenant]
    ) -> Tenant:
        await self.put(scope, changed := decide(await self.get(scope, tenant_id)))
        return changed

    async def get(self, scope: Scope, tenant_id: str) -> Tenant:
        if tenant_id in self._tables.tenants and (scope.is_system or scope.tenant == tenant_id):
            return self._tables.tenants[tenant_id]
        raise NotFound("tenant", tenant_id)

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[Tenant, ...]:
        check_limit(limit)
        known = sorted(self._tables.tenants.values(), key=lambda tenant: tenant.id)
        own = [
            tenant
            for tenant in known
            if scope.tenant in (None, tenant.id) and tenant.id > (after or "")
        ]
        return tuple(own[:limit])

    async def quota(self, scope: Scope) -> MessageQuota:
        return MessageQuota(tenant=own_tenant(scope))

    async def admit(self, scope: Scope, messages: int, payload_bytes: int) -> None:
        """Tenants of the model have no quotas."""

    async def take_emails(self, scope: Scope, emails: int) -> int | None:
        del scope, emails
        return 0

    async def return_emails(self, scope: Scope, emails: int, day: int) -> None:
        """Tenants of the model have no quotas."""


class MemoryAudit:
    """In the model nobody acts, so nothing is recorded."""

    actor: str | None = None


class MemoryQueues:
    """Queues by name."""

    def __init__(self, tables: Tables, now: Now, departures: Departures) -> None:
        self._tables, self._now, self._departures = tables, now, departures

    async def put(
        self,
        scope: Scope,
        name: str,
        settings: QueueSettings,
        *,
        declared_by: str | None = None,
        check: CheckQueue | None = None,
    ) -> StoredQueue:
        assert check is None, "the model checks no versions"
        check_queue(name, settings)
        if not scope.is_system and scope.tenant not in self._tables.tenants:
            raise NotFound("tenant", scope.tenant)
        queue = StoredQueue(
            id=new_id(),
            tenant=scope.tenant,
            name=name,
            settings=settings,
            declared_by=declared_by,
        )
        for known in self._tables.queues.values():
            if (known.tenant, known.name) == (scope.tenant, name):
                queue = structs.replace(known, settings=settings, declared_by=declared_by)
        self._tables.queues[queue.id] = queue
        return queue

    async def get(self, scope: Scope, name: str) -> StoredQueue:
        return self._tables.queue(scope, name)

    async def list(
        self, scope: Scope, *, limit: int | None = None, after: QueuePosition | None = None
    ) -> tuple[StoredQueue, ...]:
        if limit is not None:
            check_limit(limit)
        seen = [
            queue
            for queue in self._tables.queues.values()
            if (scope.is_system or queue.tenant in (scope.tenant, None))
            and (after is None or queue.position > after)
        ]
        return tuple(sorted(seen, key=lambda queue: queue.position)[:limit])

    async def delete(self, scope: Scope, name: str, *, check: CheckQueue | None = None) -> None:
        assert check is None, "the model checks no versions"
        queue = self._own(scope, name)
        if self._tables.rows(SYSTEM, queue):
            raise Conflict(f"queue {name} still has messages")
        if self._tables.open_letters(SYSTEM, queue):
            raise Conflict(f"queue {name} still has dead letters")
        del self._tables.queues[queue.id]
        self._tables.subscriptions = [
            subscription
            for subscription in self._tables.subscriptions
            if subscription.queue_id != queue.id
        ]

    async def pause(self, scope: Scope, name: str) -> None:
        queue = self._own(scope, name)
        self._tables.queues[queue.id] = structs.replace(queue, paused=True)

    async def resume(self, scope: Scope, name: str) -> None:
        queue = self._own(scope, name)
        self._tables.queues[queue.id] = structs.replace(queue, paused=False)

    async def purge(self, scope: Scope, name: str) -> int:
        rows = self._tables.rows(scope, self._tables.queue(scope, name))
        gone = [row for row in rows if row.message.state is not State.CLAIMED]
        for row in gone:
            self._departures.drop(row, REASON_PURGED)
        return len(gone)

    async def counts(self, scope: Scope, name: str, *, at_most: int | None = None) -> Counts:
        queue = self._tables.queue(scope, name)
        return bounded(queue_counts(self._tables, self._now, scope, queue), at_most)

    def _own(self, scope: Scope, name: str) -> StoredQueue:
        queue = self._tables.queue(scope, name)
        if queue.tenant != scope.tenant:
            raise Conflict(f"queue {name} is shared")
        return queue


class MemorySubscriptions:
    """Which queues get copies of which types."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        check_subscription(types)
        found = self._tables.queue(scope, queue)
        subscription = Subscription(scope.tenant, types, found.id, found.name)
        if subscription not in self._tables.subscriptions:
            self._tables.subscriptions.append(subscription)
        return subscription

    async def list(self, scope: Scope) -> tuple[Subscription, ...]:
        own = [
            subscription
            for subscription in self._tables.subscriptions
            if subscription.tenant == scope.tenant
        ]
        return tuple(sorted(own, key=lambda subscription: (subscription.types, subscription.queue)))

    async def delete(self, scope: Scope, types: str, queue: str) -> bool:
        kept = [
            subscription
            for subscription in self._tables.subscriptions
            if (subscription.tenant, subscription.types, subscription.queue)
            != (scope.tenant, types, queue)
        ]
        is_there = kept != self._tables.subscriptions
        self._tables.subscriptions = kept
        return is_there


def bounded(counts: Counts, at_most: int | None) -> Counts:
    """Counts that stop at a bound."""
    most = sys.maxsize if at_most is None else at_most
    return Counts(*(min(count, most) for count in structs.astuple(counts)))


def queue_counts(tables: Tables, now: Now, scope: Scope, queue: StoredQueue) -> Counts:
    """Number of messages by state."""
    rows = tables.rows(scope, queue)
    states = [row.message.state for row in rows]
    ready = sum(row.is_ready(now()) for row in rows)
    return Counts(
        ready=ready,
        delayed=states.count(State.READY) - ready,
        claimed=states.count(State.CLAIMED),
        blocked=states.count(State.BLOCKED),
        dead=len(tables.open_letters(scope, queue)),
    )
