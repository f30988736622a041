"""The backlog bytes of a queue with a cap stay exact while its settings are put again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    ack_all,
    make_queue,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.conformance.barriers import ACK, SEND, barrier
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Settlement, SettleResult
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

CAP = 200_000
BODY = b"x" * 50_000
FREE = "INSERT ON tickwork_backlogs FOR EACH ROW WHEN (NEW.bytes < 0)"
COUNT_ANEW = "UPDATE ON tickwork_backlogs FOR EACH ROW WHEN (NEW.stripe = 0)"
TAKE = "INSERT ON tickwork_backlogs FOR EACH ROW WHEN (NEW.bytes > 0)"


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    yield opened
    await opened.close()


@pytest.fixture
async def other(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """The same database, as another process sees it."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


async def put_cap(store: Store) -> Any:
    return await make_queue(store, backlog_bytes_max=CAP)


async def off_by(home: Home) -> int:
    """Counted bytes minus actual bytes."""
    connection = await asyncpg.connect(home.url)
    try:
        return int(
            await connection.fetchval(
                "SELECT (SELECT coalesce(sum(bytes), 0) FROM tickwork_backlogs)"
                " - (SELECT coalesce(sum(octet_length(body)), 0) FROM tickwork_messages)"
            )
        )
    finally:
        await connection.close()


@pytest.mark.parametrize("before", [ACK, FREE])
async def test_putting_the_same_cap_during_an_ack_keeps_the_backlog_exact(
    home: Home, store: Store, other: Store, before: str
) -> None:
    """The recount includes exactly the messages whose bytes have not been subtracted yet."""
    await put_cap(store)
    for _ in range(3):
        await send(store, body=BODY)
    message = await pull_one(store, limit=1)
    async with barrier(home.url, before=before) as held:
        settling = asyncio.create_task(settle(store, ack(message)))
        await held.reached()
        putting = asyncio.create_task(put_cap(other))
        await held.is_passed_by(putting)
        await held.opens()
        assert await settling == SettleResult()
        await putting
    assert await off_by(home) == 0
    await store.pruner.prune(SYSTEM, ALL)
    assert await off_by(home) == 0


@pytest.mark.parametrize("before", [SEND, TAKE])
async def test_putting_the_same_cap_during_a_send_keeps_the_backlog_exact(
    home: Home, store: Store, other: Store, before: str
) -> None:
    await put_cap(store)
    await send(store, body=BODY)
    async with barrier(home.url, before=before) as held:
        sending = asyncio.create_task(send(store, body=BODY))
        await held.reached()
        putting = asyncio.create_task(put_cap(other))
        await held.is_passed_by(putting)
        await held.opens()
        await asyncio.gather(sending, putting)
    assert await off_by(home) == 0


@pytest.mark.parametrize("way", ["out", "in"])
async def test_a_send_during_a_recount_is_counted_once(
    home: Home, store: Store, other: Store, way: str
) -> None:
    """Its bytes are recorded later: the recount holds all stripes."""
    await put_cap(store)
    await send(store, body=BODY)
    message = await pull_one(store)
    async with barrier(home.url, before=COUNT_ANEW) as held:
        putting = asyncio.create_task(put_cap(other))
        await held.reached()
        work = settle(store, ack(message)) if way == "out" else send(store, body=BODY)
        working: asyncio.Task[Any] = asyncio.create_task(work)
        await held.is_passed_by(working)
        await held.opens()
        await asyncio.gather(working, putting)
    assert await off_by(home) == 0


@pytest.mark.parametrize("is_capped", [True, False])
async def test_a_cap_put_before_a_settlement_commits_is_exact(
    home: Home, store: Store, other: Store, is_capped: bool
) -> None:
    """Everything is done but the commit. A first cap is exact after a prune."""
    await (put_cap(store) if is_capped else make_queue(store))
    for _ in range(3):
        await send(store, body=BODY)
    first, *_ = await pull(store)
    async with _Waits(home) as waits:
        putting: asyncio.Task[Any] | None = None

        async def joined(connection: Any) -> None:
            nonlocal putting
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            putting = asyncio.create_task(put_cap(other))
            await waits.for_one_of(putting, pid)

        await store.messages.settle_jointly(DEFAULT, Settlement((ack(first),)), joined)
        assert putting is not None
        await putting
    if is_capped:
        assert await off_by(home) == 0
    await store.pruner.prune(SYSTEM, ALL)
    assert await off_by(home) == 0


@pytest.mark.parametrize("before", [ACK, SEND])
async def test_a_first_cap_put_during_a_send_or_ack_is_exact_after_a_prune(
    home: Home, store: Store, other: Store, before: str
) -> None:
    await make_queue(store)
    await send(store, body=BODY)
    message = await pull_one(store)
    async with barrier(home.url, before=before) as held:
        work = settle(store, ack(message)) if before == ACK else send(store, body=BODY)
        working: asyncio.Task[Any] = asyncio.create_task(work)
        await held.reached()
        putting = asyncio.create_task(put_cap(other))
        await held.is_passed_by(putting)
        await held.opens()
        await asyncio.gather(working, putting)
    await store.pruner.prune(SYSTEM, ALL)
    assert await off_by(home) == 0
    await ack_all(store)
    await settle(store, ack(message))
    assert await off_by(home) == 0


async def test_repeated_puts_of_settings_under_load_keep_the_backlog_exact(
    home: Home, store: Store, other: Store
) -> None:
    await make_queue(store, backlog_bytes_max=10**9)

    async def work() -> None:
        for _ in range(15):
            await send_many(store, 10, body=b"x" * 100)
            if held := await pull(store, limit=10):
                assert await settle(store, *map(ack, held)) == SettleResult()

    async def put() -> None:
        for _ in range(30):
            await make_queue(other, backlog_bytes_max=10**9)

    await asyncio.gather(work(), work(), work(), put())
    assert await off_by(home) == 0
    await ack_all(store)
    assert await off_by(home) == 0


class _Waits:
    """Checks from another connection whether someone waits for a connection."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def __aenter__(self) -> "_Waits":
        self._connection = await asyncpg.connect(self._home.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def for_one_of(self, task: "asyncio.Task[Any]", pid: int) -> None:
        """Waits until the task is done or waits for the connection."""

        async def either() -> bool:
            return task.done() or bool(
                await self._connection.fetchval(
                    "SELECT EXISTS (SELECT FROM pg_stat_activity "
                    "WHERE $1::integer = ANY (pg_blocking_pids(pid)))",
                    pid,
                )
            )

        await eventually(either, what="an answer, or a lock that is waited for")
