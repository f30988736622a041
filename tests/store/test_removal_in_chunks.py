"""Purging and cancelling very many messages in chunks, with other transactions in between.

Each chunk is a transaction of its own. Another store reads and sends after every one of them; with
a single transaction it would see all or nothing, and only once.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    WORK,
    counts,
    create_batch,
    make_queue,
    news,
    send,
    send_many,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import BatchStatus
from tickwork.core.model import DEFAULT, Counts
from tickwork.store.contract import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.messages import batches, removal
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES

PIECE = REMOVAL_CHUNK_MESSAGES
MANY = 3 * PIECE + 500
OTHER = "other"


@pytest.fixture
async def store(
    home: Home, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Store]:
    """With chunks of the same size on both databases."""
    monkeypatch.setattr(removal, "PURGED_AT_ONCE", PIECE)
    monkeypatch.setattr(batches, "PIECE_ITEMS", PIECE)
    opened = await home.open(clock)
    await make_queue(opened)
    await make_queue(opened, OTHER)
    yield opened
    await opened.close()


@pytest.fixture
async def beside(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """Another process."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


def after_each(
    store: Store, act: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls something after every transaction that the store commits."""
    assert isinstance(store, SqliteStore | PostgresStore)
    name = "write" if isinstance(store, SqliteStore) else "transact"
    original = getattr(store._database, name)

    async def observed(*values: Any, **how: Any) -> Any:
        result = await original(*values, **how)
        await act()
        return result

    monkeypatch.setattr(store._database, name, observed)


def assert_in_pieces(left: list[int]) -> None:
    """Number of messages after each transaction."""
    steps = [before - after for before, after in zip([MANY, *left], left, strict=False)]
    assert left[-1] == 0
    assert max(steps) <= PIECE
    assert sum(step > 0 for step in steps) >= MANY / PIECE


@pytest.mark.parametrize("fields", [{}, {"delay_seconds": 60}, {"key": "a"}])
async def test_other_transactions_run_between_the_chunks_of_a_purge(
    store: Store, beside: Store, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    await send_many(store, MANY, body=b"", **fields)
    left: list[int] = []

    async def look() -> None:
        await send(beside, queue=OTHER)
        now = await counts(beside)
        left.append(now.ready + now.delayed + now.blocked)

    after_each(store, look, monkeypatch)
    assert await store.queues.purge(DEFAULT, WORK) == MANY
    assert_in_pieces(left)
    assert await counts(beside, OTHER) == Counts(ready=len(left))


async def test_messages_sent_during_a_purge_stay(
    store: Store, beside: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge ends, however much is sent meanwhile."""
    await send_many(store, MANY, body=b"")
    sent = 0

    async def send_more() -> None:
        nonlocal sent
        clock.advance(seconds=1)
        await send_many(beside, PIECE, body=b"")
        sent += PIECE

    after_each(store, send_more, monkeypatch)
    assert await store.queues.purge(DEFAULT, WORK) == MANY
    assert await counts(beside) == Counts(ready=sent)


async def test_other_transactions_run_between_the_chunks_of_a_cancelled_batch(
    store: Store, beside: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = await create_batch(store, news(MANY, body=b""))
    left: list[int] = []

    async def look() -> None:
        await send(beside, queue=OTHER)
        left.append((await counts(beside)).ready)

    after_each(store, look, monkeypatch)
    cancelled = await store.batches.cancel(DEFAULT, batch.id)
    assert (cancelled.status, cancelled.failed) == (BatchStatus.COMPLETED, MANY)
    assert_in_pieces(left)
    assert await counts(beside, OTHER) == Counts(ready=len(left))
