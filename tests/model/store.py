"""The model: the whole contract in memory, under a virtual clock, small enough to be obvious.

It is a reference, not a product: nothing is durable or fast, and one event loop is all the
isolation there is. `send.py` stores messages, `claim.py` claims them, `removal.py` removes them;
the other files are one noun of the contract each.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from tests.model.batches import MemoryBatches
from tests.model.dead_letters import MemoryDeadLetters
from tests.model.history import MemoryFirings, MemoryPruner, MemoryStats
from tests.model.messages import MemoryMessages, MemoryProgress
from tests.model.nodes import MemoryNodes, MemoryReaper, MemoryWakeups
from tests.model.queues import MemoryAudit, MemoryQueues, MemorySubscriptions, MemoryTenants
from tests.model.removal import Departures
from tests.model.send import Arrivals
from tests.model.state import Tables
from tickwork.core.limits import check_limit
from tickwork.core.model import IdKind, Meta, Scope
from tickwork.store.ids import Moment

SCHEMA_VERSION = 1


class MemoryStore:
    """A store on some tables; a second one on the same tables sees the same."""

    def __init__(self, tables: Tables, moment: Moment) -> None:
        def now() -> datetime:
            virtual = moment()
            assert virtual is not None, "the model has no clock of its own"
            return virtual

        self._now, self._tables = now, tables
        arrivals = Arrivals(tables, now)
        departures = Departures(tables, now, arrivals)
        self.tenants = MemoryTenants(tables)
        self.audit = MemoryAudit()
        self.queues = MemoryQueues(tables, now, departures)
        self.batches = MemoryBatches(tables, now, arrivals, departures)
        self.messages = MemoryMessages(tables, now, arrivals, departures, self.batches)
        self.progress = MemoryProgress(tables, now, self.messages)
        self.dead_letters = MemoryDeadLetters(tables, now, arrivals)
        self.subscriptions = MemorySubscriptions(tables)
        self.firings = MemoryFirings(tables)
        self.stats = MemoryStats(tables, now)
        self.pruner = MemoryPruner(tables, now)
        self.nodes = MemoryNodes(tables, now)
        self.reaper = MemoryReaper(tables, now, departures, self.batches)
        self.wakeups = MemoryWakeups(tables)

    async def now(self) -> datetime:
        return self._now()

    async def meta(self) -> Meta:
        return Meta(SCHEMA_VERSION, "main", 0)

    async def ids_ending(
        self, scope: Scope, kind: IdKind, digits: str, limit: int
    ) -> tuple[UUID, ...]:
        check_limit(limit)
        known: dict[IdKind, Iterable[tuple[str, UUID]]] = {
            IdKind.MESSAGE: self._tables.messages,
            IdKind.DEAD_LETTER: [
                (letter.tenant, letter.id) for letter in self._tables.letters.values()
            ],
            IdKind.DEAD_MESSAGE: {
                (letter.tenant, letter.message_id) for letter in self._tables.letters.values()
            },
            IdKind.BATCH: self._tables.batches,
        }
        found = [
            id_
            for tenant, id_ in known.get(kind, ())
            if scope.tenant in (None, tenant) and id_.hex.endswith(digits.lower())
        ]
        return tuple(sorted(found)[:limit])

    async def make_ready(self) -> None:
        return

    async def close(self) -> None:
        return
