"""The proxies forward everything, except for exactly the fault that is switched on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from tests.kit.postgres_proxy import Fault, PostgresProxy
from tests.kit.proxy import TcpProxy
from tests.kit.waiting import eventually

CONNECTION_LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)
A_WHILE_SECONDS = 1.0

Talk = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Talk]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write(b" the end")
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    """A proxy before an echo server, which sends "the end" when the client closes."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, TcpProxy(*server.sockets[0].getsockname()) as through:
        yield through
        through.cut()
        await eventually(lambda: through.open_connections == 0)


@pytest.fixture
async def connect(proxy: TcpProxy) -> AsyncIterator[Connect]:
    opened: list[asyncio.StreamWriter] = []

    async def one() -> Talk:
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
        opened.append(writer)
        return reader, writer

    yield one
    for writer in opened:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_bytes_and_ends_pass_both_ways(connect: Connect) -> None:
    reader, writer = await connect()
    sent = bytes(range(256)) * 10_000
    writer.write(sent)
    writer.write_eof()
    assert await reader.read(-1) == sent + b" the end"


async def test_cut_resets_every_open_connection(proxy: TcpProxy, connect: Connect) -> None:
    talks = [await connect(), await connect()]
    for reader, writer in talks:
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
    proxy.cut()
    for reader, _ in talks:
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
    assert proxy.accepted == 2
    await eventually(lambda: proxy.open_connections == 0)


async def test_refuse_hits_new_connections_only(proxy: TcpProxy, connect: Connect) -> None:
    reader, writer = await connect()
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    proxy.refuse = True
    refused, _ = await connect()
    with pytest.raises(ConnectionResetError):
        await refused.read(1)
    writer.write(b"y")
    assert await reader.readexactly(1) == b"y"


async def test_a_blackhole_holds_everything_back_until_it_ends(
    proxy: TcpProxy, connect: Connect
) -> None:
    old, old_writer = await connect()
    old_writer.write(b"x")
    assert await old.readexactly(1) == b"x"
    proxy.blackhole = True
    new, new_writer = await connect()
    old_writer.write(b"old")
    new_writer.write(b"new")
    for reader in (old, new):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(3), A_WHILE_SECONDS)
    proxy.blackhole = False
    assert await old.readexactly(3) == b"old"
    assert await new.readexactly(3) == b"new"


@pytest.mark.parametrize("direction", ["to_server", "to_client"])
async def test_delay_holds_data_of_its_direction(
    direction: str, proxy: TcpProxy, connect: Connect
) -> None:
    reader, writer = await connect()
    setattr(proxy, f"delay_{direction}_seconds", A_WHILE_SECONDS)
    began = time.monotonic()
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    assert time.monotonic() - began >= A_WHILE_SECONDS


@pytest.fixture
async def before_postgres(postgres_url: str) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(postgres_url) as through:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute("CREATE TABLE t (id int PRIMARY KEY, body bytea)")
        await connection.close()
        yield through


@pytest.fixture
async def client(before_postgres: PostgresProxy) -> AsyncIterator[asyncpg.Connection]:
    connection: asyncpg.Connection = await asyncpg.connect(before_postgres.url)
    before_postgres.forget()
    yield connection
    connection.terminate()


async def rows(postgres_url: str) -> int:
    """Queried directly, not through the proxy."""
    connection = await asyncpg.connect(postgres_url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM t"))
    finally:
        await connection.close()


async def insert_in_transaction(client: asyncpg.Connection, number: int = 1) -> None:
    async with client.transaction():
        await client.execute("INSERT INTO t (id) VALUES ($1)", number)


async def test_postgres_works_through_the_proxy(client: asyncpg.Connection) -> None:
    body = bytes(range(256)) * 8_192
    await client.execute("INSERT INTO t VALUES ($1, $2)", 1, body)
    assert await client.fetchval("SELECT body FROM t") == body
    await client.copy_records_to_table("t", records=[(n, body[:n]) for n in range(2, 500)])
    assert await client.fetchval("SELECT count(*) FROM t") == 499
    with pytest.raises(asyncpg.UniqueViolationError):
        await client.execute("INSERT INTO t (id) VALUES (1)")


async def test_notifications_pass_while_nothing_is_asked(
    client: asyncpg.Connection, postgres_url: str
) -> None:
    heard: list[object] = []
    await client.add_listener("news", lambda *event: heard.append(event[-1]))
    other = await asyncpg.connect(postgres_url)
    await other.execute("NOTIFY news, 'hello'")
    await other.close()
    await eventually(lambda: heard == ["hello"])
    await client.reset()


async def test_a_commit_whose_reply_is_lost_has_happened(
    before_postgres: PostgresProxy, client: asyncpg.Connection, postgres_url: str
) -> None:
    fault = before_postgres.lose_commit_reply()
    with pytest.raises(CONNECTION_LOST):
        await insert_in_transaction(client)
    assert await rows(postgres_url) == 1
    (outcome,) = fault.outcomes
    assert (outcome.tag, outcome.error, outcome.in_transaction) == ("COMMIT", None, False)


async def test_a_commit_whose_request_is_lost_has_not_happened(
    before_postgres: PostgresProxy, client: asyncpg.Connection, postgres_url: str
) -> None:
    fault = before_postgres.lose_commit_request()
    with pytest.raises(CONNECTION_LOST):
        await insert_in_transaction(client)
    assert (fault.struck, fault.outcomes) == (1, [])
    assert await rows(postgres_url) == 0


@pytest.mark.parametrize(
    ("aim", "expected"),
    [(PostgresProxy.lose_reply_to, 1), (PostgresProxy.lose_request_to, 0)],
)
async def test_a_prepared_autocommit_statement_is_recognised(
    aim: Callable[[PostgresProxy, bytes], Fault],
    expected: int,
    before_postgres: PostgresProxy,
    client: asyncpg.Connection,
    postgres_url: str,
) -> None:
    insert = await client.prepare("INSERT INTO t (id) VALUES ($1)")
    fault = aim(before_postgres, rb"insert into t\b")
    with pytest.raises(CONNECTION_LOST):
        await insert.fetch(1)
    assert fault.struck == 1
    assert await rows(postgres_url) == expected


async def test_a_fault_reports_that_the_statement_failed(
    before_postgres: PostgresProxy, client: asyncpg.Connection
) -> None:
    fault = before_postgres.lose_reply_to(rb"1 / \$1")
    with pytest.raises(CONNECTION_LOST):
        await client.fetchval("SELECT 1 / $1::int", 0)
    assert [outcome.error for outcome in fault.outcomes] == ["22012"]


async def test_a_fault_strikes_its_number_of_times(
    before_postgres: PostgresProxy, postgres_url: str
) -> None:
    fault = before_postgres.lose_reply_to(rb"INSERT", n=2)
    for number, is_lost in [(1, True), (2, True), (3, False)]:
        connection = await asyncpg.connect(before_postgres.url)
        with pytest.raises(CONNECTION_LOST) if is_lost else contextlib.nullcontext():
            await connection.execute("INSERT INTO t (id) VALUES ($1)", number)
        connection.terminate()
    await fault.strikes(2)
    assert fault.left == 0
    assert await rows(postgres_url) == 3


async def test_only_the_connection_that_is_struck_is_cut(
    before_postgres: PostgresProxy, client: asyncpg.Connection
) -> None:
    before_postgres.lose_reply_to(rb"INSERT")
    other = await asyncpg.connect(before_postgres.url)
    with pytest.raises(CONNECTION_LOST):
        await other.execute("INSERT INTO t (id) VALUES (1)")
    assert await client.fetchval("SELECT count(*) FROM t") == 1
    other.terminate()


async def test_a_delayed_commit_happens_late(
    before_postgres: PostgresProxy, client: asyncpg.Connection, postgres_url: str
) -> None:
    fault = before_postgres.delay_commit(A_WHILE_SECONDS)
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(insert_in_transaction(client))
        await fault.strikes()
        assert await rows(postgres_url) == 0
    assert time.monotonic() - began >= A_WHILE_SECONDS
    assert await rows(postgres_url) == 1
    assert [outcome.tag for outcome in fault.outcomes] == ["COMMIT"]


async def test_a_delayed_reply_comes_after_the_fact(
    before_postgres: PostgresProxy, client: asyncpg.Connection, postgres_url: str
) -> None:
    fault = before_postgres.delay_reply_to(rb"INSERT", A_WHILE_SECONDS)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(client.execute("INSERT INTO t (id) VALUES (1)"))
        await fault.strikes()
        assert not asked.done()
        assert await rows(postgres_url) == 1


async def test_statements_and_round_trips_are_counted(
    before_postgres: PostgresProxy, client: asyncpg.Connection
) -> None:
    insert = await client.prepare("INSERT INTO t (id) VALUES ($1)")
    assert before_postgres.count(rb"INSERT") == 0
    before_postgres.forget()
    await insert.fetch(1)
    assert (before_postgres.count(rb"INSERT"), before_postgres.round_trips) == (1, 1)
    await insert.executemany([(number,) for number in range(2, 12)])
    assert (before_postgres.count(rb"INSERT"), before_postgres.round_trips) == (11, 2)
    await insert_in_transaction(client, 12)
    assert before_postgres.round_trips == 5
    assert before_postgres.count(rb"^COMMIT") == 1


async def test_data_that_is_not_postgresql_protocol_fails_the_test(postgres_url: str) -> None:
    async def speak_tls() -> None:
        async with PostgresProxy(postgres_url) as through:
            reader, writer = await asyncio.open_connection(through.host, through.port)
            writer.write(b"\x16\x03\x01\x02\x00 this is TLS")
            assert await reader.read(1) == b""
            writer.close()
            await writer.wait_closed()

    with pytest.raises(ExceptionGroup) as failure:
        await speak_tls()
    assert failure.group_contains(ValueError, match="encrypted")
