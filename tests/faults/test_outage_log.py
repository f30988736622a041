"""What an operator reads while the database is away: one line per cause, and no traceback."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.waiting import delay, eventually
from tests.stores.home import Home
from tickwork import Firing, Message, Tickwork
from tickwork.service.observe.log_format import is_worth_logging

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

OUTAGE_SECONDS = 4.0

SECONDS_PER_PACKET = 0.25


class Records(logging.Handler):
    """Everything that any library logs."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if is_worth_logging(record):
            self.all.append(record)

    def starting_with(self, text: str) -> list[logging.LogRecord]:
        return [record for record in self.all if record.getMessage().startswith(text)]


@pytest.fixture
def records() -> Iterator[Records]:
    root, handler = logging.getLogger(), Records()
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


@pytest.fixture
async def proxy(home: Home) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(home.url) as opened:
        yield opened


def app_on(url: str) -> Tickwork:
    """An app that handles messages and fires every second."""
    app = Tickwork(url, min_interval_seconds=1)
    app.queue("work")

    @app.on("work")
    async def handle(message: Message[object]) -> None: ...

    @app.schedule(interval_seconds=1, overlap="skip")
    async def tick(firing: Firing) -> None: ...

    return app


@pytest.mark.parametrize("is_refused", [False, pytest.param(True, marks=pytest.mark.soak)])
async def test_an_outage_is_one_line_without_a_traceback(
    home: Home, proxy: PostgresProxy, records: Records, is_refused: bool
) -> None:
    app, sender = app_on(proxy.url), Tickwork(home.url)
    async with app.running():
        for _ in range(20):
            await sender.queue("work").send({})
        proxy.refuse, proxy.blackhole = is_refused, not is_refused
        if is_refused:
            proxy.cut()
        await delay(OUTAGE_SECONDS)
        await eventually(
            lambda: records.starting_with("heartbeat") or records.starting_with("database")
        )
        proxy.refuse = proxy.blackhole = False
        proxy.cut()
        await eventually(lambda: _is_empty(sender))
    await sender.close()
    told = [record.getMessage() for record in records.all]
    assert len(records.starting_with("database unavailable")) <= 1, told
    assert len(records.starting_with("heartbeat failed")) <= 1, told
    assert [
        record for record in records.all if record.exc_info or "Traceback" in record.getMessage()
    ] == []
    assert {record.name for record in records.all if record.levelno >= logging.WARNING} == {
        "tickwork"
    }
    assert not any("connection_lost()" in line or "__aexit__" in line for line in told)


async def _is_empty(app: Tickwork) -> bool:
    counts = (await app.queues.stats("work")).counts
    return counts.ready + counts.claimed == 0


@pytest.mark.soak
async def test_a_leader_on_a_slow_line_says_that_its_slots_come_late(
    proxy: PostgresProxy, records: Records
) -> None:
    async with app_on(proxy.url).running():
        proxy.delay_to_client_seconds = proxy.delay_to_server_seconds = SECONDS_PER_PACKET
        await eventually(
            lambda: records.starting_with(
                "slots are planned late, statements on the database are slow"
            ),
        )
        proxy.delay_to_client_seconds = proxy.delay_to_server_seconds = 0
