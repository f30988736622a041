"""The model: the whole contract in memory, under a virtual clock, small enough to be obvious.

It is the reference, not a product: nothing is durable, nothing is fast, and one event loop is
all the isolation there is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import structs

from tests.model.messages import MemoryMessages
from tests.model.tables import Row, Tables
from tickwork.core.limits import check_limit, check_node, check_queue, check_tenant, check_ttl
from tickwork.core.model import (
    LOST_CLAIMS_MAX,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    SYSTEM,
    Counts,
    Ending,
    Fate,
    Meta,
    Node,
    Queue,
    QueueSettings,
    Reaped,
    Scope,
    Tenant,
)
from tickwork.core.states import State
from tickwork.errors import Conflict, NodeExpired, NotFound
from tickwork.store.ids import new_id
from tickwork.store.moment import Moment
from tickwork.store.watching import EventWatch

Now = Callable[[], datetime]

SCHEMA_VERSION = 1


class MemoryTenants:
    """The owners."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def put(self, scope: Scope, tenant: Tenant) -> None:
        check_tenant(scope, tenant)
        self._tables.tenants[tenant.id] = tenant

    async def get(self, scope: Scope, tenant_id: str) -> Tenant:
        if tenant_id in self._tables.tenants and (scope.is_system or scope.tenant == tenant_id):
            return self._tables.tenants[tenant_id]
        raise NotFound("tenant", tenant_id)


class MemoryQueues:
    """Queues by name."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now

    async def put(self, scope: Scope, name: str, settings: QueueSettings) -> Queue:
        check_queue(name, settings)
        if not scope.is_system and scope.tenant not in self._tables.tenants:
            raise NotFound("tenant", scope.tenant)
        queue = Queue(id=new_id(), tenant=scope.tenant, name=name, settings=settings)
        for known in self._tables.queues.values():
            if (known.tenant, known.name) == (scope.tenant, name):
                queue = structs.replace(known, settings=settings)
        self._tables.queues[queue.id] = queue
        return queue

    async def get(self, scope: Scope, name: str) -> Queue:
        return self._tables.queue(scope, name)

    async def list(self, scope: Scope) -> tuple[Queue, ...]:
        seen = [
            queue
            for queue in self._tables.queues.values()
            if scope.is_system or queue.tenant in (scope.tenant, None)
        ]
        # A tenant's own stand before the shared ones of the same name.
        return tuple(sorted(seen, key=lambda each: (each.name, each.tenant is None, each.tenant)))

    async def delete(self, scope: Scope, name: str) -> None:
        queue = self._own(scope, name)
        if any(row.message.queue_id == queue.id for row in self._tables.messages.values()):
            raise Conflict(f"queue {name} still has messages")
        if self._tables.dead_letters(SYSTEM, queue):
            raise Conflict(f"queue {name} still has dead letters")
        del self._tables.queues[queue.id]

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
            del self._tables.messages[row.name]
        return len(gone)

    async def counts(self, scope: Scope, name: str) -> Counts:
        queue, now = self._tables.queue(scope, name), self._now()
        rows = self._tables.rows(scope, queue)
        states = [row.message.state for row in rows]
        ready = sum(row.is_ready(now) for row in rows)
        return Counts(
            ready=ready,
            delayed=states.count(State.READY) - ready,
            claimed=states.count(State.CLAIMED),
            held=states.count(State.HELD),
            dead=len(self._tables.dead_letters(scope, queue)),
        )

    def _own(self, scope: Scope, name: str) -> Queue:
        queue = self._tables.queue(scope, name)
        if queue.tenant != scope.tenant:
            raise Conflict(f"queue {name} is shared")
        return queue


class MemoryNodes:
    """Running processes and their leases."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now

    async def join(
        self, node_id: UUID, *, name: str, roles: Sequence[str], ttl_seconds: float
    ) -> Node:
        check_node(name, roles)
        check_ttl(ttl_seconds)
        if node_id in self._tables.nodes:
            return await self.heartbeat(node_id, ttl_seconds)
        now = self._now()
        node = Node(node_id, name, tuple(roles), now, now + timedelta(seconds=ttl_seconds))
        self._tables.nodes[node_id] = node
        return node

    async def heartbeat(self, node_id: UUID, ttl_seconds: float) -> Node:
        check_ttl(ttl_seconds)
        node, now = self._tables.nodes.get(node_id), self._now()
        if node is None or node.expires_at <= now:
            raise NodeExpired(node_id)
        renewed = structs.replace(node, expires_at=now + timedelta(seconds=ttl_seconds))
        self._tables.nodes[node_id] = renewed
        return renewed

    async def leave(self, node_id: UUID) -> int:
        if self._tables.nodes.pop(node_id, None) is None:
            return 0
        return self._give_back(node_id, ())

    async def give_back_unknown(self, node_id: UUID, known: Sequence[UUID]) -> int:
        return self._give_back(node_id, known)

    async def list(self) -> tuple[Node, ...]:
        return tuple(sorted(self._tables.nodes.values(), key=lambda n: (n.started_at, n.id)))

    def _give_back(self, node_id: UUID, known: Sequence[UUID]) -> int:
        back = [
            row
            for row in self._tables.messages.values()
            if row.message.holder == node_id and row.message.id not in known
        ]
        for row in back:
            self._tables.put(row.changed(state=State.READY, holder=None))
        return len(back)


class MemoryReaper:
    """Gives back what its holder will not."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now

    async def reap(self, limit: int) -> Reaped:
        check_limit(limit)
        ended = [node for node in self._tables.nodes.values() if node.expires_at <= self._now()]
        before = len(self._tables.dead)
        released = sum(self._end_node(node) for node in ended) + self._end_leases(limit)
        self._expire(limit)
        return Reaped(tuple(node.id for node in ended), released, len(self._tables.dead) - before)

    def _end_node(self, node: Node) -> int:
        del self._tables.nodes[node.id]
        released = 0
        for row in [*self._tables.messages.values()]:
            if row.message.holder != node.id:
                continue
            lost = row.message.lost + 1
            if lost >= LOST_CLAIMS_MAX:
                self._bury(row, REASON_WORKER_LOST)
            else:
                self._tables.put(row.changed(state=State.READY, holder=None, lost=lost))
                released += 1
        return released

    def _end_leases(self, limit: int) -> int:
        ended = [row for row in self._tables.messages.values() if self._is_over(row)]
        released = 0
        for row in ended[:limit]:
            if row.message.attempts + 1 > self._settings(row).max_retries:
                self._bury(row, REASON_MAX_RETRIES)
            else:
                ending = Ending(
                    held=row.message.held, fate=Fate.RETRY, error="the pull lease ran out"
                )
                self._tables.put_back(row, ending, self._now())
                released += 1
        return released

    def _expire(self, limit: int) -> None:
        unwanted = [row for row in self._tables.messages.values() if self._is_unwanted(row)]
        for row in unwanted[:limit]:
            self._bury(row, REASON_EXPIRED)

    def _is_over(self, row: Row) -> bool:
        return row.lease_until is not None and row.lease_until <= self._now()

    def _is_unwanted(self, row: Row) -> bool:
        """Past its own expiry, or waiting longer than its queue keeps messages."""
        kept = timedelta(seconds=self._settings(row).retention_seconds)
        is_old = row.message.visible_at + kept <= self._now()
        return row.message.state is State.READY and (is_old or row.is_expired(self._now()))

    def _settings(self, row: Row) -> QueueSettings:
        return self._tables.queues[row.message.queue_id].settings

    def _bury(self, row: Row, reason: str) -> None:
        # Nobody holds a message that expires: it is taken by the reaper itself.
        held = structs.replace(row.message, holder=row.message.holder or new_id()).held
        ending = Ending(held=held, fate=Fate.DEAD, reason=reason)
        self._tables.bury(row, ending, self._now())


class MemoryWakeups:
    """Telling waiting consumers."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @asynccontextmanager
    async def watch(self, queue_ids: Sequence[UUID]) -> AsyncIterator[EventWatch]:
        with self._tables.watchers.added(queue_ids) as watch:
            yield watch


class MemoryStore:
    """A store on some tables; a second one on the same tables sees the same."""

    def __init__(self, tables: Tables, moment: Moment) -> None:
        def now() -> datetime:
            virtual = moment()
            assert virtual is not None, "the model has no clock of its own"
            return virtual

        self._now = now
        self.tenants = MemoryTenants(tables)
        self.queues = MemoryQueues(tables, now)
        self.messages = MemoryMessages(tables, now)
        self.nodes = MemoryNodes(tables, now)
        self.reaper = MemoryReaper(tables, now)
        self.wakeups = MemoryWakeups(tables)

    async def now(self) -> datetime:
        return self._now()

    async def meta(self) -> Meta:
        return Meta(SCHEMA_VERSION, "main", 0, None)

    async def close(self) -> None:
        return
