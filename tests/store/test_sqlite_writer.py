"""The writer: items that wait together share a commit, and a failing item fails alone."""

import asyncio
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest

from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.store.acts import (
    WORK,
    commits,
    len_waiting,
    new,
    pull,
    send,
    together,
    waiting,
    write,
    writer_held,
)
from tickwork.core.model import DEFAULT
from tickwork.errors import NotFound, StoreBroken, StoreError, StoreUnavailable
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.engine.writer import GROUP_ITEMS_MAX, GROUP_ROWS_MAX
from tickwork.store.sqlite.messages.send import Parcel

FORKED = "tests.store.programs.forked"


class Trouble(Exception):
    """An error of the test's own."""


def spoil(transaction: Transaction) -> None:
    """Writes, and then fails."""
    transaction.execute("DELETE FROM tickwork_messages")
    raise Trouble


def break_commit(transaction: Transaction) -> None:
    """Leaves a row that makes COMMIT fail, and a queue that is not visible meanwhile."""
    transaction.execute("PRAGMA defer_foreign_keys = ON")
    transaction.execute("UPDATE tickwork_queues SET tenant = 'nobody'")


def lose_transaction(transaction: Transaction) -> None:
    """Fails in a way that rolls back the whole transaction."""
    transaction.execute("INSERT OR ROLLBACK INTO tickwork_tenants (id) VALUES ('default')")


async def test_items_that_wait_together_share_one_commit(store: SqliteStore, path: Path) -> None:
    await send(store)
    before = commits(path)
    assert await together(store, *(send(store) for _ in range(50))) != []
    assert commits(path) == before + 1
    assert await waiting(store) == 51


async def test_one_commit_has_a_maximum_of_items(store: SqliteStore, path: Path) -> None:
    await send(store)
    before = commits(path)
    await together(store, *(send(store) for _ in range(GROUP_ITEMS_MAX + 1)))
    assert commits(path) == before + 2
    batches = 2 * GROUP_ROWS_MAX // 100
    await together(
        store,
        *(
            store.messages.send_batch(DEFAULT, WORK, [new() for _ in range(100)])
            for _ in range(batches)
        ),
    )
    assert commits(path) == before + 4


async def test_a_failing_item_does_not_fail_its_group(store: SqliteStore) -> None:
    one, lost, spoiled, two = await together(
        store, send(store), send(store, "nowhere"), write(store, spoil), send(store)
    )
    assert isinstance(lost, NotFound)
    assert isinstance(spoiled, Trouble)
    assert {message.id for message in await pull(store)} == {one, two}


async def test_a_failing_single_item_changes_nothing(store: SqliteStore) -> None:
    await send(store)
    with pytest.raises(Trouble):
        await write(store, spoil)
    assert await waiting(store) == 1


@pytest.mark.parametrize("fault", [break_commit, lose_transaction])
async def test_a_lost_transaction_fails_the_whole_group_and_changes_nothing(
    store: SqliteStore, fault: object
) -> None:
    assert callable(fault)
    answers = await together(store, send(store), write(store, fault), send(store))
    assert all(isinstance(answer, StoreError) for answer in answers), answers
    assert len({id(answer) for answer in answers}) == 3
    assert await waiting(store) == 0
    await send(store)
    assert await waiting(store) == 1


async def test_an_error_of_sqlite_becomes_a_store_error(store: SqliteStore) -> None:
    with pytest.raises(StoreBroken, match="tickwork migrate"):
        await write(store, lambda transaction: transaction.execute("SELECT 1 FROM nowhere"))


async def test_an_item_cancelled_before_it_starts_is_not_run(store: SqliteStore) -> None:
    async with writer_held(store):
        sending = asyncio.create_task(send(store))
        await eventually(lambda: len_waiting(store) == 1)
        sending.cancel()
    await send(store)
    assert await waiting(store) == 1


async def test_an_item_cancelled_after_it_started_is_committed(store: SqliteStore) -> None:
    begun, released = threading.Event(), threading.Event()
    message = new()

    def work(transaction: Transaction) -> None:
        begun.set()
        released.wait()
        Parcel(DEFAULT, WORK, [message]).store(transaction)

    working = asyncio.create_task(write(store, work))
    await eventually(begun.is_set)
    working.cancel()
    released.set()
    await send(store)
    assert await waiting(store) == 2


async def test_close_finishes_accepted_items(path: Path, store: SqliteStore) -> None:
    closing = await SqliteStore.open(path)
    async with writer_held(closing):
        sending = [asyncio.create_task(send(closing)) for _ in range(20)]
        await eventually(lambda: len_waiting(closing) == 20)
        ending = asyncio.create_task(closing.close())
    await asyncio.gather(*sending, ending)
    assert await waiting(store) == 20


async def test_a_closed_store_raises_store_unavailable(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.close()
    await store.close()
    for act in (send(store), waiting(store)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await act


async def test_a_store_works_from_every_loop_and_thread_of_its_process(store: SqliteStore) -> None:
    async def elsewhere() -> None:
        async with store.wakeups.watch([queue.id]) as watch:
            await asyncio.gather(*(send(store) for _ in range(10)))
            assert await watch.wait(10)

    queue = await store.queues.get(DEFAULT, WORK)
    await asyncio.gather(
        elsewhere(), *(asyncio.to_thread(asyncio.run, elsewhere()) for _ in range(3))
    )
    assert await waiting(store) == 40


async def test_a_loop_closed_before_its_result_does_not_affect_others(store: SqliteStore) -> None:
    def ask_and_go() -> None:
        loop = asyncio.new_event_loop()
        asked = loop.create_task(send(store))
        loop.run_until_complete(asyncio.sleep(0))
        asked.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(asked)
        loop.close()

    async with writer_held(store):
        await asyncio.to_thread(ask_and_go)
        await eventually(lambda: len_waiting(store) == 1)
    await send(store)
    assert await waiting(store) == 1


async def test_a_forked_child_gets_an_error_that_says_to_open_its_own_store(
    children: Children, path: Path
) -> None:
    child = children.spawn(FORKED, path)
    await child.succeeded()
    assert [line.partition(":")[0] for line in child.lines()] == [
        "child send", "child count", "child close", "parent delete",
    ]  # fmt: skip
    assert "opened before a fork" in child.lines()[0]
    assert "opened before a fork" in child.lines()[1]
    assert child.lines()[2:] == ["child close: None", "parent delete: True"]


async def test_a_failing_clock_fails_only_its_caller(path: Path) -> None:
    times: list[datetime | None] = [None]

    def moment() -> datetime | None:
        return times[0]

    store = await SqliteStore.open(path, moment=moment)
    times.clear()
    for act in (send, waiting):
        with pytest.raises(IndexError):
            await act(store)
    times.append(None)
    await send(store)
    assert await waiting(store) == 1
    await store.close()
