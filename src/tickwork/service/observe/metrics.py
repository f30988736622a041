"""Numbers for Prometheus, in a registry of ours.

A message costs a few additions: they are kept here as plain numbers, a settlement at a time, and
only a scrape makes metrics of them. (A histogram of the client library takes a lock for every
bucket and sum: measured, it would cost each message three times as much.) What can be read when it
is asked for, such as the slots in use, is not counted at all.

Labels are bounded: queues by name, and outcomes. Types and tenants are not among them. All is
written in the event loop and may be read from any thread.

Metrics over HTTP, from a thread of their own: they answer also while the event loop does not.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
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
from tickwork.core.model import Fate, Queue, SettleResult
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.observe import DUPLICATE, OUTCOMES, REFUSED, ClockOffset
from tickwork.service.observe.log_events import LogEvent

if TYPE_CHECKING:
    from tickwork.service.isolation import Isolator
    from tickwork.service.observe.watchdog import Watchdog
    from tickwork.service.worker.consumer import QueueConsumer
    from tickwork.service.worker.settle import FinishedMessage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
SIZES = (0, 1, 2, 5, 10, 25, 50, 100, 250, 500)

_ACK = Fate.ACK


class BucketCounts:
    """How often something was how large."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """One more."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_all(self, values: list[float]) -> None:
        """Many more; the list may be sorted by it."""
        values.sort()
        below = 0
        for place, bound in enumerate(self._bounds):
            if below == len(values):
                break
            upto = bisect_right(values, bound, below)
            self._counts[place] += upto - below
            below = upto
        self._counts[-1] += len(values) - below
        self._sum += sum(values)

    def onto(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Shows it, as Prometheus wants it: each bucket holds those below it too."""
        total, buckets = 0, list[tuple[str, float]]()
        bounds = [*map(str, map(float, self._bounds)), "+Inf"]
        for bound, count in zip(bounds, self._counts.copy(), strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(labels, buckets, self._sum)


class QueueCounters:
    """The numbers of one queue."""

    def __init__(self) -> None:
        self.acked = 0
        self.others: Counter[str] = Counter()
        self.handler_seconds = BucketCounts(SECONDS)
        self.delay_seconds = BucketCounts(SECONDS)
        self.claim_sizes = BucketCounts(SIZES)
        self.settle_sizes = BucketCounts(SIZES)

    def outcomes(self) -> Iterator[tuple[str, int]]:
        """How many messages ended how; every outcome is there from the beginning."""
        succeeded = OUTCOMES[_ACK]
        for outcome in (*OUTCOMES.values(), REFUSED, DUPLICATE):
            yield outcome, self.others[outcome] + (self.acked if outcome == succeeded else 0)


class WorkerMetrics(Collector):
    """The numbers of one worker; `collect` is what a registry calls."""

    def __init__(self, clock: ClockOffset) -> None:
        self._clock = clock
        self._counters: dict[str, QueueCounters] = {}
        self._consumers: Sequence[QueueConsumer] = ()
        self._isolator: Isolator | None = None
        self._watchdog: Watchdog | None = None
        self._leases_lost = 0

    def watch(
        self, consumers: Sequence[QueueConsumer], isolator: Isolator, watchdog: Watchdog
    ) -> None:
        """Reads these when it is asked."""
        self._consumers, self._isolator, self._watchdog = consumers, isolator, watchdog
        for each in consumers:
            self._counters.setdefault(each.queue.name, QueueCounters())

    # Told by the worker

    def claimed(self, queue: Queue, count: int) -> None:
        """A claim, and how much it brought."""
        self._of(queue).claim_sizes.add(count)

    def handled(self, queue: Queue, took_seconds: float) -> None:
        """A handler's end."""
        self._of(queue).handler_seconds.add(took_seconds)

    def settled(self, queue: Queue, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        """Messages' ends."""
        tally = self._of(queue)
        tally.settle_sizes.add(len(ends))
        tally.delay_seconds.add_all(self._clock.delays_seconds(ends))
        fates = [end.ending.fate for end in ends]
        acked = fates.count(_ACK)
        tally.acked += acked
        if acked < len(fates):
            tally.others.update(OUTCOMES[fate] for fate in fates if fate is not _ACK)
        if result.refused or result.duplicates:
            self._correct(tally, ends, result)

    def lease_lost(self, _: UUID) -> None:
        """The node was taken for dead."""
        self._leases_lost += 1

    def _of(self, queue: Queue) -> QueueCounters:
        tally = self._counters.get(queue.name)
        if tally is None:
            tally = self._counters[queue.name] = QueueCounters()
        return tally

    def _correct(
        self, tally: QueueCounters, ends: Sequence[FinishedMessage], result: SettleResult
    ) -> None:
        """Counts those that did not end so as what they were instead."""
        fates = {end.ending.claim: end.ending.fate for end in ends}
        for outcome, odd in ((REFUSED, result.refused), (DUPLICATE, result.duplicates)):
            for held in odd:
                tally.others[OUTCOMES[fates[held]]] -= 1
                tally.others[outcome] += 1

    # Asked by a registry

    def collect(self) -> Iterator[Metric]:
        """Everything."""
        yield InfoMetricFamily("tickwork", "The program.", value={"version": __version__})
        tallies = [*self._counters.items()]
        yield _ended(tallies)
        yield from _distributions(tallies)
        yield from self._gauges()
        yield from self._process()

    def _gauges(self) -> Iterator[Metric]:
        used = _gauge("slots_used", "Handlers that run now.")
        allowed = _gauge("slots_allowed", "Handlers that may run at a time.")
        unsettled = _gauge("unsettled_messages", "Messages that ended and are not settled yet.")
        left = _gauge("handlers_left_behind", "Handlers that were given up and still run.")
        for each in self._consumers:
            labels = [each.queue.name]
            used.add_metric(labels, each.running)
            allowed.add_metric(labels, each.permits)
            unsettled.add_metric(labels, each.unsettled)
            if self._isolator is not None:
                left.add_metric(labels, self._isolator.abandoned.of(each.queue.name))
        yield from (used, allowed, unsettled, left)

    def _process(self) -> Iterator[Metric]:
        if self._isolator is not None:
            total, killed = self._isolator.abandoned.total, self._isolator.processes.killed
            yield _count("handlers_left_behind_ever", "Handlers that were given up.", total)
            yield _count("processes_killed", "Handlers' processes that were killed.", killed)
        if self._watchdog is not None:
            blocked, times = self._watchdog.blocked_seconds(), self._watchdog.times_blocked
            yield _count("loop_blocked_seconds", "How long the event loop stood still.", blocked)
            yield _count("loop_blocked", "How often the event loop stood still.", times)
        yield _count("leases_lost", "How often this process was taken for dead.", self._leases_lost)


def registry_of_process() -> CollectorRegistry:
    """A registry of our own: this process's memory, processor time and files, and what is
    registered beside them."""
    from prometheus_client import PlatformCollector, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


AllCounters = Iterable[tuple[str, QueueCounters]]


def _ended(tallies: AllCounters) -> Metric:
    family = CounterMetricFamily(
        "tickwork_messages", "Messages that came to an end.", labels=["queue", "outcome"]
    )
    for queue, tally in tallies:
        for outcome, count in tally.outcomes():
            family.add_metric([queue, outcome], count)
    return family


def _distributions(tallies: AllCounters) -> Iterator[Metric]:
    took = _histogram("handler_seconds", "How long handlers took.")
    delay = _histogram("pickup_delay_seconds", "From a message's time to its handler's start.")
    claims = _histogram("claim_messages", "Messages of one claim.")
    settles = _histogram("settle_messages", "Messages of one settlement.")
    for queue, tally in tallies:
        tally.handler_seconds.onto(took, [queue])
        tally.delay_seconds.onto(delay, [queue])
        tally.claim_sizes.onto(claims, [queue])
        tally.settle_sizes.onto(settles, [queue])
    yield from (took, delay, claims, settles)


def _histogram(name: str, text: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"tickwork_{name}", text, labels=["queue"])


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tickwork_{name}", text, labels=["queue"])


def _count(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"tickwork_{name}", text, value=value)


_log = logging.getLogger("tickwork")


@contextmanager
def serving(registry: CollectorRegistry, *, host: str, port: int) -> Iterator[int]:
    """Serves meanwhile; gives the port, which is any that is free if it is 0. `InvalidInput` if
    it cannot be had."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number).lower() if number and number > 0 else str(error)
        fault = f"port {port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("metrics_port", fault)]) from None
    _log.info(LogEvent("metrics are served", host=host, port=server.server_port))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
