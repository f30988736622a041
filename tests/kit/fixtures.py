"""The kit as pytest fixtures; tests/conftest.py makes them available to every test."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kit.databases import ExternalPostgres, PostgresHost
from tests.kit.known_types import remembered_types
from tests.kit.postgres import PostgresServer
from tests.kit.process import Children

EXTERNAL_URL = "TESTS_POSTGRES_URL"


@pytest.fixture(scope="session", autouse=True)
def known_types() -> Iterator[None]:
    """Caches the type queries of new connections."""
    with remembered_types():
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresHost]:
    """One server for all tests of a process: not to be stopped, and without fsync."""
    if url := os.environ.get(EXTERNAL_URL):
        external = ExternalPostgres(url)
        # In a thread of its own: this session may have an event loop already.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, external.check()).result()
        yield external
        return
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def postgres_url(postgres_server: PostgresHost) -> AsyncIterator[str]:
    """A fresh, empty database for this test."""
    url = await postgres_server.create_database()
    yield url
    await postgres_server.drop_database(url)


@pytest.fixture
def durable_postgres() -> Iterator[PostgresServer]:
    """A server for this test, with fsync as in production: it may be stopped and crashed."""
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    """Starts real processes; whatever is alive at the end of the test is killed and reaped."""
    with Children(tmp_path) as started:
        yield started
