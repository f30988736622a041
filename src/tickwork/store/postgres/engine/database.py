"""The connection pool: it reconnects, and translates errors of the driver.

An operation that is safe to repeat is retried for a few seconds when the connection breaks. Any
other raises `StoreUnavailable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

import asyncpg

from tickwork.errors import StoreBroken, StoreError, StoreUnavailable
from tickwork.store.postgres.engine.sql import CUSTOM_PLAN
from tickwork.store.shared.waiting import within

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[Any]"
Result = TypeVar("Result")

TRIES_MAX = 7
"""Maximum number of tries. With pauses that double from 50 ms they take about three seconds,
enough for a restart of the server."""

_PAUSE_SECONDS = 0.05
_CONNECT_TIMEOUT_SECONDS = 10.0
_COMMAND_TIMEOUT_SECONDS = 60.0
_CLOSE_TIMEOUT_SECONDS = 2.0

_IDLE_IN_TRANSACTION_SECONDS = 4.0
"""Seconds a transaction may idle: less than a third of a node's lease. Otherwise a process that
is frozen, or whose machine is gone, would keep its row locks for ever."""

_IDLE_SETTING = "idle_in_transaction_session_timeout"
_IDLE_MILLISECONDS = str(int(_IDLE_IN_TRANSACTION_SECONDS * 1000))
SESSION = {
    _IDLE_SETTING: _IDLE_MILLISECONDS,
    "default_transaction_isolation": "read committed",
    # A plan that was made while a table was empty, and is kept, would read all of it ever after.
    "enable_seqscan": "off",
    # One plan for any values, from the first time on. Else a server plans anew five times on each
    # connection, which takes longer than to hand out a message, and may never stop to.
    "plan_cache_mode": "force_generic_plan",
}

BOUNDED = {"transaction_timeout": str(int(_COMMAND_TIMEOUT_SECONDS * 1000))}
"""Settings for servers from version 17 on. A process that is frozen while it prepares a
statement is not idle to the server, so the idle timeout does not apply."""

_PLANS_AS_USUAL = "SET LOCAL enable_seqscan = on; SET LOCAL plan_cache_mode = auto"

_LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError, OSError)
CONNECT_ERRORS = (asyncpg.PostgresError, *_LOST, TimeoutError, ValueError)
"""Errors of a failed connection. An unreadable URL is a ValueError."""

_NOT_REACHED = (
    "does the server run, and are host and port of the database's URL right? It is what --database "
    "or TICKWORK_DATABASE says, or what the app was given"
)

# Classes of SQLSTATE: nothing happened, and the same may succeed soon.
_REFUSED_FOR_NOW = ("40", "53", "57", "55", "25")
_CORRUPT = ("XX001", "XX002")


class Database:
    """A pool of connections to one server."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], url: str, *, pooled: bool) -> None:
        self._pool, self.url, self._pooled = pool, url, pooled

    @classmethod
    async def open(cls, url: str, *, connections_max: int, pooled: bool) -> Database:
        """Connects. Behind a pooler (`pooled`), no prepared statement outlives its transaction."""
        connecting = partial(
            asyncpg.create_pool,
            url,
            min_size=1,
            max_size=connections_max,
            timeout=_CONNECT_TIMEOUT_SECONDS,
            command_timeout=_COMMAND_TIMEOUT_SECONDS,
            statement_cache_size=0 if pooled else 256,
            max_inactive_connection_lifetime=300,
            reset=_leave_as_it_is,
        )
        try:
            # A pooler refuses what it cannot keep apart for its clients, an older server what it
            # does not know.
            if pooled:
                pool = await connecting()
            else:
                try:
                    pool = await connecting(server_settings=SESSION | BOUNDED)
                except asyncpg.UndefinedObjectError:
                    pool = await connecting(server_settings=SESSION)
        except CONNECT_ERRORS as error:
            known = as_store_error(error)
            if isinstance(known, StoreUnavailable):
                known = StoreUnavailable(f"{known}; {_NOT_REACHED}")
            raise known from error
        return cls(pool, url, pooled=pooled)

    async def make_ready(self, statements: Sequence[str], connections: int) -> None:
        """Opens connections and runs the statements once on each with NULL parameters: the
        driver learns their types, and the server plans them. With NULL parameters no statement
        may change anything."""
        # No more than half of them: others may be doing the same.
        wanted = min(connections, max(self._pool.get_max_size() // 2, 1))
        try:
            async with AsyncExitStack() as held:
                for _ in range(wanted):
                    taken = self._pool.acquire(timeout=_CONNECT_TIMEOUT_SECONDS)
                    connection = await held.enter_async_context(taken)
                    for statement in statements:
                        asked = (await connection.prepare(statement)).get_parameters()
                        await connection.fetch(statement, *[None] * len(asked))
        except (asyncpg.PostgresError, *_LOST, TimeoutError) as error:
            raise as_store_error(error) from error

    @property
    def bounds(self) -> str:
        """Settings that a transaction needs if its session cannot have them; else empty."""
        return f"SET LOCAL {_IDLE_SETTING} = {_IDLE_MILLISECONDS}" if self._pooled else ""

    @property
    def plans_as_usual(self) -> str:
        """Settings that restore the server's planner for statements of callers; empty if the
        session has none of ours."""
        return "" if self._pooled else _PLANS_AS_USUAL

    async def close(self) -> None:
        """Closes the pool within a bound; connections to a server that does not answer are
        dropped."""
        is_closed: bool | None = False
        with suppress(*_LOST):
            is_closed = await within(_CLOSE_TIMEOUT_SECONDS, self._close())
        if not is_closed:
            self._pool.terminate()

    async def _close(self) -> bool:
        await self._pool.close()
        return True

    async def run(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool = True
    ) -> Result:
        """Runs statements on a connection, each in a transaction of its own."""
        if self._pooled:
            return await self.transact(work, repeatable=repeatable)
        return await self._try(work, repeatable=repeatable)

    async def look(self, statement: str, *values: object) -> list[asyncpg.Record]:
        """Runs a query with a plan for its actual values."""

        async def work(connection: Connection) -> list[asyncpg.Record]:
            await connection.execute(CUSTOM_PLAN)
            return await connection.fetch(statement, *values)

        return await self.transact(work)

    async def transact(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool = True
    ) -> Result:
        """Runs statements in one transaction, at READ COMMITTED.

        After waiting for a lock, a statement must see what its holder committed. Under a stricter
        level it would still see the old state.
        """

        async def whole(connection: Connection) -> Result:
            async with connection.transaction(isolation="read_committed"):
                if self.bounds:
                    await connection.execute(self.bounds)
                return await work(connection)

        return await self._try(whole, repeatable=repeatable)

    async def _try(
        self, work: Callable[[Connection], Awaitable[Result]], *, repeatable: bool
    ) -> Result:
        for attempt in range(1, TRIES_MAX + 1):
            try:
                async with self._pool.acquire(timeout=_CONNECT_TIMEOUT_SECONDS) as connection:
                    return await work(connection)
            except asyncpg.IntegrityConstraintViolationError:
                raise  # An answer, not a failure: the caller knows what it means.
            except (asyncpg.PostgresError, *_LOST, TimeoutError) as error:
                known = as_store_error(error)
                # A deadlock's victim was rolled back: repeating it is always safe.
                safe = repeatable or isinstance(error, asyncpg.TransactionRollbackError)
                if not safe or attempt == TRIES_MAX or not isinstance(known, StoreUnavailable):
                    raise known from error
            await asyncio.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError("the last try returns or raises")


async def _leave_as_it_is(_connection: object) -> None:
    """Does nothing: our statements do not change the session, and a reset would double the round
    trips."""


def as_store_error(error: Exception) -> StoreError:
    """Translates an error of the driver."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError):
            return StoreBroken(f"the schema is not there: run `tickwork migrate` ({error})")
        if code in _CORRUPT:
            return StoreBroken(f"PostgreSQL reports corrupt data: {error}")
        if code.startswith(("28", "3D")):
            return StoreBroken(f"PostgreSQL refuses the login or has no such database: {error}")
        if code.startswith(_REFUSED_FOR_NOW) or isinstance(error, asyncpg.PostgresConnectionError):
            return StoreUnavailable(f"PostgreSQL refuses at the moment: {error}")
        return StoreBroken(f"PostgreSQL refused a statement: {error}")
    if isinstance(error, ValueError):
        return StoreBroken(f"the database's URL cannot be used: {error}")
    if isinstance(error, TimeoutError):
        return StoreUnavailable("PostgreSQL did not answer in time")
    return StoreUnavailable(f"the connection to PostgreSQL failed: {error}")
