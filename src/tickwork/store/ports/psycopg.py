"""A caller's connection of psycopg 3, sync or async, with the methods of asyncpg that our
statements are run by.

Values are sent as text without a type, so that the server takes their types from the statement, as
it does for asyncpg. Rows come back as asyncpg returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar

import asyncpg
import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier
from psycopg.types.string import StrDumperUnknown, TextLoader

from tickwork.store.ports.callers import (
    Given,
    refuse,
    refuse_closed,
    refuse_failed,
    refuse_outside,
)
from tickwork.store.ports.callers_thread import in_callers_thread


class NamedRow(tuple[Any, ...]):
    """A row by the names and the numbers of its columns."""

    __slots__ = ()
    names: ClassVar[dict[str, int]]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.names[key] if isinstance(key, str) else key)

    def keys(self) -> Iterable[str]:
        return self.names.keys()


class PsycopgCaller:
    """A connection as asyncpg would give it."""

    errors = (psycopg.Error,)

    def __init__(self, given: Given) -> None:
        self._given = given
        self.raw: Any = given.connection
        self.connection = self

    async def check(self) -> None:
        """Raises `InvalidInput` unless the connection is in a transaction, or begins one with its
        next statement."""
        if self.raw.closed:
            raise refuse_closed()
        if self.raw.info.pipeline_status != PipelineStatus.OFF:
            raise refuse("is in pipeline mode; call Tickwork before or after the pipeline")
        status = self.raw.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise refuse_failed()
        if status == TransactionStatus.ACTIVE:
            raise refuse("runs another statement; await it first")
        if status == TransactionStatus.IDLE and self.raw.autocommit:
            raise refuse_outside(self._given.library)

    def has_left(self) -> bool:
        """Whether the connection is in no transaction now; asks nobody."""
        status = self.raw.info.transaction_status
        return status in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def is_in_transaction(self) -> bool:
        return True

    async def fetch(self, sql: str, *values: object) -> list[NamedRow]:
        return (await self._run(sql, values))[0]

    async def fetchrow(self, sql: str, *values: object) -> NamedRow | None:
        return next(iter(await self.fetch(sql, *values)), None)

    async def fetchval(self, sql: str, *values: object) -> Any:
        row = await self.fetchrow(sql, *values)
        return None if row is None else row[0]

    async def execute(self, sql: str, *values: object) -> str:
        return (await self._run(sql, values))[1]

    async def copy_records_to_table(
        self, table: str, *, records: Iterable[Sequence[object]], columns: Sequence[str]
    ) -> None:
        names = SQL(", ").join(map(Identifier, columns))
        sql = SQL("COPY {} ({}) FROM STDIN").format(Identifier(table), names)
        await self._copy(sql, [[_text(value) for value in record] for record in records])

    async def _run(self, sql: str, values: Sequence[object]) -> tuple[list[NamedRow], str]:
        def run() -> tuple[list[NamedRow], str]:
            with _as_asyncpg(), psycopg.RawCursor(self.raw, row_factory=tuple_row) as cursor:
                cursor.execute(*_query(cursor, sql, values))
                return _rows(cursor, cursor.fetchall() if cursor.description else ())

        return await in_callers_thread(run)

    async def _copy(self, sql: Composed, records: Sequence[Sequence[str | None]]) -> None:
        def run() -> None:
            with _as_asyncpg(), psycopg.RawCursor(self.raw) as cursor, cursor.copy(sql) as copy:
                for record in records:
                    copy.write_row(record)

        await in_callers_thread(run)


class AsyncPsycopgCaller(PsycopgCaller):
    """The same for an `AsyncConnection`."""

    async def _run(self, sql: str, values: Sequence[object]) -> tuple[list[NamedRow], str]:
        with _as_asyncpg():
            async with psycopg.AsyncRawCursor(self.raw, row_factory=tuple_row) as cursor:
                await cursor.execute(*_query(cursor, sql, values))
                return _rows(cursor, await cursor.fetchall() if cursor.description else ())

    async def _copy(self, sql: Composed, records: Sequence[Sequence[str | None]]) -> None:
        with _as_asyncpg():
            async with psycopg.AsyncRawCursor(self.raw) as cursor, cursor.copy(sql) as copy:
                for record in records:
                    await copy.write_row(record)


def _query(cursor: Any, sql: str, values: Sequence[object]) -> tuple[Any, ...]:
    """The arguments of `execute`. The cursor's own types replace those of the caller."""
    cursor.adapters.register_dumper(str, StrDumperUnknown)
    for name in ("json", "jsonb"):
        cursor.adapters.register_loader(name, TextLoader)
    return (sql, [_text(value) for value in values]) if values else (sql,)


def _rows(cursor: Any, found: Iterable[Sequence[Any]]) -> tuple[list[NamedRow], str]:
    if cursor.description is None:
        return [], cursor.statusmessage
    kind = _row_class(tuple(column.name for column in cursor.description))
    return [kind(map(_as_utc, row)) for row in found], cursor.statusmessage


@lru_cache(maxsize=1_000)
def _row_class(names: tuple[str, ...]) -> type[NamedRow]:
    numbers = {name: number for number, name in enumerate(names)}
    return type("NamedRow", (NamedRow,), {"names": numbers, "__slots__": ()})


def _as_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _text(value: Any) -> str | None:
    """A value as PostgreSQL reads it."""
    if value is None or isinstance(value, str):
        return None if value is None else str.__str__(value)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return "{" + ",".join(map(_item, value)) + "}"
    return str(value)


def _item(value: Any) -> str:
    """An item of an array."""
    if isinstance(value, list | tuple):
        return _text(value) or ""
    text = _text(value)
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@contextmanager
def _as_asyncpg() -> Iterator[None]:
    """Raises what our statements expect, a broken constraint, as asyncpg does. The original error
    is its `driver_error`."""
    try:
        yield
    except psycopg.IntegrityError as error:
        fields = {"S": "ERROR", "C": error.sqlstate or "23000", "M": str(error)}
        if error.diag.message_detail:
            fields["D"] = error.diag.message_detail
        same = asyncpg.PostgresError.new(fields)
        same.driver_error = error  # type: ignore[attr-defined]
        raise same from error
