"""Joint commits on SQLite: a caller's plain function runs on the writer thread."""

import asyncio
import sqlite3
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.store.acts import acked, pull, send, together, write
from tickwork.core.model import DEFAULT, Message, Settlement, SettleResult
from tickwork.errors import ClaimLost
from tickwork.store.message_contract import Joined
from tickwork.store.sqlite import SqliteStore

ENTRY = "INSERT INTO ledger (entry) VALUES ('booked')"


@pytest.fixture
async def message(store: SqliteStore) -> Message:
    """A claimed message, and a table of the caller's own."""
    await write(store, lambda t: t.execute("CREATE TABLE ledger (entry TEXT UNIQUE)").close())
    await send(store)
    (found,) = await pull(store)
    return found


async def book(store: SqliteStore, message: Message, joined: Joined) -> None:
    await store.messages.settle_jointly(DEFAULT, acked(message), joined)


def entries(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return [entry for (entry,) in connection.execute("SELECT entry FROM ledger")]
    finally:
        connection.close()


async def held(store: SqliteStore) -> int:
    return (await store.queues.counts(DEFAULT, "work")).claimed


async def writes_later(connection: Any) -> None:
    connection.execute(ENTRY)


class WritesLater:
    async def __call__(self, connection: Any) -> None:
        connection.execute(ENTRY)


@pytest.mark.parametrize("joined", [writes_later, partial(writes_later), WritesLater()])
async def test_a_coroutine_function_is_refused_before_anything_happens(
    store: SqliteStore, message: Message, path: Path, joined: Joined
) -> None:
    with pytest.raises(TypeError, match="plain function"):
        await book(store, message, joined)
    assert await held(store) == 1
    assert entries(path) == []


async def test_a_function_that_returns_a_coroutine_is_rolled_back(
    store: SqliteStore, message: Message, path: Path
) -> None:
    def writes_and_more(connection: Any) -> Any:
        connection.execute(ENTRY)
        return writes_later(connection)

    with pytest.raises(TypeError, match="awaitable"):
        await book(store, message, writes_and_more)
    assert await held(store) == 1
    assert entries(path) == []


async def test_the_callers_function_runs_on_the_writer_thread(
    store: SqliteStore, message: Message, path: Path
) -> None:
    threads: list[str] = []

    def joined(connection: sqlite3.Connection) -> None:
        connection.execute(ENTRY)
        threads.append(threading.current_thread().name)

    await book(store, message, joined)
    assert threads == ["tickwork-writer"]
    assert entries(path) == ["booked"]
    assert await held(store) == 0


async def test_an_error_of_the_callers_statement_is_raised_unchanged(
    store: SqliteStore, message: Message, path: Path
) -> None:
    def twice(connection: sqlite3.Connection) -> None:
        connection.execute(ENTRY)
        connection.execute(ENTRY)

    def elsewhere(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT * FROM no_such_ledger")

    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        await book(store, message, twice)
    with pytest.raises(sqlite3.OperationalError, match="no_such_ledger"):
        await book(store, message, elsewhere)
    assert await held(store) == 1
    assert entries(path) == []


def gives_up(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    raise asyncio.CancelledError


def exits(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    sys.exit("that is all")


def is_interrupted(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    raise KeyboardInterrupt


def leaves_like_a_generator(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    raise GeneratorExit


async def fails_alone(store: SqliteStore, message: Message, joined: Joined, path: Path) -> None:
    """It fails between two others, which commit; its message is still claimed."""
    for _ in range(2):
        await send(store)
    one, two = await pull(store)
    answers = await asyncio.gather(
        book(store, one, lambda c: c.execute("INSERT INTO ledger VALUES ('one')").close()),
        book(store, message, joined),
        book(store, two, lambda c: c.execute("INSERT INTO ledger VALUES ('two')").close()),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [type(None), RuntimeError, type(None)]
    assert sorted(entries(path)) == ["one", "two"]
    assert await held(store) == 1


@pytest.mark.parametrize("joined", [gives_up, exits, is_interrupted, leaves_like_a_generator])
async def test_a_failing_caller_does_not_fail_others_in_its_group(
    store: SqliteStore, message: Message, path: Path, joined: Joined
) -> None:
    await fails_alone(store, message, joined, path)


def ends_by_method(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    connection.commit()


def ends_by_block(connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute(ENTRY)


def ends_by_statement(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    connection.execute("COMMIT")


def ends_by_rollback(connection: sqlite3.Connection) -> None:
    connection.execute(ENTRY)
    connection.rollback()


def ends_by_script(connection: sqlite3.Connection) -> None:
    connection.executescript(ENTRY)


@pytest.mark.parametrize(
    "joined", [ends_by_method, ends_by_block, ends_by_statement, ends_by_rollback, ends_by_script]
)
async def test_a_caller_cannot_end_the_transaction_it_joins(
    store: SqliteStore, message: Message, path: Path, joined: Joined
) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must not begin, commit or roll back"):
            await book(store, message, joined)
    assert await held(store) == 1
    assert entries(path) == []
    await book(store, message, lambda connection: connection.execute(ENTRY).close())
    assert entries(path) == ["booked"]


async def test_a_caller_may_use_its_own_savepoint(
    store: SqliteStore, message: Message, path: Path
) -> None:
    def joined(connection: sqlite3.Connection) -> None:
        connection.execute(ENTRY)
        connection.execute("SAVEPOINT mine")
        connection.execute("DELETE FROM ledger")
        connection.execute("ROLLBACK TO mine")
        connection.execute("RELEASE mine")

    await book(store, message, joined)
    assert entries(path) == ["booked"]


async def test_the_connections_settings_are_restored(store: SqliteStore, message: Message) -> None:
    def joined(connection: sqlite3.Connection) -> None:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes

    await book(store, message, joined)
    sent = await send(store)
    assert [pulled_message.id for pulled_message in await pull(store)] == [sent]


async def test_the_connection_cannot_be_used_after_the_call(
    store: SqliteStore, message: Message
) -> None:
    kept: list[sqlite3.Connection] = []
    await book(store, message, kept.append)
    with pytest.raises(sqlite3.ProgrammingError, match="thread"):
        kept[0].execute(ENTRY)


async def test_a_deferred_foreign_key_fails_only_its_own_settlement(
    store: SqliteStore, message: Message
) -> None:
    await write(store, lambda t: t.execute(
        "CREATE TABLE lines (entry TEXT REFERENCES ledger (entry) DEFERRABLE INITIALLY DEFERRED)"
    ).close())  # fmt: skip

    def joined(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO lines VALUES ('of no entry')")

    sent, failed, sent_too = await together(
        store, send(store), book(store, message, joined), send(store)
    )
    assert "FOREIGN KEY" in str(failed)
    assert {pulled_message.id for pulled_message in await pull(store)} == {sent, sent_too}
    assert await held(store) == 3


async def test_the_callers_function_is_not_called_for_a_lost_claim(
    store: SqliteStore, message: Message, path: Path
) -> None:
    await store.messages.settle(DEFAULT, acked(message))
    with pytest.raises(ClaimLost):
        await book(store, message, lambda connection: connection.execute(ENTRY).close())
    assert entries(path) == []


async def test_rows_can_be_written_without_an_ending(
    store: SqliteStore, message: Message, path: Path
) -> None:
    await store.messages.settle_jointly(
        DEFAULT, Settlement(()), lambda connection: connection.execute(ENTRY).close()
    )
    assert entries(path) == ["booked"]
    assert await store.messages.settle(DEFAULT, acked(message)) == SettleResult()


async def test_concurrent_joint_settlements_share_a_commit(
    store: SqliteStore, message: Message
) -> None:
    traced: list[str] = []
    await book(store, message, lambda connection: connection.set_trace_callback(traced.append))
    for _ in range(20):
        await send(store)
    messages = await pull(store)
    while more := await pull(store):
        messages += more
    assert len(messages) == 20
    traced.clear()
    await asyncio.gather(
        *(book(store, pulled_message, lambda _: None) for pulled_message in messages)
    )
    assert 1 <= traced.count("COMMIT") <= 2


async def test_a_caught_rollback_undoes_only_its_own_settlement(
    store: SqliteStore, message: Message, path: Path
) -> None:
    def joined(connection: sqlite3.Connection) -> None:
        connection.execute(ENTRY)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("INSERT OR ROLLBACK INTO ledger (entry) VALUES ('booked')")

    await fails_alone(store, message, joined, path)
