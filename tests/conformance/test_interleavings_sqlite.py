"""Two processes on one SQLite file: a write waits for the other and then sees its changes.

Writers cannot overlap there, so the critical point is the start of a transaction: a writer that
waited must decide on what it reads afterwards and must not fail because it waited.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim,
    claim_one,
    counts,
    ids,
    join,
    make_queue,
    send,
    send_many,
    settle,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tests.stores.sqlite_home import SqliteHome
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Reaped, SettleResult
from tickwork.errors import Conflict, NodeExpired, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore

pytestmark = pytest.mark.parametrize("home", ["sqlite"], indirect=True)

T = TypeVar("T")


class Rival:
    """Another process in the middle of a transaction."""

    def __init__(self, connection: sqlite3.Connection, store: Store) -> None:
        assert isinstance(store, SqliteStore)
        self._connection, self._work_queue = connection, store._database._writer._work_queue

    def does(self, statement: str, *values: Any) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(statement, values)

    async def ends_before(self, task: "asyncio.Task[T]", *, how: str = "COMMIT") -> T:
        """Ends its transaction, for which the task waits, and returns the task's result."""
        await asyncio.sleep(0)  # The task submits its work to the writer …
        await eventually(self._work_queue._items.empty)  # … which takes it and waits for the lock.
        assert not task.done(), "the write did not wait"
        self._connection.execute(how)
        return await task


@asynccontextmanager
async def rival(home: Home, store: Store) -> AsyncIterator[Rival]:
    assert isinstance(home, SqliteHome)
    connection = sqlite3.connect(home.path, isolation_level=None)
    try:
        yield Rival(connection, store)
    finally:
        connection.close()


async def test_a_claim_does_not_return_what_another_process_claimed(
    home: Home, store: Store
) -> None:
    await make_queue(store)
    first, second = await send_many(store, 2)
    node = await join(store)
    async with rival(home, store) as other:
        other.does(
            "UPDATE tickwork_messages SET state = 'claimed', claim = 1, holder = ? WHERE id = ?",
            new_id().bytes,
            first.id.bytes,
        )
        claiming = asyncio.create_task(claim(store, node))
        assert ids(await other.ends_before(claiming)) == [second.id]


async def test_a_node_reaped_meanwhile_claims_nothing(home: Home, store: Store) -> None:
    await make_queue(store)
    await send(store)
    node = await join(store)
    async with rival(home, store) as reaper:
        reaper.does("DELETE FROM tickwork_nodes WHERE id = ?", node.bytes)
        claiming = asyncio.create_task(claim(store, node))
        with pytest.raises(NodeExpired):
            await reaper.ends_before(claiming)
    assert await counts(store) == Counts(ready=1)


async def test_a_settlement_after_the_reapers_release_is_refused(home: Home, store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    async with rival(home, store) as reaper:
        reaper.does("UPDATE tickwork_messages SET state = 'ready', holder = NULL, lost = lost + 1")
        settling = asyncio.create_task(settle(store, ack(message)))
        result = await reaper.ends_before(settling)
        assert result == SettleResult(refused=(message.current_claim,))
    assert await counts(store) == Counts(ready=1)


async def test_the_reaper_skips_messages_settled_meanwhile(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    node = await join(store, ttl_seconds=1)
    await claim_one(store, node)
    clock.advance(seconds=1)
    async with rival(home, store) as other:
        other.does("DELETE FROM tickwork_messages")
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        assert await other.ends_before(reaping) == Reaped(nodes=(node,))


async def test_a_queue_with_a_new_message_is_not_deleted(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    queue_id = await make_queue(store)
    now = int(clock.now().timestamp() * 1_000_000)
    async with rival(home, store) as sender:
        sender.does(
            "INSERT INTO tickwork_messages (tenant, id, queue_id, visible_at, sent_at, body) "
            "VALUES ('default', ?, ?, ?, ?, x'00')",
            new_id().bytes,
            queue_id.bytes,
            now,
            now,
        )
        deleting = asyncio.create_task(store.queues.delete(DEFAULT, WORK))
        with pytest.raises(Conflict):
            await sender.ends_before(deleting)
    assert await counts(store) == Counts(ready=1)


async def test_a_send_into_a_queue_deleted_meanwhile_is_refused(home: Home, store: Store) -> None:
    queue_id = await make_queue(store)
    async with rival(home, store) as other:
        other.does("DELETE FROM tickwork_queues WHERE id = ?", queue_id.bytes)
        sending = asyncio.create_task(send(store))
        with pytest.raises(NotFound):
            await other.ends_before(sending)
    await make_queue(store)
    assert await counts(store) == Counts()


async def test_a_transaction_that_another_process_rolled_back_has_no_effect(
    home: Home, store: Store
) -> None:
    await make_queue(store)
    sent = await send(store)
    node = await join(store)
    async with rival(home, store) as other:
        other.does("DELETE FROM tickwork_messages")
        claiming = asyncio.create_task(claim(store, node))
        assert ids(await other.ends_before(claiming, how="ROLLBACK")) == [sent.id]
