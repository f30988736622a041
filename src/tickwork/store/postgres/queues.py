"""Queues on PostgreSQL: the cache of those that are used, their backlog, and purging and counting
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import Counts, QueueSettings, Scope, StoredQueue
from tickwork.store.ids import Moment
from tickwork.store.nouns.queues import Queues, find_queue, queue_values
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import recount_backlog
from tickwork.store.steps import Port, Row, Statement, Steps

if TYPE_CHECKING:
    from tickwork.store.postgres.messages.removal import Purger

_PUT = Statement("put_queue", StoredQueue)

QUEUES_REMEMBERED_MAX = 10_000
"""Maximum number of cached queues; beyond it all are dropped."""

QUEUES_REMEMBERED_SECONDS = 1.0
"""Seconds a queue is cached. Another process may delete it, or create one that takes precedence
over a shared one."""


class _Remembered(NamedTuple):
    queue: StoredQueue
    until_monotonic: float


class PostgresQueues(Queues):
    """Queues by name, cached briefly."""

    purger: Purger
    """Set when the store is assembled: it depends on modules that depend on queues."""

    def __init__(self, port: Port, database: Database, moment: Moment) -> None:
        super().__init__(port)
        self._database, self._moment = database, moment
        self._known: dict[tuple[str | None, str], _Remembered] = {}

    async def id_of(self, scope: Scope, name: str) -> UUID:
        """Returns the id of a queue."""
        return (await self.remembered(scope, name)).id

    async def remembered(self, scope: Scope, name: str) -> StoredQueue:
        """Returns a queue from the cache if possible: every send and claim needs one."""
        return self._recall(scope, name) or self._remember(scope, name, await self.get(scope, name))

    def find(self, scope: Scope, name: str) -> Steps[StoredQueue]:
        """The same as steps of a transaction."""
        queue = self._recall(scope, name)
        if queue is None:
            queue = self._remember(scope, name, (yield from find_queue(scope, name)))
        return queue

    def _recall(self, scope: Scope, name: str) -> StoredQueue | None:
        found = self._known.get((scope.tenant, name))
        if found is None or self._moment() is not None or found.until_monotonic < monotonic():
            return None
        return found.queue

    def _remember(self, scope: Scope, name: str, queue: StoredQueue) -> StoredQueue:
        if len(self._known) >= QUEUES_REMEMBERED_MAX:
            self._known.clear()
        until = monotonic() + QUEUES_REMEMBERED_SECONDS
        self._known[scope.tenant, name] = _Remembered(queue, until)
        return queue

    def forget(self, queue_ids: set[UUID]) -> None:
        """Removes queues from the cache that were deleted or changed."""
        self._known = {
            name: value for name, value in self._known.items() if value.queue.id not in queue_ids
        }

    async def purge(self, scope: Scope, name: str) -> int:
        return await self.purger.purge(scope, await self.id_of(scope, name))

    async def counts(self, scope: Scope, name: str, *, at_most: int | None = None) -> Counts:
        ids = [await self.id_of(scope, name)]
        [(counts, _)] = await self.counts_and_late(ids, scope.tenant, at_most)
        return counts

    async def counts_and_late(
        self, ids: Sequence[UUID], tenant: str | None, at_most: int | None
    ) -> tuple[tuple[Counts, int], ...]:
        """The counts of queues in order, and how many of their ready messages are late."""
        asked = (self._moment(), ids, tenant, at_most)
        found = await self._database.fetch_with_custom_plan(SQL.count_messages, *asked)
        return tuple((Counts(*counts), late) for *counts, late in found)

    def _forget_all(self) -> None:
        self._known.clear()

    def _store(
        self, tenant: str | None, name: str, text: str, settings: QueueSettings
    ) -> Steps[Row]:
        has_backlog = settings.backlog_bytes_max is not None
        values = queue_values(tenant, name, text, settings)
        row = yield from _PUT.fetch_row(*values, settings.has_claim_limits, has_backlog)
        assert row is not None
        if has_backlog:
            yield from recount_backlog(row["id"])
        return row
