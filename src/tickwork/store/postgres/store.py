"""The store in one PostgreSQL database: builds, opens and closes its parts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import datetime
from uuid import UUID

from tickwork.core.delivery.endpoint import EndpointWait
from tickwork.core.entity.model import EntityChange
from tickwork.core.limits import check_limit
from tickwork.core.model import SYSTEM, IdKind, Meta, Scope
from tickwork.core.schedule.firing import FiringResult
from tickwork.core.workflow.model import Checkpoint, RunEnd, SignalWait
from tickwork.errors import StoreError
from tickwork.store.contract import Store
from tickwork.store.ids import Moment, database_time
from tickwork.store.nouns.api_keys import ApiKeys
from tickwork.store.nouns.audit import Audit
from tickwork.store.nouns.calendars import Calendars
from tickwork.store.nouns.dead_letters import DeadLetters
from tickwork.store.nouns.firings import Firings
from tickwork.store.nouns.history import History
from tickwork.store.nouns.limits import Limits
from tickwork.store.nouns.messages import Messages
from tickwork.store.nouns.operations import Operations
from tickwork.store.nouns.performance import PerformanceRows
from tickwork.store.nouns.requests import Requests
from tickwork.store.nouns.secrets import Secrets
from tickwork.store.nouns.sessions import Sessions
from tickwork.store.nouns.stream import Stream
from tickwork.store.nouns.tenants import Tenants
from tickwork.store.nouns.traces import Traces
from tickwork.store.nouns.types import Types
from tickwork.store.nouns.usage import UsageRows
from tickwork.store.ports.asyncpg import AsyncpgPort
from tickwork.store.postgres.endpoints.deliveries import EndpointWaitWriter
from tickwork.store.postgres.endpoints.endpoints import PostgresEndpoints
from tickwork.store.postgres.endpoints.publish import Publisher
from tickwork.store.postgres.engine.callers_database import (
    CallersCounters,
    CallersDatabase,
    CallersTransaction,
    CallersTransactions,
    CallersWakeups,
)
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.migrate import check_version
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.entities.entities import PostgresEntities
from tickwork.store.postgres.entities.write import EntityWriter
from tickwork.store.postgres.hot_paths import PostgresHotPaths
from tickwork.store.postgres.messages.batch_progress import BatchProgress
from tickwork.store.postgres.messages.batches import PostgresBatches
from tickwork.store.postgres.messages.claim import Claimer
from tickwork.store.postgres.messages.dead_copies import bury_copies
from tickwork.store.postgres.messages.effects import EffectWriters
from tickwork.store.postgres.messages.keys import Keys
from tickwork.store.postgres.messages.progress import PostgresProgress
from tickwork.store.postgres.messages.removal import Purger, Removal
from tickwork.store.postgres.messages.send import Sender
from tickwork.store.postgres.messages.settle import Settler
from tickwork.store.postgres.messages.settle_statements import EndingWriter
from tickwork.store.postgres.messages.subscriptions import PostgresSubscriptions
from tickwork.store.postgres.nodes import PostgresNodes
from tickwork.store.postgres.pruner import PostgresPruner
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.postgres.readers import PostgresReaders
from tickwork.store.postgres.reaper import PostgresReaper
from tickwork.store.postgres.schedules.change import Changer
from tickwork.store.postgres.schedules.create import Creator
from tickwork.store.postgres.schedules.plan import Planner
from tickwork.store.postgres.schedules.schedules import PostgresSchedules
from tickwork.store.postgres.schedules.shards import PostgresShards
from tickwork.store.postgres.schedules.slot_copies import SlotCopies
from tickwork.store.postgres.schedules.slot_outcome import FiringWriter
from tickwork.store.postgres.stats import PostgresStats
from tickwork.store.postgres.workflows.checkpoints import (
    CheckpointWriter,
    RunEndWriter,
    SignalWaitWriter,
)
from tickwork.store.postgres.workflows.workflows import PostgresWorkflows
from tickwork.store.shared.counters import Counters
from tickwork.store.shared.group_commit import Grouped
from tickwork.store.shared.shard_layout import ShardLayout
from tickwork.store.shared.watches import within

CONNECTIONS_MAX = 10

CONNECTIONS_READY = 4
"""Number of connections to open at start: two claims and two settlements."""

_FREQUENT_STATEMENTS = (
    SQL.send,
    SQL.notify,
    SQL.ready_tenants,
    SQL.claim,
    SQL.ack_plain,
    SQL.explain_empty_claim,
)
"""Statements to prepare at start, because they run for every message or all the time."""

EFFECT_WRITERS: EffectWriters = {
    Checkpoint: CheckpointWriter,
    SignalWait: SignalWaitWriter,
    EndpointWait: EndpointWaitWriter,
    RunEnd: RunEndWriter,
    EntityChange: EntityWriter,
    FiringResult: FiringWriter,
}
"""Who writes each kind of effect."""

CLOSE_SECONDS_MAX = 3.0
"""Seconds that `close` waits for accepted work."""


class PostgresStore:
    """A store in one PostgreSQL database. Use `open`; the schema must exist."""

    writes_alone = False

    def __init__(
        self,
        database: Database,
        moment: Moment,
        listen_url: str,
        *,
        shared: PostgresStore | None = None,
    ) -> None:
        """`shared` is the store whose caches a store of callers' transactions uses."""
        self._database, self._moment = database, moment
        self._listen_url = listen_url
        self._clock: Grouped[None, datetime] = database.grouped(self._read_clock)
        counters, self.wakeups = Counters(), PostgresWakeups(database, listen_url)
        if shared is not None:
            counters, self.wakeups = CallersCounters(), CallersWakeups(database, None)
        port = AsyncpgPort(database, moment, self.wakeups)
        self.tenants: Tenants = Tenants(port, moment, shared.tenants if shared else None)
        queues, self.subscriptions = _caches(port, database, moment, shared)
        self.queues = queues
        self._sender = sender = Sender(
            database, moment, queues, self.subscriptions, self.wakeups, counters, bury_copies
        )
        progress = BatchProgress(database, moment, queues, sender, self.subscriptions)
        self.batches = PostgresBatches(
            port, database, moment, queues, sender, progress, Keys(moment), counters
        )
        removal = Removal(moment, progress, self.wakeups, counters)
        if shared is None:
            queues.purger = Purger(database, moment, removal)
        paths = PostgresHotPaths(moment, queues, sender, removal, counters)
        publisher = Publisher(database, moment, sender)
        ending_writer = EndingWriter(moment, sender, publisher, removal, counters, EFFECT_WRITERS)
        self._settler = Settler(database, sender, publisher, ending_writer)
        claimer = Claimer(database, moment, queues, self._settler)
        self.messages = Messages(port, paths, sender, claimer, self._settler)
        self.progress = PostgresProgress(database, moment)
        self.dead_letters = DeadLetters(port, paths)
        layout = ShardLayout()
        copies = SlotCopies(sender, self.subscriptions)
        self.schedules = PostgresSchedules(
            port,
            database,
            Creator(database, moment, queues, self.wakeups),
            Changer(database, moment, removal, self.wakeups, counters, copies),
            Planner(database, moment, self.wakeups, counters, copies, layout),
        )
        self.calendars = Calendars(port)
        self.secrets = Secrets(port)
        self.limits, self.operations = Limits(port), Operations(port, paths)
        self.workflows = PostgresWorkflows(port, paths, database, moment)
        self.keys = ApiKeys(port)
        self.sessions = Sessions(port)
        self.readers = PostgresReaders(database)
        self.audit, self.stream = Audit(port), Stream(port)
        self.traces, self.history = Traces(port), History(port)
        self.types = Types(port)
        self.performance, self.usage = PerformanceRows(port), UsageRows(port)
        self.endpoints = PostgresEndpoints(port, paths, publisher)
        self.entities = PostgresEntities(port, paths, database, moment, queues, removal, counters)
        self.shards = PostgresShards(database, moment, self.wakeups, layout)
        self.firings = Firings(port, paths)
        self.stats = PostgresStats(database, moment, queues, counters)
        self.nodes = PostgresNodes(port, database, moment, self.wakeups)
        self.reaper = PostgresReaper(
            database, moment, ending_writer, removal, progress, self.entities, self.endpoints
        )
        self.requests = Requests(port)
        self.pruner = PostgresPruner(port, paths, database, moment)
        self._callers = CallersTransactions(database, counters, self.wakeups, self._of_callers)
        self._store_of_callers: PostgresStore | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        moment: Moment = database_time,
        direct_url: str | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> PostgresStore:
        """Connects to a database whose schema is up to date.

        With `direct_url`, `url` points to a transaction pooler, and only LISTEN connects to
        `direct_url`.
        """
        database = await Database.open(
            url, connections_max=connections_max, pooled=direct_url is not None
        )
        store = cls(database, moment, direct_url or url)
        async with AsyncExitStack() as failed:
            failed.push_async_callback(store.close)
            check_version((await store.meta()).schema_version, direct_url or url)
            failed.pop_all()
        return store

    async def now(self) -> datetime:
        virtual = self._moment()
        if virtual is not None:
            return virtual
        return await self._clock.submit(None)

    async def _read_clock(self, asked: Sequence[None]) -> list[datetime]:
        """One time for all who ask: it is read after each of them has asked."""
        now = await self._database.run(lambda connection: connection.fetchval(SQL.read_clock))
        return [now] * len(asked)

    async def meta(self) -> Meta:
        row = await self._database.run(lambda connection: connection.fetchrow(SQL.read_meta))
        assert row is not None
        return Meta(*row)

    async def ids_ending(
        self, scope: Scope, kind: IdKind, digits: str, limit: int
    ) -> tuple[UUID, ...]:
        check_limit(limit)
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.ids_ending, scope.tenant, kind, digits.lower(), limit
            )
        )
        return tuple(row["id"] for row in found)

    def callers_transaction(self, connection: object) -> AbstractAsyncContextManager[Store]:
        return CallersTransaction(self._callers, connection)

    def _of_callers(self) -> Store:
        """The store on which verbs run in the transactions of their callers."""
        if self._store_of_callers is None:
            database = CallersDatabase(self._database.url)
            self._store_of_callers = PostgresStore(
                database, self._moment, self._listen_url, shared=self
            )
        self._store_of_callers.audit.actor = self.audit.actor
        return self._store_of_callers

    async def make_ready(self) -> None:
        await self._database.make_ready(_FREQUENT_STATEMENTS, CONNECTIONS_READY)

    async def close(self) -> None:
        try:
            with suppress(StoreError):  # The database may be unreachable.
                await within(CLOSE_SECONDS_MAX, self._flush())
        finally:
            try:
                await self.wakeups.close()
            finally:
                await self._database.close()

    async def _flush(self) -> None:
        await self._callers.close()
        await self._sender.drain()
        await self.progress.drain()
        await self.workflows.drain()
        await self.entities.drain()
        await self._settler.drain()
        # A read whose caller was cancelled goes on: on a connection that the pool opens meanwhile,
        # it would outlive the pool.
        await self._clock.drain()
        await self.stats.flush(SYSTEM)


def _caches(
    port: AsyncpgPort, database: Database, moment: Moment, shared: PostgresStore | None
) -> tuple[PostgresQueues, PostgresSubscriptions]:
    """What is read for every send, and cached."""
    if shared is not None:
        return shared.queues, shared.subscriptions
    return PostgresQueues(port, database, moment), PostgresSubscriptions(port, database, moment)
