"""Reading and writing tables of one's own, on SQLite and PostgreSQL alike.

Statements are written with `?`; PostgreSQL gets its `$1`, `$2` …. A connection is made when it is
first needed: a handler may run in this process or in one of its own.
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
    """One database, by its URL."""

    def said(self, statement: str) -> str:
        """A statement with the placeholders of this database."""

    async def fetch(self, statement: str, *values: Any) -> Sequence[Row]:
        """The rows that a statement answers."""

    async def write(self, *statements: tuple[str, Sequence[Row]]) -> None:
        """Statements, each for some rows of values; all of them happen, or none."""

    async def close(self) -> None:
        """Lets go of it."""


def database_at(url: str) -> Database:
    """The database of Tickwork's URL."""
    return Sqlite(url) if url.startswith("sqlite:") else Postgres(url)


class Sqlite:
    """A file. Reads are of a row or two, too short to be worth a thread."""

    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:///")
        self._connection: sqlite3.Connection | None = None

    def said(self, statement: str) -> str:
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
    """A server, over a small pool: a thousand units take turns for a read each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    def said(self, statement: str) -> str:
        numbers = itertools.count(1)
        return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)

    async def fetch(self, statement: str, *values: Any) -> Sequence[Row]:
        pool = await self._open()
        return [tuple(row) for row in await pool.fetch(self.said(statement), *values)]

    async def write(self, *statements: tuple[str, Sequence[Row]]) -> None:
        pool = await self._open()
        async with pool.acquire() as connection, connection.transaction():
            for statement, rows in statements:
                await connection.executemany(self.said(statement), rows)

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
