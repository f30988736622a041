"""Runs the steps of nouns on PostgreSQL, by asyncpg."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from itertools import chain
from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from tickwork.store.ids import Moment
from tickwork.store.ports.callers import Given, refuse, refuse_closed, refuse_outside
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.steps import NOW, Access, Clock, Native, Run, Steps, Want, Way, attempts

T = TypeVar("T")

_SKIP_LOCKED = " FOR UPDATE SKIP LOCKED"


class AsyncpgPort:
    """The pool of one database."""

    def __init__(self, database: Database, moment: Moment, wakeups: PostgresWakeups) -> None:
        self._database = database
        self._moment = moment
        self._wakeups = wakeups

    async def run(self, make: Callable[[], Steps[T]], way: Way) -> T:
        runs = attempts(make)
        run = next(runs)
        if run.is_over:
            return run.finish()
        again = chain([run], runs)

        async def work(connection: Connection) -> T:
            nonlocal run
            run = next(again)
            if way.access is Access.SEARCH and (plan := self._database.custom_plan):
                await connection.execute(plan)
            return await _run_on(connection, self._moment, run)

        enter = {
            Access.SEARCH: self._database.transact,
            Access.TRANSACTION: self._database.transact,
            Access.CHANGE: self._database.change,
        }
        await enter.get(way.access, self._database.run)(work, repeatable=way.repeatable)
        if run.woken:
            self._wakeups.notify(run.woken)
        for act in run.after:
            if isawaitable(done := act()):
                await done
        return run.result

    def inside(self, make: Callable[[], Steps[None]]) -> Callable[[Connection], Awaitable[None]]:
        async def write(connection: Connection) -> None:
            await carry_out(connection, self._moment, make())

        return write


async def carry_out(connection: Connection, moment: Moment, steps: Steps[T]) -> T:
    """Runs steps on a connection, in its transaction if one is open."""
    return await _run_on(connection, moment, Run(steps))


async def _run_on(connection: Connection, moment: Moment, run: Run[T]) -> T:
    while not run.is_over:
        if isinstance(query := run.query, Native):
            run.advance(await query.work(connection))
            continue
        if isinstance(query, Clock):
            run.advance(moment() or await connection.fetchval(SQL.read_clock))
            continue
        values = [moment() if value is NOW else value for value in query.values]
        values += map(list, zip(*query.rows, strict=True))
        sql = getattr(SQL, query.statement.name) + (_SKIP_LOCKED if query.locks else "")
        run.advance(await _RUN[query.want](connection, sql, values))
    return run.result


async def _count(connection: Connection, sql: str, values: list[Any]) -> int:
    """The driver returns `UPDATE 3`."""
    return int((await connection.execute(sql, *values)).rpartition(" ")[2])


_RUN: dict[Want, Callable[[Connection, str, list[Any]], Awaitable[Any]]] = {
    Want.ROWS: lambda connection, sql, values: connection.fetch(sql, *values),
    Want.ROW: lambda connection, sql, values: connection.fetchrow(sql, *values),
    Want.VALUE: lambda connection, sql, values: connection.fetchval(sql, *values),
    Want.COUNT: _count,
    Want.EACH: lambda connection, sql, values: connection.fetch(sql, *values),
}


class AsyncpgCaller:
    """A caller's connection, which runs our statements as it is."""

    errors = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)

    def __init__(self, given: Given) -> None:
        self._given = given
        self.connection = given.connection
        # What stays after a pool has its connection back.
        self.raw: Any = getattr(given.connection, "_con", None) or given.connection

    async def check(self) -> None:
        """Raises `InvalidInput` unless the connection is in a transaction."""
        if isinstance(self.raw, PoolConnectionProxy):
            raise refuse("was given back to its pool; pass it while you have it")
        if self.raw.is_closed():
            raise refuse_closed()
        if not self.raw.is_in_transaction() and self._given.begin is not None:
            await self._given.begin()
        if not self.raw.is_in_transaction():
            raise refuse_outside(self._given.library)

    def has_left(self) -> bool:
        """Whether the connection is in no transaction now; asks nobody."""
        return bool(self.raw.is_closed() or not self.raw.is_in_transaction())
