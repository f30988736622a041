"""A worker in real time: it wakes for messages, drains on shutdown, and continues after a lost
lease."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.process import Children
from tests.kit.waiting import TIMEOUT_SECONDS, eventually
from tests.stores.home import Home
from tickwork.app.message import Message, MessageBatch
from tickwork.clock import monotonic
from tickwork.core.model import DEFAULT, SYSTEM, Counts
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.service import node
from tickwork.service.node import HeartbeatEnded
from tickwork.service.worker import consumer, prefetch


@pytest.fixture
async def app(home: Home) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind."""
    app = Tickwork(home.url)
    yield app
    await app.close()


@pytest.fixture
def only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hardly ever looks by itself."""
    monkeypatch.setattr(consumer, "POLL_SECONDS_MAX", 10 * TIMEOUT_SECONDS)


async def counts(app: Tickwork, queue: str = "work") -> Counts:
    store = await app._engine.open()
    return await store.queues.counts(DEFAULT, queue)


async def until(condition: Any, what: str) -> None:
    await eventually(condition, what=what)


@pytest.mark.usefixtures("only_told")
async def test_an_idle_worker_is_woken_by_a_send(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "POLL_SECONDS_MIN", 10 * TIMEOUT_SECONDS)
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with app.running():
        for number in range(5):
            await work.send(number)
            await until(lambda number=number: len(seen) == number + 1, "the handler")
    assert seen == [*range(5)]


@pytest.mark.usefixtures("only_told")
async def test_an_idle_worker_wakes_when_a_messages_time_comes(app: Tickwork) -> None:
    work, seen = app.queue("work"), list[tuple[int, float]]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append((message.attempts, monotonic()))
        if message.attempts == 1:
            message.retry(delay_seconds=0.2)

    async with app.running():
        began = monotonic()
        await work.send(1, delay_seconds=0.2)
        await until(lambda: len(seen) == 2, "the retry")
    (_, first), (_, second) = seen
    assert first - began >= 0.18
    assert second - first >= 0.18


async def test_many_messages_are_handled_by_many_at_a_time(app: Tickwork) -> None:
    work, running, most = app.queue("work"), set[str](), list[int]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        running.add(message.id)
        most.append(len(running))
        await asyncio.sleep(0.002)
        running.discard(message.id)

    for _ in range(10):
        await work.send_batch([*range(100)])
    async with app._engine.running() as worker:
        await until(lambda: len(most) == 1_000, "all of them")
        slots = worker.consumers[0].permits.limit
    assert max(most) > 10
    assert slots >= max(most)
    assert await counts(app) == Counts()


async def test_a_number_by_hand_is_kept(app: Tickwork) -> None:
    work, running, most = app.queue("work"), set[str](), list[int]()

    @app.on("work", max_concurrency=3)
    async def handle(message: Message[Any]) -> None:
        running.add(message.id)
        most.append(len(running))
        await asyncio.sleep(0.002)
        running.discard(message.id)

    await work.send_batch([*range(100)])
    async with app.running():
        await until(lambda: len(most) == 100, "all of them")
    assert max(most) == 3


@pytest.mark.parametrize("in_code", [None, 1, 9])
async def test_what_the_operator_says_counts_in_place_of_the_code(
    app: Tickwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_code: int | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickwork.toml").write_text(
        '[[queues]]\nname = "work"\n[[consumers]]\nqueue = "work"\nmax_concurrency = 4\n'
    )
    work, running, together = app.queue("work"), set[str](), asyncio.Event()
    app.queue("other")

    @app.on("work", max_concurrency=in_code)
    async def handle(message: Message[Any]) -> None:
        running.add(message.id)
        if len(running) == 4:
            together.set()
        await together.wait()

    @app.on("other", max_concurrency=2)
    async def other(message: Message[Any]) -> None: ...

    await work.send_batch([*range(4)])
    async with app._engine.running() as worker:
        await until(together.is_set, "four at a time")
        assert [queue_consumer.permits.limit for queue_consumer in worker.consumers[:2]] == [4, 2]


async def test_a_topology_that_is_wrong_is_refused(
    app: Tickwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickwork.toml").write_text(
        '[[queues]]\nname = "work"\n[[consumers]]\nqueue = "work"\nmax_concurrency = 0\n'
    )
    app.queue("work")

    @app.on("work")
    async def handle(message: Message[Any]) -> None: ...

    with pytest.raises(InvalidInput, match=r"consumers\[0\].max_concurrency"):
        async with app.running():
            pass


async def test_stopping_lets_what_runs_finish(app: Tickwork) -> None:
    work, began, go_on = app.queue("work"), asyncio.Event(), asyncio.Event()
    app.queue("out")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        began.set()
        await go_on.wait()
        message.send("out", "finished")

    await work.send(1)
    async with app.running():
        await began.wait()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert (await counts(app), await counts(app, "out")) == (Counts(), Counts(ready=1))


async def test_what_does_not_finish_in_time_is_given_back_at_no_cost(app: Tickwork) -> None:
    work, began = app.queue("work", max_retries=0), asyncio.Event()
    app.queue("out")

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.send("out", "never")
        began.set()
        await asyncio.Event().wait()

    await work.send(1)
    async with app.running(drain_seconds=0.05):
        await began.wait()
    assert (await counts(app), await counts(app, "out")) == (Counts(ready=1), Counts())
    (back,) = await (await app._engine.open()).messages.peek(DEFAULT, "work", 1)
    assert (back.attempts, back.lost) == (0, 0)


async def test_stopping_gives_back_what_has_not_begun(app: Tickwork) -> None:
    work, seen = app.queue("work", max_batch_timeout=60), list[Any]()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        seen.append(batch)

    await work.send_batch([1, 2, 3])

    async def are_claimed() -> bool:
        return (await counts(app)).claimed == 3

    async with app.running():
        await until(are_claimed, "the batch that is being gathered")
    assert seen == []
    assert await counts(app) == Counts(ready=3)
    back = await (await app._engine.open()).messages.peek(DEFAULT, "work", 10)
    assert {(message.attempts, message.lost) for message in back} == {(0, 0)}
    assert await (await app._engine.open()).nodes.list(SYSTEM) == ()


async def test_a_worker_whose_lease_was_lost_goes_on_under_a_new_name(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "BEATS_PER_TTL", 100)
    work, seen, go_on = app.queue("work"), list[tuple[Any, Any]](), asyncio.Event()
    out = app.queue("out")

    @app.on("work", max_concurrency=2)
    async def handle(message: Message[Any]) -> None:
        seen.append((message.body, message._stored.holder))
        if len(seen) == 1:
            await go_on.wait()
        await out.send(message.body)

    async with app.running():
        await work.send("lost")
        await until(lambda: seen, "the first")
        store = await app._engine.open()
        first = seen[0][1]
        await store.nodes.leave(SYSTEM, first)
        await until(lambda: len(seen) == 2, "the same again")
        go_on.set()
        await work.send("next")
        await until(lambda: len(seen) == 3, "the next")
    assert [body for body, _ in seen] == ["lost", "lost", "next"]
    assert first not in {holder for _, holder in seen[1:]}
    assert (await counts(app), await counts(app, "out")) == (Counts(), Counts(ready=2))


async def test_a_worker_without_a_heartbeat_ends_with_an_error(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    async def give_up(*_: object, **__: object) -> None:
        await asyncio.to_thread(is_over.wait)
        raise RuntimeError("no more")

    monkeypatch.setattr(node, "run_forever", give_up)
    app.queue("work")
    with pytest.raises(HeartbeatEnded, match="no more"):
        async with app.running():
            is_over.set()
            await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_what_is_claimed_ahead_of_slots_that_got_slow_is_given_back(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that others can have it, and what is more urgent comes first."""
    monkeypatch.setattr(prefetch, "WAIT_SECONDS_MAX", 0.3)
    monkeypatch.setattr(prefetch, "THROUGHPUT_SECONDS", 0.05)
    work, begun, go_on = app.queue("work"), list[Any](), asyncio.Semaphore(0)

    @app.on("work", max_concurrency=2)
    async def handle(message: Message[Any]) -> None:
        if message.body != "fast":
            begun.append(message.body)
            await go_on.acquire()

    async with app._engine.running(drain_seconds=0) as worker:
        for _ in range(20):
            await work.send_batch(["fast"] * 100)
        await work.send_batch(["slow"] * 100)
        await until(lambda: begun == ["slow"] * 2, "the slow ones")

        async def only_what_runs_is_claimed() -> bool:
            wants_more = worker.consumers[0]._prefetch.claim_limit(0) > 0
            return not wants_more and await counts(app) == Counts(ready=98, claimed=2)

        await until(only_what_runs_is_claimed, "the others to be given back")
        back = await (await app._engine.open()).messages.peek(DEFAULT, "work", 100)
        assert {(message.attempts, message.lost) for message in back} == {(0, 0)}
        await work.send("urgent", priority=9)
        go_on.release()
        await until(lambda: len(begun) == 3, "the next")
        assert begun[2] == "urgent"


async def test_a_worker_that_cannot_start_lets_go_of_the_database(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_: object) -> None:
        raise RuntimeError("no node today")

    monkeypatch.setattr(node.Node, "start", start)
    app.queue("work")
    with pytest.raises(RuntimeError, match="no node today"):
        async with app.running():
            pass
    assert not app._engine.stores.is_open


@pytest.mark.one_store("postgres")
async def test_a_process_that_is_told_to_stop_drains(
    app: Tickwork, home: Home, children: Children
) -> None:
    work, gathered = app.queue("work"), app.queue("gathered", max_batch_timeout=60)
    app.queue("out")
    await work.send_batch(["first", "second"])
    await gathered.send_batch([1, 2, 3])
    child = children.spawn("tests.service.programs.draining", home.url, "30")
    await child.line("began first")

    async def are_claimed() -> bool:
        return (await counts(app, "gathered")).claimed == 3

    await until(are_claimed, "the batch that is being gathered")
    child.terminate()
    await child.succeeded()
    assert [line for line in child.lines() if line.startswith("began")] == ["began first"]
    assert (await counts(app), await counts(app, "out")) == (Counts(ready=1), Counts(ready=1))
    assert await counts(app, "gathered") == Counts(ready=3)


@pytest.mark.one_store("sqlite")
async def test_a_process_that_is_out_of_time_gives_back_what_runs(
    app: Tickwork, home: Home, children: Children
) -> None:
    await app.queue("work").send("first")
    app.queue("out")
    child = children.spawn("tests.service.programs.draining", home.url, "0")
    await child.line("began first")
    child.terminate()
    await child.succeeded()
    assert (await counts(app), await counts(app, "out")) == (Counts(ready=1), Counts())


async def test_of_a_backlog_each_message_is_handled_once_however_claims_overlap(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "CLAIM_MAX", 20)
    handled: list[int] = []
    work = app.queue("work")

    @app.on("work", max_concurrency=1)
    async def handle(message: Message[int]) -> None:
        handled.append(message.body)

    for start in range(0, 1_000, 100):
        await work.send_batch([*range(start, start + 100)])
    async with app.running():
        await eventually(lambda: len(handled) == 1_000)
    assert sorted(handled) == [*range(1_000)]


async def test_what_claims_under_way_ask_for_is_not_asked_for_twice(app: Tickwork) -> None:
    app.queue("work")

    @app.on("work", max_concurrency=10)
    async def handle(_: Message[Any]) -> None:
        pass

    async with app._engine.running() as worker:
        here = worker.consumers[0]
        coming, here._pending = here._pending, 0
        assert here._claim_limit() == 10
        here._pending = 4
        assert here._claim_limit() == 6
        here._pending = coming
