"""The pooler assigns connections per transaction, so no session state lasts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from tests.kit.pooler import TransactionPooler
from tests.kit.waiting import eventually

BACKEND = "SELECT pg_backend_pid()"

Connect = Callable[[], Awaitable[asyncpg.Connection]]


@pytest.fixture
async def pooler(postgres_url: str) -> AsyncIterator[TransactionPooler]:
    async with TransactionPooler(postgres_url, server_connections=2) as opened:
        yield opened


@pytest.fixture
async def connect(pooler: TransactionPooler) -> AsyncIterator[Connect]:
    opened: list[asyncpg.Connection] = []

    async def one() -> asyncpg.Connection:
        opened.append(await asyncpg.connect(pooler.url, statement_cache_size=0))
        return opened[-1]

    yield one
    for connection in opened:
        connection.terminate()


async def backend(connection: asyncpg.Connection) -> int:
    """Which server process answers; a simple query needs only one round trip."""
    result = await connection.execute(f"DO $$ BEGIN PERFORM 1; END $$; {BACKEND}")
    assert result == "SELECT 1"
    async with connection.transaction():
        return int(await connection.fetchval(BACKEND))


async def test_many_clients_share_few_server_connections(
    pooler: TransactionPooler, connect: Connect
) -> None:
    clients = [await connect() for _ in range(8)]
    backends = await asyncio.gather(*(backend(client) for client in clients))
    assert len(set(backends)) <= 2
    assert pooler.waited
    assert pooler.transactions >= 16


async def test_a_transaction_keeps_its_connection(connect: Connect) -> None:
    first, second = await connect(), await connect()
    async with first.transaction():
        mine = await first.fetchval(BACKEND)
        for _ in range(4):
            assert await backend(second) != mine
        assert await first.fetchval(BACKEND) == mine


async def test_a_client_waits_until_a_connection_is_free(connect: Connect) -> None:
    first, second, third = [await connect() for _ in range(3)]
    async with second.transaction():
        transaction = first.transaction()
        await transaction.start()
        waiting = asyncio.create_task(backend(third))
        await eventually(lambda: waiting.get_stack())
        assert not waiting.done()
        await transaction.commit()
        await waiting


async def test_a_prepared_statement_does_not_outlive_its_transaction(connect: Connect) -> None:
    client = await connect()
    await client.execute("PREPARE mine AS SELECT 1")
    with pytest.raises(asyncpg.InvalidSQLStatementNameError):
        await client.execute("EXECUTE mine")


async def test_a_client_that_leaves_in_a_transaction_rolls_it_back(
    connect: Connect, postgres_url: str
) -> None:
    direct = await asyncpg.connect(postgres_url)
    await direct.execute("CREATE TABLE t (id int)")
    leaver = await connect()
    await leaver.execute("BEGIN; INSERT INTO t VALUES (1)")
    leaver.terminate()
    await eventually(
        lambda: direct.fetchval(
            "SELECT count(*) = 0 FROM pg_locks WHERE relation = 't'::regclass"
            " AND mode = 'RowExclusiveLock'"
        )
    )
    assert await direct.fetchval("SELECT count(*) FROM t") == 0
    first, second = await connect(), await connect()
    async with first.transaction(), second.transaction():
        assert await first.fetchval(BACKEND) != await second.fetchval(BACKEND)
    await direct.close()


async def test_copies_errors_and_large_responses_pass(connect: Connect) -> None:
    client = await connect()
    await client.execute("CREATE TABLE t (id int PRIMARY KEY, body bytea)")
    records = [(number, b"x" * 1_000) for number in range(2_000)]
    async with client.transaction():
        await client.copy_records_to_table("t", records=records)
    async with client.transaction():
        assert len(await client.fetch("SELECT * FROM t")) == 2_000
    with pytest.raises(asyncpg.UniqueViolationError):
        async with client.transaction():
            await client.execute("INSERT INTO t VALUES ($1)", 1)
    async with client.transaction():
        assert await client.fetchval("SELECT 1") == 1


async def test_a_request_can_be_cancelled(connect: Connect) -> None:
    client = await connect()
    with pytest.raises(TimeoutError):
        async with client.transaction():
            await client.execute("SELECT pg_sleep(60)", timeout=0.1)
    assert await client.execute(BACKEND) == "SELECT 1"


async def test_a_startup_parameter_that_cannot_be_kept_is_refused(
    pooler: TransactionPooler,
) -> None:
    with pytest.raises(asyncpg.PostgresError, match="unsupported startup parameter: jit"):
        await asyncpg.connect(pooler.url, server_settings={"jit": "off"})
