"""Stands for the pool where a verb runs in the transaction of its caller.

A verb of several statements runs inside a savepoint, so that its error undoes it and leaves the
caller's transaction as it was. One statement needs none. Nothing is repeated and no error of the
driver is translated: the transaction is the caller's.

What a verb does after a commit (count, wake consumers) is kept with a receipt, a row that the
transaction stores. Once the caller's connection has left the transaction, we look for the receipt
on our own pool, for all ended transactions at once. If it is there, what was kept is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from typing import Any, TypeVar, cast
from uuid import UUID
from weakref import WeakKeyDictionary

import asyncpg

from tickwork.clock import monotonic
from tickwork.errors import StoreError
from tickwork.store.ids import new_id
from tickwork.store.ports.asyncpg import AsyncpgCaller
from tickwork.store.ports.callers import (
    CONNECTIONS,
    Callers,
    Given,
    driver_connection,
    refuse,
    refuse_failed,
)
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.group_commit import Alone, Grouped

LOOK_SECONDS = 0.01
"""Seconds between two looks whether callers' transactions have ended."""

ASK_SECONDS_MIN = 0.25
ASK_SECONDS_MAX = 5.0
"""Seconds between two questions for the receipt of a transaction that seems to be open. Its
connection may be in the next one already."""

WATCHED_MAX = 10_000
"""Maximum number of verbs whose transactions are watched. What is beyond is found by polling, and
is not counted."""

Result = TypeVar("Result")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_VERB, _STEP = "tickwork_verb", "tickwork_step"
_FAILED_TRANSACTION = "25P02"


class CallersTransaction:
    """One verb in the transaction of its caller."""

    def __init__(self, caller: Any) -> None:
        self.caller = caller
        self.connection: Connection = caller.connection
        self._is_open = self._is_used = False
        self.receipt: UUID | None = None
        self.counted: list[tuple[CounterKey, int]] = []
        self.topics: set[UUID] = set()

    async def run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Runs statements inside the savepoint of the verb."""
        if not self._is_open:
            await self.connection.execute(f"SAVEPOINT {_VERB}")
            self._is_open = True
        self._is_used = True
        return await work(self.connection)

    async def transact(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Runs work, all or nothing."""
        savepoint = _STEP if self._is_used else _VERB
        if self._is_used:
            await self.connection.execute(f"SAVEPOINT {_STEP}")
        async with AsyncExitStack() as failing:
            failing.push_async_callback(self._roll_back, savepoint)
            result = await self.run(work)
            failing.pop_all()
        if savepoint is _STEP:
            await self.connection.execute(f"RELEASE {_STEP}")
        return result

    async def end(self) -> None:
        """Keeps what the verb has done."""
        if self.receipt is None and (self.counted or self.topics):
            self.receipt = new_id()
            await self.run(lambda on: on.execute(SQL.add_receipt, self.receipt, None))
        if self._is_open:
            await self.connection.execute(f"RELEASE {_VERB}")

    async def undo(self) -> None:
        """Undoes what the verb has done."""
        if self._is_open:
            await self._roll_back(_VERB)

    async def _roll_back(self, savepoint: str) -> None:
        end = f"; RELEASE {savepoint}" if savepoint is _STEP else ""
        with suppress(*self.caller.errors):  # The error of the work is the one that counts.
            await self.connection.execute(f"ROLLBACK TO {savepoint}{end}")


_CURRENT: ContextVar[CallersTransaction] = ContextVar("tickwork_callers_transaction")


class CallersDatabase(Database):
    """Runs work on the connection of the caller whose verb this is."""

    bounds = default_planner = ""
    custom_plan = ""

    def __init__(self, url: str) -> None:
        self.url = url

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        repeatable: bool = True,  # noqa: ARG002
    ) -> Result:
        return await _CURRENT.get().run(work)

    async def transact(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        repeatable: bool = True,  # noqa: ARG002
    ) -> Result:
        return await _CURRENT.get().transact(work)

    async def run_single(
        self, work: Callable[[Connection], Awaitable[Result]], receipt: UUID
    ) -> Result:
        """Runs one statement without a savepoint: it changes all or nothing by itself."""
        transaction = _CURRENT.get()
        result = await work(cast("Connection", _Once(transaction.connection)))
        transaction.receipt = receipt
        return result

    def grouped(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        flights_max: int = 1,  # noqa: ARG002
    ) -> Grouped[Item, Answer]:
        return Alone(commit)


class _Once:
    """A connection on which a statement that has failed is not tried again by its work: without a
    savepoint, what follows it could not be undone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.fetch = connection.fetch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def is_in_transaction(self) -> bool:
        return False


class CallersCounters(Counters):
    """Counts once the caller has committed."""

    def add(self, key: CounterKey, messages: int = 1) -> None:
        _CURRENT.get().counted.append((key, messages))


class CallersWakeups(PostgresWakeups):
    """Wakes once the caller has committed."""

    def notify(self, queue_ids: Iterable[UUID]) -> None:
        _CURRENT.get().topics |= {*queue_ids}


class CallersTransactions:
    """The callers' transactions of one process: runs verbs in them, and looks when they end."""

    def __init__(self, database: Database, counters: Counters, wakeups: PostgresWakeups) -> None:
        self._database = database
        self._counters, self._wakeups = counters, wakeups
        self._identity: tuple[object, ...] | None = None
        self._known: WeakKeyDictionary[Any, tuple[object, ...]] = WeakKeyDictionary()
        self._callers = Callers()
        self._watched: list[_Watched] = []
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def verb(self, given: object) -> AsyncIterator[None]:
        """Runs a verb in the open transaction of a connection."""
        caller = _caller(await driver_connection(given))
        await caller.check()
        with self._callers.using(caller.raw), _errors_of(caller):
            await self._check_database(caller)
            async with self._verb(CallersTransaction(caller)):
                yield

    @asynccontextmanager
    async def _verb(self, transaction: CallersTransaction) -> AsyncIterator[None]:
        token = _CURRENT.set(transaction)
        try:
            async with AsyncExitStack() as failing:
                failing.push_async_callback(transaction.undo)
                yield
                await transaction.end()
                failing.pop_all()
        finally:
            _CURRENT.reset(token)
        if transaction.counted or transaction.topics:
            self._watch(transaction)

    async def _check_database(self, caller: Any) -> None:
        """Raises `InvalidInput` for a connection to another database."""
        if self._identity is not None and self._known.get(caller.raw) == self._identity:
            return
        known = await _identify(caller.connection)
        if known != self._identity:  # The server may have been started again.
            self._identity = await self._database.run(_identify)
        if known != self._identity:
            raise refuse(
                "is of another database, or does not find Tickwork's tables on its search_path; "
                f"{CONNECTIONS}, in the database of the app"
            )
        self._known[caller.raw] = known

    def _watch(self, transaction: CallersTransaction) -> None:
        if len(self._watched) < WATCHED_MAX:
            self._watched.append(_Watched(transaction))
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._watched:
            await asyncio.sleep(LOOK_SECONDS)
            now = monotonic()
            await self._ask([watched for watched in self._watched if watched.is_due(now)])

    async def _ask(self, due: Sequence[_Watched]) -> None:
        """Does what waits for the commits of transactions, as far as they are committed, and drops
        what was rolled back."""
        if not due:
            return
        # Before the question: what ends after it is asked for again.
        has_left = {id(watched) for watched in due if watched.has_left()}
        receipts = [watched.receipt for watched in due]
        committed: set[UUID] = set()
        with suppress(StoreError):  # Consumers find the messages by polling.
            rows = await self._database.run(
                lambda connection: connection.fetch(SQL.known_receipts, receipts)
            )
            committed = {row["id"] for row in rows}
        topics: set[UUID] = set()
        for watched in due:
            if watched.receipt in committed:
                topics |= watched.topics
                for key, messages in watched.counted:
                    self._counters.add(key, messages)
        over = {id(watched) for watched in due if watched.receipt in committed} | has_left
        self._watched = [watched for watched in self._watched if id(watched) not in over]
        if topics:
            self._wakeups.notify(topics)

    async def close(self) -> None:
        """Does what waits for commits that have happened."""
        if self._watching is not None:
            self._watching.cancel()
        await self._ask(self._watched)
        self._watched = []


class _Watched:
    """A verb whose transaction is open, as far as is known."""

    def __init__(self, transaction: CallersTransaction) -> None:
        assert transaction.receipt is not None
        self.receipt = transaction.receipt
        self.counted, self.topics = transaction.counted, transaction.topics
        self.has_left: Callable[[], bool] = transaction.caller.has_left
        self._ask_at, self._seconds = monotonic() + ASK_SECONDS_MIN, ASK_SECONDS_MIN

    def is_due(self, now: float) -> bool:
        """Whether to ask for its receipt."""
        if now >= self._ask_at:
            self._seconds = min(self._seconds * 2, ASK_SECONDS_MAX)
            self._ask_at = now + self._seconds
            return True
        return self.has_left()


def _caller(given: Given) -> Any:
    if given.driver == "asyncpg":
        return AsyncpgCaller(given)
    if given.driver in ("psycopg", "psycopg_async"):
        from tickwork.store.ports.psycopg import AsyncPsycopgCaller, PsycopgCaller

        return (PsycopgCaller if given.driver == "psycopg" else AsyncPsycopgCaller)(given)
    raise refuse(f"is of a SQLite file, but the app is on PostgreSQL; {CONNECTIONS}")


async def _identify(connection: Connection) -> tuple[object, ...]:
    row = await connection.fetchrow(SQL.identify)
    assert row is not None
    *identity, id_, now = row
    if not isinstance(id_, UUID) or not isinstance(now, datetime):
        raise refuse(
            "has a codec or loader of its own for uuid or timestamptz; pass a connection without "
            "it, or undo it before the call (asyncpg: `reset_type_codec`)"
        )
    return tuple(identity)


@contextmanager
def _errors_of(caller: Any) -> Iterator[None]:
    """Raises errors as the driver of the caller raised them; of a failed transaction as ours."""
    try:
        yield
    except (asyncpg.PostgresError, *caller.errors) as error:
        original = getattr(error, "driver_error", error)
        if getattr(original, "sqlstate", None) == _FAILED_TRANSACTION:
            raise refuse_failed() from original
        if original is not error:
            raise original from None
        raise
