"""Two PostgreSQL connections, stopped at chosen points.

`Barrier`: whoever changes a row of a table in a given way stops in the middle of its statement,
with all its locks, until the barrier opens. `Rival`: a connection of the test inside a transaction;
it locks and changes what another process would, and commits when the test says so. `waits_for`
checks in the server's own view that a store is really waiting: no test guesses by time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.kit.waiting import eventually

CLAIM = (
    "UPDATE ON tickwork_messages FOR EACH ROW WHEN (NEW.state = 'claimed' AND OLD.state = 'ready')"
)
GIVE_BACK = (
    "UPDATE ON tickwork_messages FOR EACH ROW WHEN (NEW.state = 'ready' AND OLD.state = 'claimed')"
)
ACK = "DELETE ON tickwork_messages FOR EACH ROW"
SEND = "INSERT ON tickwork_messages FOR EACH ROW"

DROP_SECONDS_MAX = 30.0

_KEY = 4711

_HOLD = f"""
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock_shared({_KEY});
    RETURN coalesce(NEW, OLD);
END $$
"""


class Rival:
    """Another process, as far as the database can tell."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection
        self._transaction = connection.transaction()

    async def does(self, statement: str, *values: Any) -> None:
        """Runs a statement inside its transaction."""
        if not self._connection.is_in_transaction():
            await self._transaction.start()
        await self._connection.execute(statement, *values)

    async def commits(self) -> None:
        await self._transaction.commit()

    async def is_waited_for(self) -> bool:
        return await _is_waited_for(self._connection)


class Barrier:
    """Stops whoever reaches it."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def reached(self) -> None:
        """Waits until a connection has reached it."""
        await eventually(lambda: _is_waited_for(self._connection), what="the barrier is reached")

    async def opens(self) -> None:
        await self._connection.execute(f"SELECT pg_advisory_unlock({_KEY})")

    async def is_passed_by(self, task: "asyncio.Task[Any]") -> bool:
        """Whether the task finishes without waiting for the stopped one."""

        async def either() -> bool:
            return task.done() or await self.somebody_waits_for_who_is_held()

        await eventually(either, what="an answer, or a lock that is waited for")
        return task.done()

    async def somebody_waits_for_who_is_held(self) -> bool:
        """Whether a second task waits for locks of the first."""
        return bool(
            await self._connection.fetchval(
                """
                SELECT EXISTS (
                    SELECT FROM pg_locks AS held, pg_locks AS waiting
                    WHERE NOT held.granted AND NOT waiting.granted
                        AND pg_backend_pid() = ANY (pg_blocking_pids(held.pid))
                        AND held.pid = ANY (pg_blocking_pids(waiting.pid))
                )
                """
            )
        )


@asynccontextmanager
async def barrier(url: str, *, before: str) -> AsyncIterator[Barrier]:
    """A barrier before an event: `before="UPDATE ON … FOR EACH ROW WHEN (…)"`."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_HOLD)
        await connection.execute(f"CREATE TRIGGER hold BEFORE {before} EXECUTE FUNCTION hold()")
        await connection.execute(f"SELECT pg_advisory_lock({_KEY})")
        yield Barrier(connection)
    finally:
        await connection.execute("SELECT pg_advisory_unlock_all()")
        # Whoever waits for the table meanwhile waits behind this, but not for long.
        await connection.execute("DROP FUNCTION hold CASCADE", timeout=DROP_SECONDS_MAX)
        await connection.close()


@asynccontextmanager
async def rival(url: str) -> AsyncIterator[Rival]:
    connection = await asyncpg.connect(url)
    try:
        yield Rival(connection)
    finally:
        await connection.close()


async def done_or_waiting(task: "asyncio.Task[Any]", other: Rival) -> bool:
    """Waits until the task is done or waits for the rival; returns whether it is done."""

    async def either() -> bool:
        return task.done() or await other.is_waited_for()

    await eventually(either, what="an answer, or a lock that is waited for")
    return task.done()


async def _is_waited_for(connection: "asyncpg.Connection[asyncpg.Record]") -> bool:
    """Asks for locks, not for activities: of these the server shows a transaction what there was
    when it first looked, without a connection that was opened since."""
    return bool(
        await connection.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM pg_locks
                WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
            )
            """
        )
    )
