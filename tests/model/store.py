"""The model: the whole contract in memory, under a virtual clock, small enough to be obvious.

It is a reference, not a product: nothing is durable or fast, and one event loop is all the
isolation there is. `send.py` stores messages, `claim.py` claims them, `removal.py` removes them;
the other files are one noun of the contract each.
"""

from __future__ import annotations

from datetime import datetime

from tests.model.batches import MemoryBatches
from tests.model.dead_letters import MemoryDeadLetters
from tests.model.history import MemoryFirings, MemoryPruner, MemoryStats
from tests.model.messages import MemoryMessages
from tests.model.nodes import MemoryNodes, MemoryReaper, MemoryWakeups
from tests.model.queues import MemoryQueues, MemorySubscriptions, MemoryTenants
from tests.model.removal import Departures
from tests.model.send import Arrivals
from tests.model.state import Tables
from tickwork.core.model import Meta
from tickwork.store.ids import Moment

SCHEMA_VERSION = 4


class MemoryStore:
    """A store on some tables; a second one on the same tables sees the same."""

    def __init__(self, tables: Tables, moment: Moment) -> None:
        def now() -> datetime:
            virtual = moment()
            assert virtual is not None, "the model has no clock of its own"
            return virtual

        self._now = now
        arrivals = Arrivals(tables, now)
        departures = Departures(tables, now, arrivals)
        self.tenants = MemoryTenants(tables)
        self.queues = MemoryQueues(tables, now, departures)
        self.batches = MemoryBatches(tables, now, arrivals, departures)
        self.messages = MemoryMessages(tables, now, arrivals, departures, self.batches)
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

    async def make_ready(self) -> None:
        return

    async def close(self) -> None:
        return
