"""Where an app's store is while it is tested: empty at the beginning, gone at the end.

By default a SQLite file of its own. In a PostgreSQL database it is a schema of its own, so that
whatever else is there is left alone; tables of the app's own are found in `public`, after it.
Nothing of it has to outlive a power cut: no commit waits for a disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from tickwork import wiring
from tickwork.core.model import SYSTEM, Tenant
from tickwork.store.contract import Store
from tickwork.store.ids import Moment, new_id
from tickwork.store.shared.sql_files import load

SQL = load("tickwork.testing")

QUICK = ("synchronous_commit=off", "plan_cache_mode=force_generic_plan", "jit=off")
"""A step of the harness is some small statements, the same ones again and again: to plan each of
them anew takes the server longer than to carry it out."""


@asynccontextmanager
async def open_empty(database: str | None, moment: Moment, *, tenant: str) -> AsyncIterator[Store]:
    """A store with nothing in it but a tenant, under a clock of the caller's."""
    if database is not None and database.startswith("postgresql://"):
        async with _schema(database) as name:
            # Alone, or the tables of another schema would pass for ours.
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
        raise ValueError(f"None or a postgresql:// URL is wanted, not {database!r}")


@asynccontextmanager
async def _opened(settings: wiring.Settings, moment: Moment, tenant: str) -> AsyncIterator[Store]:
    store = await wiring.open_store(settings, moment=moment, is_passing=True)
    try:
        await store.tenants.put(SYSTEM, Tenant(id=tenant))
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _schema(url: str) -> AsyncIterator[str]:
    name = f"tickwork_{new_id().hex}"
    await _execute(url, SQL.make_schema.replace("/*name*/", name))
    try:
        yield name
    finally:
        await _execute(url, SQL.drop_schema.replace("/*name*/", name))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _within(url: str, search_path: str) -> str:
    """The same database, with another place where names are looked for."""
    parts = urlsplit(url)
    settings = "&".join((f"search_path={quote(search_path)}", *QUICK))
    query = f"{parts.query}&{settings}" if parts.query else settings
    return urlunsplit(parts._replace(query=query))
