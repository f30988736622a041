"""Stands for the pool where a verb runs in the transaction of its caller.

A verb of several statements runs inside a savepoint, so that its error undoes it and leaves the
caller's transaction as it was. One statement needs none. Nothing is repeated and no error of the
driver is translated: the transaction is the caller's.

What a verb does after a commit (count, wake consumers) is kept with the id of the transaction that
wrote its rows, as the rows have it: inside a savepoint that is an id of its own. On our own pool we
ask what became of these transactions, for many at once. If one is committed, what was kept is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
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
    CallersVerb,
    Given,
    refuse,
    refuse_failed,
)
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.group_commit import Alone, Grouped

LOOK_SECONDS = 0.02
"""Seconds between two looks at callers' transactions."""

ASK_SECONDS_MIN = LOOK_SECONDS
ASK_SECONDS_MAX = 5.0
"""Seconds between two questions what became of a transaction; they double. One whose connection is
seen outside of it is asked for at once."""

WATCHED_MAX = 10_000
"""Maximum number of transactions that are watched. What is beyond is found by polling, and is not
counted."""

Result = TypeVar("Result")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_VERB, _STEP = "tickwork_verb", "tickwork_step"
_FAILED_TRANSACTION = "25P02"
_IN_PROGRESS, _COMMITTED = "in progress", "committed"


class CallersTransaction(CallersVerb):
    """One verb in the transaction of its caller."""

    def __init__(self, callers: CallersTransactions, given: object) -> None:
        super().__init__(callers, given)
        self._transactions = callers
        self._is_open = self._is_used = False
        self.written_by: int | None = None
        self.counted: list[tuple[CounterKey, int]] = []
        self.topics: set[UUID] = set()

    @property
    def connection(self) -> Connection:
        """The connection of the caller."""
        connection: Connection = self.caller.connection
        return connection

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
            failing.push_async_callback(self._roll_back, savepoint, self.written_by)
            result = await self.run(work)
            failing.pop_all()
        if savepoint is _STEP:
            await self.connection.execute(f"RELEASE {_STEP}")
        return result

    async def end(self) -> None:
        if self._is_open or self.written_by is None:
            await self._end()
        if self.written_by is not None:
            self._transactions.watch(self, self.written_by)

    async def _end(self) -> None:
        with _errors_of(self.caller):
            if self.written_by is None and (self.counted or self.topics):
                self.written_by = await self.run(
                    lambda on: on.fetchval(SQL.add_receipt, new_id(), None)
                )
            if self._is_open:
                await self.connection.execute(f"RELEASE {_VERB}")

    async def undo(self, error: object) -> None:
        if self._is_open:
            await self._roll_back(_VERB, None)
        if (cause := _cause_of(error)) is not error:
            raise cause from None

    async def _roll_back(self, savepoint: str, written_by: int | None) -> None:
        self.written_by = written_by
        end = f"; RELEASE {savepoint}" if savepoint is _STEP else ""
        with suppress(*self.caller.errors):  # The error of the work is the one that counts.
            await self.connection.execute(f"ROLLBACK TO {savepoint}{end}")


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
        return await CallersTransaction.current().run(work)

    async def transact(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        repeatable: bool = True,  # noqa: ARG002
    ) -> Result:
        return await CallersTransaction.current().transact(work)

    async def run_single(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Runs one statement without a savepoint: it changes all or nothing by itself."""
        return await work(cast("Connection", _Once(CallersTransaction.current().connection)))

    @property
    def callers_connection(self) -> Connection:
        return CallersTransaction.current().connection

    def note_writer(self, written_by: int | None) -> None:
        if written_by is not None:
            CallersTransaction.current().written_by = written_by

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
        CallersTransaction.current().counted.append((key, messages))


class CallersWakeups(PostgresWakeups):
    """Wakes once the caller has committed."""

    def notify(self, queue_ids: Iterable[UUID]) -> None:
        CallersTransaction.current().topics |= {*queue_ids}


class CallersTransactions(Callers):
    """The callers' transactions of one process: looks when they end."""

    def __init__(
        self,
        database: Database,
        counters: Counters,
        wakeups: PostgresWakeups,
        store: Callable[[], Any],
    ) -> None:
        super().__init__(store)
        self._database = database
        self._counters, self._wakeups = counters, wakeups
        self._identity: tuple[object, ...] | None = None
        self._known: WeakKeyDictionary[Any, tuple[object, ...]] = WeakKeyDictionary()
        self._watched: dict[int, _Watched] = {}
        self._watching: asyncio.Task[None] | None = None

    def caller_of(self, given: Given) -> Any:
        if given.driver == "asyncpg":
            return AsyncpgCaller(given)
        if given.driver in ("psycopg", "psycopg_async"):
            from tickwork.store.ports.psycopg import AsyncPsycopgCaller, PsycopgCaller

            return (PsycopgCaller if given.driver == "psycopg" else AsyncPsycopgCaller)(given)
        raise refuse(f"is of a SQLite file, but the app is on PostgreSQL; {CONNECTIONS}")

    async def check(self, caller: Any) -> None:
        await caller.check()
        if self._identity is None or self._known.get(caller.raw) != self._identity:
            with _errors_of(caller):
                await self._check_database(caller)

    async def _check_database(self, caller: Any) -> None:
        known = await _identify(caller.connection)
        if known != self._identity:  # The server may have been started again.
            self._identity = await self._database.run(_identify)
        if known != self._identity:
            raise refuse(
                "is of another database, or does not find Tickwork's tables on its search_path; "
                f"{CONNECTIONS}, in the database of the app"
            )
        self._known[caller.raw] = known

    def watch(self, verb: CallersTransaction, written_by: int) -> None:
        """Does what a verb has counted and whom it wakes, once its transaction is committed."""
        watched = self._watched.get(written_by)
        if watched is None:
            if len(self._watched) >= WATCHED_MAX:
                return
            watched = self._watched[written_by] = _Watched(verb.caller.has_left)
        watched.add(verb)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._watched:
            await asyncio.sleep(LOOK_SECONDS)
            now = monotonic()
            await self._ask([id_ for id_, watched in self._watched.items() if watched.is_due(now)])

    async def _ask(self, due: Sequence[int]) -> None:
        """Does what waits for the commits of transactions, as far as they are committed, and drops
        what was rolled back."""
        if not due:
            return
        with suppress(StoreError):  # Consumers find the messages by polling.
            topics = [(id_, topic) for id_ in due for topic in self._watched[id_].topics]
            rows = await self._database.run(
                lambda connection: connection.fetch(
                    SQL.ended_transactions,
                    due,
                    [written_by for written_by, _ in topics],
                    [topic for _, topic in topics],
                )
            )
            ended = {row["written_by"]: row["status"] for row in rows}
            self._do(
                [self._watched.pop(id_) for id_, status in ended.items() if status == _COMMITTED]
            )
            for id_, status in ended.items():
                if status != _IN_PROGRESS:
                    self._watched.pop(id_, None)

    def _do(self, committed: Iterable[_Watched]) -> None:
        """Counts, and wakes the consumers of this process. Those of others are notified."""
        topics: set[UUID] = set()
        for watched in committed:
            topics |= watched.topics
            for key, messages in watched.counted.items():
                self._counters.add(key, messages)
        self._wakeups.wake(topics)

    async def close(self) -> None:
        """Does what waits for commits that have happened."""
        if self._watching is not None:
            self._watching.cancel()
        await self._ask([*self._watched])
        self._watched = {}


class _Watched:
    """A transaction that is open, as far as is known, and what waits for its commit."""

    def __init__(self, has_left: Callable[[], bool]) -> None:
        self.counted: dict[CounterKey, int] = {}
        self.topics: set[UUID] = set()
        self._has_left = has_left
        self._ask_at, self._seconds = monotonic() + ASK_SECONDS_MIN, ASK_SECONDS_MIN

    def add(self, verb: CallersTransaction) -> None:
        """Adds what a verb does after the commit."""
        self.topics |= verb.topics
        for key, messages in verb.counted:
            self.counted[key] = self.counted.get(key, 0) + messages

    def is_due(self, now: float) -> bool:
        """Whether to ask what became of it."""
        if now >= self._ask_at:
            self._seconds = min(self._seconds * 2, ASK_SECONDS_MAX)
            self._ask_at = now + self._seconds
            return True
        return self._has_left()


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
    """Raises errors as callers see them."""
    try:
        yield
    except (asyncpg.PostgresError, *caller.errors) as error:
        raise _cause_of(error) from None


def _cause_of(error: Any) -> Any:
    """An error as the driver of the caller raised it; of a failed transaction ours."""
    original = getattr(error, "driver_error", error)
    if getattr(original, "sqlstate", None) == _FAILED_TRANSACTION:
        return refuse_failed()
    return original
