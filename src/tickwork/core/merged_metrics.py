"""The metrics of several processes as those of one.

| metric | of all processes |
|---|---|
| counters, histograms | the sum; also of processes that have ended, so that none falls |
| gauges of what a process has | the sum |
| gauges of the database, and how late something is | the greatest |
| memory, processor time, files and what else | each, with the label `process` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add

from msgspec import Struct

PROCESS_LABEL = "process"

SUMMED_GAUGES = frozenset(
    {
        "tickwork_handlers_left_behind",
        "tickwork_permits_allowed",
        "tickwork_permits_used",
        "tickwork_shards_held",
        "tickwork_unsettled_messages",
    }
)
"""Gauges of what a process has."""

GREATEST_GAUGES = frozenset(
    {
        "python_info",
        "tickwork",
        "tickwork_oldest_overdue_seconds",
        "tickwork_planning_lag_seconds",
        "tickwork_queue_oldest_seconds",
        "tickwork_queue_waiting_messages",
    }
)
"""Gauges that are the same in each process that has them, or whose worst one counts."""

_OF_A_PROCESS = "process_"
_CREATED = "_created"
_SUMMED_KINDS = frozenset({"counter", "histogram"})


class MetricValue(Struct, frozen=True, array_like=True):
    """One value of a metric."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(Struct, frozen=True, array_like=True):
    """A metric with all its values, as Prometheus knows it."""

    name: str
    text: str
    kind: str
    samples: tuple[MetricValue, ...]


def merged(
    of_processes: Mapping[int, Sequence[MetricFamily]], ended: Sequence[MetricFamily] = ()
) -> tuple[MetricFamily, ...]:
    """The metrics of processes by their number, and the totals of those that have ended."""
    numbered = [(0, family) for family in ended]
    numbered += [
        (number, family) for number, families in of_processes.items() for family in families
    ]
    by_name: dict[str, list[tuple[int, MetricFamily]]] = {}
    for number, family in numbered:
        by_name.setdefault(family.name, []).append((number, family))
    return tuple(_merged_family(families) for families in by_name.values())


def totals(families: Iterable[Iterable[MetricFamily]]) -> tuple[MetricFamily, ...]:
    """What stays of processes that have ended: their counters and histograms, summed."""
    lasting = {
        number: [family for family in found if _is_summed_for_ever(family)]
        for number, found in enumerate(families)
    }
    return merged(lasting)


def _is_summed_for_ever(family: MetricFamily) -> bool:
    return family.kind in _SUMMED_KINDS and not family.name.startswith(_OF_A_PROCESS)


def _merged_family(numbered: Sequence[tuple[int, MetricFamily]]) -> MetricFamily:
    first = numbered[0][1]
    combine: Callable[[float, float], float] | None = None
    if _is_summed_for_ever(first) or first.name in SUMMED_GAUGES:
        combine = add
    elif first.name in GREATEST_GAUGES:
        combine = max
    samples = _labelled(numbered) if combine is None else _combined(numbered, combine)
    return MetricFamily(first.name, first.text, first.kind, tuple(samples))


def _labelled(numbered: Iterable[tuple[int, MetricFamily]]) -> Iterator[MetricValue]:
    """Each sample with the number of its process."""
    for number, family in numbered:
        for sample in family.samples:
            labels = {**sample.labels, PROCESS_LABEL: str(number)}
            yield MetricValue(sample.name, labels, sample.value)


def _combined(
    numbered: Iterable[tuple[int, MetricFamily]], combine: Callable[[float, float], float]
) -> Iterator[MetricValue]:
    """One sample for each name and labels. When a counter began says nothing of a sum."""
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for _, family in numbered:
        for sample in family.samples:
            if sample.name.endswith(_CREATED):
                continue
            key = (sample.name, tuple(sample.labels.items()))
            known = values.get(key)
            values[key] = sample.value if known is None else combine(known, sample.value)
    for (name, labels), value in values.items():
        yield MetricValue(name, dict(labels), value)
