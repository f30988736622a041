"""Migrates the schema of a PostgreSQL database, under an advisory lock.

Each migration is a numbered file. It runs in one transaction, which also stores its version number.
Nodes that migrate at the same time wait for each other. A schema newer than this code is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tickwork.errors import StoreBroken
from tickwork.store.postgres.engine.database import CONNECT_ERRORS, as_store_error
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.database_url import migrate_command
from tickwork.store.shared.sql_files import Migration, load_migrations, pending

_LOCK_KEY = 0x7469636B  # "tick": only migrations take this advisory lock.


async def migrate(url: str) -> tuple[Migration, ...]:
    """Applies pending migrations and returns them."""
    applied: list[Migration] = []
    async with connected(url) as connection:
        while (step := await _step(connection)) is not None:
            applied.append(step)
    return tuple(applied)


async def schema_version(url: str) -> int:
    """Returns the version of the schema, or 0 if there is none."""
    async with connected(url) as connection, connection.transaction():
        return await _version(connection)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Connects for statements that may take long, without prepared statements, because the URL may
    point to a pooler."""
    try:
        connection = await asyncpg.connect(url, statement_cache_size=0)
    except CONNECT_ERRORS as error:
        raise as_store_error(error, url) from error
    try:
        yield connection
    finally:
        await connection.close()


def check_version(version: int, url: str) -> None:
    """Raises `StoreBroken` if the schema is older or newer than this code."""
    if pending(load_migrations("tickwork.store.postgres"), version):
        raise StoreBroken(
            f"the schema has version {version} and is too old: run {migrate_command(url)}"
        )


async def _step(connection: asyncpg.Connection[asyncpg.Record]) -> Migration | None:
    """Applies the next migration in one transaction."""
    async with connection.transaction():
        await connection.execute(SQL.lock_migrations, _LOCK_KEY)
        missing = pending(load_migrations("tickwork.store.postgres"), await _version(connection))
        if not missing:
            return None
        step = missing[0]
        try:
            await connection.execute(step.sql)
        except asyncpg.PostgresError as error:
            raise StoreBroken(f"migration {step.name} failed: {error}") from error
        await connection.execute(SQL.set_version, step.version)
        return step


async def _version(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    if not await connection.fetchval(SQL.has_schema):
        return 0
    meta = await connection.fetchrow(SQL.read_meta)
    return int(meta["schema_version"]) if meta is not None else 0
