"""Prometheus metrics of a worker, and the HTTP server that exposes a registry.

Counting must be cheap: a message costs a few additions. The numbers are kept as plain integers,
updated once per settlement, and become metrics only when Prometheus scrapes. (A histogram of the
client library takes a lock for every bucket and sum; measured, it would cost each message three
times as much.) What can be read on demand, such as the permits in use, is not counted at all.

Labels are bounded: queue names and outcomes, never message types or tenants. Counters are written
in the event loop and may be read from any thread. The HTTP server has its own thread, so metrics
are available even while the event loop is blocked.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tickwork import __version__
from tickwork.clock import monotonic
from tickwork.core.http.client_address import is_loopback, names_loopback
from tickwork.core.model import Fate, SettleResult, StoredQueue
from tickwork.core.workflow.model import Run
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.observe import DUPLICATE, OUTCOMES, REFUSED, ClockOffset, Observer
from tickwork.service.observe.log_events import LogEvent

if TYPE_CHECKING:
    from tickwork.ops.queues import QueueDepth
    from tickwork.service.isolation import Isolator
    from tickwork.service.observe.watchdog import Watchdog
    from tickwork.service.worker.consumer import QueueConsumer
    from tickwork.service.worker.settle import FinishedMessage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
SIZES = (0, 1, 2, 5, 10, 25, 50, 100, 250, 500)

SCRAPED_SECONDS = 300.0
"""Seconds after a scrape during which the next one is expected."""

_ACK = Fate.ACK


class BucketCounts:
    """A histogram: the number of values in each bucket, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Adds one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_all(self, values: list[float]) -> None:
        """Adds many values. Sorts the list in place."""
        values.sort()
        below = 0
        for index, bound in enumerate(self._bounds):
            if below == len(values):
                break
            upto = bisect_right(values, bound, below)
            self._counts[index] += upto - below
            below = upto
        self._counts[-1] += len(values) - below
        self._sum += sum(values)

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Adds it to a metric. In Prometheus each bucket includes the smaller ones."""
        total, buckets = 0, list[tuple[str, float]]()
        bounds = [*map(str, map(float, self._bounds)), "+Inf"]
        for bound, count in zip(bounds, self._counts.copy(), strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(labels, buckets, self._sum)


class QueueCounters:
    """The counters of one queue."""

    def __init__(self) -> None:
        self.acked = 0
        self.others: Counter[str] = Counter()
        self.handler_seconds = BucketCounts(SECONDS)
        self.delay_seconds = BucketCounts(SECONDS)
        self.claim_sizes = BucketCounts(SIZES)
        self.settle_sizes = BucketCounts(SIZES)

    def outcomes(self) -> Iterator[tuple[str, int]]:
        """Number of messages per outcome; every outcome is present from the start."""
        succeeded = OUTCOMES[_ACK]
        for outcome in (*OUTCOMES.values(), REFUSED, DUPLICATE):
            yield outcome, self.others[outcome] + (self.acked if outcome == succeeded else 0)


class WorkerMetrics(Observer, Collector):
    """The metrics of one worker; `collect` is called by a Prometheus registry."""

    def __init__(self, clock: ClockOffset) -> None:
        self._clock = clock
        self._counters: dict[str, QueueCounters] = {}
        self._consumers: Sequence[QueueConsumer] = ()
        self._isolator: Isolator | None = None
        self._watchdog: Watchdog | None = None
        self._leases_lost = self._renewals_failing = 0
        self._runs_diverged: Counter[str] = Counter()
        self._depths: Sequence[QueueDepth] = ()
        self._depths_until = -inf
        self._scraped_at = -inf

    def watch(
        self, consumers: Sequence[QueueConsumer], isolator: Isolator, watchdog: Watchdog
    ) -> None:
        """Sets the objects whose state `collect` reads."""
        self._consumers = consumers
        self._isolator = isolator
        self._watchdog = watchdog
        for consumer in consumers:
            self._counters.setdefault(consumer.queue.name, QueueCounters())

    # Events

    def messages_claimed(self, queue: StoredQueue, count: int) -> None:
        self._of(queue).claim_sizes.add(count)

    def handler_finished(self, queue: StoredQueue, took_seconds: float) -> None:
        self._of(queue).handler_seconds.add(took_seconds)

    def messages_settled(
        self, queue: StoredQueue, finished: Sequence[FinishedMessage], result: SettleResult
    ) -> None:
        counters = self._of(queue)
        counters.settle_sizes.add(len(finished))
        counters.delay_seconds.add_all(self._clock.delays_seconds(finished))
        fates = [message.ending.fate for message in finished]
        acked = fates.count(_ACK)
        counters.acked += acked
        if acked < len(fates):
            counters.others.update(OUTCOMES[fate] for fate in fates if fate is not _ACK)
        if result.refused or result.duplicates:
            _recount(counters, finished, result)

    def queues_measured(self, depths: Sequence[QueueDepth], seconds: float) -> None:
        """Takes the depths of queues, which stay valid for `seconds`."""
        self._depths, self._depths_until = depths, monotonic() + seconds

    def renewal_failing(self, why: str, left_seconds: float) -> None:  # noqa: ARG002
        self._renewals_failing += 1

    def run_diverged(self, run: Run, divergence: str) -> None:  # noqa: ARG002
        self._runs_diverged[run.workflow] += 1

    def lease_lost(self, node_id: UUID) -> None:  # noqa: ARG002
        self._leases_lost += 1

    def _of(self, queue: StoredQueue) -> QueueCounters:
        counters = self._counters.get(queue.name)
        if counters is None:
            counters = self._counters[queue.name] = QueueCounters()
        return counters

    # Prometheus

    @property
    def is_scraped(self) -> bool:
        """Whether somebody has read these metrics lately."""
        return monotonic() - self._scraped_at < SCRAPED_SECONDS

    def describe(self) -> Iterable[Metric]:
        """Nothing. Without it a registry may call `collect` to register, which is no scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        self._scraped_at = monotonic()
        yield InfoMetricFamily("tickwork", "The program.", value={"version": __version__})
        counters = [*self._counters.items()]
        yield _outcomes(counters)
        yield from _histograms(counters)
        yield from self._gauges()
        yield from self._queue_depths()
        yield from self._process()

    def _gauges(self) -> Iterator[Metric]:
        used = _gauge("permits_used", "Running handlers.")
        allowed = _gauge("permits_allowed", "Maximum number of running handlers.")
        unsettled = _gauge("unsettled_messages", "Finished messages that are not settled yet.")
        left = _gauge("handlers_left_behind", "Abandoned handlers that still run.")
        for consumer in self._consumers:
            labels = [consumer.queue.name]
            used.add_metric(labels, len(consumer.running))
            allowed.add_metric(labels, consumer.permits.limit)
            unsettled.add_metric(labels, consumer.settler.unsettled)
            if self._isolator is not None:
                left.add_metric(labels, self._isolator.abandoned.count(consumer.queue.name))
        yield from (used, allowed, unsettled, left)

    def _queue_depths(self) -> Iterator[Metric]:
        messages = _gauge("queue_waiting_messages", "Messages that wait for a worker.")
        oldest = _gauge("queue_oldest_seconds", "Seconds the oldest waiting message has waited.")
        for depth in self._depths if monotonic() < self._depths_until else ():
            messages.add_metric([depth.name], depth.messages)
            oldest.add_metric([depth.name], depth.oldest_seconds)
        yield from (messages, oldest)

    def _process(self) -> Iterator[Metric]:
        if self._isolator is not None:
            total, killed = self._isolator.abandoned.total, self._isolator.processes.killed
            yield _count("handlers_left_behind_ever", "Abandoned handlers.", total)
            yield _count("processes_killed", "Handler processes that were killed or died.", killed)
        if self._watchdog is not None:
            blocked, times = self._watchdog.blocked_seconds(), self._watchdog.times_blocked
            yield _count("loop_blocked_seconds", "Seconds the event loop was blocked.", blocked)
            yield _count("loop_blocked", "Times the event loop was blocked.", times)
        text = "Runs whose code did not agree with their record."
        diverged = CounterMetricFamily("tickwork_runs_diverged", text, labels=["workflow"])
        for workflow, count in self._runs_diverged.items():
            diverged.add_metric([workflow], count)
        yield diverged
        failing = "Times this process was about to lose its lease."
        yield _count("renewals_failing", failing, self._renewals_failing)
        yield _count("leases_lost", "Times this process lost its lease.", self._leases_lost)


def registry_of_process(registry: CollectorRegistry | None = None) -> CollectorRegistry:
    """A registry, usually a new one, with the metrics of this process: memory, CPU time and open
    files."""
    from prometheus_client import PlatformCollector, ProcessCollector

    registry = registry or CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


AllCounters = Iterable[tuple[str, QueueCounters]]


def _recount(
    counters: QueueCounters, finished: Sequence[FinishedMessage], result: SettleResult
) -> None:
    """Counts refused messages and duplicates as such, instead of as what was settled."""
    fates = {message.ending.claim: message.ending.fate for message in finished}
    for outcome, claims in ((REFUSED, result.refused), (DUPLICATE, result.duplicates)):
        for claim in claims:
            counters.others[OUTCOMES[fates[claim]]] -= 1
            counters.others[outcome] += 1


def _outcomes(all_counters: AllCounters) -> Metric:
    family = CounterMetricFamily(
        "tickwork_messages", "Settled messages by outcome.", labels=["queue", "outcome"]
    )
    for queue, counters in all_counters:
        for outcome, count in counters.outcomes():
            family.add_metric([queue, outcome], count)
    return family


def _histograms(all_counters: AllCounters) -> Iterator[Metric]:
    took = _histogram("handler_seconds", "Seconds a handler took.")
    delay = _histogram(
        "pickup_delay_seconds", "Seconds from a message's visible time to its handler's start."
    )
    claims = _histogram("claim_messages", "Messages per claim.")
    settles = _histogram("settle_messages", "Messages per settlement.")
    for queue, counters in all_counters:
        counters.handler_seconds.add_to(took, [queue])
        counters.delay_seconds.add_to(delay, [queue])
        counters.claim_sizes.add_to(claims, [queue])
        counters.settle_sizes.add_to(settles, [queue])
    yield from (took, delay, claims, settles)


def _histogram(name: str, text: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"tickwork_{name}", text, labels=["queue"])


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tickwork_{name}", text, labels=["queue"])


def _count(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"tickwork_{name}", text, value=value)


_log = logging.getLogger("tickwork")


@contextmanager
def serve_metrics(registry: CollectorRegistry, *, host: str, port: int) -> Iterator[int]:
    """Serves the registry over HTTP and yields the port (0 selects a free one). Raises
    `InvalidInput` if the port cannot be used."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number).lower() if number and number > 0 else str(error)
        fault = f"port {port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("metrics_port", fault)]) from None
    if is_loopback(host):
        server.set_app(_refusing_other_hosts(server.get_app()))
    _log.info(LogEvent("metrics are served", host=host, port=server.server_port))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _refusing_other_hosts(app: Any) -> Any:
    """The same application, for requests whose `Host` is this machine: a page of another site that
    makes its name lead here reads nothing."""

    def serve(environ: dict[str, Any], start_response: Any) -> Any:
        if names_loopback(environ.get("HTTP_HOST")):
            return app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"Host: must be this machine, such as 127.0.0.1\n"]

    return serve
