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
    Kind.ID: lambda value: UUID(bytes=value),
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
