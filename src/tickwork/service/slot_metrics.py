"""The numbers of slots and of the scheduler for Prometheus, read when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tickwork.service.slot_numbers import LATENESS_SECONDS, SlotNumbers


class SlotMetrics(Collector):
    """What `SlotNumbers` counted, as Prometheus wants it: of slots, and unless it leads nothing
    (`is_leading`) of what it leads."""

    def __init__(self, numbers: SlotNumbers, *, is_leading: bool) -> None:
        self._numbers, self._is_leading = numbers, is_leading

    def collect(self) -> Iterator[Metric]:
        slots = CounterMetricFamily(
            "tickwork_schedule_slots", "Slots by what became of them", labels=["outcome"]
        )
        for outcome, count in sorted(self._numbers.slots.items()):
            slots.add_metric([outcome], count)
        yield slots
        yield _lateness(self._numbers)
        if self._is_leading:
            yield from self._led()

    def _led(self) -> Iterator[Metric]:
        numbers = self._numbers
        for name, told, value in (
            ("tickwork_shards_held", "Shards that this node leads", numbers.shards_held),
            (
                "tickwork_planning_lag_seconds",
                "How late what came first was looked at",
                numbers.planning_lag_seconds,
            ),
            (
                "tickwork_oldest_overdue_seconds",
                "How long the oldest schedule that is due has waited for its leader",
                numbers.oldest_overdue_seconds,
            ),
        ):
            yield GaugeMetricFamily(name, told, value=value)
        for name, told, total in (
            ("tickwork_shards_lost", "Shards that were lost to another node", numbers.shards_lost),
            ("tickwork_shard_stalls", "Times that a shard was found stalled", numbers.stalls),
            ("tickwork_clock_jumps", "Jumps of the database's clock", numbers.jumps),
            ("tickwork_schedules_parked", "Schedules that could not be planned", numbers.parks),
            (
                "tickwork_schedules_shifted",
                "Intervals that were moved because the database's clock was set",
                numbers.shifts,
            ),
            (
                "tickwork_schedules_rezoned",
                "Schedules whose next slot moved because of new zone data",
                numbers.rezones,
            ),
        ):
            yield CounterMetricFamily(name, told, value=total)


def _lateness(numbers: SlotNumbers) -> HistogramMetricFamily:
    total, buckets = 0, list[tuple[str, float]]()
    bounds = [*map(str, LATENESS_SECONDS), "+Inf"]
    for bound, count in zip(bounds, [*numbers.lateness], strict=True):
        total += count
        buckets.append((bound, total))
    return HistogramMetricFamily(
        "tickwork_slot_lateness_seconds",
        "How long after it was due a slot that fired became claimable",
        buckets=buckets,
        sum_value=numbers.lateness_seconds,
    )
