"""Callers of every driver, each with a connection of its own to the database of a test.

A new driver is one class with the words of `Caller`, and one line in `DRIVERS`.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Protocol

import aiosqlite
import asyncpg
import django
import psycopg
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.stores.home import Home, Kind


def file_of(home: Home) -> str:
    return home.url.removeprefix("sqlite:///")


class Caller(Protocol):
    """A connection in the hands of its user."""

    given: Any
    """What the user passes to Tickwork."""
    begins: bool
    """Whether its next statement begins a transaction."""

    async def begin(self) -> None: ...

    async def execute(self, sql: str) -> None: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    async def close(self) -> None: ...


class BySql:
    """Begins and ends transactions by statements."""

    given: Any
    begins = False

    async def begin(self) -> None:
        await self.execute("BEGIN")

    async def execute(self, sql: str) -> None:
        done = self.given.execute(sql)
        if asyncio.iscoroutine(done) or hasattr(done, "__await__"):
            await done

    async def commit(self) -> None:
        await self.execute("COMMIT")

    async def rollback(self) -> None:
        await self.execute("ROLLBACK")

    async def close(self) -> None:
        done = self.given.close()
        if hasattr(done, "__await__"):
            await done


class Asyncpg(BySql):
    kind: ClassVar[Kind] = "postgres"

    async def open(self, home: Home) -> None:
        self.given = await asyncpg.connect(home.url)
        # As many apps have it, and SQLAlchemy.
        await self.given.set_type_codec(
            "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
        )


class Psycopg(BySql):
    begins = True
    kind: ClassVar[Kind] = "postgres"

    async def open(self, home: Home) -> None:
        self.given = psycopg.connect(home.url, row_factory=dict_row)

    async def begin(self) -> None:
        """The next statement begins the transaction."""

    async def commit(self) -> None:
        self.given.commit()

    async def rollback(self) -> None:
        self.given.rollback()


class PsycopgAsync(BySql):
    kind: ClassVar[Kind] = "postgres"

    async def open(self, home: Home) -> None:
        self.given = await psycopg.AsyncConnection.connect(
            home.url, autocommit=True, row_factory=dict_row
        )


class Sqlite3(BySql):
    kind: ClassVar[Kind] = "sqlite"

    async def open(self, home: Home) -> None:
        self.given = sqlite3.connect(file_of(home), isolation_level=None)
        self.given.row_factory, self.given.text_factory = sqlite3.Row, bytes


class Aiosqlite(BySql):
    kind: ClassVar[Kind] = "sqlite"

    async def open(self, home: Home) -> None:
        self.given = await aiosqlite.connect(file_of(home), isolation_level=None)


class SqlalchemySession:
    """The ORM, sync."""

    begins = True

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    async def open(self, home: Home) -> None:
        url = home.url.replace("postgresql://", "postgresql+psycopg://")
        self.engine = sqlalchemy.create_engine(url, poolclass=NullPool)
        self.given = Session(self.engine)

    async def begin(self) -> None:
        """A session begins by itself."""

    async def execute(self, sql: str) -> None:
        self.given.execute(sqlalchemy.text(sql))

    async def commit(self) -> None:
        self.given.commit()

    async def rollback(self) -> None:
        self.given.rollback()

    async def close(self) -> None:
        self.given.close()
        self.engine.dispose()


class SqlalchemyConnection(SqlalchemySession):
    """The Core, sync."""

    async def open(self, home: Home) -> None:
        await super().open(home)
        self.given = self.engine.connect()  # type: ignore[assignment]


class SqlalchemyAsync:
    """The ORM, async, over a driver."""

    begins = True

    def __init__(self, kind: Kind, driver: str) -> None:
        self.kind, self.driver = kind, driver

    async def open(self, home: Home) -> None:
        scheme, _, rest = home.url.partition("://")
        engine = create_async_engine(f"{scheme}+{self.driver}://{rest}", poolclass=NullPool)
        self.engine, self.given = engine, AsyncSession(engine)

    async def begin(self) -> None:
        """A session begins by itself."""

    async def execute(self, sql: str) -> None:
        await self.given.execute(sqlalchemy.text(sql))

    async def commit(self) -> None:
        await self.given.commit()

    async def rollback(self) -> None:
        await self.given.rollback()

    async def close(self) -> None:
        await self.given.close()
        await self.engine.dispose()


class Django:
    """Django's `connection`, in `transaction.atomic()`."""

    begins = False

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    async def open(self, home: Home) -> None:
        # It refuses to be used in a thread with an event loop, as that of these tests is.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        from django.conf import settings
        from django.db.utils import ConnectionHandler

        if self.kind == "sqlite":
            database: dict[str, Any] = {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": file_of(home),
            }
        else:
            found = conninfo_to_dict(home.url)
            database = {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": found["dbname"],
                **{name.upper(): found.get(name, "") for name in ("user", "host", "port")},
            }
        if not settings.configured:
            settings.configure(USE_TZ=True)
            django.setup()
        self.given = ConnectionHandler({"default": database})["default"]

    async def begin(self) -> None:
        self.given.ensure_connection()
        self.given.set_autocommit(False)
        self.given.in_atomic_block = True

    async def execute(self, sql: str) -> None:
        with self.given.cursor() as cursor:
            cursor.execute(sql)

    async def commit(self) -> None:
        self._leave(self.given.commit)

    async def rollback(self) -> None:
        self._leave(self.given.rollback)

    def _leave(self, end: Callable[[], None]) -> None:
        """As `transaction.atomic()` ends; which needs the connection to be a global one."""
        self.given.in_atomic_block = False
        end()
        self.given.set_autocommit(True)

    async def close(self) -> None:
        self.given.close()


DRIVERS: dict[str, Callable[[], Any]] = {
    "asyncpg": Asyncpg,
    "psycopg": Psycopg,
    "psycopg-async": PsycopgAsync,
    "sqlalchemy": lambda: SqlalchemySession("postgres"),
    "sqlalchemy-core": lambda: SqlalchemyConnection("postgres"),
    "sqlalchemy-asyncpg": lambda: SqlalchemyAsync("postgres", "asyncpg"),
    "sqlalchemy-psycopg": lambda: SqlalchemyAsync("postgres", "psycopg"),
    "django": lambda: Django("postgres"),
    "sqlite3": Sqlite3,
    "aiosqlite": Aiosqlite,
    "sqlalchemy-sqlite": lambda: SqlalchemySession("sqlite"),
    "sqlalchemy-aiosqlite": lambda: SqlalchemyAsync("sqlite", "aiosqlite"),
    "django-sqlite": lambda: Django("sqlite"),
}


@asynccontextmanager
async def caller_of(driver: str, home: Home) -> AsyncIterator[Caller]:
    """A caller with an open connection."""
    caller = DRIVERS[driver]()
    await caller.open(home)
    try:
        yield caller
    finally:
        await caller.close()
