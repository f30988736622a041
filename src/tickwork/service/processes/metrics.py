"""The metrics of a process as values that can be sent, and merged ones as a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tickwork.core.merged_metrics import MetricFamily, MetricValue


class LastingRegistry(CollectorRegistry):
    """A registry whose collectors stay: when they have stopped, their last numbers are read."""

    def unregister(self, collector: Collector) -> None:
        """Does nothing."""


def families_of(registry: CollectorRegistry) -> tuple[MetricFamily, ...]:
    """All metrics of a registry."""
    return tuple(
        MetricFamily(
            metric.name,
            metric.documentation,
            metric.type,
            tuple(
                MetricValue(sample.name, dict(sample.labels), float(sample.value))
                for sample in metric.samples
            ),
        )
        for metric in registry.collect()
    )


def merged_registry(fetch: Callable[[], Sequence[MetricFamily]]) -> CollectorRegistry:
    """A registry with what is fetched whenever it is read."""
    registry = CollectorRegistry()
    registry.register(_Fetched(fetch))
    return registry


class _Fetched(Collector):
    """Collects what somebody else has merged."""

    def __init__(self, fetch: Callable[[], Sequence[MetricFamily]]) -> None:
        self._fetch = fetch

    def describe(self) -> Iterable[Metric]:
        """Nothing. Without it a registry would fetch to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        for family in self._fetch():
            metric = Metric(family.name, family.text, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, sample.value)
            yield metric
