"""Callers' transactions that race, fail or are killed: rows and messages agree all the same."""

import asyncio
import sys
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.app.callers import Caller, caller_of
from tests.app.test_own_transaction import (
    QUEUE,
    app_of,
    messages,
    on_every,
    orders_of,
    send,
    shop,
)
from tests.kit.postgres import PostgresServer
from tests.stores.home import Home
from tests.stores.open_homes import Homes
from tests.stores.postgres_home import KeptPools
from tickwork import InvalidInput, Tickwork
from tickwork.store.postgres.engine.migrate import migrate
from tickwork.store.postgres.engine.sql import SQL

__all__ = ["shop"]

PROGRAM = """
import os, sys
from tickwork import Tickwork
url, driver, point = sys.argv[1:]
app = Tickwork(url)
emails = app.sync.queue("emails")
if driver == "psycopg":
    import psycopg
    connection = psycopg.connect(url)
else:
    import sqlite3
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
for number in (1, 2):
    connection.execute(f"INSERT INTO orders VALUES ({number})")
    emails.send({"order": number}, connection=connection, source=f"order-{number}")
    if number == 1 or point == "after":
        connection.commit()
os._exit(9)
"""


@on_every("psycopg", "sqlite3")
@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_killed_process_leaves_both_or_neither(
    shop: tuple[Home, Caller], point: str
) -> None:
    home, _ = shop
    driver = "psycopg" if home.kind == "postgres" else "sqlite3"
    async with app_of(home) as app:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, home.url, driver, point
        )
        assert await child.wait() == 9
        stored = {1} if point == "before" else {1, 2}
        assert await messages(app) == await orders_of(home) == stored


@on_every("asyncpg", "psycopg-async")
async def test_two_transactions_send_with_one_key_one_after_the_other(
    shop: tuple[Home, Caller],
) -> None:
    home, first = shop
    async with app_of(home) as app, caller_of("asyncpg", home) as second:
        await app.queue(QUEUE).send("first of all", key="k", source="order-0")
        for caller in (first, second):
            await caller.begin()
        emails = app.queue(QUEUE)
        await emails.send("a", key="k", source="order-1", connection=first.given)
        sending = asyncio.create_task(
            emails.send("b", key="k", source="order-2", connection=second.given)
        )
        done, _ = await asyncio.wait([sending], timeout=0.2)
        assert not done
        await first.rollback()
        await sending
        await second.commit()
        found = await app.messages.list(QUEUE, key="k")
        assert [message.source for message in found] == ["order-0", "order-2"]


@on_every("asyncpg")
async def test_what_became_of_a_transaction_is_known_by_the_id_that_its_rows_have(
    shop: tuple[Home, Caller],
) -> None:
    home, caller = shop
    async with caller_of("asyncpg", home) as other:

        async def order(number: int) -> int:
            insert = "INSERT INTO orders VALUES ($1) RETURNING xmin::text::bigint"
            return int(await caller.given.fetchval(insert, number))

        async def became(ids: list[int]) -> list[str]:
            rows = await other.given.fetch(SQL.ended_transactions, ids, [], [])
            status = {row["written_by"]: row["status"] for row in rows}
            return [status[id_] for id_ in ids]

        committed = await order(1)
        await caller.begin()
        outer = await order(2)
        await caller.execute("SAVEPOINT gone")
        gone = await order(3)
        await caller.execute("ROLLBACK TO gone; SAVEPOINT kept")
        kept = await order(4)
        ids = [committed, outer, gone, kept, (kept + 1_000) % 2**32]
        open_ = ["committed", *["in progress"] * 4]
        assert await became(ids) in (open_, [*open_[:2], "aborted", *open_[3:]])
        await caller.commit()
        await order(5)
        ended = ["committed", "committed", "aborted", "committed", "in progress"]
        assert await became(ids) == ended


@on_every("asyncpg", "psycopg-async")
async def test_an_event_of_two_transactions_is_published_once(shop: tuple[Home, Caller]) -> None:
    home, first = shop
    async with app_of(home) as app, caller_of("asyncpg", home) as second:
        await first.begin()
        await second.begin()

        async def publish(caller: Caller) -> bool:
            published = await app.events.publish(
                "order.made", 1, event_id="one", connection=caller.given
            )
            return bool(published.is_repeat)

        assert not await publish(first)
        publishing = asyncio.create_task(publish(second))
        done, _ = await asyncio.wait([publishing], timeout=0.2)
        assert not done
        await first.commit()
        assert await publishing
        await second.commit()
        assert len(await app.messages.list("copies")) == 1


@pytest.mark.parametrize(
    ("shop", "error"),
    [
        ("asyncpg", asyncpg.SerializationError),
        ("psycopg-async", psycopg.errors.SerializationFailure),
    ],
    indirect=["shop"],
)
async def test_a_serialization_failure_is_raised_as_the_driver_raises_it(
    shop: tuple[Home, Caller], error: type[Exception]
) -> None:
    home, caller = shop
    async with app_of(home) as app:
        emails = app.queue(QUEUE)
        await emails.send("a", key="k")
        await caller.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await caller.execute("INSERT INTO orders VALUES (1)")
        await emails.send("b", key="k")
        with pytest.raises(error):
            await emails.send("c", key="k", connection=caller.given)
        await caller.rollback()
        await caller.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        await emails.send("c", key="k", connection=caller.given)
        await caller.commit()
        assert len(await app.messages.list(QUEUE, key="k")) == 3


@on_every("asyncpg", "psycopg", "psycopg-async", "sqlalchemy-asyncpg")
async def test_a_failed_transaction_is_refused(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app:
        await caller.begin()
        with pytest.raises(Exception, match="nothing_there"):
            await caller.execute("SELECT * FROM nothing_there")
        with pytest.raises(InvalidInput, match="has failed; roll it back and begin again"):
            await send(app, caller.given, 1)
        await caller.rollback()


@on_every("asyncpg", "psycopg", "psycopg-async", "sqlite3", "aiosqlite")
async def test_another_database_is_refused(
    shop: tuple[Home, Caller], homes: Homes, pools: KeptPools
) -> None:
    home, caller = shop
    async with homes.take(home.kind, pools) as other, app_of(other) as app:
        await caller.begin()
        with pytest.raises(InvalidInput, match=r"is of another database|is to another file"):
            await send(app, caller.given, 1)
        await caller.execute("INSERT INTO orders VALUES (1)")
        await caller.commit()
        assert await orders_of(home) == {1}


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg-async", "sqlite3", "aiosqlite"])
async def test_a_closed_connection_is_refused(driver: str, homes: Homes, pools: KeptPools) -> None:
    kind: Any = "sqlite" if "sqlite" in driver else "postgres"
    async with homes.take(kind, pools) as home, app_of(home) as app:
        async with caller_of(driver, home) as caller:
            await caller.begin()
        with pytest.raises(InvalidInput, match="is closed; pass the connection"):
            await send(app, caller.given, 1)


async def test_a_restarted_server_is_still_the_same_database(
    durable_postgres: PostgresServer,
) -> None:
    await migrate(durable_postgres.url)
    app = Tickwork(durable_postgres.url)
    try:
        for number in (1, 2):
            connection = await asyncpg.connect(durable_postgres.url)
            async with connection.transaction():
                await send(app, connection, number)
            await connection.close()
            if number == 1:
                durable_postgres.restart()
        assert await messages(app) == {1, 2}
    finally:
        await app.close()
