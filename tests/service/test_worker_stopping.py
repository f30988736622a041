"""A process stops on a signal, whatever its handlers and the database do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event

import pytest

from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.clock import monotonic
from tickwork.core.model import DEFAULT, Counts
from tickwork.facade.app import Tickwork
from tickwork.service.isolation.threads import DaemonThreadExecutor

LEAVE_SECONDS = 0.5
"""After the drain; usually it is more."""

CLOSE_SECONDS = 15.0
"""More than it takes to let go of a server that does not answer."""


@pytest.fixture
async def app(home: Home) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind."""
    app = Tickwork(home.url)
    app.queue("work")
    yield app
    await app.close()


@pytest.mark.one_store("postgres")
async def test_a_thread_that_does_not_end_is_not_waited_for(
    app: Tickwork, home: Home, children: Children
) -> None:
    """Neither by the process, nor by what we do at the end in threads of our own."""
    await app.queue("work").send_batch(["thread"] * 10)
    child = children.spawn("tests.service.programs.stuck", home.url, "0", "10")
    await child.line("began thread")
    child.terminate()
    await child.succeeded()
    store = await app._engine.open()
    assert await store.queues.counts(DEFAULT, "work") == Counts(ready=10)


@pytest.mark.parametrize(
    "is_silent",
    [pytest.param(False, id="refusing"), pytest.param(True, id="silent", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_database_that_is_away_is_not_waited_for(
    app: Tickwork, home: Home, children: Children, tmp_path: Path, is_silent: bool
) -> None:
    """What could not be settled comes back with the end of the lease."""
    cut = tmp_path / "cut"
    await app.queue("work").send(str(cut))
    async with PostgresProxy(home.url) as proxy:
        child = children.spawn("tests.service.programs.stuck", proxy.url, "0", str(LEAVE_SECONDS))
        await child.line("began")
        if is_silent:
            proxy.blackhole = True
        else:
            proxy.refuse = True
            proxy.cut()
        cut.touch()
        await child.line("ended")
        child.terminate()
        told = monotonic()
        await child.succeeded()
        assert monotonic() - told < LEAVE_SECONDS + CLOSE_SECONDS
        proxy.blackhole = False
    store = await app._engine.open()
    assert await store.queues.counts(DEFAULT, "work") == Counts(claimed=1)


@pytest.mark.one_store("sqlite")
async def test_a_generator_that_does_not_close_is_not_waited_for(
    app: Tickwork, home: Home, children: Children
) -> None:
    await app.queue("work").send("generator")
    child = children.spawn("tests.service.programs.stuck", home.url, "0", "10")
    await child.line("has a generator")
    child.terminate()
    await child.succeeded()


@pytest.mark.soak
@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
async def test_a_write_that_does_not_end_is_not_waited_for(
    app: Tickwork, home: Home, children: Children
) -> None:
    """Nothing of it happened; its message comes back with the end of the lease."""
    await app.queue("work").send("write")
    child = children.spawn("tests.service.programs.stuck", home.url, "0", str(LEAVE_SECONDS))
    await child.line("writes")
    child.terminate()
    told = monotonic()
    await child.succeeded()
    assert monotonic() - told < LEAVE_SECONDS + CLOSE_SECONDS
    store = await app._engine.open()
    assert await store.queues.counts(DEFAULT, "work") == Counts(claimed=1)


@pytest.mark.soak
@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_server_that_falls_silent_in_mid_statement_is_not_waited_for(
    app: Tickwork, home: Home, children: Children
) -> None:
    """Not even by the driver, which tells it that a statement is cancelled."""
    await app.queue("work").send_batch(["again"] * 50)
    async with PostgresProxy(home.url) as proxy:
        child = children.spawn("tests.service.programs.stuck", proxy.url, "0", str(LEAVE_SECONDS))
        for _ in range(200):
            await child.line("began again")
        proxy.blackhole = True
        child.terminate()
        told = monotonic()
        await child.succeeded()
        assert monotonic() - told < LEAVE_SECONDS + CLOSE_SECONDS
        proxy.blackhole = False


async def test_daemon_threads_do_all_that_they_are_given() -> None:
    threads, gate = DaemonThreadExecutor(2), Event()
    held = [threads.submit(gate.wait) for _ in range(2)]
    waiting = [threads.submit(int, str(number)) for number in range(5)]
    failing = threads.submit(int, "x")
    assert waiting[0].cancel()
    assert not failing.done()
    assert not any(future.done() for future in held)
    gate.set()
    threads.shutdown()
    assert [future.result() for future in waiting[1:]] == [1, 2, 3, 4]
    assert isinstance(failing.exception(), ValueError)
    with pytest.raises(RuntimeError):
        threads.submit(int, "1")


async def test_daemon_threads_are_used_again() -> None:
    threads = DaemonThreadExecutor(2)
    for number in range(20):
        assert threads.submit(int, str(number)).result() == number
    await eventually(lambda: threads._idle >= 1)
    threads.shutdown()
