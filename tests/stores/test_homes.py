"""A test gets a database as new, whatever the test before it did."""

import asyncpg
import pytest

from tests.kit.databases import PostgresHost
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Kind
from tests.stores.open_homes import Homes
from tests.stores.postgres_home import PostgresHome, PostgresHomes
from tickwork.core.message.batch import NewBatch
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    NewMessage,
    QueueSettings,
    Settlement,
    Tenant,
)
from tickwork.errors import NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def use(store: Store) -> None:
    """Leaves a row in every table that a test can reach."""
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    await store.queues.put(DEFAULT, "work", QueueSettings())
    await store.messages.send(DEFAULT, "work", NewMessage(id=new_id(), body=b"{}"))
    await store.queues.put(SYSTEM, "shared", QueueSettings(backlog_bytes_max=128_000))
    await store.subscriptions.put(SYSTEM, "*", "shared")
    item = NewMessage(id=new_id(), body=b"{}", key="a", event_id="e", type="t")
    batch = NewBatch(id=new_id(), queue="shared", completion_queue="shared")
    await store.batches.create(DEFAULT, batch, [item])
    request = ClaimRequest(queue="shared", holder=new_id(), lease_seconds=30)
    (message,) = await store.messages.claim(DEFAULT, request)
    ending = Ending(claim=message.current_claim, fate=Fate.DEAD, reason="x")
    await store.messages.settle(DEFAULT, Settlement((ending,)))
    await store.stats.flush(SYSTEM)
    await store.nodes.join(SYSTEM, new_id(), name="node", roles=["worker"], ttl_seconds=15)


@pytest.mark.parametrize("kind", ["model", *KINDS])
async def test_a_store_is_empty_whatever_was_there_before(homes: Homes, kind: Kind) -> None:
    for _ in range(2):
        async with homes.open_store(kind, VirtualClock()) as store:
            assert await store.queues.list(SYSTEM) == ()
            assert await store.nodes.list(SYSTEM) == ()
            assert await store.subscriptions.list(SYSTEM) == ()
            assert await store.batches.list(DEFAULT, 10) == ()
            assert await store.tenants.get(SYSTEM, "default") == Tenant(id="default")
            with pytest.raises(NotFound):
                await store.tenants.get(SYSTEM, "acme")
            await use(store)


async def test_a_reused_database_has_no_rows_of_an_earlier_test(
    postgres_server: PostgresHost,
) -> None:
    databases = PostgresHomes(postgres_server)
    async with databases.take() as first:
        await execute(first, "CREATE TABLE own AS SELECT 1 AS number")
    async with databases.take() as second:
        assert second.url == first.url
        with pytest.raises(asyncpg.UndefinedTableError):
            await execute(second, "SELECT FROM own")
    databases.close()
    await postgres_server.drop_database(second.url)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tickwork_shards SET tzdata = 'x' WHERE shard = 7",
        "DELETE FROM tickwork_shards WHERE shard = 7",
        "INSERT INTO tickwork_tenants (id) VALUES ('acme')",
    ],
    ids=["changed", "deleted", "added"],
)
async def test_rows_of_the_migrations_are_restored(
    postgres_server: PostgresHost, change: str
) -> None:
    databases = PostgresHomes(postgres_server)
    async with databases.take() as first:
        before = [await rows(first, table) for table in ("tickwork_shards", "tickwork_tenants")]
        await execute(first, change)
    async with databases.take() as second:
        assert second.url == first.url
        after = [await rows(second, table) for table in ("tickwork_shards", "tickwork_tenants")]
    assert [sorted(table, key=str) for table in after] == [
        sorted(table, key=str) for table in before
    ]
    databases.close()
    await postgres_server.drop_database(second.url)


async def test_a_database_that_cannot_be_emptied_is_not_reused(
    postgres_server: PostgresHost,
) -> None:
    databases = PostgresHomes(postgres_server)
    async with databases.take() as first:
        await execute(first, "DROP TABLE tickwork_receipts")
    async with databases.take() as second:
        assert second.url != first.url
    databases.close()
    await postgres_server.drop_database(second.url)


@pytest.mark.parametrize("kind", ["model", *KINDS])
async def test_accepted_messages_survive_a_crash(homes: Homes, kind: Kind) -> None:
    async with homes.take(kind) as home:
        clock = VirtualClock()
        store = await home.open(clock)
        await use(store)
        await home.crash(store)
        again = await home.open(clock)
        assert (await again.queues.counts(DEFAULT, "work")).ready == 1
        await again.close()


async def execute(home: PostgresHome, statement: str) -> None:
    connection = await asyncpg.connect(home.url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def rows(home: PostgresHome, table: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(home.url)
    try:
        return await connection.fetch(f"TABLE {table}")
    finally:
        await connection.close()
