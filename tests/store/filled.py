"""Databases with many rows, filled once for a module: query plans need them, and no test changes
them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import asyncpg
import pytest

from tests.kit.databases import PostgresHost
from tickwork.store.postgres.engine.migrate import migrate

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@contextmanager
def filled_database(
    server: PostgresHost, statements: Iterable[str], *, template_url: str | None = None
) -> Iterator[str]:
    """The URL of a migrated database, or of a copy of another one, on which the statements were
    run. It is dropped at the end."""

    async def fill() -> str:
        url = await server.create_database(template_url=template_url)
        if template_url is None:
            await migrate(url)
        connection = await asyncpg.connect(url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()
        return url

    with ThreadPoolExecutor(1) as pool:  # This session may have an event loop already.
        url = pool.submit(asyncio.run, fill()).result()
        yield url
        pool.submit(asyncio.run, server.drop_database(url)).result()


@asynccontextmanager
async def unchanged(url: str) -> AsyncIterator[Connection]:
    """A connection in a transaction that is rolled back."""
    connection: Connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


def filled_with_and_without_statistics(tables: Iterable[str], fill: Iterable[str]) -> Any:
    """Two fixtures for the tests of a module, `filled` and `database`: a database that is not
    analysed, and either that one or a copy of it that is."""

    @pytest.fixture(scope="module")
    def filled(postgres_server: PostgresHost) -> Iterator[str]:
        # Only the tests themselves collect statistics.
        silent = (f"ALTER TABLE {table} SET (autovacuum_enabled = off)" for table in tables)
        with filled_database(postgres_server, [*silent, *fill]) as url:
            yield url

    @pytest.fixture(scope="module", params=["analysed", "not analysed"])
    def database(
        request: pytest.FixtureRequest, postgres_server: PostgresHost, filled: str
    ) -> Iterator[str]:
        if request.param == "not analysed":
            yield filled
            return
        with filled_database(postgres_server, ["ANALYZE"], template_url=filled) as url:
            yield url

    return filled, database
