"""`tickwork_send` of PostgreSQL does what `send` does: the same rows, the same refusals."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from tests.docs.snippets import blocks
from tests.docs.test_own_transaction import PAGE
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Conflict, InvalidInput, Tickwork, TickworkError
from tickwork.core.limits import ENTITIES_PREFIX, HIDDEN_QUEUES, RUNS_QUEUE_PREFIX
from tickwork.core.model import SYSTEM
from tickwork.core.options import names_of
from tickwork.core.options.message import SendOptions

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Send = Callable[..., Awaitable[str]]

QUEUE, SMALL, COPIES, SMALL_COPIES = "emails", "small", "copies", "small-copies"
TYPE = "order.made"
OPTIONS: dict[str, Any] = {
    "type": TYPE,
    "key": "k",
    "event_id": "e",
    "delay_seconds": 5.5,
    "expires_after_seconds": 60.0,
    "priority": 9,
    "source": "till",
    "correlation_id": "c",
    "causation_id": "d",
}

_ROWS = """
SELECT json_build_object(
    'messages', (
        SELECT json_agg(
            to_jsonb(m) - '{id,sent_at,visible_at,expires_at}'::text[] || jsonb_build_object(
                'delay', visible_at - sent_at, 'lasts', expires_at - sent_at
            ) ORDER BY sent_at
        ) FROM tickwork_messages AS m
    ),
    'keys', (SELECT json_agg(to_jsonb(k) ORDER BY queue_id, key) FROM tickwork_keys AS k),
    'backlogs', (
        SELECT json_object_agg(queue_id, bytes) FROM (
            SELECT queue_id, sum(bytes) AS bytes FROM tickwork_backlogs GROUP BY queue_id
        ) AS b
    ),
    'dead', (
        SELECT json_agg(to_jsonb(d) - '{id,message_id,sent_at,failed_at}'::text[])
        FROM tickwork_dead_letters AS d
    )
)
"""
_TAKE_ALL = "SELECT set_config('search_path', '', true)"


@asynccontextmanager
async def shop(home: Home, tenant: str = "default") -> AsyncIterator[tuple[Tickwork, Connection]]:
    """An app with queues, and a connection of its user."""
    app, connection = Tickwork(home.url, tenant=tenant), await asyncpg.connect(home.url)
    for queue in (QUEUE, COPIES):
        app.queue(queue)
    for queue in (SMALL, SMALL_COPIES):
        app.queue(queue, backlog_bytes_max=128_000)
    try:
        await app.open()
        for queue in (COPIES, SMALL_COPIES):
            await app.subscriptions.create("order.*", queue)
        yield app, connection
    finally:
        await connection.close()
        await app.close()


def by_function(connection: Connection, tenant: str = "default") -> Send:
    """Sends in SQL, from a session that finds none of our tables."""

    async def send(queue: str, body: object, **options: Any) -> str:
        given = "".join(f", {name} => ${at}" for at, name in enumerate(options, 4))
        sql = f"SELECT public.tickwork_send($1, $2::jsonb, tenant => $3{given})"
        await connection.execute(_TAKE_ALL)
        sent: str = await connection.fetchval(
            sql, queue, json.dumps(body), tenant, *options.values()
        )
        await connection.execute("SET LOCAL search_path = public")
        return sent

    return send


def by_python(app: Tickwork, connection: Connection) -> Send:
    async def send(queue: str, body: object, **options: Any) -> str:
        return await app.queue(queue).send(body, connection=connection, **options)

    return send


def ways(app: Tickwork, connection: Connection, tenant: str = "default") -> tuple[Send, Send]:
    return by_python(app, connection), by_function(connection, tenant)


def sends() -> Iterator[tuple[str, dict[str, Any]]]:
    """Queues to send to, with options: none, each by itself, and all."""
    assert OPTIONS.keys() == names_of(SendOptions) - {"content_type"}
    yield QUEUE, {}
    for name, value in OPTIONS.items():
        yield QUEUE, {name: value}
    for queue in (QUEUE, SMALL, COPIES):
        yield queue, OPTIONS


async def test_it_leaves_the_rows_that_send_leaves(home: Home) -> None:
    async with shop(home) as (app, connection):
        for queue, options in sends():
            left = []
            for send in ways(app, connection):
                transaction = connection.transaction()
                await transaction.start()
                await app.queue(QUEUE).send("first", key="k", connection=connection)
                for _ in range(2):  # The second waits for the first if they have a key.
                    await send(queue, "x", **options)
                left.append(json.loads(await connection.fetchval(_ROWS)))
                await transaction.rollback()
            assert left[0] == left[1], (queue, options)
            copies = 2 if options.get("type") == TYPE else 0
            assert len(left[0]["messages"]) == 3 + 2 * copies - (queue == COPIES) * 2


async def test_its_ids_are_those_that_users_see(home: Home) -> None:
    async with shop(home) as (app, connection):
        send = by_function(connection)
        async with connection.transaction():
            sent = [await send(QUEUE, {"number": number}) for number in range(3)]
        bodies = [(await app.messages.get(message_id)).body for message_id in sent]
        assert bodies == [{"number": number} for number in range(3)]
        assert {UUID(message_id.removeprefix("msg_")).version for message_id in sent} == {7}


def wrong() -> Iterator[tuple[str, dict[str, Any]]]:
    """Bodies and options that a send refuses."""
    yield "x" * 128_000, {}
    texts = ("event_id", "type", "source", "correlation_id", "causation_id")
    values: dict[str, tuple[Any, ...]] = {
        "key": ("", "k" * 121),
        "priority": (-1, 10),
        "delay_seconds": (-1.0, 31_536_001.0, float("nan")),
        "expires_after_seconds": (0.0, 31_536_001.0, float("nan")),
        **dict.fromkeys(texts, ("", "x" * 513)),
    }
    for name, bad in values.items():
        for value in bad:
            yield "x", {name: value}


async def test_it_refuses_what_send_refuses(home: Home) -> None:
    async with shop(home) as (app, connection), connection.transaction():
        python, function = ways(app, connection)
        for body, options in wrong():
            with pytest.raises(InvalidInput) as refused:
                await python(QUEUE, body, **options)
            (fault,) = refused.value.errors
            async with rolled_back(connection):
                with pytest.raises(asyncpg.InvalidParameterValueError) as error:
                    await function(QUEUE, body, **options)
            name = fault.field.rpartition(".")[2]
            assert str(error.value) == f"tickwork_send: {name} {fault.message}"


async def test_it_takes_what_send_takes_at_most(home: Home) -> None:
    most = {
        "key": "k" * 120,
        "priority": 0,
        "delay_seconds": 31_536_000.0,
        "expires_after_seconds": 31_536_000.0,
        "source": "s" * 512,
    }
    async with shop(home) as (app, connection), connection.transaction():
        for send in ways(app, connection):
            await send(QUEUE, "x" * 127_998, **most)


async def test_it_refuses_queues_of_our_own_and_those_that_do_not_exist(home: Home) -> None:
    hidden = [*HIDDEN_QUEUES, f"{RUNS_QUEUE_PREFIX}x", f"{ENTITIES_PREFIX}x"]
    refusals = [
        *[
            ("22023", "is used by Tickwork itself; choose another queue", name, {})
            for name in hidden
        ],
        ("22023", "queue is missing; give the name of a queue", None, {}),
        ("42704", "the queue emials does not exist", "emials", {}),
        ("42704", "the tenant nobody does not exist", QUEUE, {"tenant": "nobody"}),
    ]
    async with shop(home) as (app, connection), connection.transaction():
        for sqlstate, fault, queue, options in refusals:
            async with rolled_back(connection):
                send = by_function(connection, **options)
                with pytest.raises(asyncpg.PostgresError, match=fault) as error:
                    await send(queue, 1)
                assert error.value.sqlstate == sqlstate
        for name in hidden:
            with pytest.raises(InvalidInput, match="is used by Tickwork itself"):
                await by_python(app, connection)(name, 1)


@asynccontextmanager
async def rolled_back(connection: Connection) -> AsyncIterator[None]:
    """What happens in a savepoint that is rolled back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


@pytest.mark.parametrize(
    ("limit", "most"),
    [({"payload_bytes_max": 3}, 2), ({"backlog_max": 2}, 2), ({"messages_per_second": 0.01}, 1)],
)
async def test_quotas_of_a_tenant_hold(home: Home, limit: dict[str, Any], most: int) -> None:
    async with shop(home) as (operator, _):
        await operator.tenants.create("acme", **limit)
        async with shop(home, "acme") as (app, connection):
            accepted = []
            for send in ways(app, connection, "acme"):
                async with rolled_back(connection):
                    accepted.append(await until_refused(connection, send))
            assert accepted == [most, most]


async def until_refused(connection: Connection, send: Send) -> int:
    """How many bodies are accepted, each longer than the one before it."""
    for accepted in count():
        try:
            async with connection.transaction():
                await send(QUEUE, "x" * accepted)
        except (TickworkError, asyncpg.ConfigurationLimitExceededError):
            return accepted
    raise AssertionError("a quota holds")


async def test_a_cap_holds_and_a_copy_beyond_that_of_a_subscriber_dies(home: Home) -> None:
    async with shop(home) as (app, connection):
        store, dead = await home.open(), []
        try:
            async with connection.transaction():
                await app.queue(SMALL).send("x" * 127_997, connection=connection)
                with pytest.raises(
                    asyncpg.ConfigurationLimitExceededError, match="is at its limit"
                ):
                    async with connection.transaction():
                        await by_function(connection)(SMALL, "x")
            await app.queue(SMALL_COPIES).send("x" * 127_997)
            for send in ways(app, connection):
                async with connection.transaction():
                    await send(QUEUE, "x", **OPTIONS)
                await store.reaper.reap(SYSTEM, 100)
                rows = json.loads(await connection.fetchval(_ROWS))
                dead.append(rows["dead"])
                assert len(rows["messages"]) == 4, "the others, the message and the other copy"
                assert await connection.execute("DELETE FROM tickwork_dead_letters") == "DELETE 1"
                await connection.execute("DELETE FROM tickwork_messages WHERE source = 'till'")
                await connection.execute("DELETE FROM tickwork_keys")
            assert dead[0] == dead[1]
            assert dead[0][0]["reason"] == "backlog_full"
        finally:
            await store.close()


async def test_it_is_sent_if_and_only_if_the_callers_row_is(home: Home) -> None:
    async with shop(home) as (app, connection):
        await connection.execute("CREATE TEMPORARY TABLE orders (number integer)")
        for number, is_kept in enumerate((True, False, True)):
            transaction = connection.transaction()
            await transaction.start()
            await order(connection, number)
            async with rolled_back(connection):
                await order(connection, number + 10)
            await order(connection, number + 20)
            await (transaction.commit() if is_kept else transaction.rollback())
        orders = await connection.fetch("SELECT number FROM orders ORDER BY number")
        sent = [message.body for message in await app.messages.list(QUEUE)]
        assert sorted(sent) == [row["number"] for row in orders] == [0, 2, 20, 22]


async def order(connection: Connection, number: int) -> None:
    await connection.execute("INSERT INTO orders VALUES ($1)", number)
    await connection.fetchval("SELECT tickwork_send($1, to_jsonb($2::integer))", QUEUE, number)


async def test_it_and_a_sender_in_python_take_turns_in_a_key(home: Home) -> None:
    async with shop(home) as (app, first):
        second = await asyncpg.connect(home.url)
        for ahead, behind in (
            (by_python(app, first), by_function(second)),
            (by_function(first), by_python(app, second)),
        ):
            own, other = first.transaction(), second.transaction()
            await own.start()
            await other.start()
            await ahead(QUEUE, 1, key="k")
            sending = asyncio.ensure_future(behind(QUEUE, 2, key="k"))
            done, _ = await asyncio.wait([sending], timeout=0.2)
            assert not done
            await own.commit()
            await sending
            await other.commit()
        await second.close()
        found = await app.messages.list(QUEUE, key="k")
        assert [message.body for message in found] == [1, 2, 1, 2]


async def test_no_queue_is_deleted_under_a_send(home: Home) -> None:
    async with shop(home) as (app, connection):
        for send in ways(app, connection):
            await connection.execute("BEGIN")
            await send(QUEUE, 1)
            deleting = asyncio.ensure_future(app.queues.delete(QUEUE))
            done, _ = await asyncio.wait([deleting], timeout=0.2)
            assert not done
            await connection.execute("COMMIT")
            with pytest.raises(Conflict):
                await deleting
            await app.queues.purge(QUEUE)


async def test_consumers_are_notified_of_the_commit(home: Home) -> None:
    async with shop(home) as (app, connection):
        listener, heard = await asyncpg.connect(home.url), set[str]()
        await listener.add_listener("tickwork", lambda *told: heard.add(told[3]))
        rows = await connection.fetch(
            "SELECT id::text FROM tickwork_queues WHERE name = ANY ($1)",
            [QUEUE, COPIES, SMALL_COPIES],
        )
        queue_ids = {row["id"] for row in rows}
        for send in ways(app, connection):
            heard.clear()
            async with connection.transaction():
                await send(QUEUE, 1, type=TYPE)
                await listener.execute("SELECT 1")
                assert not heard
            await eventually(lambda: heard == queue_ids)
        await listener.close()


async def test_the_examples_of_the_page_run_with_the_grants_of_the_page(home: Home) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = [block.text for block in blocks(page) if block.language == "sql"]
    plain, trigger, grants, _outbox = found
    async with shop(home) as (app, connection):
        await connection.execute("CREATE ROLE shop; CREATE TABLE orders (id integer, item text)")
        try:
            await connection.execute(f"{grants}; {trigger}")
            await connection.execute("GRANT INSERT ON orders TO shop")
            async with connection.transaction():
                await connection.execute("SET LOCAL ROLE shop")
                await connection.execute(plain)
                await connection.execute("INSERT INTO orders VALUES (7, 'tea')")
                for queue in (SMALL, QUEUE):
                    await by_function(connection)(queue, 8, **OPTIONS)
            bodies = [message.body for message in await app.messages.list(QUEUE)]
            assert bodies.count({"order": 7}) == 2
            assert {"id": 7, "item": "tea"} in bodies
        finally:
            await connection.execute("DROP TABLE orders; DROP FUNCTION order_made")
            await connection.execute("DROP OWNED BY shop; DROP ROLE shop")
