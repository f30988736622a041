"""The empty store of a test: a temporary SQLite file, or a new schema in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit, urlunsplit

from tickwork import wiring
from tickwork.core.model import SYSTEM, Tenant
from tickwork.store.contract import Store
from tickwork.store.ids import Moment, new_id
from tickwork.testing.recorder import read_sql

FAST_OPTIONS = ("synchronous_commit=off", "plan_cache_mode=force_generic_plan", "jit=off")
"""Connection options for speed: a step runs a few small statements again and again, and planning
each of them takes the server longer than executing it."""


@asynccontextmanager
async def open_empty_store(
    database: str | None, moment: Moment, *, tenant: str
) -> AsyncIterator[Store]:
    """A store that contains only a tenant, under the caller's clock."""
    if database is not None and database.startswith("postgresql://"):
        async with _schema(database) as name:
            # Without `public`: its tables must not be taken for ours.
            await wiring.migrate(wiring.Settings(database=_within(database, name)))
            settings = wiring.Settings(database=_within(database, f"{name}, public"))
            async with _opened(settings, moment, tenant) as store:
                yield store
    elif database is None:
        with TemporaryDirectory(prefix="tickwork-") as folder:
            url = f"sqlite:///{Path(folder) / 'tickwork.db'}"
            async with _opened(wiring.Settings(database=url), moment, tenant) as store:
                yield store
    else:
        raise ValueError(f"database must be None or a postgresql:// URL, not {database!r}")


@asynccontextmanager
async def _opened(settings: wiring.Settings, moment: Moment, tenant: str) -> AsyncIterator[Store]:
    store = await wiring.open_store(settings, moment=moment, is_temporary=True)
    try:
        await store.tenants.put(SYSTEM, Tenant(id=tenant))
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _schema(url: str) -> AsyncIterator[str]:
    name = f"tickwork_{new_id().hex}"
    await _execute(url, read_sql("make_schema").replace("/*name*/", name))
    try:
        yield name
    finally:
        await _execute(url, read_sql("drop_schema").replace("/*name*/", name))


async def _execute(url: str, statement: str) -> None:
    with wiring.postgres_extra():
        import asyncpg
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _within(url: str, search_path: str) -> str:
    """The URL of the same database with another search path."""
    parts = urlsplit(url)
    settings = "&".join((f"search_path={quote(search_path)}", *FAST_OPTIONS))
    query = f"{parts.query}&{settings}" if parts.query else settings
    return urlunsplit(parts._replace(query=query))
