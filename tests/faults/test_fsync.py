"""Accepted means fsynced: what `send` wrote is on the disk before it returns."""

from collections.abc import Iterator

import asyncpg
import pytest

from tests.faults.open_store import opened
from tests.faults.programs.traced_sends import SENDS
from tests.faults.steps import put_queues, send
from tests.kit.postgres import PostgresServer
from tests.kit.process import Arm, Children
from tests.kit.trace import Trace, traced
from tests.stores.home import Home
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine.migrate import migrate

WAL, SQLITE_WAL = "/pg_wal/", r"\.db-wal$"
FEW_SENDS = "tests.faults.programs.traced_sends"
START_SECONDS_MAX = 60.0
ANSWER = "2\0\0\0\4D"
"""In the wire protocol: a bound statement and its row."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Durable, and only the sending process itself writes its WAL."""
    with PostgresServer(durable=True, settings={"wal_writer_delay": "10s"}) as started:
        yield started


@pytest.fixture
async def url(server: PostgresServer) -> str:
    await migrate(server.url)
    return server.url


async def traced_send(children: Children, url: str) -> Trace:
    """What the server process of a store did while a message was sent."""
    store = await PostgresStore.open(url, connections_max=1)
    try:
        await put_queues(store)
        await send(store)
        async with traced(children, await _backend(url)) as trace:
            await send(store)
    finally:
        await store.close()
    return trace


async def _backend(url: str) -> int:
    """The one server process other than the one that asks."""
    connection = await asyncpg.connect(url)
    try:
        query = (
            "SELECT pid FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        (row,) = await connection.fetch(query)
        return int(row["pid"])
    finally:
        await connection.close()


async def traced_program(children: Children, url: str, way: str) -> Trace:
    """What a process did between its being ready and its end."""
    program = children.spawn(FEW_SENDS, url, way, arms=[Arm("ready", "pause")])
    await program.reached("ready", START_SECONDS_MAX)
    async with traced(children, program.pid) as trace:
        program.release("ready")
        await program.succeeded(START_SECONDS_MAX)
    return trace


async def test_postgresql_syncs_its_wal_before_send_returns(children: Children, url: str) -> None:
    trace = await traced_send(children, url)
    answer = trace.calls_with(ANSWER, name="sendto")[0]
    assert trace.syncs_before(answer, WAL)
    assert trace.dirty_before(answer, WAL) == []


async def test_this_test_detects_an_early_response_of_postgresql(
    children: Children, url: str
) -> None:
    trace = await traced_send(children, f"{url}?synchronous_commit=off")
    answer = trace.calls_with(ANSWER, name="sendto")[0]
    assert trace.syncs_before(answer) == []


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
async def test_sqlite_syncs_its_wal_before_send_returns(children: Children, home: Home) -> None:
    async with opened(home.url) as store:
        await put_queues(store)
        trace = await traced_program(children, home.url, "store")
    answers = trace.calls_with("answered", name="write")
    assert len(answers) == SENDS
    for number, answer in enumerate(answers, 1):
        assert len(trace.syncs_before(answer, SQLITE_WAL)) >= number
        assert trace.dirty_before(answer, SQLITE_WAL) == []


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
async def test_this_test_detects_an_early_response_of_sqlite(
    children: Children, home: Home
) -> None:
    async with opened(home.url):  # The WAL stays: no one is the last to close the file.
        trace = await traced_program(children, home.url, "careless")
    for answer in trace.calls_with("answered", name="write"):
        assert trace.syncs_before(answer, SQLITE_WAL) == []
        assert trace.dirty_before(answer, SQLITE_WAL) != []
