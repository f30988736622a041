"""A caller's own table beside the store's, written inside the store's transactions."""

import sqlite3
from contextlib import closing
from typing import Any, Protocol

import asyncpg

from tests.stores.home import Home
from tests.stores.open_homes import ModelHome
from tests.stores.postgres_home import PostgresHome
from tests.stores.sqlite_home import SqliteHome
from tickwork.store.message_contract import Joined

CREATE = "CREATE TABLE ledger (entry TEXT NOT NULL UNIQUE)"
READ = "SELECT entry FROM ledger ORDER BY entry"


class LedgerBroken(Exception):
    """Raised by the caller's own code."""


class Ledger(Protocol):
    """The caller's own rows."""

    doubled: type[Exception]
    """The error for writing an entry twice."""

    async def create(self) -> None: ...

    def writing(self, entry: str, *, fails: bool = False) -> Joined:
        """Writes an entry as part of a joint commit, and then may fail."""

    async def entries(self) -> list[str]: ...


class PostgresLedger:
    doubled: type[Exception] = asyncpg.UniqueViolationError

    def __init__(self, home: PostgresHome) -> None:
        self._home = home

    async def create(self) -> None:
        connection = await asyncpg.connect(self._home.url)
        await connection.execute(CREATE)
        await connection.close()

    def writing(self, entry: str, *, fails: bool = False) -> Joined:
        async def write(connection: Any) -> None:
            await connection.execute("INSERT INTO ledger VALUES ($1)", entry)
            if fails:
                raise LedgerBroken

        return write

    async def entries(self) -> list[str]:
        connection = await asyncpg.connect(self._home.url)
        found = await connection.fetch(READ)
        await connection.close()
        return [row["entry"] for row in found]


class SqliteLedger:
    doubled: type[Exception] = sqlite3.IntegrityError

    def __init__(self, home: SqliteHome) -> None:
        self._home = home

    async def create(self) -> None:
        with closing(sqlite3.connect(self._home.path)) as connection, connection:
            connection.execute(CREATE)

    def writing(self, entry: str, *, fails: bool = False) -> Joined:
        def write(connection: Any) -> None:
            connection.execute("INSERT INTO ledger VALUES (?)", (entry,))
            if fails:
                raise LedgerBroken

        return write

    async def entries(self) -> list[str]:
        with closing(sqlite3.connect(self._home.path)) as connection:
            return [entry for (entry,) in connection.execute(READ)]


class ModelLedger:
    doubled: type[Exception] = LedgerBroken

    def __init__(self, home: ModelHome) -> None:
        self._home = home

    async def create(self) -> None:
        return

    def writing(self, entry: str, *, fails: bool = False) -> Joined:
        def write(rows: Any) -> None:
            rows.append(entry)
            if fails or rows.count(entry) > 1:
                raise LedgerBroken

        return write

    async def entries(self) -> list[str]:
        return sorted(self._home.tables.callers_own)


def ledger_at(home: Home) -> Ledger:
    if isinstance(home, PostgresHome):
        return PostgresLedger(home)
    if isinstance(home, SqliteHome):
        return SqliteLedger(home)
    assert isinstance(home, ModelHome)
    return ModelLedger(home)
