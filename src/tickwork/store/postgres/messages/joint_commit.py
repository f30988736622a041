"""Joint commits on PostgreSQL: settlements together with their callers' own writes.

Several joint settlements share a transaction. First the endings of the group are carried out, then
each caller's writes in order, then one COMMIT. A lock timeout, a deadlock or any other failure
rolls the group back.

A caller's writes cannot commit the transaction: an open cursor WITH HOLD raises an error when
COMMIT reads it. A rollback closes the cursor, which is detected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from inspect import isawaitable
from typing import Any, NoReturn

import asyncpg
from asyncpg.connection import _ConnectionProxy

from tickwork.core.model import Ending
from tickwork.errors import ClaimLost, EventDone
from tickwork.store.message_contract import Joined
from tickwork.store.postgres.engine.database import CONNECT_ERRORS, Connection, Database
from tickwork.store.postgres.messages.settle_statements import CausedMessages, EndingWriter, Settled
from tickwork.store.shared.joint_commit import (
    NOT_ITS_TO_END,
    Contained,
    Gathering,
    Joint,
    contained,
)

TOGETHER_SECONDS_MAX = 2.0

FLIGHTS_MAX = 4
"""Maximum number of concurrent groups. The writes of a group run one after the other, so over a
slow connection fewer groups would be slower than separate transactions."""

LOCK_WAIT_SECONDS_MAX = 0.2
"""Maximum number of seconds that a write waits for a lock, far less than the server's deadlock
timeout. A group locks rows of many callers in any order, so two groups may deadlock."""

ROLLBACK_ATTEMPTS_MAX = 3
"""Maximum number of attempts of writes that fail with a deadlock or a serialization error."""

_LOCK_WAIT = f"SET LOCAL lock_timeout = {int(LOCK_WAIT_SECONDS_MAX * 1000)}"
_OPEN_CURSOR = (
    "DECLARE tickwork_joined CURSOR WITH HOLD FOR"
    " SELECT (pg_catalog.random()::text || ' the function of a joint commit must not commit')::int"
)
_CHECK_CURSOR = "MOVE 0 FROM tickwork_joined"
_CLOSE_CURSOR = "CLOSE tickwork_joined"
_RESET_SESSION = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL"


class JointSettler:
    """Carries out joint settlements. `caused` looks up the messages that endings send."""

    def __init__(
        self,
        database: Database,
        ending_writer: EndingWriter,
        caused: Callable[[Sequence[Ending]], Awaitable[CausedMessages]],
    ) -> None:
        self._database = database
        self._ending_writer = ending_writer
        self._caused = caused
        self._gathering = Gathering(self._settle_together, flights_max=FLIGHTS_MAX)

    async def settle(self, endings: Sequence[Ending], joined: Joined) -> None:
        """Settles all or nothing: in a group if possible, else in its own transaction."""
        await self._gathering.settle(
            Joint(endings, joined), lambda: self._settle_alone(endings, joined)
        )

    async def drain(self) -> None:
        """Waits until no group is running."""
        await self._gathering.drain()

    async def _settle_together(self, group: Sequence[Joint], is_committing: asyncio.Event) -> None:
        endings = [ending for joint in group for ending in joint.endings]
        caused = await self._caused(endings)

        async def work(connection: Connection) -> Settled:
            is_committing.clear()
            try:
                async with asyncio.timeout(TOGETHER_SECONDS_MAX):
                    settled = await self._end(connection, endings, caused)
                    # After the endings: a transaction that waits for their locks has not locked
                    # rows of callers yet, so it cannot deadlock with this one.
                    plans = self._database.default_planner
                    await connection.execute(f"{_LOCK_WAIT}; {_OPEN_CURSOR}; {plans}")
                    for joint in group:
                        await _write(joint.joined, connection, joint.context)
                        await self._clean_up(connection, is_last=joint is group[-1])
            except (asyncpg.PostgresError, TimeoutError) as error:
                raise _GroupFailed from error  # Each may succeed alone. The group is not repeated.
            is_committing.set()
            return settled

        settled = await self._database.transact(work, repeatable=False)
        await self._ending_writer.finish(settled)

    async def _clean_up(self, connection: Connection, *, is_last: bool) -> None:
        """Resets session settings that a caller's writes changed, for the next caller. Raises if
        the caller ended the transaction."""
        first = _CLOSE_CURSOR if is_last else _CHECK_CURSOR
        plans = "" if is_last else self._database.default_planner
        await connection.execute(
            f"{first}; {_RESET_SESSION}; DISCARD TEMP; {_LOCK_WAIT}; "
            f"{self._database.bounds}; {plans}"
        )

    async def _settle_alone(self, endings: Sequence[Ending], joined: Joined) -> None:
        caused = await self._caused(endings)
        attempts = 0

        async def work(connection: Connection) -> Settled:
            nonlocal attempts
            attempts += 1
            settled = await self._end(connection, endings, caused)
            await connection.execute(f"{_OPEN_CURSOR}; {self._database.default_planner}")
            await _join(joined, connection, is_last=attempts >= ROLLBACK_ATTEMPTS_MAX)
            return settled

        try:
            settled = await self._database.transact(work, repeatable=False)
        except _JoinedFailed as failure:
            raise failure.error from None
        await self._ending_writer.finish(settled)

    async def _end(
        self, connection: Connection, endings: Sequence[Ending], caused: CausedMessages
    ) -> Settled:
        """Carries out all endings, or raises."""
        settled = await self._ending_writer.carry_out(connection, endings, caused)
        result = settled.ended.result(endings, 0, len(endings))
        if result.refused:
            raise ClaimLost(claim.id for claim in result.refused)
        if result.duplicates:
            raise EventDone(claim.id for claim in result.duplicates)
        return settled


class _GroupFailed(Exception):
    """A group cannot be committed together."""


class _JoinedFailed(Exception):
    """Wraps an error of the caller's statement to distinguish it from an error of our own."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class GuardedConnection(_ConnectionProxy):  # The driver has no public name for this base class.
    """A connection for a caller's writes. It refuses changes that would outlive the transaction.
    Like a pooled connection it passes `isinstance(…, asyncpg.Connection)`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def set_type_codec(self, typename: str, *_: object, **__: object) -> NoReturn:
        raise RuntimeError(
            f"a codec for {typename} would stay on the shared connection; encode the value "
            "instead, such as json.dumps(…) for a jsonb column"
        )

    set_builtin_type_codec = reset_type_codec = set_type_codec


async def _write(joined: Joined, connection: Connection, context: Context | None = None) -> None:
    """Runs the caller's writes. A CancelledError that they raise becomes an error of the caller,
    unless this task is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    try:
        # In its own task, so that the writes cannot cancel this one.
        await asyncio.create_task(_call(joined, connection), context=context)
    except asyncio.CancelledError as error:
        if task.cancelling():
            raise
        raise contained(error) from error


async def _call(joined: Joined, connection: Connection) -> None:
    task = asyncio.current_task()
    assert task is not None

    def ends_task(error: BaseException) -> bool:
        """Whether the error ends the task: it is cancelled, or closed by another task."""
        is_closed = asyncio.current_task(task.get_loop()) is not task
        return isinstance(error, asyncio.CancelledError) or is_closed

    with Contained(ends_task):
        returned = joined(GuardedConnection(connection))
        if isawaitable(returned):
            await returned


async def _join(joined: Joined, connection: Connection, *, is_last: bool) -> None:
    """Runs the caller's writes, and resets the session settings that they changed. A lost
    connection is an error of the database, not of the caller."""
    is_written = False
    try:
        await _write(joined, connection)
        is_written = True
        await _close(connection)
    except CONNECT_ERRORS as error:
        if isinstance(error, asyncpg.TransactionRollbackError) and not is_last:
            raise  # A deadlock or serialization error: run the transaction again.
        if connection.is_closed() or (is_written and isinstance(error, TimeoutError)):
            raise
        if not connection.is_in_transaction():
            raise RuntimeError(NOT_ITS_TO_END) from error
        raise _JoinedFailed(error) from error


async def _close(connection: Connection) -> None:
    try:
        await connection.execute(f"{_CLOSE_CURSOR}; {_RESET_SESSION}")
    except asyncpg.InvalidCursorNameError as error:
        raise RuntimeError(NOT_ITS_TO_END) from error
