"""Messages that killed workers run only among their like, and delay other messages briefly."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from tests.kit.waiting import TIMEOUT_SECONDS, eventually
from tests.stores.home import Home
from tickwork.app.message import Message, MessageBatch
from tickwork.clock import monotonic
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_ALONE,
    LOST_CLAIMS_SEPARATE,
    SYSTEM,
    ClaimRequest,
)
from tickwork.core.model import Message as Stored
from tickwork.facade.app import Tickwork
from tickwork.service import node
from tickwork.service.worker import suspects
from tickwork.service.worker.suspects import Suspects
from tickwork.service.worker.worker import Worker
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

MANY = 40
"""Messages that a dead worker had claimed: more than run at a time."""


@pytest.fixture
async def app(home: Home) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind."""
    app = Tickwork(home.url)
    yield app
    await app.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that looks often, and whose heart beats often."""
    monkeypatch.setattr(suspects, "SUSPECT_POLL_SECONDS", 0.02)
    monkeypatch.setattr(node, "BEATS_PER_TTL", 50)


async def until(condition: Any, what: str) -> None:
    await eventually(condition, what=what)


async def die_with(store: Store, count: int) -> None:
    """A worker claims so many messages, and is heard of no more."""
    dead = new_id()
    await store.nodes.join(SYSTEM, dead, name="dead", roles=["worker"], ttl_seconds=60)
    request = ClaimRequest(queue="work", holder=dead, limit=count)
    found = await store.messages.claim(DEFAULT, request)
    if not found:
        found = await store.messages.claim(DEFAULT, structs.replace(request, separate=True))
    assert len(found) == count
    await store.nodes.heartbeat(SYSTEM, dead, ttl_seconds=0.01)  # The last one.

    async def are_back() -> bool:
        await store.reaper.reap(SYSTEM, 10)
        now = [await store.messages.get(DEFAULT, "work", message.id) for message in found]
        return all(message.lost > before.lost for message, before in zip(now, found, strict=True))

    await until(are_back, "the messages of a dead worker")


async def send_poison(app: Tickwork) -> None:
    """A message that must run alone."""
    await app.queue("work").send("poison")
    for _ in range(LOST_CLAIMS_ALONE):
        await die_with(await app._engine.open(), 1)


async def claimed_by(store: Store, running: Worker, count: int) -> tuple[Stored, ...]:
    """What a worker claims of `other` ahead of its permits."""
    request = ClaimRequest(queue="other", holder=running._context.holder(), limit=count)
    return await store.messages.claim(DEFAULT, request)


def counted_looks(
    running: Worker, monkeypatch: pytest.MonkeyPatch, may_look_again: asyncio.Event
) -> list[frozenset[UUID]]:
    """What a worker finds when it looks for suspects, from the first time that there are some. It
    looks a second time when it may."""
    looks: list[frozenset[UUID]] = []
    look = running.suspects._queues_with_suspects

    async def counted() -> frozenset[UUID]:
        if looks:
            await may_look_again.wait()
        found = await look()
        if found or looks:
            looks.append(found)
        return found

    monkeypatch.setattr(running.suspects, "_queues_with_suspects", counted)
    return looks


class Busy:
    """An app with a handler of `long` that runs until it is told, and one of `work`."""

    def __init__(self, app: Tickwork) -> None:
        self.app, self.go_on = app, asyncio.Event()
        self.seen: list[Message[Any]] = []
        self.was_trusted: list[bool] = []
        self.trusted_until: Callable[[], float] = lambda: inf
        self.long_running = 0
        self.beside: list[int] = []
        app.queue("work")
        app.queue("long")
        app.queue("quick")
        self.quick: list[Any] = []

        @app.on("long")
        async def long(_: Message[Any]) -> None:
            self.long_running += 1
            await self.go_on.wait()
            self.long_running -= 1

        @app.on("work")
        async def work(message: Message[Any]) -> None:
            self.beside.append(self.long_running)
            self.seen.append(message)
            self.was_trusted.append(monotonic() <= self.trusted_until())

        @app.on("quick")
        async def quick(message: Message[Any]) -> None:
            self.quick.append(message.body)

    @asynccontextmanager
    async def waiting_with_poison(self) -> AsyncIterator[Worker]:
        """A worker that is busy, and has just begun to wait for what must run alone."""
        await send_poison(self.app)
        store = await self.app._engine.open()
        await store.queues.pause(DEFAULT, "work")
        async with self.app._engine.running() as running:
            store = await self.app._engine.open()
            await self.app.queue("long").send(1)
            await until(lambda: self.long_running == 1, "the long handler")
            await store.queues.resume(DEFAULT, "work")
            await until(
                lambda: all(consumer._is_paused for consumer in running.consumers), "a pause"
            )
            assert (await store.queues.counts(DEFAULT, "work")).claimed == 0
            yield running


@pytest.mark.usefixtures("soon")
async def test_what_cost_workers_their_life_runs_with_nothing_beside_it(app: Tickwork) -> None:
    work, running, beside = app.queue("work"), set[str](), dict[Any, int]()

    @app.on("work", max_concurrency=5)
    async def handle(message: Message[Any]) -> None:
        running.add(message.id)
        await asyncio.sleep(0.01)
        beside[message.body] = max(len(running) - 1, beside.get(message.body, 0))
        running.discard(message.id)
        if message.body != "poison" and "poison" not in beside:
            await work.send(message.body)  # So that there is always something beside.

    await send_poison(app)
    await work.send_batch([*range(20)])
    async with app.running():
        await until(lambda: "poison" in beside, "the poison")
        # It may have come before all others; they run beside each other after it as well.
        await until(lambda: max(beside.values()) > 0, "some beside each other")
    assert beside["poison"] == 0


async def test_what_must_run_alone_is_worked_off_without_a_pause_for_each(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SUSPECT_POLL_SECONDS", 10 * TIMEOUT_SECONDS)
    work, handled = app.queue("work"), set[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        handled.add(message.body)

    await work.send_batch([*range(10)])
    for _ in range(LOST_CLAIMS_ALONE):
        await die_with(await app._engine.open(), 10)
    async with app.running():
        await until(lambda: len(handled) == 10, "all of them")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("permits", [None, pytest.param(5, marks=pytest.mark.one_store("sqlite"))])
async def test_all_that_a_dead_worker_had_claimed_runs_among_its_like_in_all_permits(
    app: Tickwork, permits: int | None
) -> None:
    work, other = app.queue("work"), app.queue("other")
    handled, running = set[Any](), Counter[str]()
    most, mixed = 0, False

    @app.on("work", max_concurrency=permits)
    async def suspect(message: Message[Any]) -> None:
        nonlocal most
        await beside("work")
        most = max(most, running["work"])
        running["work"] -= 1
        handled.add(message.body)

    @app.on("other", max_concurrency=5)
    async def innocent(message: Message[Any]) -> None:
        await beside("other")
        running["other"] -= 1
        if len(handled) < MANY:
            await other.send(message.body)  # So that there is always something else.

    async def beside(queue: str) -> None:
        nonlocal mixed
        running[queue] += 1
        await asyncio.sleep(0.01)
        mixed = mixed or min(running["work"], running["other"]) > 0

    await work.send_batch([*range(MANY)])
    for _ in range(LOST_CLAIMS_SEPARATE):
        await die_with(await app._engine.open(), MANY)
    await other.send_batch([*range(10)])
    async with app.running():
        await until(lambda: len(handled) == MANY, "all of them")
    assert not mixed
    assert most == permits if permits else most > 10


@pytest.mark.usefixtures("soon")
async def test_a_busy_worker_goes_on_without_it_and_an_idle_one_takes_it(
    app: Tickwork, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SUSPECT_WAIT_SECONDS", 0.2)
    busy, idle = Busy(app), Busy(Tickwork(home.url))
    async with busy.waiting_with_poison():
        await app.queue("quick").send("meanwhile")
        await until(lambda: busy.quick, "the other queue to go on")
        assert (busy.long_running, busy.seen) == (1, [])
        async with idle.app.running():
            await until(lambda: idle.seen, "the poison in the idle worker")
        assert (busy.long_running, busy.seen) == (1, [])
        busy.go_on.set()
    (ran,) = idle.seen
    assert (ran.attempts, ran._stored.lost) == (1, LOST_CLAIMS_ALONE)


@pytest.mark.usefixtures("soon")
async def test_a_busy_worker_waits_longer_each_time_up_to_a_limit(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It then runs the suspect beside the handlers that do not finish."""
    monkeypatch.setattr(suspects, "SUSPECT_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(suspects, "SUSPECT_WAIT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(suspects, "SUSPECT_REST_FACTOR", 1.0)
    busy = Busy(app)
    async with busy.waiting_with_poison() as running:
        await until(lambda: running.suspects._wait_seconds > 0.01, "a longer wait")
        await until(lambda: busy.seen, "the poison")
        assert busy.long_running == 1
        await until(lambda: running.suspects._wait_seconds == 0.01, "a short wait for the next")
        assert "not idle in time" in caplog.text
        await app.queue("quick").send("after")
        await until(lambda: busy.quick, "the other queue")
        busy.go_on.set()
    assert busy.beside == [1]


@pytest.mark.usefixtures("soon")
async def test_what_runs_long_has_others_beside_it_soon(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """But no other suspect: were it the one that kills, both would be dead."""
    monkeypatch.setattr(suspects, "SUSPECT_ALONE_SECONDS", 0.1)
    monkeypatch.setattr(suspects, "SUSPECT_REST_FACTOR", 0.0)
    app.queue("work")
    app.queue("quick")
    seen, quick, go_on = list[Any](), list[Any](), asyncio.Event()

    @app.on("work", max_concurrency=5)
    async def long(message: Message[Any]) -> None:
        seen.append(message.body)
        await go_on.wait()

    @app.on("quick")
    async def other(message: Message[Any]) -> None:
        quick.append(message.body)

    for name in ("one", "other"):
        await app.queue("work").send(name)
    for _ in range(LOST_CLAIMS_ALONE):
        await die_with(await app._engine.open(), 2)
    async with app._engine.running() as running:
        await until(lambda: seen, "the first suspect")
        await app.queue("quick").send("meanwhile")
        await until(lambda: quick, "the other queue to go on")
        assert "they take long" in caplog.text
        for _ in range(5):
            assert await running.suspects.run(0.1) == 0
        assert len(seen) == 1
        go_on.set()
        await until(lambda: len(seen) == 2, "the other suspect")


@pytest.mark.usefixtures("soon")
async def test_it_waits_for_a_permit_of_its_queue_while_other_queues_go_on(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SUSPECT_WAIT_SECONDS", 10.0)
    monkeypatch.setattr(suspects, "SUSPECT_WAIT_SECONDS_MAX", 10.0)
    work, quick = app.queue("work"), app.queue("quick")
    order, others, go_on = list[Any](), list[Any](), asyncio.Event()

    @app.on("work", max_concurrency=1)
    async def long(message: Message[Any]) -> None:
        order.append(message.body)
        await go_on.wait()

    @app.on("quick")
    async def other(message: Message[Any]) -> None:
        others.append(message.body)

    async with app._engine.running() as running:
        consumer = next(
            candidate for candidate in running.consumers if candidate.queue.name == "work"
        )
        await work.send("first")
        await until(lambda: order, "the handler that has the only permit")
        await send_poison(app)
        await work.send("later")
        await until(lambda: consumer._is_paused, "a pause of the queue")
        await quick.send("meanwhile")
        await until(lambda: others, "the other queue to go on")
        assert (order, consumer._is_paused) == (["first"], True)
        go_on.set()
        await until(lambda: len(order) == 3, "all of them")
    assert order == ["first", "poison", "later"]


@pytest.mark.usefixtures("soon")
async def test_a_queue_that_is_no_longer_consumed_has_none_run(app: Tickwork) -> None:
    busy = Busy(app)
    async with busy.waiting_with_poison() as running:
        consumer = next(
            candidate for candidate in running.consumers if candidate.queue.name == "work"
        )
        running._consumers.remove(consumer)
        await consumer.retire(0.0)
        busy.go_on.set()
        await until(lambda: not consumer._is_paused, "the end of the pause")
    assert busy.seen == []


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("ends", ["before the claim", "during the claim"])
async def test_a_consumer_that_retires_has_none_run(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    busy = Busy(app)
    async with busy.waiting_with_poison() as running:
        consumer = next(
            candidate for candidate in running.consumers if candidate.queue.name == "work"
        )
        claim, claimed = running._context.claimer.claim, list[int]()

        async def ended(scope: Any, request: ClaimRequest) -> Any:
            found = await claim(scope, request)
            if request.separate:
                claimed.append(len(found))
                await consumer.drain(0.0)
            return found

        monkeypatch.setattr(running._context.claimer, "claim", ended)
        if ends == "before the claim":
            await consumer.drain(0.0)
        busy.go_on.set()
        await until(lambda: not consumer._is_paused, "the end of the pause")
        assert await running.suspects._queues_with_suspects() == frozenset()
        assert claimed == ([] if ends == "before the claim" else [1])
    store = await app._engine.open()
    assert (await store.queues.counts(DEFAULT, "work")).ready == 1
    assert busy.seen == []


async def test_suspects_whose_only_consumer_is_gone_meanwhile_are_left(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy(app)
    await send_poison(app)

    async def not_by_itself(_: Suspects) -> float:
        return TIMEOUT_SECONDS

    monkeypatch.setattr(Suspects, "poll", not_by_itself)
    async with app._engine.running() as running:
        look = running.suspects._queues_with_suspects

        async def gone_meanwhile() -> frozenset[UUID]:
            found = await look()
            gone = [consumer for consumer in running.consumers if consumer.queue.id in found]
            assert [consumer.queue.name for consumer in gone] == ["work"]
            running._consumers.remove(gone[0])
            await gone[0].retire(0.0)
            return found

        monkeypatch.setattr(running.suspects, "_queues_with_suspects", gone_meanwhile)
        assert await running.suspects.run(inf) == 0
    assert busy.seen == []


@pytest.mark.usefixtures("soon")
async def test_while_it_runs_nothing_else_is_held(app: Tickwork) -> None:
    """Whoever is killed then takes nothing innocent along."""
    other, go_on, held = app.queue("other"), asyncio.Event(), list[int]()
    app.queue("work")

    @app.on("other", max_concurrency=1)
    async def slow(_: Message[Any]) -> None:
        await go_on.wait()

    @app.on("work")
    async def suspect(_: Message[Any]) -> None:
        store = await app._engine.open()
        held.append((await store.queues.counts(DEFAULT, "other")).claimed)

    await send_poison(app)
    store = await app._engine.open()
    await store.queues.pause(DEFAULT, "work")
    async with app._engine.running() as running:
        await other.send_batch([*range(20)])
        consumer = next(
            candidate for candidate in running.consumers if candidate.queue.name == "other"
        )
        await until(lambda: len(consumer.running) == 1, "the slow handler")
        consumer._prefetch.add(await claimed_by(store, running, 5))
        await store.queues.resume(DEFAULT, "work")
        await until(lambda: consumer._is_paused, "a pause")
        go_on.set()
        await until(lambda: held, "the poison")
    assert held == [0]


@pytest.mark.usefixtures("soon")
async def test_who_stops_takes_none_any_more(app: Tickwork) -> None:
    busy = Busy(app)
    async with busy.waiting_with_poison() as running:
        running.suspects.stop()
        busy.go_on.set()
        await until(
            lambda: not any(consumer._is_paused for consumer in running.consumers), "the end of it"
        )
        assert await running.suspects.run(inf) == 0
    store = await app._engine.open()
    assert (await store.queues.counts(DEFAULT, "work")).ready == 1
    assert busy.seen == []


@pytest.mark.usefixtures("soon")
async def test_of_batches_as_many_run_as_fit_into_one(app: Tickwork) -> None:
    work, sizes = app.queue("work", max_batch_size=10, max_batch_timeout=0), list[int]()

    @app.consumer("work", max_concurrency=1)
    async def handle(batch: MessageBatch[Any]) -> None:
        sizes.append(len(batch))

    await work.send_batch([*range(25)])
    for _ in range(LOST_CLAIMS_SEPARATE):
        await die_with(await app._engine.open(), 25)
    async with app.running():
        await until(lambda: sum(sizes) == 25, "all of them")
    assert sizes == [10, 10, 5]


@pytest.mark.usefixtures("soon")
async def test_a_batch_that_is_being_gathered_goes_before_them(app: Tickwork) -> None:
    work, other = app.queue("work"), app.queue("other", max_batch_timeout=60)
    order: list[str] = []

    @app.on("work", max_concurrency=1)
    async def suspect(_: Message[Any]) -> None:
        order.append("suspect")

    @app.consumer("other")
    async def gather(_: MessageBatch[Any]) -> None:
        order.append("batch")

    await work.send_batch([*range(5)])
    for _ in range(LOST_CLAIMS_SEPARATE):
        await die_with(await app._engine.open(), 5)
    store = await app._engine.open()
    await store.queues.pause(DEFAULT, "work")
    async with app._engine.running() as running:
        await other.send(1)
        gathering = next(
            consumer for consumer in running.consumers if consumer.queue.name == "other"
        )
        await until(lambda: gathering._prefetch, "a batch")
        await store.queues.resume(DEFAULT, "work")
        await until(lambda: order.count("suspect") == 5, "all of them")
    assert order == ["batch", *["suspect"] * 5]


@pytest.mark.usefixtures("soon")
async def test_a_worker_that_is_busy_leaves_them_to_others_for_a_while(
    app: Tickwork, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_look_again = asyncio.Event()
    busy, idle = Busy(app), Busy(Tickwork(home.url))
    await send_poison(app)
    store = await app._engine.open()
    await store.queues.pause(DEFAULT, "work")
    async with app._engine.running() as running:
        looks = counted_looks(running, monkeypatch, may_look_again)
        await app.queue("long").send(1)
        await until(lambda: busy.long_running == 1, "the long handler")
        await store.queues.resume(DEFAULT, "work")
        await until(lambda: looks, "a look")
        async with idle.app.running():
            await until(lambda: idle.seen, "the poison in the idle worker")
        may_look_again.set()
        await until(lambda: len(looks) > 1, "another look")
        assert not any(consumer._is_paused for consumer in running.consumers)
        busy.go_on.set()
    assert busy.seen == []


@pytest.mark.usefixtures("soon")
async def test_after_some_others_have_their_turn_for_four_times_as_long(app: Tickwork) -> None:
    work, other = app.queue("work"), app.queue("other")
    gaps, last = list[float](), monotonic()
    seconds, ran = 0.03, 0

    @app.on("work", max_concurrency=1)
    async def suspect(_: Message[Any]) -> None:
        nonlocal ran, last
        gaps.append(monotonic() - last)
        await asyncio.sleep(seconds)
        ran, last = ran + 1, monotonic()

    @app.on("other", max_concurrency=1)
    async def innocent(message: Message[Any]) -> None:
        await asyncio.sleep(0.01)
        if ran < 3:
            await other.send(message.body)

    await work.send_batch([*range(3)])
    for _ in range(LOST_CLAIMS_SEPARATE):
        await die_with(await app._engine.open(), 3)
    await other.send_batch([*range(3)])
    async with app.running():
        await until(lambda: ran == 3, "all of them")
    assert min(gaps[1:]) >= seconds * suspects.SUSPECT_REST_FACTOR


@pytest.mark.usefixtures("soon")
async def test_it_does_not_run_under_a_lease_that_was_lost_while_it_waited(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SUSPECT_WAIT_SECONDS", TIMEOUT_SECONDS)
    busy = Busy(app)
    async with busy.waiting_with_poison() as running:
        lost = running._node.id
        await (await app._engine.open()).nodes.leave(SYSTEM, lost)
        await until(lambda: running._node.id != lost, "a new identity")
        busy.go_on.set()
        await until(lambda: busy.seen, "the poison to run")
    assert [message._stored.holder == lost for message in busy.seen] == [False]


async def test_it_does_not_run_while_the_lease_may_have_run_out(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SUSPECT_POLL_SECONDS", 0.02)
    monkeypatch.setattr(suspects, "SUSPECT_REST_FACTOR", 0.1)
    monkeypatch.setattr(node, "BEATS_PER_TTL", 30)
    busy = Busy(app)
    async with busy.waiting_with_poison() as running:
        busy.trusted_until = lambda: running._node.trusted_until
        running._node.trusted_until = float("-inf")
        busy.go_on.set()
        await until(lambda: busy.seen, "the poison to run")
    assert busy.was_trusted == [True]
