"""`app.sync`: every call without `await`, for threads and scripts, on both stores."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.stores.home import Home
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.entity.entity import Entity
from tickwork.errors import InvalidInput, NotFound
from tickwork.facade.app import Tickwork
from tickwork.testing import harness
from tickwork.workflow.step import Step

SCRIPT = Path(__file__).parent / "programs" / "sync_script.py"
START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SECONDS_MAX = 60


@pytest.fixture
async def stored(home: Home) -> AsyncIterator[Tickwork]:
    """An app on the database of this test."""
    app = Tickwork(home.url)
    yield app
    await asyncio.to_thread(app.sync.close)
    await app.close()


async def test_a_thread_calls_everything_without_await(stored: Tickwork) -> None:
    app = stored
    emails = app.queue("emails")

    @app.on("emails")
    async def email(message: Any) -> None: ...

    @app.workflow()
    async def double(_: Step, params: int) -> int:
        return 2 * params

    @app.entities.register
    class Brand(Entity):
        async def rename(self, name: str) -> str:
            return name.upper()

    def script() -> None:
        sync = app.sync
        assert sync.queue("emails").send({"to": "a"}).startswith("msg_")
        batch = sync.batch(emails, [1, 2])
        assert batch.wait(timeout_seconds=SECONDS_MAX).completed == 2
        assert sync.workflows.start(double, 21).result(timeout_seconds=SECONDS_MAX) == 42
        runs = sync.workflows.start_many(double, [1, 2])
        assert [run.result(timeout_seconds=SECONDS_MAX) for run in runs] == [2, 4]
        assert sync.entity(Brand, "x").rename("llc") == "LLC"
        assert sync.entity(Brand, "x").send.rename("llc").startswith("msg_")
        assert sync.events.publish("order.paid", {}).queues == 0
        to_emails: Any = {"type": "queue", "queue": "emails"}
        made = sync.schedules.create(interval_minutes=5, target=to_emails, name="five", owner="ann")
        with pytest.raises(NotFound):
            sync.owner("bob").schedules.pause("five")
        assert sync.owner("ann").schedules.pause(made.id).status is ScheduleStatus.PAUSED
        assert sync.dead_letters.list("emails") == ()
        assert "emails" in [queue.name for queue in sync.queues.list()]
        assert (sync.tenant, sync.name) == (app.tenant, app.name)

    async with app.running():
        await asyncio.to_thread(script)


async def test_many_threads_share_one_loop(stored: Tickwork) -> None:
    queue = stored.sync.queue("work")

    def send(number: int) -> str:
        return queue.send(number)

    with ThreadPoolExecutor(20) as pool:
        sending = [asyncio.wrap_future(pool.submit(send, number)) for number in range(100)]
        ids = await asyncio.gather(*sending)
    assert len({*ids}) == 100
    assert (await stored.queue("work").stats()).counts.ready == 100
    loops = [thread for thread in threading.enumerate() if thread.name == "tickwork-sync"]
    assert len(loops) == 1


CALLS: dict[str, Callable[[Tickwork], object]] = {
    "app.queue(…).send(…)": lambda app: app.sync.queue("emails").send(1),
    "app.schedules.list(…)": lambda app: app.sync.schedules.list(),
    "app.owner(…).schedules.list(…)": lambda app: app.sync.owner("ann").schedules.list(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_in_an_event_loop_is_refused_with_its_await_form(call: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CALLS[call](Tickwork())
    (fault,) = refused.value.errors
    assert fault.field == f"{call.replace('app', 'app.sync', 1)}"
    assert fault.message == (f"would block the event loop of this thread; write: await {call}")


def test_what_declares_and_runs_is_called_on_the_app() -> None:
    sync: Any = Tickwork().sync
    for name in ("on", "schedule", "run", "running", "background"):
        with pytest.raises(AttributeError, match=f"app.{name}"):
            getattr(sync, name)


async def test_what_a_plain_function_sends_commits_with_its_ack(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work", max_retries=1)
    app.queue("out")

    @app.on("work", isolation="thread")
    def handle(message: Any) -> None:
        app.sync.queue("out").send(message.attempts)
        app.sync.events.publish("work.done", message.attempts)
        assert app.sync.queues.get("out").name == "out"
        if message.attempts == 1:
            raise ValueError("after the send")

    async with harness(app, database=database, start=START) as h:
        await h.store.subscriptions.put(DEFAULT, "work.*", "out")
        await app.queue("work").send({})
        await h.drain()
        assert await h.sent("out") == []
        await h.advance(hours=1)
        assert [sent.body for sent in await h.sent("out")] == [2, 2]


async def test_a_forked_child_has_its_own_loop_and_the_end_closes_it(home: Home) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", str(SCRIPT), home.url],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0 1 3", "")
    if home.url.startswith("sqlite"):  # Who closes the file last removes its log.
        log = Path(f"{home.url.removeprefix('sqlite:///')}-wal")
        assert not await asyncio.to_thread(log.exists)
