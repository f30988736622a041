"""The connection pool: it reconnects, retries, and translates errors of the driver.

When the connection breaks, an operation that is safe to repeat is retried for a few seconds. Any
other operation raises `StoreUnavailable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from typing import TypeAlias, TypeVar

import asyncpg

from tickwork.errors import StoreBroken, StoreError, StoreUnavailable
from tickwork.store.postgres.engine.sql import CUSTOM_PLAN
from tickwork.store.shared.database_url import migrate_command
from tickwork.store.shared.group_commit import Coalescer, Grouped
from tickwork.store.shared.joined_writes import changes_nothing, waiting_writes
from tickwork.store.shared.watches import within

Pooled: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | Pooled"
Result = TypeVar("Result")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

ATTEMPTS_MAX = 7
"""Maximum number of attempts. The pauses between them double from 50 ms and add up to about three
seconds, enough for a restart of the server."""

_PAUSE_SECONDS = 0.05
_CONNECT_TIMEOUT_SECONDS = 10.0
_COMMAND_TIMEOUT_SECONDS = 60.0
_CLOSE_TIMEOUT_SECONDS = 2.0
_GIVE_BACK_TIMEOUT_SECONDS = 1.0
"""Seconds that an interrupted statement or a rollback may take before its connection is dropped. A
caller whose own time is up must not wait for a server that does not answer."""


_KEEP_SECONDS = 1.0
"""Seconds after which connections that nobody uses go back to the driver's pool, which closes those
that stay idle."""

_IDLE_IN_TRANSACTION_SECONDS = 4.0
"""Seconds that a transaction may be idle: less than a third of a node's lease. Without this limit a
process that is frozen, or whose machine has crashed, would keep its row locks."""

_IDLE_SETTING = "idle_in_transaction_session_timeout"
_IDLE_MILLISECONDS = str(int(_IDLE_IN_TRANSACTION_SECONDS * 1000))
SESSION = {
    _IDLE_SETTING: _IDLE_MILLISECONDS,
    "default_transaction_isolation": "read committed",
    # A cached plan made while a table was empty would scan the whole table after it has grown.
    "enable_seqscan": "off",
    # Where it has to scan one all the same, the plan costs so much that the server would compile
    # it on each execution, which takes hundreds of milliseconds.
    "jit_above_cost": "-1",
    # One generic plan from the first execution on. By default the server plans the first five
    # executions on each connection, which takes longer than a claim, and may keep doing so.
    "plan_cache_mode": "force_generic_plan",
}

TRANSACTION_TIMEOUT = {"transaction_timeout": str(int(_COMMAND_TIMEOUT_SECONDS * 1000))}
"""Session settings for PostgreSQL 17 and newer. The idle timeout does not apply to a process that
is frozen while it prepares a statement; this limit does."""

_DEFAULT_PLANNER = (
    "SET LOCAL enable_seqscan = on; SET LOCAL jit_above_cost = 100000; "
    "SET LOCAL plan_cache_mode = auto"
)

_CONNECTION_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # The server has said that it closes the connection, and the driver has not seen the end yet.
    asyncpg.InternalClientError,
    ConnectionError,
    OSError,
)
CONNECT_ERRORS = (asyncpg.PostgresError, *_CONNECTION_LOST, TimeoutError, ValueError)
"""Errors of a failed connection. An invalid URL is a ValueError."""

_UNREACHABLE_HINT = (
    "check that the server is running and that the database URL has the right host and port "
    "(--database, TICKWORK_DATABASE, or the app's database)"
)

# Classes of SQLSTATE: nothing was changed, and a retry may succeed.
_TEMPORARY = ("40", "53", "57", "55", "25")
_CORRUPT = ("XX001", "XX002")


class Database:
    """A pool of connections to one database.

    The driver's pool takes longer to lend a connection and to take it back than a small statement
    takes. So a connection that was given back in order is kept for the next call, unless a call
    waits for the pool.
    """

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], url: str, *, pooled: bool) -> None:
        self._pool = pool
        self.url = url
        self._pooled = pooled
        self._kept: list[Pooled] = []
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._returning: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, *, connections_max: int, pooled: bool) -> Database:
        """Connects. Behind a pooler (`pooled`), no prepared statement outlives its transaction."""
        connecting = partial(
            asyncpg.create_pool,
            url,
            min_size=0,  # Else the pool itself reconnects, and logs a traceback for each failure.
            max_size=connections_max,
            timeout=_CONNECT_TIMEOUT_SECONDS,
            command_timeout=_COMMAND_TIMEOUT_SECONDS,
            statement_cache_size=0 if pooled else 256,
            max_inactive_connection_lifetime=300,
            reset=_keep_session,
        )
        try:
            # A pooler refuses session settings, because its clients share sessions. An older
            # server refuses settings that it does not know.
            if pooled:
                pool = await _opened(connecting())
            else:
                try:
                    settings = SESSION | TRANSACTION_TIMEOUT
                    pool = await _opened(connecting(server_settings=settings))
                except asyncpg.UndefinedObjectError:
                    pool = await _opened(connecting(server_settings=SESSION))
        except CONNECT_ERRORS as error:
            known = as_store_error(error, url)
            if isinstance(known, StoreUnavailable):
                known = StoreUnavailable(f"{known}; {_UNREACHABLE_HINT}")
            raise known from error
        return cls(pool, url, pooled=pooled)

    async def make_ready(self, statements: Sequence[str], connections: int) -> None:
        """Opens connections and prepares the statements on each.

        Each statement runs once with NULL parameters, so that the driver caches its types and the
        server its plan. With NULL parameters a statement must not change anything.
        """
        await self.return_kept()
        # At most half of the pool: other tasks need connections, too.
        wanted = min(connections, max(self._pool.get_max_size() // 2, 1))
        try:
            async with AsyncExitStack() as stack:
                for _ in range(wanted):
                    acquired = self._pool.acquire(timeout=_CONNECT_TIMEOUT_SECONDS)
                    connection = await stack.enter_async_context(acquired)
                    for statement in statements:
                        parameters = (await connection.prepare(statement)).get_parameters()
                        await connection.fetch(statement, *[None] * len(parameters))
        except (asyncpg.PostgresError, *_CONNECTION_LOST, TimeoutError) as error:
            raise as_store_error(error, self.url) from error

    custom_plan = CUSTOM_PLAN
    """SQL that plans the statements of a transaction for their values."""

    def grouped(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        flights_max: int = 1,
    ) -> Grouped[Item, Answer]:
        """Takes calls that are carried out together."""
        return Coalescer(commit, flights_max=flights_max)

    @property
    def bounds(self) -> str:
        """SQL that limits the idle time of a transaction. Empty if the session has the limit."""
        return f"SET LOCAL {_IDLE_SETTING} = {_IDLE_MILLISECONDS}" if self._pooled else ""

    @property
    def default_planner(self) -> str:
        """SQL that restores the planner's defaults for a caller's statements. Empty if the session
        has not changed them."""
        return "" if self._pooled else _DEFAULT_PLANNER

    async def close(self) -> None:
        """Closes the pool. Drops connections that do not close in time, because the server does not
        answer."""
        closing = asyncio.create_task(self._close())
        try:
            await asyncio.wait([closing], timeout=_CLOSE_TIMEOUT_SECONDS)
        finally:
            if not closing.done():  # Also if this call was cancelled.
                self._pool.terminate()
                closing.cancel()
                await asyncio.wait([closing], timeout=_GIVE_BACK_TIMEOUT_SECONDS)
        if closing.done() and not closing.cancelled():
            closing.result()

    async def _close(self) -> None:
        with suppress(*_CONNECTION_LOST):  # Then the driver has dropped all connections.
            await self.return_kept()
            if self._returning is not None:
                await self._returning
            await self._pool.close()

    async def run(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool = True
    ) -> Result:
        """Runs statements on one connection, each in its own transaction."""
        if self._pooled:
            return await self.transact(work, repeatable=repeatable)
        return await self._try(work, repeatable=repeatable)

    async def run_single(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Runs statements of which the first that changes something is the last."""
        return await self.run(work)

    @property
    def callers_connection(self) -> Connection | None:
        """The connection of the caller in whose transaction work runs."""
        return None

    def note_writer(self, written_by: int | None) -> None:
        """Notes the transaction that has written a row."""

    async def fetch_with_custom_plan(self, statement: str, *values: object) -> list[asyncpg.Record]:
        """Runs a query with a plan for its actual values."""

        async def work(connection: Connection) -> list[asyncpg.Record]:
            if self.custom_plan:
                await connection.execute(self.custom_plan)
            return await connection.fetch(statement, *values)

        return await self.transact(work)

    async def transact(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool = True
    ) -> Result:
        """Runs statements in one transaction at READ COMMITTED.

        After it has waited for a lock, a statement must see the rows that the lock's owner
        committed. At a stricter isolation level it would see the old rows.
        """

        async def in_transaction(connection: Connection) -> Result:
            transaction = connection.transaction(isolation="read_committed")
            async with AsyncExitStack() as failing:
                failing.push_async_callback(_roll_back, connection, transaction)
                await transaction.start()
                if self.bounds:
                    await connection.execute(self.bounds)
                result = await work(connection)
                await transaction.commit()
                failing.pop_all()
            return result

        return await self._try(in_transaction, repeatable=repeatable)

    async def change(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool = True
    ) -> Result:
        """Runs a change in one transaction, with the writes that its caller joins to it; without
        them if the result `changes_nothing`."""
        writes = waiting_writes()
        if not writes:
            return await self.transact(work, repeatable=repeatable)

        async def joined(connection: Connection) -> Result:
            result = await work(connection)
            if not changes_nothing(result):
                for write in writes:
                    await write.write(connection)
            return result

        result = await self.transact(joined, repeatable=repeatable)
        for write in writes:
            write.is_over = True
        return result

    async def _try(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool
    ) -> Result:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await self._on_connection(work)
            except asyncpg.IntegrityConstraintViolationError:
                raise  # Not a failure of the database: the caller handles it.
            except (asyncpg.PostgresError, *_CONNECTION_LOST, TimeoutError) as error:
                known = as_store_error(error, self.url)
                # A deadlock rolls the transaction back, so a retry is always safe.
                is_repeatable = repeatable or isinstance(error, asyncpg.TransactionRollbackError)
                if (
                    not is_repeatable
                    or attempt == ATTEMPTS_MAX
                    or not isinstance(known, StoreUnavailable)
                    or self._pool.is_closing()
                ):
                    raise known from error
            await asyncio.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    async def _on_connection(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        connection, is_in_order = await self._take(), False
        try:
            result = await work(connection)
            is_in_order = True
        except asyncpg.InternalClientError:
            connection.terminate()  # The driver would give it to others.
            raise
        finally:
            if is_in_order and not self._waiting and not self._pool.is_closing():
                self._keep(connection)
            else:
                await self._return(connection)
        return result

    async def _take(self) -> Pooled:
        """A connection that is open, as far as is known."""
        while self._kept:
            connection = self._kept.pop()
            if _is_open(connection):
                return connection
            await self._return(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=_CONNECT_TIMEOUT_SECONDS)
        finally:
            self._waiting -= 1

    def _keep(self, connection: Pooled) -> None:
        self._kept.append(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_KEEP_SECONDS, self._return_soon)

    def _return_soon(self) -> None:
        self._timer = None
        self._returning = asyncio.ensure_future(self.return_kept())

    async def return_kept(self) -> None:
        """Gives the connections that are kept back to the driver's pool."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._kept:
            await self._return(self._kept.pop())

    async def _return(self, connection: Pooled) -> None:
        # The driver drops a connection that it cannot take back. The outcome of the work is what
        # counts, above all if it was cancelled.
        with suppress(asyncpg.PostgresError, *_CONNECTION_LOST, TimeoutError):
            await self._pool.release(connection, timeout=_GIVE_BACK_TIMEOUT_SECONDS)


def _is_open(connection: Pooled) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # It broke, and the driver's pool has it back.
        return False


async def _opened(
    connecting: Awaitable[asyncpg.Pool[asyncpg.Record]],
) -> asyncpg.Pool[asyncpg.Record]:
    """A pool with its first connection."""
    pool = await connecting
    with ExitStack() as failing:
        failing.callback(pool.terminate)
        async with pool.acquire(timeout=_CONNECT_TIMEOUT_SECONDS):
            pass
        failing.pop_all()  # Only now: giving the connection back can be cancelled, too.
    return pool


async def _roll_back(connection: Connection, transaction: asyncpg.transaction.Transaction) -> None:
    """Ends a failed transaction. Drops the connection if that fails or takes long: the error of the
    work is the one that counts."""

    async def roll_back() -> bool:
        await transaction.rollback()
        return True

    with suppress(asyncpg.PostgresError, *_CONNECTION_LOST, TimeoutError):
        if await within(_GIVE_BACK_TIMEOUT_SECONDS, roll_back()):
            return
    with suppress(asyncpg.InterfaceError):  # The driver has dropped a closed connection itself.
        connection.terminate()


async def _keep_session(_connection: object) -> None:
    """Replaces the reset of released connections, which would double the round trips. The
    statements of this package do not change the session."""


def as_store_error(error: Exception, url: str) -> StoreError:
    """Translates an error of the driver, for the database of this URL."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError):
            advice = f"run {migrate_command(url)} ({error})"
            return StoreBroken(f"the database has no schema: {advice}")
        if code in _CORRUPT:
            return StoreBroken(f"PostgreSQL reports corrupt data: {error}")
        if code.startswith(("28", "3D")):
            return StoreBroken(f"PostgreSQL refuses the login or has no such database: {error}")
        if code.startswith(_TEMPORARY) or isinstance(error, asyncpg.PostgresConnectionError):
            return StoreUnavailable(f"PostgreSQL is temporarily unavailable: {error}")
        return StoreBroken(f"PostgreSQL refused a statement: {error}")
    if isinstance(error, ValueError):
        return StoreBroken(f"the database URL is invalid: {error}")
    if isinstance(error, TimeoutError):
        return StoreUnavailable("PostgreSQL did not answer in time")
    return StoreUnavailable(f"the connection to PostgreSQL failed: {_connection_error(error)}")


def _connection_error(error: Exception) -> str:
    """Why a connection failed, without the driver's internals."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is the server running?"
    if isinstance(error, ConnectionError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return "the server or the network closed it"
    return str(error)
