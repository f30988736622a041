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
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import asyncpg
import psycopg
from psycopg.adapt import AdaptersMap
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

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult


class NamedRow(tuple[Any, ...]):
    """A row by the names and the numbers of its columns."""

    __slots__ = ()
    names: ClassVar[dict[str, int]]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.names[key] if isinstance(key, str) else key)

    def keys(self) -> Iterable[str]:
        return self.names.keys()


_ADAPTERS = AdaptersMap(psycopg.adapters)
"""Types as our statements expect them, whatever the caller has changed for its own connection."""
_ADAPTERS.register_dumper(str, StrDumperUnknown)
for _name in ("json", "jsonb"):
    _ADAPTERS.register_loader(_name, TextLoader)


class _Cursor(psycopg.RawCursor[Any]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class _AsyncCursor(psycopg.AsyncRawCursor[Any]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


_Answer: TypeAlias = "tuple[list[tuple[Any, ...]], PGresult]"
"""The rows of a statement, and what the server said."""


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
        rows, result = await self._run(sql, values)
        kind = _row_class(*map(result.fname, range(result.nfields)))
        return [kind(map(_as_utc, row)) for row in rows]

    async def fetchrow(self, sql: str, *values: object) -> NamedRow | None:
        return next(iter(await self.fetch(sql, *values)), None)

    async def fetchval(self, sql: str, *values: object) -> Any:
        rows, _ = await self._run(sql, values)
        return _as_utc(rows[0][0]) if rows else None

    async def execute(self, sql: str, *values: object) -> str:
        _, result = await self._run(sql, values)
        return (result.command_status or b"").decode()

    async def copy_records_to_table(
        self, table: str, *, records: Iterable[Sequence[object]], columns: Sequence[str]
    ) -> None:
        names = SQL(", ").join(map(Identifier, columns))
        sql = SQL("COPY {} ({}) FROM STDIN").format(Identifier(table), names)
        await self._copy(sql, [[_text(value) for value in record] for record in records])

    async def _run(self, sql: str, values: Sequence[object]) -> _Answer:
        def run() -> _Answer:
            cursor = _Cursor(self.raw, row_factory=tuple_row)
            with _as_asyncpg():
                cursor.execute(sql, _texts(values))
            result = _result(cursor)
            return cursor.fetchall() if result.nfields else [], result

        return await in_callers_thread(run)

    async def _copy(self, sql: Composed, records: Sequence[Sequence[str | None]]) -> None:
        def run() -> None:
            with _as_asyncpg(), _Cursor(self.raw) as cursor, cursor.copy(sql) as copy:
                for record in records:
                    copy.write_row(record)

        await in_callers_thread(run)


class AsyncPsycopgCaller(PsycopgCaller):
    """The same for an `AsyncConnection`."""

    async def _run(self, sql: str, values: Sequence[object]) -> _Answer:
        cursor = _AsyncCursor(self.raw, row_factory=tuple_row)
        with _as_asyncpg():
            await cursor.execute(sql, _texts(values))
        result = _result(cursor)
        return await cursor.fetchall() if result.nfields else [], result

    async def _copy(self, sql: Composed, records: Sequence[Sequence[str | None]]) -> None:
        with _as_asyncpg():
            async with _AsyncCursor(self.raw) as cursor, cursor.copy(sql) as copy:
                for record in records:
                    await copy.write_row(record)


def _texts(values: Sequence[object]) -> list[str | None] | None:
    return [None if value is None else _text(value) for value in values] or None


def _result(cursor: Any) -> PGresult:
    result: PGresult = cursor.pgresult
    return result


@lru_cache(maxsize=1_000)
def _row_class(*names: bytes) -> type[NamedRow]:
    numbers = {name.decode(): number for number, name in enumerate(names)}
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
