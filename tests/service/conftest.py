"""Where the apps of these tests have their store: in a file, and in a schema of a server."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit.databases import PostgresHost
from tests.stores.home import KINDS
from tickwork.facade.app import Tickwork


@pytest.fixture(scope="session")
def schemas_database(postgres_server: PostgresHost) -> Iterator[str]:
    """One database for all: a harness takes only a schema of it."""
    with ThreadPoolExecutor(1) as pool:  # This session may have an event loop already.
        url = pool.submit(asyncio.run, postgres_server.create_database()).result()
        yield url
        pool.submit(asyncio.run, postgres_server.drop_database(url)).result()


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> str | None:
    """What a harness is given."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("schemas_database")
    return url


@pytest.fixture
def app() -> Tickwork:
    """An app that has declared nothing yet."""
    return Tickwork()
