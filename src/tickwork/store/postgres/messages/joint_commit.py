"""Settlements with a caller's own writes on PostgreSQL: several in one transaction.

First the endings of the group are carried out, then each caller's writes in order, then one COMMIT.
A lock timeout or a deadlock rolls the group back, like any other failure.

A write cannot commit the transaction: a cursor is open that COMMIT must read and cannot. A rollback
closes the cursor, which is detected.
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
from tickwork.store.contract import Joined
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
"""Maximum number of groups in progress. The writes of a group take their round trips one after
the other: over a slow connection fewer groups would be slower than separate transactions."""

LOCK_WAIT_SECONDS_MAX = 0.2
"""Maximum number of seconds a write waits for a lock, far less than the server's deadlock
timeout. A group takes the rows of many callers in any order, so two groups may deadlock."""

UNDONE_TRIES_MAX = 3
"""Maximum number of tries of writes that other transactions roll back."""

_LOCK_WAIT = f"SET LOCAL lock_timeout = {int(LOCK_WAIT_SECONDS_MAX * 1000)}"
_OPENED = (
    "DECLARE tickwork_joined CURSOR WITH HOLD FOR"
    " SELECT (pg_catalog.random()::text || ' what joins must not commit')::int"
)
_STILL_OPEN = "MOVE 0 FROM tickwork_joined"
_CLOSED = "CLOSE tickwork_joined"
_AS_IT_WAS = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL"


class JointSettler:
    """Carries out joint settlements. `caused` finds what endings send."""

    def __init__(
        self,
        database: Database,
        ender: EndingWriter,
        caused: Callable[[Sequence[Ending]], Awaitable[CausedMessages]],
    ) -> None:
        self._database, self._ender, self._caused = database, ender, caused
        self._gathering = Gathering(self._settle_together, flights_max=FLIGHTS_MAX)

    async def settle(self, endings: Sequence[Ending], joined: Joined) -> None:
        """All or nothing: in a group if possible, else alone."""
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
                    # Not before: whoever waits for us there has no rows of callers' own yet.
                    plans = self._database.default_planner
                    await connection.execute(f"{_LOCK_WAIT}; {_OPENED}; {plans}")
                    for joint in group:
                        await _write(joint.joined, connection, joint.context)
                        await self._clean_up(connection, is_last=joint is group[-1])
            except (asyncpg.PostgresError, TimeoutError) as error:
                raise _Undone from error  # By itself it may get on: not again as a group.
            is_committing.set()
            return settled

        settled = await self._database.transact(work, repeatable=False)
        await self._ender.finish(settled)

    async def _clean_up(self, connection: Connection, *, is_last: bool) -> None:
        """Resets what a caller's writes changed of the session, for the next caller. Raises if
        the transaction is another one."""
        first = _CLOSED if is_last else _STILL_OPEN
        plans = "" if is_last else self._database.default_planner
        await connection.execute(
            f"{first}; {_AS_IT_WAS}; DISCARD TEMP; {_LOCK_WAIT}; {self._database.bounds}; {plans}"
        )

    async def _settle_alone(self, endings: Sequence[Ending], joined: Joined) -> None:
        caused = await self._caused(endings)
        tries = 0

        async def work(connection: Connection) -> Settled:
            nonlocal tries
            tries += 1
            settled = await self._end(connection, endings, caused)
            await connection.execute(f"{_OPENED}; {self._database.default_planner}")
            await _join(joined, connection, is_last=tries >= UNDONE_TRIES_MAX)
            return settled

        try:
            settled = await self._database.transact(work, repeatable=False)
        except _JoinedFailed as failed:
            raise failed.error from None
        await self._ender.finish(settled)

    async def _end(
        self, connection: Connection, endings: Sequence[Ending], caused: CausedMessages
    ) -> Settled:
        """Ends all of them, or raises."""
        settled = await self._ender.carry_out(connection, endings, caused)
        result = settled.ended.result(endings, 0, len(endings))
        if result.refused:
            raise ClaimLost(held.id for held in result.refused)
        if result.duplicates:
            raise EventDone(held.id for held in result.duplicates)
        return settled


class _Undone(Exception):
    """A group cannot be carried out as one."""


class _JoinedFailed(Exception):
    """Wraps an error of the caller's writes, to tell it from errors of the database."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class GuardedConnection(
    _ConnectionProxy
):  # The driver has no public name for what is one of its connections.
    """A connection for a caller's writes. It refuses changes that would outlive the transaction.
    Like a pooled connection it is an `asyncpg.Connection` to `isinstance`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def set_type_codec(self, typename: str, *_: object, **__: object) -> NoReturn:
        raise RuntimeError(
            f"a codec for {typename} would stay on a connection that is not yours; encode the "
            "value itself, such as json.dumps(…) for a jsonb column"
        )

    set_builtin_type_codec = reset_type_codec = set_type_codec


async def _write(joined: Joined, connection: Connection, context: Context | None = None) -> None:
    """Runs the caller's writes. What they raise is the caller's error; only our own cancellation
    cancels us."""
    task = asyncio.current_task()
    assert task is not None
    try:
        # In a task of their own, so that they can cancel nobody else.
        await asyncio.create_task(_call(joined, connection), context=context)
    except asyncio.CancelledError as error:
        if task.cancelling():
            raise
        raise contained(error) from error


async def _call(joined: Joined, connection: Connection) -> None:
    task = asyncio.current_task()
    assert task is not None

    def is_for_the_task(error: BaseException) -> bool:
        """Whether the task itself is cancelled or discarded."""
        is_thrown_away = asyncio.current_task(task.get_loop()) is not task
        return isinstance(error, asyncio.CancelledError) or is_thrown_away

    with Contained(is_for_the_task):
        wanted = joined(GuardedConnection(connection))
        if isawaitable(wanted):
            await wanted


async def _join(joined: Joined, connection: Connection, *, is_last: bool) -> None:
    """Runs the caller's writes and resets what they changed of the session."""
    try:
        await _write(joined, connection)
        await _close(connection)
    except CONNECT_ERRORS as error:
        if isinstance(error, asyncpg.TransactionRollbackError) and not is_last:
            raise  # The victim of another transaction: it is begun anew.
        if not connection.is_closed() and not connection.is_in_transaction():
            raise RuntimeError(NOT_ITS_TO_END) from error
        raise _JoinedFailed(error) from error


async def _close(connection: Connection) -> None:
    try:
        await connection.execute(f"{_CLOSED}; {_AS_IT_WAS}")
    except asyncpg.InvalidCursorNameError as error:
        raise RuntimeError(NOT_ITS_TO_END) from error
