"""The metrics of a worker: what is counted and exposed."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import HistogramMetricFamily

from tests.kit.waiting import eventually
from tests.service.workplace import Workplace
from tests.stores.home import Home
from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
from tickwork.clock import monotonic, now
from tickwork.core.model import SYSTEM, NewMessage, QueueSettings, Scope, Tenant
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.ops.queues import QueueDepth, queue_depths
from tickwork.service import maintenance
from tickwork.service.observe import ClockOffset
from tickwork.service.observe.metrics import (
    SCRAPED_SECONDS,
    SECONDS,
    BucketCounts,
    WorkerMetrics,
    registry_of_process,
    serve_metrics,
)
from tickwork.store.ids import new_id

LATE_SECONDS = 90.0


class Numbers:
    """What a registry tells."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"tickwork_{name}", labels)

    def ended(self) -> dict[str, float]:
        """How many messages of `work` ended how."""
        (family,) = (
            candidate
            for candidate in self.registry.collect()
            if candidate.name == "tickwork_messages"
        )
        return {sample.labels["outcome"]: sample.value for sample in family.samples if sample.value}


@pytest.fixture
def numbers() -> Numbers:
    """In a registry of the test's own."""
    return Numbers()


async def test_messages_are_counted_by_how_they_ended(
    tmp_path: Path, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.service.node.BEATS_PER_TTL", 100)
    work = Workplace(tmp_path, max_retries=3, backoff={"kind": "fixed", "seconds": 0})
    both = asyncio.Barrier(2)

    async def handle(message: Message[Any]) -> None:
        match message.body:
            case "twice":
                await both.wait()
            case "retry" if message.attempts == 1:
                raise ValueError
            case "snooze" if message._stored.claim == 1:
                raise Snooze(0.01)
            case "dead":
                raise Permanent("never")
            case "late":
                assert message._stored.holder is not None
                store = await work.app._engine.open()
                await store.nodes.leave(SYSTEM, message._stored.holder)

    work.handle(handle, max_concurrency=5)
    for _ in range(2):
        await work.app.queue("work").send("twice", event_id="once")
    async with work.app.running(registry=numbers.registry):
        await work.send("retry", "snooze", "dead")
        expected = {"succeeded": 3, "retried": 1, "released": 1, "dead": 1, "duplicate": 1}
        await eventually(lambda: numbers.ended() == expected, timeout_seconds=LATE_SECONDS)
        assert numbers("leases_lost_total") == 0
        await work.send("late")
        await eventually(lambda: "refused" in numbers.ended(), timeout_seconds=LATE_SECONDS)
        await eventually(lambda: numbers("leases_lost_total"), timeout_seconds=LATE_SECONDS)
    assert [*numbers.registry.collect()] == []  # Who has stopped is not there any more.


async def test_times_and_sizes_are_told_on_every_store(home: Home, numbers: Numbers) -> None:
    app = Tickwork(home.url)
    work = app.queue("work", max_batch_size=5, max_batch_timeout=0)
    held, begun = asyncio.Event(), asyncio.Event()

    @app.consumer("work", max_concurrency=7)
    async def handle(_: MessageBatch[Any]) -> None:
        begun.set()
        await held.wait()

    await work.send_batch([*range(5)])
    async with app.running(registry=numbers.registry):
        await asyncio.wait_for(begun.wait(), LATE_SECONDS)
        assert numbers("permits_used", queue="work") == 1
        assert numbers("permits_allowed", queue="work") == 7
        held.set()

        def has_ended() -> bool:
            still = (
                numbers("permits_used", queue="work"),
                numbers("unsettled_messages", queue="work"),
            )
            return numbers.ended() == {"succeeded": 5} and still == (0, 0)

        await eventually(has_ended, timeout_seconds=LATE_SECONDS)
        assert numbers("handler_seconds_count", queue="work") == 1
        assert numbers("pickup_delay_seconds_count", queue="work") == 5
        assert 0 <= (numbers("pickup_delay_seconds_sum", queue="work") or 0) < 5 * LATE_SECONDS
        assert numbers("claim_messages_sum", queue="work") == 5
        assert numbers("settle_messages_sum", queue="work") == 5
        assert numbers("claim_messages_bucket", queue="work", le="0.0") is not None
    await app.close()


async def test_what_was_left_behind_and_what_was_killed_is_counted(
    tmp_path: Path, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.service.worker.invocations.CANCEL_GRACE_SECONDS", 0.05)
    work, over = Workplace(tmp_path, timeout_seconds=1), asyncio.Event()

    async def stubborn(_: Message[Any]) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    work.handle(stubborn)
    await work.send(1)
    async with work.app.running(registry=numbers.registry):
        await work.until_dead()
        await eventually(lambda: numbers("handlers_left_behind", queue="work") == 1)
        over.set()
        await eventually(lambda: numbers("handlers_left_behind", queue="work") == 0)
        assert numbers("handlers_left_behind_ever_total") == 1
        assert numbers("processes_killed_total") == 0


async def test_the_clocks_of_two_machines_are_compared_by_their_distance() -> None:
    class Ahead:
        async def now(self) -> Any:
            return now().fromtimestamp(monotonic() + 5_000.0, now().tzinfo)

    clock: Any = ClockOffset()
    await clock.measure(Ahead())
    assert clock._offset_seconds == pytest.approx(5_000.0, abs=1.0)


@given(st.lists(st.floats(0, 2_000)), st.lists(st.floats(0, 2_000)))
def test_bucket_counts_are_what_the_client_librarys_histogram_is(
    one_by_one: list[float], together: list[float]
) -> None:
    registry = CollectorRegistry()
    theirs = Histogram("h", "", registry=registry, buckets=SECONDS)
    ours, family = BucketCounts(SECONDS), HistogramMetricFamily("h", "", labels=[])
    for value in one_by_one:
        ours.add(value)
    for value in one_by_one + together:
        theirs.observe(value)
    ours.add_all(together)
    ours.add_to(family, [])
    for sample in family.samples:
        same = registry.get_sample_value(sample.name, sample.labels)
        assert sample.value == pytest.approx(same), sample


async def test_numbers_are_served_over_http_and_nobody_else_has_the_port() -> None:
    registry = registry_of_process()
    with serve_metrics(registry, host="127.0.0.1", port=0) as port:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/metrics")
        assert "process_resident_memory_bytes" in answer.text
        with (
            pytest.raises(InvalidInput, match="address already in use"),
            serve_metrics(registry, host="127.0.0.1", port=port),
        ):
            pass
    with serve_metrics(registry, host="127.0.0.1", port=port) as again:
        assert again == port


def scraped(text: str, name: str) -> dict[str, float]:
    """The values of a metric of queues in an answer of Prometheus' text format, by queue."""
    found = re.findall(rf'^tickwork_{name}{{queue="([^"]+)"}} (\S+)$', text, re.MULTILINE)
    return {queue: float(value) for queue, value in found}


async def test_the_depth_of_queues_is_scraped_also_of_those_that_nobody_handles(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MEASURE_SECONDS", 0.05)
    app, registry = Tickwork(home.url), CollectorRegistry()
    queue = app.queue("nobody")
    app.queue("empty")
    store = await app._engine.open()
    for tenant in ("one", "two"):
        await store.tenants.put(SYSTEM, Tenant(id=tenant))
        await store.queues.put(Scope(tenant), "own", QueueSettings())
        await store.messages.send(Scope(tenant), "own", NewMessage(id=new_id(), body=b"1"))
    async with app.running(registry=registry):
        await queue.send_batch([1, 2, 3])
        with serve_metrics(registry, host="127.0.0.1", port=0) as port:

            async def depths() -> dict[str, float]:
                async with httpx.AsyncClient(trust_env=False) as client:
                    text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
                oldest = scraped(text, "queue_oldest_seconds")
                found = scraped(text, "queue_waiting_messages")
                assert oldest.keys() == found.keys()
                assert all(
                    (oldest[queue_name] > 0) == (found[queue_name] > 0) for queue_name in found
                )
                return found

            async def are_told() -> bool:
                return await depths() == {"empty": 0, "nobody": 3, "own": 2}

            await eventually(are_told, timeout_seconds=LATE_SECONDS)
    await app.close()


@pytest.mark.one_store("sqlite")
async def test_one_node_measures_the_queues_and_only_if_somebody_reads_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MEASURE_SECONDS", 0.02)
    passes, measured = Counter[WorkerMetrics](), list[str]()
    apps = {name: (Tickwork(home.url), CollectorRegistry()) for name in ("one", "two")}

    async def noted(store: Any) -> Any:
        measured.append("a pass")
        return await queue_depths(store)

    monkeypatch.setattr(maintenance, "queue_depths", noted)
    passed = WorkerMetrics.queues_measured

    def counted(self: WorkerMetrics, depths: Any, seconds: float) -> None:
        passes[self] += 1
        # Valid until its next pass, however late that is.
        passed(self, depths, seconds and LATE_SECONDS)

    async def until_each_has_passed() -> None:
        passes.clear()
        await eventually(
            lambda: len(passes) == len(apps) and min(passes.values()) > 2,
            timeout_seconds=LATE_SECONDS,
        )

    monkeypatch.setattr(WorkerMetrics, "queues_measured", counted)
    apps["one"][0].queue("work")
    async with AsyncExitStack() as running:
        for app, registry in apps.values():
            await running.enter_async_context(app.running(registry=registry))
        await until_each_has_passed()
        assert measured == []

        def telling() -> int:
            found = (
                app_registry.get_sample_value("tickwork_queue_waiting_messages", {"queue": "work"})
                for _, app_registry in apps.values()
            )
            return sum(value is not None for value in found)

        await eventually(lambda: telling() == 1, timeout_seconds=LATE_SECONDS)
        await until_each_has_passed()
        # Between two leaders of the first shard nobody tells, or both do until the next pass.
        await eventually(lambda: telling() == 1, timeout_seconds=LATE_SECONDS)
    for app, _ in apps.values():
        await app.close()


def test_metrics_are_read_for_a_while_after_a_scrape_and_registering_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics, registry = WorkerMetrics(ClockOffset()), CollectorRegistry(auto_describe=True)
    registry.register(metrics)
    is_scraped = [metrics.is_scraped]
    assert [*registry.collect()]
    is_scraped.append(metrics.is_scraped)
    later = monotonic() + SCRAPED_SECONDS
    monkeypatch.setattr("tickwork.service.observe.metrics.monotonic", lambda: later)
    assert [*is_scraped, metrics.is_scraped] == [False, True, False]


@pytest.mark.parametrize(("seconds", "told"), [(60.0, 3.0), (0.0, None)])
def test_the_depth_of_queues_is_not_told_for_longer_than_it_is_valid(
    numbers: Numbers, seconds: float, told: float | None
) -> None:
    metrics = WorkerMetrics(ClockOffset())
    numbers.registry.register(metrics)
    metrics.queues_measured([QueueDepth("work", 3, 1.5)], seconds)
    assert numbers("queue_waiting_messages", queue="work") == told
