"""Where the apps of these tests have their store: a SQLite file or a PostgreSQL database."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module
from inspect import iscoroutinefunction

import pytest

from tests.channel.mail_server import Mailbox, mail_server
from tests.kit import fork_server
from tests.kit.databases import PostgresHost
from tests.kit.process import fork_handler_process
from tests.stores.home import KINDS
from tests.stores.open_homes import Homes
from tickwork.core.model import SYSTEM, Tenant
from tickwork.facade.app import Tickwork
from tickwork.service.isolation import process_handle
from tickwork.store.contract import Store
from tickwork.store.ids import Moment
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.partitions import FiringPartitions, HistoryPartitions
from tickwork.testing.store_setup import FAST_OPTIONS
from tickwork.wiring import Settings, open_store

HARNESS_MODULE = import_module("tickwork.testing.harness")
OWN_DATABASE_TESTS = frozenset(
    {
        "test_a_database_that_is_none_is_refused",
        "test_an_app_of_a_tenant_finds_its_tenant_there",
        "test_every_harness_begins_empty_and_leaves_nothing",
        "test_the_apps_own_database_is_not_touched",
    }
)
"""Tests in which the harness creates its own database, as it does for users."""

PARTITIONED_TESTS = frozenset(
    {
        "test_a_year_of_a_hundred_schedules_has_each_slot_at_its_time",
        "test_a_year_of_a_thousand_schedules_is_accounted_for",
        "test_two_weeks_of_ninety_schedules_are_accounted_for",
    }
)
"""Tests in which firings have a partition for each day, as in production."""


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    """What arrives at the mail server of the installation."""
    made = Mailbox()
    with mail_server(made) as port:
        monkeypatch.setenv("TICKWORK_SMTP_URL", f"smtp://127.0.0.1:{port}")
        monkeypatch.setenv("TICKWORK_EMAIL_FROM", "Tickwork <tickwork@example.com>")
        yield made


@pytest.fixture(autouse=True)
def reused_databases(
    request: pytest.FixtureRequest, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gives the harness an empty database that is migrated already. Creating and migrating one
    takes longer than most of these tests."""
    if request.function.__name__ in OWN_DATABASE_TESTS:
        return

    pools = None
    if iscoroutinefunction(request.function):
        pools = request.getfixturevalue("pools")

    @asynccontextmanager
    async def open_empty_store(
        database: str | None, moment: Moment, *, tenant: str
    ) -> AsyncIterator[Store]:
        async with homes.take("sqlite" if database is None else "postgres", pools) as home:
            url = home.url
            if database is not None:
                url += f"{'&' if '?' in url else '?'}{'&'.join(FAST_OPTIONS)}"
            if database is not None and pools is not None:
                kept = await pools.take(url)
                store: Store = PostgresStore(kept, moment, url)
            else:
                store = await open_store(Settings(database=url), moment=moment, is_temporary=True)
            try:
                await store.tenants.put(SYSTEM, Tenant(id=tenant))
                yield store
            finally:
                await store.close()

    monkeypatch.setattr(HARNESS_MODULE, "open_empty_store", open_empty_store)


@pytest.fixture(autouse=True)
def unchanged_partitions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Firings of a day without a partition go to the default one. A new partition for each virtual
    day makes the server plan every statement again, which takes longer than the day; and a database
    without the partitions of today is not reused."""

    async def turn(*_: object) -> int:
        return 0

    if request.function.__name__ not in PARTITIONED_TESTS:
        monkeypatch.setattr(FiringPartitions, "turn", turn)
        monkeypatch.setattr(HistoryPartitions, "turn", turn)


@pytest.fixture(autouse=True)
def forked_handler_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handler processes are forks that have imported the package already."""
    if fork_server.is_possible():
        monkeypatch.setattr(process_handle, "start_process", fork_handler_process)


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
