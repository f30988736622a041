"""Migrates the schema of a SQLite file under the write lock.

Each migration is a numbered file and runs in one transaction with its version number. Two
processes that start at once wait for each other. A schema newer than this code is refused.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tickwork.errors import FieldError, InvalidInput, StoreBroken, StoreUnavailable
from tickwork.store.shared.sql_files import Migration, load_migrations, pending
from tickwork.store.sqlite.engine.connection import Connection
from tickwork.store.sqlite.engine.file import DatabaseFile, breaks_connection, is_locked, locate
from tickwork.store.sqlite.engine.sql import SQL

CALLERS_SECONDS = 0.5
"""Seconds to wait for a lock that a caller's own transaction may have."""

_PACKAGE = "tickwork.store.sqlite"


async def migrate(path_or_url: str | Path) -> tuple[Migration, ...]:
    """Applies the missing migrations and returns them; creates the file if it does not exist."""
    file = DatabaseFile(locate(path_or_url))
    return await asyncio.to_thread(_migrate, file)


async def migrate_for_caller(path_or_url: str | Path) -> None:
    """Migrates a file while a caller's transaction is open. Does not wait long for the lock: that
    transaction may have it."""
    file = DatabaseFile(locate(path_or_url), CALLERS_SECONDS)
    try:
        await asyncio.to_thread(_migrate, file)
    except StoreUnavailable as error:
        if isinstance(error.__cause__, sqlite3.Error) and is_locked(error.__cause__):
            fault = (
                "is in a transaction on a file without the tables of Tickwork; before you begin "
                "it, `await app.open()` or `app.sync.open()` once"
            )
            raise InvalidInput([FieldError("connection", fault)]) from error
        raise


async def schema_version(path_or_url: str | Path) -> int:
    """The version of a file's schema; 0 if it has none."""
    file = DatabaseFile(locate(path_or_url))
    return await asyncio.to_thread(_schema_version, file)


def check_version(connection: sqlite3.Connection, file: DatabaseFile) -> None:
    """Raises `StoreBroken` unless the schema has the version that this code needs."""
    version = read_version(connection)
    if pending(load_migrations(_PACKAGE), version):
        raise StoreBroken(
            f"the database has no schema: run {file.migrate_command}"
            if version == 0
            else f"the schema has version {version} and is too old: run {file.migrate_command}"
        )


def read_version(connection: sqlite3.Connection) -> int:
    (exists,) = connection.execute(SQL.has_schema).fetchone()
    meta = connection.execute(SQL.read_meta).fetchone() if exists else None
    return int(meta[0]) if meta else 0


def _migrate(file: DatabaseFile) -> tuple[Migration, ...]:
    applied: list[Migration] = []
    try:
        connection = file.connect(create=True)
        try:
            # Looked at before the write lock is taken, which somebody else may have for long.
            while _is_missing(connection) and (step := _step(file, connection)) is not None:
                applied.append(step)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise file.as_store_error(error) from error
    return tuple(applied)


def _schema_version(file: DatabaseFile) -> int:
    if not file.path.exists():
        return 0
    try:
        connection = file.connect()
        try:
            return read_version(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise file.as_store_error(error) from error


def _is_missing(connection: Connection) -> bool:
    return bool(pending(load_migrations(_PACKAGE), read_version(connection)))


def _step(file: DatabaseFile, connection: Connection) -> Migration | None:
    """Applies the next migration in a transaction of its own."""
    file.begin(connection)
    try:
        missing = pending(load_migrations(_PACKAGE), read_version(connection))
        if not missing:
            return None
        step = missing[0]
        try:
            for statement in _statements(step.sql):
                connection.execute(statement)
        except sqlite3.Error as error:
            if breaks_connection(error):
                raise
            raise StoreBroken(f"migration {step.name} failed: {error}") from error
        connection.execute(SQL.set_version, (step.version,))
        connection.commit()
        return step
    finally:
        connection.rollback()


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. `executescript` is no choice: it commits the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    assert not statement.strip(), statement
