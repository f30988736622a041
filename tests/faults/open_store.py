"""Opens a store by its URL, for the programs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.faults.tables import is_sqlite
from tickwork.store.contract import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.sqlite import SqliteStore


async def open_store(url: str) -> Store:
    """A store on a migrated database; the caller closes it."""
    return await (SqliteStore.open(url) if is_sqlite(url) else PostgresStore.open(url))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """The same, closed at the end of the block."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()
