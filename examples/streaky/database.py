"""Reads and writes the example's tables, on SQLite and PostgreSQL alike.

Statements use `?`; for PostgreSQL they are translated to `$1`, `$2` …. A connection is opened on
first use, because a handler may run in another process.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import asyncpg

Row: TypeAlias = Sequence[Any]

LOCKED_SECONDS_MAX = 30
CONNECTIONS_MAX = 4


class Database(Protocol):
    """One database."""

    def to_dialect(self, statement: str) -> str:
        """Return the statement with this database's placeholders."""

    async def fetch(self, statement: str, *values: Any) -> Sequence[Row]:
        """Return the rows of a query."""

    async def write(self, *statements: tuple[str, Sequence[Row]]) -> None:
        """Run statements, each with its rows of values, in one transaction."""

    async def close(self) -> None:
        """Close the connections."""


def database_at(url: str) -> Database:
    """Return the database at a URL of Tickwork's form."""
    return Sqlite(url) if url.startswith("sqlite:") else Postgres(url)


class Sqlite:
    """A SQLite file. Reads return one or two rows, too few to be worth a thread."""

    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:///")
        self._connection: sqlite3.Connection | None = None

    def to_dialect(self, statement: str) -> str:
        return statement

    async def fetch(self, statement: str, *values: Any) -> Sequence[Row]:
        return self._open().execute(statement, values).fetchall()

    async def write(self, *statements: tuple[str, Sequence[Row]]) -> None:
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement, rows in statements:
                connection.executemany(statement, rows)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self._path, timeout=LOCKED_SECONDS_MAX, isolation_level=None
            )
        return self._connection


class Postgres:
    """A PostgreSQL server, with a small connection pool shared by all handlers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    def to_dialect(self, statement: str) -> str:
        numbers = itertools.count(1)
        return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)

    async def fetch(self, statement: str, *values: Any) -> Sequence[Row]:
        pool = await self._open()
        return [tuple(row) for row in await pool.fetch(self.to_dialect(statement), *values)]

    async def write(self, *statements: tuple[str, Sequence[Row]]) -> None:
        pool = await self._open()
        async with pool.acquire() as connection, connection.transaction():
            for statement, rows in statements:
                await connection.executemany(self.to_dialect(statement), rows)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def _open(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url, min_size=1, max_size=CONNECTIONS_MAX
                )
        return self._pool
