"""A settlement whose answer got lost: what a batch handler sent as a whole is stored once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.message import Message, MessageBatch
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, Counts, Settlement
from tickwork.errors import StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.service.observe.log_events import EventLog
from tickwork.service.worker import settle_retry
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine import database
from tickwork.workflow import record
from tickwork.workflow.step import Step

COMMITS_MAX = 1_000
"""So many lose their answer at most: all of them, since nobody knows which is the one."""


def gathering(app: Tickwork, mark: str, *, rows: bool) -> None:
    """Declares a consumer that sends one message for every two, with rows of its own or without."""
    app.queue("work", max_batch_size=2, max_batch_timeout=60)
    out = app.queue("out")

    @app.consumer("work")
    async def gather(batch: MessageBatch[Any]) -> None:
        await out.send(sorted(message.body for message in batch))
        for message in batch if rows else ():
            message.transaction().execute(f"INSERT INTO own (value) VALUES ({mark})", message.body)


def noting(app: Tickwork) -> list[tuple[str, Any]]:
    """Declares a handler of what was sent; returns what it will have seen."""
    app.queue("out")
    seen: list[tuple[str, Any]] = []

    @app.on("out")
    async def note(message: Message[Any]) -> None:
        seen.append((message.id, message.body))

    return seen


async def until_done(app: Tickwork) -> None:
    """Waits until both queues are empty."""
    store = await app._engine.open()

    async def are_empty() -> bool:
        found = [await store.queues.counts(DEFAULT, queue) for queue in ("work", "out")]
        return found == [Counts(), Counts()]

    await eventually(are_empty, what="both queues empty")


@pytest.mark.parametrize("rows", [False, True], ids=["plain", "with rows"])
async def test_what_was_sent_by_a_settlement_without_an_answer_is_not_sent_again(
    home: Home, monkeypatch: pytest.MonkeyPatch, rows: bool
) -> None:
    """Also when what was sent is handled, and gone, before anybody asks again."""
    app = Tickwork(home.url)
    seen = noting(app)
    gathering(app, "?" if home.url.startswith("sqlite") else "$1", rows=rows)
    make = app.queue("make")

    @app.on("make")
    async def make_table(message: Message[Any]) -> None:
        message.transaction().execute("CREATE TABLE own (value INTEGER NOT NULL UNIQUE)")

    store = await app._engine.open()
    lost: list[Settlement] = []

    def losing(settle: Callable[..., Any]) -> Callable[..., Any]:
        async def settled(scope: Any, settlement: Settlement, *rest: Any) -> Any:
            result = await settle(scope, settlement, *rest)
            if not lost and any(ending.sends for ending in settlement.endings):
                lost.append(settlement)
                await eventually(lambda: seen)
                raise StoreUnavailable("the answer got lost")
            return result

        return settled

    for name in ("settle", "settle_jointly"):
        monkeypatch.setattr(store.messages, name, losing(getattr(store.messages, name)))
    await make.send(None)
    async with app.running():

        async def is_made() -> bool:
            return await store.queues.counts(DEFAULT, "make") == Counts()

        await eventually(is_made, what="the table")
        await app.queue("work").send_batch([1, 2])
        await eventually(lambda: lost)
        await until_done(app)
    assert [body for _, body in seen] == [[1, 2]]


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_commit_without_an_answer_and_a_network_that_is_away(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one, for longer than the store tries; somebody else handles what was sent."""
    monkeypatch.setattr(settle_retry, "PAUSE_SECONDS_MAX", 0.1)
    monkeypatch.setattr(database, "ATTEMPTS_MAX", 3)
    troubled, occurred = list[str](), EventLog.error_occurred

    def noting_errors(events: EventLog, activity: str, error: Exception) -> None:
        troubled.append(activity)
        occurred(events, activity, error)

    monkeypatch.setattr(EventLog, "error_occurred", noting_errors)
    async with PostgresProxy(home.url) as proxy:
        app, other = Tickwork(proxy.url), Tickwork(home.url)
        seen = noting(other)
        app.queue("work", max_batch_size=2, max_batch_timeout=60)
        out, faults = app.queue("out"), list[Any]()

        @app.consumer("work")
        async def gather(batch: MessageBatch[Any]) -> None:
            await out.send(sorted(message.body for message in batch))
            faults.append(proxy.lose_commit_reply(n=COMMITS_MAX))

        async with other.running(), app._engine.running() as worker:
            await app.queue("work").send_batch([1, 2])
            await eventually(lambda: faults)
            await eventually(lambda: seen)
            proxy.refuse = True
            proxy.cut()
            await eventually(lambda: "settle" in troubled)
            faults[0].left = 0
            proxy.refuse = False
            await eventually(lambda: not worker.consumers[0].settler.unsettled)
            await until_done(other)
    assert [body for _, body in seen] == [[1, 2]]


@pytest.mark.parametrize("rows", [False, True], ids=["plain", "with rows"])
async def test_what_a_step_of_a_run_sent_without_an_answer_is_not_sent_again(
    home: Home, monkeypatch: pytest.MonkeyPatch, rows: bool
) -> None:
    """Also when what it sent is handled, and gone, before the step is recorded again."""
    monkeypatch.setattr(record, "STORE_PAUSE_SECONDS", 0.01)
    app = Tickwork(home.url)
    seen, out, lost = noting(app), app.queue("out"), list[Settlement]()

    async def work(*_: Any) -> str:
        await out.send("x")
        return "done"

    async def work_with_rows(written: Any) -> str:
        written.execute("SELECT 1")
        return await work()

    @app.workflow()
    async def sending(step: Step) -> str:
        if rows:
            return str(await step.transaction("work", work_with_rows))
        return await step.do("work", work)

    store = await app._engine.open()

    def losing(settle: Callable[..., Any]) -> Callable[..., Any]:
        async def settled(scope: Any, settlement: Settlement, *rest: Any) -> Any:
            result = await settle(scope, settlement, *rest)
            if not lost and any(ending.sends for ending in settlement.endings):
                lost.append(settlement)
                await eventually(lambda: seen)
                raise StoreUnavailable("the answer got lost")
            return result

        return settled

    for name in ("settle", "settle_jointly"):
        monkeypatch.setattr(store.messages, name, losing(getattr(store.messages, name)))
    async with app.running():
        run = await app.workflows.start(sending)
        assert await run.result(timeout_seconds=30) == "done"

        async def is_handled() -> bool:
            return await store.queues.counts(DEFAULT, "out") == Counts()

        await eventually(is_handled, what="an empty queue")
    assert len(lost) == 1
    assert [body for _, body in seen] == ["x"]


DEADLY = """
CREATE TABLE own (value INTEGER NOT NULL);
CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER deadly AFTER INSERT ON own
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session()
"""


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_rows_that_cost_their_session_its_life_each_time_fail_in_the_end(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the commit, where it looks as if the answer got lost."""
    monkeypatch.setattr(settle_retry, "PAUSE_SECONDS_MIN", 0.01)
    monkeypatch.setattr(settle_retry, "PAUSE_SECONDS_MAX", 0.01)
    connection = await asyncpg.connect(home.url)
    await connection.execute(DEADLY)
    await connection.close()
    app = Tickwork(home.url)
    work, runs = app.queue("work", max_retries=0), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        runs.append(message.body)
        message.transaction().execute("INSERT INTO own VALUES ($1)", message.body)

    async with app.running():
        store = await app._engine.open()
        await work.send(1)

        async def dead() -> Any:
            return (await store.dead_letters.list(DEFAULT, "work", Selection(limit=10))).letters

        (letter,) = await eventually(dead, what="its death")
    assert (runs, "terminating connection" in letter.error) == ([1], True)


async def test_what_an_identity_claimed_that_is_lost_meanwhile_is_not_begun(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One invocation never has messages of two identities: of one of them all may be lost."""
    app = Tickwork(home.url)
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with app._engine.running() as worker:
        node, claims = worker._node, worker._context.claimer
        own, claim = node.id, claims.claim

        async def claim_and_lose(*asked: Any) -> Any:
            found = await claim(*asked)
            if found:
                node.id = new_id()
            return found

        monkeypatch.setattr(claims, "claim", claim_and_lose)
        await work.send(1)
        store = await app._engine.open()

        async def is_back() -> bool:
            is_ready = await store.queues.counts(DEFAULT, "work") == Counts(ready=1)
            return is_ready and node.id != own

        await eventually(is_back, what="what was claimed")
        assert seen == []
        monkeypatch.setattr(claims, "claim", claim)
        node.id = own
        await eventually(lambda: seen)
