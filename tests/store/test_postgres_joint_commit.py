"""Joint settlements on PostgreSQL that share a transaction, and those that must not."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import asyncpg
import pytest

from tests.conformance.acts import ack, counts, make_queue, pull, send_many
from tests.conformance.barriers import Rival
from tests.kit.waiting import eventually
from tests.stores.open_homes import Homes
from tickwork.app.invocation import Rows, Written
from tickwork.core.model import DEFAULT, Counts, Message, Settlement
from tickwork.errors import StoreUnavailable
from tickwork.store.message_contract import Joined
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.messages.joint_commit import FLIGHTS_MAX, ROLLBACK_ATTEMPTS_MAX
from tickwork.store.shared.joint_commit import TOGETHER_MAX

Write = Callable[[Any], Awaitable[Any]]

BOOK = "INSERT INTO booked VALUES ($1, pg_current_xact_id()::text)"
A_ROLE = "pg_monitor"
"""A role that exists on every server."""

HELD_UP_SECONDS_MAX = 10.0


@pytest.fixture
async def url(homes: Homes) -> AsyncIterator[str]:
    """A database with a table of a caller's own."""
    async with homes.take("postgres", None) as home:
        connection = await asyncpg.connect(home.url)
        await connection.execute("CREATE TABLE booked (entry text NOT NULL, within text)")
        await connection.execute("CREATE TABLE sums (name text PRIMARY KEY, value int DEFAULT 0)")
        await connection.execute("INSERT INTO sums VALUES ('x'), ('y')")
        await connection.close()
        yield home.url


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    opened = await PostgresStore.open(url)
    await make_queue(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def own(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection of the caller's own."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


def book(entry: str) -> Write:
    return lambda connection: connection.execute(BOOK, entry)


async def held(store: PostgresStore, number: int) -> tuple[Message, ...]:
    await send_many(store, number)
    return await pull(store)


def settling(store: PostgresStore, message: Message, write: Joined) -> Awaitable[None]:
    return store.messages.settle_jointly(DEFAULT, Settlement((ack(message),)), write)


async def settle_at_once(store: PostgresStore, *writes: Write) -> list[BaseException | None]:
    """New messages, each with a write, settled concurrently."""
    return await settle_these(store, await held(store, len(writes)), *writes)


async def settle_these(
    store: PostgresStore, messages: Sequence[Message], *writes: Write
) -> list[BaseException | None]:
    pairs = zip(messages, writes, strict=True)
    return await asyncio.gather(*(settling(store, *pair) for pair in pairs), return_exceptions=True)


async def entries(own: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    return [row["entry"] for row in await own.fetch("SELECT entry FROM booked ORDER BY entry")]


async def test_concurrent_joint_settlements_share_a_commit(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    number = 2 * TOGETHER_MAX
    assert await settle_at_once(store, *[book("paid")] * number) == [None] * number
    assert await entries(own) == ["paid"] * number
    assert await own.fetchval("SELECT count(DISTINCT within) FROM booked") == 2
    assert await counts(store) == Counts()


async def test_a_joint_settlement_during_a_commit_joins_the_next_group(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    """No settlement waits to fill a group: the first run at once, the rest after them."""
    began, goes_on = asyncio.Semaphore(0), asyncio.Event()

    async def waits(connection: Any) -> None:
        began.release()
        await goes_on.wait()
        await book("first")(connection)

    messages = await held(store, FLIGHTS_MAX + 20)
    firsts: list[asyncio.Future[None]] = []
    for message in messages[:FLIGHTS_MAX]:
        firsts.append(asyncio.ensure_future(settling(store, message, waits)))
        await began.acquire()
    rest = [
        asyncio.ensure_future(settling(store, message, book("rest")))
        for message in messages[FLIGHTS_MAX:]
    ]
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(*firsts, *rest)
    found = await own.fetch("SELECT entry, count(DISTINCT within) AS n FROM booked GROUP BY entry")
    commits = {row["entry"]: row["n"] for row in found}
    assert commits["first"] == FLIGHTS_MAX
    assert commits["rest"] <= FLIGHTS_MAX


async def test_session_state_of_one_joint_settlement_is_not_visible_to_the_next(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    """A search path, a role, a temporary table."""

    async def leaves_much(connection: Any) -> None:
        await connection.execute("CREATE TEMP TABLE IF NOT EXISTS mine (v int) ON COMMIT DROP")
        await connection.execute("INSERT INTO mine VALUES (1)")
        assert await connection.fetchval("SELECT count(*) FROM mine") == 1
        assert await connection.fetchval("SELECT current_user") != A_ROLE
        await book(await connection.fetchval("SHOW search_path"))(connection)
        await connection.execute("SET LOCAL search_path = nowhere")
        await connection.execute(f"SET LOCAL ROLE {A_ROLE}")

    assert await settle_at_once(store, *[leaves_much] * 4) == [None] * 4
    assert len(set(await entries(own))) == 1
    assert await own.fetchval("SELECT count(DISTINCT within) FROM booked") == 1


async def test_a_joint_settlement_that_ends_its_session_fails_alone(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async def ends_it(connection: Any) -> None:
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    answers = await settle_at_once(store, book("a"), ends_it, book("b"))
    assert [type(answer) for answer in answers] == [type(None), StoreUnavailable, type(None)]
    assert await entries(own) == ["a", "b"]
    assert await counts(store) == Counts(claimed=1)


def saying(*statements: str) -> Write:
    async def say(connection: Any) -> None:
        await book("never")(connection)
        for statement in statements:
            await connection.execute(statement)

    return say


async def commits_and_goes_on(connection: Any) -> None:
    """Whatever the server answered."""
    with suppress(asyncpg.PostgresError):
        await connection.execute("COMMIT")
    await connection.execute("BEGIN")
    await book("never")(connection)


ENDS_IT = {
    "rollback": saying("ROLLBACK"),
    "commit": saying("COMMIT"),
    "both": saying("ROLLBACK; BEGIN"),
    "in turn": saying("ROLLBACK", "BEGIN", BOOK.replace("$1", "'never'")),
    "chain": saying("COMMIT AND CHAIN"),
    "rolled back and goes on": saying("ROLLBACK AND CHAIN", BOOK.replace("$1", "'never'")),
    "another": saying("COMMIT; BEGIN"),
    "hidden": saying("SELECT 1; /* the end */ END"),
    "prepared": saying("PREPARE TRANSACTION 'mine'"),
    "failed later": saying("ROLLBACK", "SELECT 1 / 0"),
    "caught": commits_and_goes_on,
}


@pytest.mark.parametrize("name", ENDS_IT)
async def test_a_caller_cannot_end_the_transaction_it_joins(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]", name: str
) -> None:
    """Neither alone nor in a group, and the others are not affected."""
    message, *rest = await held(store, 4)
    with pytest.raises(RuntimeError, match="must not begin, commit or roll back"):
        await settling(store, message, ENDS_IT[name])
    assert (await entries(own), await counts(store)) == ([], Counts(claimed=4))
    writes = book("a"), ENDS_IT[name], book("b")
    answers = await settle_these(store, rest, *writes)
    assert [type(answer) for answer in answers] == [type(None), RuntimeError, type(None)]
    assert (await entries(own), await counts(store)) == (["a", "b"], Counts(claimed=2))
    await settling(store, message, book("c"))
    assert await entries(own) == ["a", "b", "c"]


async def test_rows_written_after_a_rollback_are_not_committed(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    (message,) = await held(store, 1)
    written = Written()
    rows = Rows(written)
    rows.execute("ROLLBACK")
    rows.execute(BOOK, "never")
    with pytest.raises(RuntimeError, match="must not begin, commit or roll back"):
        await settling(store, message, written.joined)
    assert (await entries(own), await counts(store)) == ([], Counts(claimed=1))


async def test_a_plain_function_is_refused_and_writes_nothing(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    (message,) = await held(store, 1)
    written = Written()
    Rows(written).run(lambda connection: connection.get_settings() and None)
    with pytest.raises(TypeError, match="must be `async def`"):
        await settling(store, message, written.joined)
    assert (await entries(own), await counts(store)) == ([], Counts(claimed=1))


async def test_setting_a_codec_is_refused(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async def sets_a_codec(connection: Any) -> None:
        await book("never")(connection)
        await connection.set_type_codec("text", schema="pg_catalog", encoder=str, decoder=len)

    answers = await settle_at_once(store, book("a"), sets_a_codec, book("b"))
    assert [type(answer) for answer in answers] == [type(None), RuntimeError, type(None)]
    assert (await entries(own), await counts(store)) == (["a", "b"], Counts(claimed=1))


async def test_a_caller_may_catch_an_error_inside_its_own_savepoint(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async def tries(connection: Any) -> None:
        await book("kept")(connection)
        with suppress(asyncpg.DivisionByZeroError):
            async with connection.transaction():
                await book("never")(connection)
                await connection.execute("SELECT 1 / 0")
        await connection.execute("SAVEPOINT mine; ROLLBACK TO mine; RELEASE mine")

    assert await settle_at_once(store, tries) == [None]
    assert await settle_at_once(store, tries, tries) == [None] * 2
    assert await entries(own) == ["kept"] * 3


async def test_a_deferred_constraint_fails_only_its_own_settlement(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await own.execute(
        "ALTER TABLE booked ADD FOREIGN KEY (entry) REFERENCES sums DEFERRABLE INITIALLY DEFERRED"
    )
    answers = await settle_at_once(store, book("x"), book("not there"), book("y"))
    assert [type(answer) for answer in answers] == [
        type(None),
        asyncpg.ForeignKeyViolationError,
        type(None),
    ]
    assert await entries(own) == ["x", "y"]


async def gives_up(_: object) -> None:
    raise asyncio.CancelledError


async def cancels_itself(_: object) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


async def awaits_something_cancelled(_: object) -> None:
    other = asyncio.create_task(asyncio.Event().wait())
    other.cancel()
    await other


async def exits(_: object) -> None:
    sys.exit("that is all")


async def is_interrupted(_: object) -> None:
    raise KeyboardInterrupt


async def leaves_like_a_generator(_: object) -> None:
    raise GeneratorExit


class Unlucky(BaseException):
    """An error that is not an `Exception`."""


async def raises_unusually(_: object) -> None:
    raise Unlucky


@pytest.mark.parametrize(
    "write",
    [
        gives_up,
        cancels_itself,
        awaits_something_cancelled,
        exits,
        is_interrupted,
        leaves_like_a_generator,
        raises_unusually,
    ],
)
async def test_a_write_that_aborts_the_transaction_fails_alone(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]", write: Write
) -> None:
    answers = await settle_at_once(store, book("a"), write, book("b"))
    assert [type(answer) for answer in answers] == [type(None), RuntimeError, type(None)]
    assert await entries(own) == ["a", "b"]
    assert await counts(store) == Counts(claimed=1)


async def test_a_caller_cancelled_during_its_write_is_cancelled(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    begun = asyncio.Event()

    async def waits(connection: Any) -> None:
        await book("never")(connection)
        begun.set()
        await asyncio.Event().wait()

    (message,) = await held(store, 1)
    task = asyncio.ensure_future(settling(store, message, waits))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await entries(own), await counts(store)) == ([], Counts(claimed=1))


async def test_a_caller_that_waits_for_a_lock_does_not_block_others(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    rival = Rival(own)
    await rival.does("UPDATE sums SET value = 1 WHERE name = 'x'")

    async def waits(connection: Any) -> None:
        await connection.execute("UPDATE sums SET value = value + 1 WHERE name = 'x'")

    one, two, three = await held(store, 3)
    waiting = asyncio.ensure_future(settling(store, two, waits))
    async with asyncio.timeout(HELD_UP_SECONDS_MAX):
        await asyncio.gather(settling(store, one, book("a")), settling(store, three, book("b")))
    assert not waiting.done()
    await eventually(rival.is_waited_for)
    await rival.commits()
    await waiting
    assert await own.fetchval("SELECT value FROM sums WHERE name = 'x'") == 2


async def test_groups_that_deadlock_all_commit_once(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]", url: str
) -> None:
    """Each write locks one row, so single writes cannot deadlock; two groups can."""
    other = await PostgresStore.open(url)
    has_first = {"x": asyncio.Event(), "y": asyncio.Event()}

    def adding(name: str, then: str) -> Write:
        async def add(connection: Any) -> None:
            await connection.execute("UPDATE sums SET value = value + 1 WHERE name = $1", name)
            has_first[name].set()
            await has_first[then].wait()

        return add

    messages = await held(store, 4)
    answers = await asyncio.gather(
        settle_these(store, messages[:2], adding("x", "y"), adding("y", "x")),
        settle_these(other, messages[2:], adding("y", "x"), adding("x", "y")),
    )
    await other.close()
    assert [*answers[0], *answers[1]] == [None] * 4
    assert [row["value"] for row in await own.fetch("SELECT value FROM sums")] == [2, 2]


async def test_writes_undone_by_another_transaction_are_retried_a_bounded_number_of_times(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    calls = 0

    def undone(times: int) -> Write:
        async def write(connection: Any) -> None:
            nonlocal calls
            calls += 1
            await book("done")(connection)
            if calls <= times:
                await connection.execute(
                    "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$"
                )

        return write

    assert await settle_at_once(store, undone(ROLLBACK_ATTEMPTS_MAX - 1)) == [None]
    assert (calls, await entries(own)) == (ROLLBACK_ATTEMPTS_MAX, ["done"])
    calls = 0
    (answer,) = await settle_at_once(store, undone(1_000))
    assert isinstance(answer, asyncpg.DeadlockDetectedError)
    assert (calls, await entries(own)) == (ROLLBACK_ATTEMPTS_MAX, ["done"])


async def test_each_write_runs_in_its_callers_context(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    caller: ContextVar[str] = ContextVar("caller")

    async def say_who(connection: Any) -> None:
        await book(caller.get())(connection)

    async def call(name: str, message: Message) -> None:
        caller.set(name)
        await settling(store, message, say_who)

    messages = await held(store, 3)
    await asyncio.gather(*(call(*pair) for pair in zip("abc", messages, strict=True)))
    assert await entries(own) == ["a", "b", "c"]
    assert await own.fetchval("SELECT count(DISTINCT within) FROM booked") == 1


async def test_a_caller_cancelled_before_its_turn_has_no_effect(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    messages = await held(store, 3)
    tasks = [
        asyncio.ensure_future(settling(store, message, book(str(place))))
        for place, message in enumerate(messages)
    ]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [
        type(None),
        asyncio.CancelledError,
        type(None),
    ]
    assert await entries(own) == ["0", "2"]
    assert await counts(store) == Counts(claimed=1)


async def test_after_a_failed_group_the_next_settlements_run_separately_for_a_while(
    store: PostgresStore, own: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async def fails(_: object) -> None:
        raise ConnectionError("the mail server is down")

    answers = await settle_at_once(store, fails, book("a"))
    assert isinstance(answers[0], ConnectionError)
    await settle_at_once(store, *[book("b")] * TOGETHER_MAX)
    await settle_at_once(store, *[book("c")] * TOGETHER_MAX)
    found = await own.fetch(
        "SELECT entry, count(DISTINCT within) AS commits FROM booked GROUP BY entry ORDER BY entry"
    )
    assert [row["commits"] for row in found] == [1, TOGETHER_MAX, 1]
