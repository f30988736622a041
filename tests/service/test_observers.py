"""`Observers` passes each event to every sink that overrides it, and to no other."""

from __future__ import annotations

from inspect import signature
from typing import Any
from uuid import UUID

import pytest

from tickwork.service.observe import EVENTS, Observer, Observers
from tickwork.service.observe.log_events import EventLog
from tickwork.service.observe.message_log import MessageLog
from tickwork.service.observe.metrics import WorkerMetrics
from tickwork.service.observe.schedule_log import ScheduleLog
from tickwork.service.observe.schedule_metrics import ScheduleMetrics

NODE = UUID(int=1)


class Leases(Observer):
    """Records lost leases."""

    def __init__(self, seen: list[tuple[object, UUID]]) -> None:
        self._seen = seen

    def lease_lost(self, node_id: UUID) -> None:
        self._seen.append((self, node_id))


def test_sinks_receive_an_event_in_their_order() -> None:
    seen: list[tuple[object, UUID]] = []
    first, second = Leases(seen), Leases(seen)
    Observers(first, Observer(), second).lease_lost(NODE)
    assert seen == [(first, NODE), (second, NODE)]


def test_an_event_that_no_sink_overrides_is_ignored() -> None:
    Observers(Leases([])).clock_jumped(5.0)
    Observers().clock_jumped(5.0)


@pytest.mark.parametrize(
    "sink", [EventLog, MessageLog, ScheduleLog, WorkerMetrics, ScheduleMetrics]
)
def test_a_sink_takes_the_arguments_of_the_event(sink: type[Any]) -> None:
    for event in EVENTS:
        expected = [*signature(getattr(Observer, event)).parameters]
        assert [*signature(getattr(sink, event)).parameters] == expected, event
