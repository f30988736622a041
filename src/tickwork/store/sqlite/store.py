"""The SQLite store: opens one file and gives access to its nouns."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

from tickwork import clock
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
from tickwork.store.nouns.subscriptions import Subscriptions
from tickwork.store.nouns.tenants import Tenants
from tickwork.store.nouns.traces import Traces
from tickwork.store.nouns.types import Types
from tickwork.store.nouns.usage import UsageRows
from tickwork.store.ports.sqlite import SqlitePort
from tickwork.store.shared.shard_layout import ShardLayout
from tickwork.store.shared.watches import within
from tickwork.store.sqlite.endpoints.deliveries import EndpointWaitWriter
from tickwork.store.sqlite.endpoints.endpoints import SqliteEndpoints
from tickwork.store.sqlite.engine.callers_database import (
    CallersDatabase,
    CallersTransaction,
    CallersTransactions,
)
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.file import BUSY_TIMEOUT_SECONDS, DatabaseFile, locate
from tickwork.store.sqlite.engine.file_watch import FileWatcher
from tickwork.store.sqlite.engine.migrate import check_version
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.wakeups import SqliteWakeups
from tickwork.store.sqlite.entities.entities import SqliteEntities
from tickwork.store.sqlite.entities.write import EntityWriter
from tickwork.store.sqlite.hot_paths import SqliteHotPaths
from tickwork.store.sqlite.messages.batches import SqliteBatches
from tickwork.store.sqlite.messages.claim import Claimer
from tickwork.store.sqlite.messages.effects import EffectWriters
from tickwork.store.sqlite.messages.progress import SqliteProgress
from tickwork.store.sqlite.messages.send import Sender
from tickwork.store.sqlite.messages.settle import Settler
from tickwork.store.sqlite.nodes import SqliteNodes
from tickwork.store.sqlite.pruner import SqlitePruner
from tickwork.store.sqlite.queues import SqliteQueues
from tickwork.store.sqlite.readers import SqliteReaders
from tickwork.store.sqlite.reaper import SqliteReaper
from tickwork.store.sqlite.schedules.schedules import SqliteSchedules
from tickwork.store.sqlite.schedules.shards import SqliteShards
from tickwork.store.sqlite.schedules.slot_outcome import FiringWriter
from tickwork.store.sqlite.stats import SqliteStats, write_counts
from tickwork.store.sqlite.workflows.checkpoints import (
    CheckpointWriter,
    RunEndWriter,
    SignalWaitWriter,
)
from tickwork.store.sqlite.workflows.workflows import SqliteWorkflows

EFFECT_WRITERS: EffectWriters = {
    Checkpoint: CheckpointWriter,
    SignalWait: SignalWaitWriter,
    EndpointWait: EndpointWaitWriter,
    RunEnd: RunEndWriter,
    EntityChange: EntityWriter,
    FiringResult: FiringWriter,
}
"""Who writes each kind of effect."""

FLUSH_SECONDS_MAX = 3.0
"""Seconds that `close` waits for counters to be stored."""


class SqliteStore:
    """One file as a store. Open it with `open`; the schema must exist.

    It may be used from any event loop and thread of the process that opened it, but not after a
    fork: the child has to open its own.
    """

    writes_alone = True

    def __init__(
        self,
        database: Database,
        moment: Moment,
        file_watcher: FileWatcher,
        *,
        shared: SqliteStore | None = None,
    ) -> None:
        """`shared` is the store whose caches a store of callers' transactions uses."""
        self._database, self._moment = database, moment
        self._file_watcher = file_watcher
        layout, port = ShardLayout(), SqlitePort(database)
        paths = SqliteHotPaths()
        self.wakeups = SqliteWakeups(database, file_watcher)
        self.tenants: Tenants = Tenants(port, moment, shared.tenants if shared else None)
        self.queues = SqliteQueues(port, database)
        settler = Settler(database, EFFECT_WRITERS)
        claimer = Claimer(database, moment, settler.row_hints)
        self.messages = Messages(port, paths, Sender(database), claimer, settler)
        self.progress = SqliteProgress(database)
        self.dead_letters = DeadLetters(port, paths)
        self.batches = SqliteBatches(port, database)
        self.subscriptions = Subscriptions(port)
        self.schedules = SqliteSchedules(port, database, layout)
        self.calendars = Calendars(port)
        self.secrets = Secrets(port)
        self.limits = Limits(port)
        self.workflows = SqliteWorkflows(port, paths, database)
        self.keys = ApiKeys(port)
        self.sessions = Sessions(port)
        self.readers = SqliteReaders()
        self.audit = Audit(port)
        self.stream = Stream(port)
        self.traces = Traces(port)
        self.types = Types(port)
        self.operations = Operations(port, paths)
        self.history = History(port)
        self.performance = PerformanceRows(port)
        self.usage = UsageRows(port)
        self.endpoints = SqliteEndpoints(port, paths, database)
        self.entities = SqliteEntities(port, paths, database)
        self.shards = SqliteShards(database, layout)
        self.firings = Firings(port, paths)
        self.stats = SqliteStats(database)
        self.requests = Requests(port)
        self.pruner = SqlitePruner(port, paths, database)
        self.nodes = SqliteNodes(port, database)
        self.reaper = SqliteReaper(database)
        self._callers = CallersTransactions(database.file, moment, write_counts, self._of_callers)
        self._store_of_callers: SqliteStore | None = None

    @classmethod
    async def open(
        cls,
        path_or_url: str | Path,
        *,
        moment: Moment = database_time,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        is_temporary: bool = False,
    ) -> SqliteStore:
        """Opens a file: its path, `sqlite:///relative.db` or `sqlite:////absolute.db`. Writes to a
        file that `is_temporary` need not survive a power cut."""
        path, file_watcher = locate(path_or_url), FileWatcher()
        file = DatabaseFile(path, busy_timeout_seconds, is_temporary=is_temporary)
        async with AsyncExitStack() as failed:
            database = Database(file, moment, file_watcher)
            failed.push_async_callback(database.close)
            await database.read(lambda transaction: check_version(transaction.connection, file))
            failed.pop_all()
        return cls(database, moment, file_watcher)

    async def now(self) -> datetime:
        return self._moment() or clock.now()

    async def meta(self) -> Meta:
        row = await self._database.read(
            lambda transaction: transaction.execute(SQL.read_meta).fetchone()
        )
        return Meta(*row)

    async def ids_ending(
        self, scope: Scope, kind: IdKind, digits: str, limit: int
    ) -> tuple[UUID, ...]:
        check_limit(limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.ids_ending, (scope.tenant, str(kind), digits, limit)
            ).fetchall()
        )
        return tuple(UUID(bytes=id_) for (id_,) in found)

    def callers_transaction(self, connection: object) -> AbstractAsyncContextManager[Store]:
        return CallersTransaction(self._callers, connection)

    def _of_callers(self) -> Store:
        """The store on which verbs run in the transactions of their callers."""
        if self._store_of_callers is None:
            database = CallersDatabase(self._database.file)
            self._store_of_callers = SqliteStore(
                database, self._moment, self._file_watcher, shared=self
            )
        self._store_of_callers.audit.actor = self.audit.actor
        return self._store_of_callers

    async def make_ready(self) -> None:
        """Nothing to do: the file is open."""

    async def close(self) -> None:
        with suppress(StoreError):  # Only counters are lost, and the file may be gone.
            await within(FLUSH_SECONDS_MAX, self.stats.flush(SYSTEM))
        await self._database.close()
