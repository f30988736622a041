"""A store on PostgreSQL that is cancelled while it opens or closes leaves no connection behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

import asyncpg
import pytest

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.store.postgres import PostgresStore

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
