"""A message whose handler is cancelled by a shutdown is released at no cost, however it ends."""

import signal
from collections.abc import Sequence

import pytest

from tests.faults.open_store import opened
from tests.faults.programs.sleepers import QUEUES, SCHEDULE
from tests.kit.process import Child, Children
from tests.kit.waiting import delay
from tests.stores.home import Home
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, Message
from tickwork.core.schedule.firing import FiringStatus
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.queues import list_queues
from tickwork.store.contract import Store

SLEEPERS = "tests.faults.programs.sleepers"
BETWEEN_SECONDS = 0.5
LONG, SHORT = "600", "0"

INT, TERM = signal.SIGINT, signal.SIGTERM


async def send_to_all(url: str) -> None:
    app = Tickwork(url)
    for queue in QUEUES:
        app.queue(queue, max_retries=0, max_batch_timeout=0)
        await app.queue(queue).send_batch([1, 2] if queue == "batches" else [1])
    await app.close()


async def interrupt(child: Child, signals: Sequence[signal.Signals]) -> None:
    for queue in (*QUEUES, SCHEDULE):
        await child.line(f"began {queue}")
    for number in signals:
        child.signal(number)
        await delay(BETWEEN_SECONDS)


async def waiting(store: Store) -> dict[str, list[Message]]:
    queues = await list_queues(Context(store, DEFAULT))
    return {queue.name: [*await store.messages.peek(DEFAULT, queue.name, 10)] for queue in queues}


async def check_nothing_was_charged(url: str) -> None:
    async with opened(url) as store:
        found = await waiting(store)
        assert all(len(messages) == 1 for messages in found.values()), found
        for messages in found.values():
            for message in messages:
                assert (message.state, message.attempts, message.lost) == ("ready", 0, 0), message
        for name in found:
            assert not (
                await store.dead_letters.list(DEFAULT, name, Selection(limit=10))
            ).letters, name
        schedule = await store.schedules.find(DEFAULT, SCHEDULE)
        assert schedule is not None
        assert schedule.error_count == 0
        firings = await store.firings.list(DEFAULT, schedule.id, limit=10)
        assert [firing.status for firing in firings] in ([], [FiringStatus.PLANNED])


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("signals", "drain_seconds"),
    [
        pytest.param([INT, INT], LONG, id="int-int"),
        pytest.param([TERM, INT], LONG, id="term-int", marks=pytest.mark.soak),
        pytest.param([TERM, TERM], LONG, id="term-term", marks=pytest.mark.soak),
        pytest.param([TERM], SHORT, id="drain-timeout"),
    ],
)
async def test_a_handler_cancelled_by_a_shutdown_costs_its_message_nothing(
    home: Home, children: Children, signals: Sequence[signal.Signals], drain_seconds: str
) -> None:
    await send_to_all(home.url)
    child = children.spawn(SLEEPERS, home.url, drain_seconds, "app.run")
    await interrupt(child, signals)
    await child.succeeded()
    await check_nothing_was_charged(home.url)


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("signals", "drain_seconds"),
    [pytest.param([INT, INT], LONG, id="int-int"), pytest.param([INT], SHORT, id="drain-timeout")],
)
async def test_the_same_holds_in_an_event_loop_of_the_user(
    home: Home, children: Children, signals: Sequence[signal.Signals], drain_seconds: str
) -> None:
    await send_to_all(home.url)
    child = children.spawn(SLEEPERS, home.url, drain_seconds, "asyncio.run")
    await interrupt(child, signals)
    await child.wait()
    await check_nothing_was_charged(home.url)


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
async def test_a_third_signal_ends_the_process_at_once(home: Home, children: Children) -> None:
    """Its messages are claimed until its lease expires, and lose no attempt."""
    await send_to_all(home.url)
    child = children.spawn(SLEEPERS, home.url, LONG, "app.run")
    await interrupt(child, [INT, INT])
    child.signal(INT)
    assert await child.wait() in (0, -INT)
    async with opened(home.url) as store:
        for messages in (await waiting(store)).values():
            assert all(message.attempts == 0 for message in messages)
