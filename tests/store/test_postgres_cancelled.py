"""A store on PostgreSQL that is cancelled while it opens or closes leaves no connection and no task
behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

import asyncpg
import pytest

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.errors import StoreUnavailable
from tickwork.store.postgres import PostgresStore

SOON_SECONDS = 1.0
"""Less than a read is tried again for."""

TURNS = 12
"""Turns of the event loop after which a caller is cancelled, at most: more than a read takes until
the server has it."""

CONNECTIONS = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class CancelledAt:
    """Awaits work, and cancels the awaiting task at the given suspension of it, counted from 1."""

    def __init__(self, work: Coroutine[Any, Any, None], number: int) -> None:
        self._work, self._number, self.suspensions = work, number, 0

    def __await__(self) -> Generator[Any, Any, None]:
        thrown: BaseException | None = None
        while True:
            try:
                future = self._work.send(None) if thrown is None else self._work.throw(thrown)
            except StopIteration:
                return
            self.suspensions += 1
            if self.suspensions == self._number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            thrown = None
            try:
                yield future
            except BaseException as error:
                thrown = error


async def wait_for(work: CancelledAt) -> None:
    await work


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_no_connection_is_left_wherever_an_open_or_a_close_is_cancelled(home: Home) -> None:
    async def open_and_close() -> None:
        store = await PostgresStore.open(home.url)
        async with store.wakeups.watch([]):
            pass
        await store.close()

    observer = await asyncpg.connect(home.url)
    try:
        before = {row["pid"] for row in await observer.fetch(CONNECTIONS)}

        async def has_left_nothing() -> bool:
            return {row["pid"] for row in await observer.fetch(CONNECTIONS)} <= before

        number, is_whole = 0, False
        while not is_whole:
            number += 1
            work = CancelledAt(open_and_close(), number)
            task = asyncio.create_task(wait_for(work))
            await asyncio.wait([task])
            is_whole = work.suspensions < number
            assert task.cancelled() is not is_whole
            await eventually(has_left_nothing, what=f"no connection, cancelled at {number}")
    finally:
        await observer.close()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_read_of_the_clock_whose_caller_was_cancelled_ends_before_the_store(
    home: Home,
) -> None:
    for turns in range(TURNS):
        store = await PostgresStore.open(home.url)
        before = asyncio.all_tasks()
        # The open connection is in use: the clock needs another one.
        asking = [asyncio.create_task(store.meta()), asyncio.create_task(store.now())]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        await store.close()
        assert asyncio.all_tasks() <= before, f"cancelled after {turns} turns"


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_read_on_a_pool_that_is_closed_is_not_tried_again(home: Home) -> None:
    store = await PostgresStore.open(home.url)
    store._database._pool.terminate()
    asking = asyncio.create_task(store.now())
    done, _ = await asyncio.wait([asking], timeout=SOON_SECONDS)
    assert done
    assert isinstance(asking.exception(), StoreUnavailable)
    await store.close()
