"""Server settings and a caller's statements do not affect the store's sessions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.conformance.acts import ack, claim, join, make_queue, pull, pull_one, send, send_many
from tests.conformance.barriers import Rival
from tests.kit.waiting import eventually
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Settlement
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine import database as database_module
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.migrate import migrate
from tickwork.store.postgres.store import CONNECTIONS_READY


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """On a database whose transactions are REPEATABLE READ by default."""
    connection = await asyncpg.connect(postgres_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(
        f'ALTER DATABASE "{name}" SET default_transaction_isolation = "repeatable read"'
    )
    await connection.close()
    await migrate(postgres_url)
    opened = await PostgresStore.open(postgres_url, connections_max=2)
    await make_queue(opened)
    yield opened
    await opened.close()


async def test_ending_a_node_sees_the_claim_it_waited_for(
    store: PostgresStore, postgres_url: str
) -> None:
    """Under a stricter isolation level the node would be deleted and its message stay claimed for
    ever."""
    node = await join(store)
    await send(store)
    connection = await asyncpg.connect(postgres_url)
    claiming = Rival(connection)
    await claiming.does("SELECT FROM tickwork_nodes WHERE id = $1 FOR KEY SHARE", node)
    await claiming.does(
        "UPDATE tickwork_messages SET state = 'claimed', claim = 1, holder = $1", node
    )
    leaving = asyncio.create_task(store.nodes.leave(SYSTEM, node))
    await eventually(claiming.is_waited_for)
    await claiming.commits()
    assert await leaving == 1
    await connection.close()
    assert await store.queues.counts(DEFAULT, "work") == Counts(ready=1)


async def test_session_changes_of_a_joint_commit_are_undone(store: PostgresStore) -> None:
    await send(store)
    message = await pull_one(store)

    async def changes_the_session(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        await connection.execute("SET search_path = nowhere")

    await store.messages.settle_jointly(DEFAULT, Settlement((ack(message),)), changes_the_session)
    for _ in range(4):
        await send(store)
    assert await store.queues.counts(DEFAULT, "work") == Counts(ready=4)


@pytest.mark.parametrize("together", [1, 3])
async def test_a_callers_own_statements_are_planned_as_usual(
    postgres_url: str, together: int
) -> None:
    """Planner settings fit our tables only: they are reset around a caller's statements."""
    await migrate(postgres_url)
    store = await PostgresStore.open(postgres_url, connections_max=1)
    await make_queue(store)
    names = ("enable_seqscan", "jit_above_cost", "plan_cache_mode")
    asked = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    found = []

    async def looks(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        found.append(tuple(await connection.fetchrow(asked) or ()))

    await send_many(store, together)
    await asyncio.gather(
        *(
            store.messages.settle_jointly(DEFAULT, Settlement((ack(message),)), looks)
            for message in await pull(store)
        )
    )
    assert found == [("on", "100000", "auto")] * together
    ours = await store._database.run(lambda connection: connection.fetchrow(asked))
    await store.close()
    assert tuple(ours or ()) == ("off", "-1", "force_generic_plan")


async def test_a_caller_gets_a_real_connection(store: PostgresStore) -> None:
    """Third-party libraries check this."""
    await send(store)
    message = await pull_one(store)
    given: list[bool] = []

    async def asks(connection: object) -> None:
        given.append(isinstance(connection, asyncpg.Connection))

    await store.messages.settle_jointly(DEFAULT, Settlement((ack(message),)), asks)
    assert given == [True]


async def test_an_error_of_the_callers_statement_is_raised_unchanged(store: PostgresStore) -> None:
    await send(store)
    message = await pull_one(store)

    async def asks_for_nothing(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        await connection.execute("SELECT * FROM a_table_that_is_not_there")

    async def cannot_connect(_: object) -> None:
        raise ConnectionError("the mail server is down")

    settlement = Settlement((ack(message),))
    with pytest.raises(asyncpg.UndefinedTableError):
        await store.messages.settle_jointly(DEFAULT, settlement, asks_for_nothing)
    with pytest.raises(ConnectionError, match="the mail server is down"):
        await store.messages.settle_jointly(DEFAULT, settlement, cannot_connect)
    assert await store.queues.counts(DEFAULT, "work") == Counts(claimed=1)


async def test_a_callers_tables_do_not_shadow_ours(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    for table in ("meta", "messages", "queues", "tenants", "nodes"):
        await connection.execute(f"CREATE TABLE {table} (theirs text)")
    await connection.close()
    await migrate(postgres_url)
    opened = await PostgresStore.open(postgres_url)
    await make_queue(opened)
    node = await join(opened)
    await send(opened)
    assert len(await claim(opened, node)) == 1
    await opened.close()


@pytest.mark.parametrize(("connections_max", "ready"), [(1, 1), (2, 1), (20, CONNECTIONS_READY)])
async def test_make_ready_opens_a_workers_connections(
    postgres_url: str, connections_max: int, ready: int
) -> None:
    await migrate(postgres_url)
    store = await PostgresStore.open(postgres_url, connections_max=connections_max)
    await store.make_ready()
    watcher = await asyncpg.connect(postgres_url)
    others = await watcher.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    await watcher.close()
    await store.close()
    assert others == ready


async def test_a_connection_is_kept_for_the_next_call_and_given_to_one_that_waits(
    postgres_url: str,
) -> None:
    await migrate(postgres_url)
    store = await PostgresStore.open(postgres_url, connections_max=1)

    async def backend() -> int:
        async def work(connection: Any) -> int:
            pid: int = await connection.fetchval("SELECT pg_backend_pid() FROM pg_sleep(0.01)")
            return pid

        return await store._database.run(work)

    async with asyncio.timeout(10):
        first = await backend()
        together = await asyncio.gather(*(backend() for _ in range(20)))
    assert {first, *together} == {first}
    pool = store._database._pool

    async def is_back() -> bool:
        return pool.get_idle_size() == 1

    await eventually(is_back, what="the driver's pool has the connection, and may close it")
    await store.close()


async def test_a_kept_connection_that_the_server_has_closed_is_replaced(postgres_url: str) -> None:
    await migrate(postgres_url)
    store = await PostgresStore.open(postgres_url, connections_max=1)
    await make_queue(store)
    watcher = await asyncpg.connect(postgres_url)
    await watcher.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await watcher.close()
    await send(store)
    assert await store.queues.counts(DEFAULT, "work") == Counts(ready=1)
    await store.close()


async def test_preparing_statements_changes_nothing(
    store: PostgresStore, postgres_url: str
) -> None:
    """Each statement is run, without values."""
    node = await join(store)
    for _ in range(3):
        await send(store)
    (claimed,) = await claim(store, node, limit=1)
    before = await written(postgres_url)
    await store.make_ready()
    assert await written(postgres_url) == before
    assert (await store.messages.settle(DEFAULT, Settlement((ack(claimed),)))).refused == ()


async def test_statements_use_generic_plans_except_those_with_optional_conditions(
    postgres_url: str,
) -> None:
    database = await Database.open(postgres_url, connections_max=1, pooled=False)
    asked = "SELECT current_setting('plan_cache_mode')"
    for _ in range(2):
        usual = await database.run(lambda connection: connection.fetchval(asked))
        ((chosen,),) = await database.fetch_with_custom_plan(asked)
        assert (usual, chosen) == ("force_generic_plan", "force_custom_plan")
    await database.close()


async def test_transactions_have_a_timeout_if_the_server_supports_it(postgres_url: str) -> None:
    """A process frozen in a transaction is not always idle for the server."""
    database = await Database.open(postgres_url, connections_max=1, pooled=False)
    row = await database.run(
        lambda connection: connection.fetchrow(
            "SELECT current_setting('server_version_num')::integer AS version,"
            " current_setting('transaction_timeout', true) AS bound"
        )
    )
    await database.close()
    assert row is not None
    assert row["bound"] == ("1min" if row["version"] >= 170_000 else None)


async def test_a_server_without_transaction_timeouts_is_used_without(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        database_module, "TRANSACTION_TIMEOUT", {"a_setting_of_a_newer_server": "1"}
    )
    database = await Database.open(postgres_url, connections_max=1, pooled=False)
    assert await database.run(lambda connection: connection.fetchval("SELECT 1")) == 1
    await database.close()


async def written(postgres_url: str) -> dict[str, list[asyncpg.Record]]:
    """All rows of all tables, with their physical location."""
    connection = await asyncpg.connect(postgres_url)
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = {
        name: await connection.fetch(f"SELECT ctid, xmin, * FROM {name} ORDER BY ctid")
        for (name,) in tables
    }
    await connection.close()
    return rows


async def test_a_connection_that_the_server_is_closing_is_replaced(postgres_url: str) -> None:
    """The server's farewell to an idle session has arrived, the end of the connection has not."""
    fields = b"SFATAL\0VFATAL\0C25P03\0Midle-in-transaction timeout\0\0"
    farewell = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
    database = await Database.open(postgres_url, connections_max=1, pooled=False)
    tried = 0

    async def work(connection: Any) -> int:
        nonlocal tried
        tried += 1
        if tried == 1:
            assert await connection.fetchval("SELECT 1") == 1
            connection._con._protocol.data_received(farewell)
        found: int = await connection.fetchval("SELECT 2")
        return found

    for run in (database.run, database.transact):
        tried = 0
        assert (await run(work), tried) == (2, 2)
    await database.close()
