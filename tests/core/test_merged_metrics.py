"""The metrics of several processes as those of one: `core/merged_metrics`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tickwork.core.merged_metrics import (
    GREATEST_GAUGES,
    SUMMED_GAUGES,
    MetricFamily,
    MetricValue,
    merged,
    totals,
)
from tickwork.service.observe import ClockOffset
from tickwork.service.observe.metrics import WorkerMetrics, registry_of_process
from tickwork.service.observe.schedule_metrics import ScheduleMetrics
from tickwork.service.processes.metrics import families_of, merged_registry

QUEUES = ("emails", "orders")


def family(name: str, kind: str, values: dict[str, float], suffix: str = "") -> MetricFamily:
    samples = [
        MetricValue(name + suffix, {"queue": queue}, value) for queue, value in values.items()
    ]
    return MetricFamily(name, "What it is.", kind, tuple(samples))


def counted(values: dict[str, float]) -> MetricFamily:
    return family("tickwork_messages", "counter", values, "_total")


def values_of(families: tuple[MetricFamily, ...]) -> dict[str, float]:
    return {sample.labels["queue"]: sample.value for sample in families[0].samples}


COUNTS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 1_000).map(float))


@given(lives=st.lists(st.tuples(COUNTS, st.booleans()), min_size=1, max_size=6))
def test_counters_are_summed_and_do_not_fall_when_a_process_ends(
    lives: list[tuple[dict[str, float], bool]],
) -> None:
    families = [(counted(values), has_ended) for values, has_ended in lives]
    before = merged({number: [found] for number, (found, _) in enumerate(families)})
    ended = totals([[found] for found, has_ended in families if has_ended])
    living = {n: [found] for n, (found, has_ended) in enumerate(families) if not has_ended}
    after = merged(living, ended)
    expected = {
        queue: sum(values.get(queue, 0.0) for values, _ in lives)
        for queue in QUEUES
        if any(queue in values for values, _ in lives)
    }
    assert values_of(before) == values_of(after) == expected


def test_gauges_are_summed_or_the_greatest_and_others_have_the_number_of_their_process() -> None:
    def of_process(number: float) -> list[MetricFamily]:
        return [
            family("tickwork_permits_used", "gauge", {"emails": number}),
            family("tickwork_queue_waiting_messages", "gauge", {"emails": number}),
            MetricFamily(
                "process_cpu_seconds", "", "counter", (MetricValue("process_cpu", {}, number),)
            ),
        ]

    used, waiting, cpu = merged({1: of_process(1.0), 2: of_process(2.0)})
    assert (values_of((used,)), values_of((waiting,))) == ({"emails": 3.0}, {"emails": 2.0})
    assert cpu.samples == (
        MetricValue("process_cpu", {"process": "1"}, 1.0),
        MetricValue("process_cpu", {"process": "2"}, 2.0),
    )
    assert totals([of_process(1.0)]) == ()


def test_when_a_counter_was_created_says_nothing_of_a_sum() -> None:
    created = MetricValue("tickwork_http_refused_created", {}, 1e9)
    refused = MetricFamily("tickwork_http_refused", "", "counter", (created,))
    assert merged({1: [refused]})[0].samples == ()


def test_each_gauge_of_ours_has_a_rule_and_a_registry_is_read_as_it_was() -> None:
    registry = registry_of_process()
    registry.register(WorkerMetrics(ClockOffset()))
    registry.register(ScheduleMetrics(is_leading=True))
    families = families_of(registry)
    gauges = {found.name for found in families if found.kind in ("gauge", "info")}
    ours = {name for name in gauges if not name.startswith("process_")}
    assert ours == SUMMED_GAUGES | GREATEST_GAUGES
    again: CollectorRegistry = merged_registry(lambda: families)
    assert families_of(again) == families
