"""What is sent with a caller's connection is there if, and only if, its rows are: for every
driver, every verb and every end of the transaction."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.app.callers import DRIVERS, Caller, caller_of
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tests.stores.open_homes import Homes
from tests.stores.postgres_home import KeptPools
from tickwork import InvalidInput, NotFound, Tickwork

QUEUE, MANY, ITEMS, COPIES = "emails", "many", "items", "copies"


async def send(app: Tickwork, connection: object, number: int) -> None:
    await app.queue(QUEUE).send({"order": number}, connection=connection, source=f"order-{number}")


async def send_batch(app: Tickwork, connection: object, number: int) -> None:
    bodies = [{"order": number}, {"order": number}]
    await app.queue(MANY).send_batch(
        bodies, connection=connection, source=f"order-{number}", key=f"order-{number}"
    )


async def orders_in(app: Tickwork, queue: str) -> set[int]:
    return {number_of(message.source) for message in await app.messages.list(queue)}


async def messages(app: Tickwork) -> set[int]:
    return await orders_in(app, QUEUE)


async def many_messages(app: Tickwork) -> set[int]:
    return await orders_in(app, MANY)


Verb = Callable[[Tickwork, object, int], Awaitable[None]]
Known = Callable[[Tickwork], Awaitable[set[int]]]


async def publish(app: Tickwork, connection: object, number: int) -> None:
    await app.events.publish("order.made", number, event_id=f"e{number}", connection=connection)


async def published(app: Tickwork) -> set[int]:
    return {message.body for message in await app.messages.list(COPIES)}


async def start(app: Tickwork, connection: object, number: int) -> None:
    await app.workflows.start("ship", number, id=f"order-{number}", connection=connection)


async def runs(app: Tickwork) -> set[int]:
    return {number_of(run.id) for run in await app.workflows.list("ship")}


async def send_event(app: Tickwork, connection: object, number: int) -> None:
    await app.workflows.get("known").send_event(f"order-{number}", connection=connection)


async def events_of_run(app: Tickwork) -> set[int]:
    return {number_of(event.type) for event in (await app.workflows.get("known").status()).events}


async def create(app: Tickwork, connection: object, number: int) -> None:
    target: Any = {"type": "queue", "queue": QUEUE}
    name = f"order-{number}"
    await app.schedules.create(name=name, interval_minutes=60, target=target, connection=connection)


async def change(app: Tickwork, connection: object, number: int) -> None:
    """It creates, updates and deletes; what is left is an update."""
    await create(app, connection, number)
    await create(app, connection, number + 100)
    await app.schedules.update(f"order-{number}", interval_minutes=90, connection=connection)
    await app.schedules.delete(f"order-{number + 100}", connection=connection)


async def changed(app: Tickwork) -> set[int]:
    found = await app.schedules.list()
    assert {schedule.interval_minutes for schedule in found} <= {90}
    return {number_of(schedule.name) for schedule in found}


async def batch(app: Tickwork, connection: object, number: int) -> None:
    items = [{"item": item} for item in range(3)]
    await app.batch(ITEMS, items, source=f"order-{number}", connection=connection)


async def batches(app: Tickwork) -> set[int]:
    found = await app.batches.list()
    assert all(stored.total == 3 for stored in found)
    assert len(await app.messages.list(ITEMS)) == 3 * len(found)
    return await orders_in(app, ITEMS)


def number_of(name: str | None) -> int:
    return int(str(name).removeprefix("order-"))


VERBS: dict[str, tuple[Verb, Known]] = {
    "send": (send, messages),
    "send_batch": (send_batch, many_messages),
    "publish": (publish, published),
    "start": (start, runs),
    "send_event": (send_event, events_of_run),
    "change": (change, changed),
    "batch": (batch, batches),
}
"""A verb for an order, and the orders for which its effect is stored."""


@asynccontextmanager
async def app_of(home: Home) -> AsyncIterator[Tickwork]:
    app = Tickwork(home.url)
    for queue in (QUEUE, MANY, ITEMS, COPIES):
        app.queue(queue)

    @app.workflow()
    async def ship(step: Any, order: int) -> None:
        """Nothing runs it here."""

    @app.workflow()
    async def wait(step: Any, order: int) -> None:
        """Nothing runs it here."""

    try:
        await app.subscriptions.create("order.*", COPIES)
        await app.workflows.start("wait", 0, id="known", on_conflict="use_existing")
        yield app
    finally:
        await app.close()


@pytest.fixture
async def shop(
    request: pytest.FixtureRequest, homes: Homes, pools: KeptPools
) -> AsyncIterator[tuple[Home, Caller]]:
    """A database and a caller with a table of orders there."""
    driver = request.param
    kind = DRIVERS[driver]().kind
    async with homes.take(kind, pools) as home, caller_of(driver, home) as caller:
        await caller.begin()
        await caller.execute("CREATE TABLE orders (number bigint PRIMARY KEY)")
        await caller.commit()
        try:
            yield home, caller
        finally:
            await caller.begin()
            await caller.execute("DROP TABLE orders")
            await caller.commit()


async def orders_of(home: Home) -> set[int]:
    """The orders that are stored, seen by another connection."""
    driver = "asyncpg" if home.kind == "postgres" else "sqlite3"
    async with caller_of(driver, home) as other:
        if home.kind == "postgres":
            return {row["number"] for row in await other.given.fetch("SELECT number FROM orders")}
        return {row[0] for row in other.given.execute("SELECT number FROM orders")}


def on_every(*drivers: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shop", drivers or DRIVERS, indirect=True)


@on_every()
async def test_verbs_are_stored_if_and_only_if_the_callers_row_is(
    shop: tuple[Home, Caller],
) -> None:
    home, caller = shop
    async with app_of(home) as app:

        async def order(number: int) -> None:
            await caller.execute(f"INSERT INTO orders VALUES ({number})")
            for act, _ in VERBS.values():
                await act(app, caller.given, number)

        await caller.begin()
        await order(1)
        await caller.commit()
        await caller.begin()
        await order(2)
        await caller.rollback()
        await caller.begin()
        await order(3)
        await caller.execute("SAVEPOINT mine")
        await order(4)
        await caller.execute("ROLLBACK TO SAVEPOINT mine")
        await order(5)
        await caller.commit()
        assert await orders_of(home) == {1, 3, 5}
        stored = {verb: await known(app) for verb, (_, known) in VERBS.items()}
        assert stored == {verb: {1, 3, 5} for verb in VERBS}
        await caller.begin()
        await send(app, caller.given, 6)  # It is the first statement of its transaction.
        await caller.commit()
        assert await messages(app) == {1, 3, 5, 6}


@on_every()
async def test_only_what_is_committed_is_counted(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app:
        for end in (caller.commit, caller.rollback, caller.commit):
            await caller.begin()
            await send(app, caller.given, 1)
            await caller.execute("SAVEPOINT mine")
            await send(app, caller.given, 2)
            await caller.execute("ROLLBACK TO SAVEPOINT mine")
            await send(app, caller.given, 3)
            await end()

        async def is_counted() -> bool:
            stats = await app.queue(QUEUE).stats()
            sent = sum(count.messages for count in stats.minutes if count.counter == "sent")
            assert sent <= 4
            return sent == 4

        await eventually(is_counted)


@on_every("asyncpg", "psycopg", "sqlite3")
async def test_a_consumer_is_woken_by_the_callers_commit(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    handled: asyncio.Queue[int] = asyncio.Queue()
    app = Tickwork(home.url)
    app.queue(QUEUE)

    @app.on(QUEUE)
    async def handle(message: Any) -> None:
        handled.put_nowait(message.body["order"])

    async with app.running(roles=["worker"]):
        for number in (1, 2):
            await caller.begin()
            await send(app, caller.given, number)
            await caller.commit()
            assert await asyncio.wait_for(handled.get(), 5) == number


@on_every("asyncpg", "psycopg", "psycopg-async")
async def test_many_messages_are_stored_if_the_caller_commits(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app:
        for commits in (True, False):
            await caller.begin()
            await app.queue(MANY).send_batch([{}] * 500, connection=caller.given)
            await (caller.commit() if commits else caller.rollback())
        assert (await app.queue(MANY).stats()).counts.ready == 500


@on_every()
async def test_an_error_of_a_verb_leaves_the_callers_transaction_as_it_was(
    shop: tuple[Home, Caller],
) -> None:
    home, caller = shop
    async with app_of(home) as app:
        app.queue("small", backlog_bytes_max=128_000)
        await caller.begin()
        await caller.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(Exception, match="small"):
            await app.queue("small").send_batch(["x" * 70_000] * 2, connection=caller.given)
        with pytest.raises(Exception, match="small"):
            await app.batch("small", ["x" * 70_000] * 2, connection=caller.given)
        await send(app, caller.given, 1)
        await caller.commit()
        assert await messages(app) == await orders_of(home) == {1}
        assert await app.messages.list("small") == ()
        assert await app.batches.list() == ()


@on_every(*(name for name, driver in DRIVERS.items() if not driver().begins))
async def test_a_connection_without_a_transaction_is_refused(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app:
        with pytest.raises(InvalidInput, match="not in a transaction; begin one first"):
            await send(app, caller.given, 1)
        assert await messages(app) == set()


async def test_what_is_no_connection_is_refused_with_what_to_pass(home: Home) -> None:
    async with app_of(home) as app:
        pool = asyncpg.create_pool("postgresql://nowhere")
        for given, fault in [
            (pool, "is a Pool, which has many connections; pass"),
            ("orders.db", "is a builtins.str; pass the connection"),
        ]:
            with pytest.raises(InvalidInput, match=fault):
                await send(app, given, 1)


@on_every("asyncpg")
async def test_a_connection_is_used_while_the_pool_has_lent_it(shop: tuple[Home, Caller]) -> None:
    home, _ = shop
    pool = await asyncpg.create_pool(home.url, min_size=1, max_size=1)
    async with app_of(home) as app:
        async with pool.acquire() as connection, connection.transaction():
            await send(app, connection, 1)
        with pytest.raises(InvalidInput, match="was given back to its pool; pass it while you"):
            await send(app, connection, 2)
        assert await messages(app) == {1}
    await pool.close()


@on_every("psycopg", "psycopg-async", "sqlite3", "aiosqlite", "django")
async def test_a_cursor_is_refused(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app:
        await caller.begin()
        cursor = caller.given.cursor()
        if asyncio.iscoroutine(cursor) or hasattr(cursor, "__await__"):
            cursor = await cursor
        with pytest.raises(InvalidInput, match=r"is a \w*Cursor\w*; pass the connection"):
            await send(app, cursor, 1)
        await caller.rollback()


@on_every("psycopg", "psycopg-async")
async def test_a_pipeline_is_refused(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app, AsyncExitStack() as stack:
        pipeline = caller.given.pipeline()
        if hasattr(pipeline, "__aenter__"):
            await stack.enter_async_context(pipeline)
        else:
            stack.enter_context(pipeline)
        with pytest.raises(InvalidInput, match="is in pipeline mode; call Tickwork before"):
            await send(app, caller.given, 1)


@on_every("asyncpg", "psycopg")
async def test_a_role_without_the_rights_of_monitoring_sends(shop: tuple[Home, Caller]) -> None:
    home, caller = shop
    async with app_of(home) as app:
        await caller.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        await caller.execute("CREATE ROLE tickwork_web")
        await caller.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO tickwork_web"
        )
        await caller.commit() if caller.begins else None
        try:
            await caller.begin()
            await caller.execute("SET LOCAL ROLE tickwork_web")
            await send(app, caller.given, 1)
            await caller.commit()
            assert await messages(app) == {1}
        finally:
            await caller.begin()
            await caller.execute("DROP OWNED BY tickwork_web; DROP ROLE tickwork_web")
            await caller.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
            await caller.commit()


@on_every("asyncpg", "psycopg-async")
async def test_a_queue_younger_than_the_transaction_says_to_repeat(
    shop: tuple[Home, Caller],
) -> None:
    home, caller = shop
    async with app_of(home) as app:
        await caller.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await caller.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(NotFound, match="began before the queue was created, repeat it"):
            await app.queue("young").send(1, connection=caller.given)
        await caller.rollback()
        await caller.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await app.queue("young").send(1, connection=caller.given)
        await caller.commit()
        assert len(await app.messages.list("young")) == 1


@on_every("asyncpg")
async def test_a_connection_that_changes_the_types_of_values_is_refused(
    shop: tuple[Home, Caller],
) -> None:
    home, caller = shop
    async with app_of(home) as app:
        await caller.given.set_type_codec(
            "uuid", encoder=str, decoder=str, schema="pg_catalog", format="text"
        )
        await caller.begin()
        with pytest.raises(InvalidInput, match="has a codec or loader of its own for uuid"):
            await send(app, caller.given, 1)
        await caller.rollback()


async def test_a_transaction_that_locks_a_file_without_tables_is_refused(tmp_path: Path) -> None:
    app, connection = Tickwork(f"sqlite:///{tmp_path}/new.db"), sqlite3.connect(tmp_path / "new.db")
    try:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(InvalidInput, match=r"without the tables .* `await app.open\(\)`"):
            await send(app, connection, 1)
        connection.rollback()
        await app.open()
        connection.execute("BEGIN IMMEDIATE")
        await send(app, connection, 1)
        connection.commit()
        assert await messages(app) == {1}
    finally:
        connection.close()
        await app.close()
