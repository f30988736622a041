"""Nodes, the reaper and wake-ups in the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import structs

from tests.model.batches import MemoryBatches
from tests.model.removal import Departures
from tests.model.state import Now, Row, Tables
from tickwork.core.limits import check_limit, check_node, check_system, check_ttl
from tickwork.core.message.batch import BATCH_FILLING_SECONDS_MAX
from tickwork.core.model import (
    LOST_CLAIMS_MAX,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    Ending,
    Fate,
    QueueSettings,
    Reaped,
    Scope,
    State,
    StoredNode,
)
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.slot_outcome import LEASE_RAN_OUT, dead_result, lease_expired_result
from tickwork.errors import NodeExpired
from tickwork.store.ids import new_id
from tickwork.store.shared.watches import EventWatch


class MemoryNodes:
    """Running processes and their leases."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now

    async def join(
        self, scope: Scope, node_id: UUID, *, name: str, roles: Sequence[str], ttl_seconds: float
    ) -> StoredNode:
        check_system(scope)
        check_node(name, roles)
        check_ttl(ttl_seconds)
        if node_id in self._tables.nodes:
            return await self.heartbeat(scope, node_id, ttl_seconds)
        now = self._now()
        node = StoredNode(node_id, name, tuple(roles), now, now + timedelta(seconds=ttl_seconds))
        self._tables.nodes[node_id] = node
        return node

    async def heartbeat(
        self, scope: Scope, node_id: UUID, ttl_seconds: float, hold_seconds: float | None = None
    ) -> StoredNode:
        del hold_seconds  # The model has no shards.
        check_system(scope)
        check_ttl(ttl_seconds)
        node, now = self._tables.nodes.get(node_id), self._now()
        if node is None or node.expires_at <= now:
            raise NodeExpired(node_id)
        renewed = structs.replace(node, expires_at=now + timedelta(seconds=ttl_seconds))
        self._tables.nodes[node_id] = renewed
        return renewed

    async def leave(self, scope: Scope, node_id: UUID) -> int:
        check_system(scope)
        if self._tables.nodes.pop(node_id, None) is None:
            return 0
        return self._give_back(node_id, ())

    async def give_back_unknown(self, scope: Scope, node_id: UUID, known: Sequence[UUID]) -> int:
        check_system(scope)
        return self._give_back(node_id, known)

    async def list(self, scope: Scope) -> tuple[StoredNode, ...]:
        check_system(scope)
        return tuple(sorted(self._tables.nodes.values(), key=lambda n: (n.started_at, n.id)))

    async def claims(self, scope: Scope) -> dict[UUID, int]:
        check_system(scope)
        rows = self._tables.messages.values()
        return dict(Counter(row.message.holder for row in rows if row.message.holder is not None))

    def _give_back(self, node_id: UUID, known: Sequence[UUID]) -> int:
        back = [
            row
            for row in self._tables.messages.values()
            if row.message.holder == node_id and row.message.id not in known
        ]
        for row in back:
            self._tables.put(row.changed(state=State.READY, holder=None, claimed_at=None))
        return len(back)


class MemoryReaper:
    """Releases claims of dead holders and expires messages and batches."""

    def __init__(
        self, tables: Tables, now: Now, departures: Departures, batches: MemoryBatches
    ) -> None:
        self._tables, self._now = tables, now
        self._departures, self._batches = departures, batches

    async def reap(self, scope: Scope, limit: int) -> Reaped:
        check_system(scope)
        check_limit(limit)
        ended = [node for node in self._tables.nodes.values() if node.expires_at <= self._now()]
        before = len(self._tables.letters)
        released = sum(self._end_node(node) for node in ended) + self._end_leases(limit)
        slots = self._expire(limit)
        dead = len(self._tables.letters) - before
        nodes = tuple(node.id for node in ended)
        return Reaped(nodes, released, dead, self._close(limit), slots)

    async def next_expiry(self, scope: Scope) -> datetime | None:
        check_system(scope)
        coming = [node.expires_at for node in self._tables.nodes.values()]
        for row in self._tables.messages.values():
            is_claimed = row.message.state is State.CLAIMED
            coming += [at for at in (row.lease_until if is_claimed else row.expires_at,) if at]
        return min((at for at in coming if at > self._now()), default=None)

    def _end_node(self, node: StoredNode) -> int:
        del self._tables.nodes[node.id]
        released = 0
        for row in [*self._tables.messages.values()]:
            if row.message.holder != node.id:
                continue
            lost = row.message.lost + 1
            if lost >= LOST_CLAIMS_MAX:
                self._bury(row, REASON_WORKER_LOST)
            else:
                back = row.changed(state=State.READY, holder=None, claimed_at=None, lost=lost)
                self._tables.put(back)
                self._tables.tally(CounterName.LOST, row.message)
                released += 1
        return released

    def _end_leases(self, limit: int) -> int:
        ended = [row for row in self._tables.messages.values() if self._is_over(row)]
        released = 0
        for row in ended[:limit]:
            if row.message.attempts + 1 > self._settings(row).max_retries:
                self._bury(row, REASON_MAX_RETRIES)
            else:
                record = lease_expired_result(row.message.terms, row.message.run, is_used_up=False)
                self._departures.record(row.message, record)
                ending = Ending(
                    claim=row.message.current_claim, fate=Fate.RETRY, error=LEASE_RAN_OUT
                )
                self._departures.put_back(row, ending)
                released += 1
        return released

    def _expire(self, limit: int) -> int:
        """The head of a key first, so that blocked messages keep their order. Returns how many were
        slots without an attempt."""
        unwanted = [row for row in self._tables.messages.values() if self._is_unwanted(row)]
        chosen = sorted(unwanted, key=lambda row: row.place)[:limit]
        for row in chosen:
            self._bury(self._tables.messages[row.name], REASON_EXPIRED)
        slots = [row.message for row in chosen if row.message.slot and not row.message.run]
        return sum(not message.attempts for message in slots)

    def _close(self, limit: int) -> int:
        """Seals abandoned batches."""
        kept = timedelta(seconds=BATCH_FILLING_SECONDS_MAX)
        left = [
            row
            for row in self._tables.batches.values()
            if row.total is None and row.filled_at + kept <= self._now()
        ]
        return sum(self._batches.seal(row).completed_at is not None for row in left[:limit])

    def _is_over(self, row: Row) -> bool:
        return row.lease_until is not None and row.lease_until <= self._now()

    def _is_unwanted(self, row: Row) -> bool:
        """Whether it is past its own expiry, or visible for longer than the queue's retention."""
        if row.message.state is State.CLAIMED:
            return False
        kept = timedelta(seconds=self._settings(row).retention_seconds)
        is_old = row.message.visible_at + kept <= self._now()
        return row.is_expired(self._now()) or (row.message.state is State.READY and is_old)

    def _settings(self, row: Row) -> QueueSettings:
        return self._tables.queues[row.message.queue_id].settings

    def _bury(self, row: Row, reason: str) -> None:
        # An expiring message has no holder: the reaper claims it itself.
        held = structs.replace(row.message, holder=row.message.holder or new_id()).current_claim
        error = LEASE_RAN_OUT if reason == REASON_MAX_RETRIES else None
        record = dead_result(row.message.terms, row.message.run, reason, error)
        self._departures.record(row.message, record)
        self._departures.bury(row, Ending(claim=held, fate=Fate.DEAD, reason=reason))


class MemoryWakeups:
    """Wakes waiting consumers."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @asynccontextmanager
    async def watch(self, queue_ids: Sequence[UUID]) -> AsyncIterator[EventWatch]:
        with self._tables.watchers.added(queue_ids) as watch:
            yield watch
