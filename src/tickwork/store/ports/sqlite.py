"""Runs the steps of nouns on a SQLite file, which stores ids as bytes, times as microseconds, flags
as 0 or 1, and lists as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from tickwork.core.answers.ids import ENCODER
from tickwork.store.ports.callers import Given, refuse_closed, refuse_outside
from tickwork.store.ports.callers_thread import in_callers_thread
from tickwork.store.shared.columns import Kind
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.steps import NOW, Access, Clock, Native, Query, Run, Steps, Want, Way

T = TypeVar("T")


class SqlitePort:
    """The writer and the readers of one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, make: Callable[[], Steps[T]], way: Way) -> T:
        run = Run(make())
        if run.is_over:
            return run.finish()
        if way.access in (Access.READ, Access.SEARCH):
            await self._database.read(lambda transaction: _run_in(transaction, run))
        elif way.access is Access.CHANGE:
            await self._database.change(lambda transaction: _run_in(transaction, run))
        else:
            await self._database.write(lambda transaction: _run_in(transaction, run))
        return run.finish()

    def inside(self, make: Callable[[], Steps[None]]) -> Callable[[Transaction], None]:
        return lambda transaction: carry_out(transaction, make())


def carry_out(transaction: Transaction, steps: Steps[T]) -> T:
    """Runs steps in a transaction that is open."""
    return _run_in(transaction, Run(steps))


def _run_in(transaction: Transaction, run: Run[T]) -> T:
    while not run.is_over:
        run.advance(_answer(transaction, run.query))
    transaction.queues_to_wake |= run.woken
    return run.result


def _answer(transaction: Transaction, query: Query | Native | Clock) -> Any:
    if isinstance(query, Native):
        return query.work(transaction)
    if isinstance(query, Clock):
        return from_microseconds(transaction.now)
    if query.want is Want.EACH:
        return _for_each(transaction, query)
    statement, want = query.statement, query.want
    values = [_encode(transaction, value) for value in query.values]
    cursor = transaction.execute(getattr(SQL, statement.name), values)
    if want is Want.COUNT:
        return cursor.rowcount
    rows = _rows(cursor, statement.kinds)
    if want is Want.ROWS:
        return [*rows]
    row = next(rows, None)
    return row if want is Want.ROW or row is None else next(iter(row.values()))


def _for_each(transaction: Transaction, query: Query) -> list[dict[str, Any]]:
    sql = getattr(SQL, query.statement.name)
    values = [_encode(transaction, value) for value in query.values]
    found: list[dict[str, Any]] = []
    for row in query.rows:
        own = [_encode(transaction, value) for value in row]
        found += _rows(transaction.execute(sql, values + own), query.statement.kinds)
    return found


def _encode(transaction: Transaction, value: Any) -> Any:
    if value is NOW:
        return transaction.now
    if isinstance(value, datetime):
        return to_microseconds(value)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, list):
        return ENCODER.encode(value).decode()
    return value


_DECODE: dict[Kind, Callable[[Any], Any]] = {
    # In JSON, bytes are hexadecimal.
    Kind.ID: lambda value: UUID(value) if isinstance(value, str) else UUID(bytes=value),
    Kind.TIME: from_microseconds,
    Kind.FLAG: bool,
    Kind.TEXTS: msgspec.json.decode,
}


def _rows(cursor: sqlite3.Cursor, kinds: dict[str, Kind]) -> Iterator[dict[str, Any]]:
    names = [column[0] for column in cursor.description or ()]
    decoders = [(name, _DECODE[kinds[name]]) for name in names if name in kinds]
    for values in cursor:
        row = dict(zip(names, values, strict=True))
        for name, decode in decoders:
            if row[name] is not None:
                row[name] = decode(row[name])
        yield row


_AUTOCOMMIT = True
"""What `autocommit` of Python 3.12 and newer is for a connection without transactions."""


class SqliteCaller:
    """A connection of sqlite3, used in the thread of its caller."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self.raw: Any = given.connection

    async def check(self) -> None:
        """Begins the transaction that the driver would begin with the next change. Raises
        `InvalidInput` if it would begin none."""
        try:
            is_open = await self.call(_begin)
        except (sqlite3.ProgrammingError, ValueError) as error:
            if "closed" in str(error) or "no active connection" in str(error):
                raise refuse_closed() from error
            raise
        if not is_open:
            raise refuse_outside(self._given.library)

    async def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs work in the thread of the connection."""
        return await in_callers_thread(lambda: work(self.raw))


class AiosqliteCaller(SqliteCaller):
    """A connection of aiosqlite, which has a thread of its own."""

    async def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # The library has no public way to run several statements in its thread at once.
        result: T = await self.raw._execute(lambda: work(self.raw._conn))  # noqa: SLF001
        return result


class CallersConnection:
    """A caller's connection whose rows are tuples, whatever the caller wants them to be."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        cursor = self._connection.cursor(sqlite3.Cursor)
        cursor.row_factory = None
        return cursor.execute(sql, values)

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        return self._connection.cursor(sqlite3.Cursor).executemany(sql, rows)


def _begin(connection: sqlite3.Connection) -> bool:
    """Whether the connection is in a transaction, which it begins if the driver would."""
    if connection.in_transaction:
        return True
    if getattr(connection, "autocommit", None) is _AUTOCOMMIT or connection.isolation_level is None:
        return False
    connection.execute("BEGIN IMMEDIATE")
    return True
