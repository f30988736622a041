"""What tenants used: amounts by the hour, made of the notes of settlements.

The roll-up that adds notes to the performance of queues adds them here, too, in its transaction: so
each ended message counts once, and a settlement writes nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tickwork.core.delivery.alert import ALERTS_QUEUE
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.limits import ENTITIES_PREFIX, is_hidden
from tickwork.core.queue.performance import Measure, Noted, Width, period_of

USAGE_KEPT_SECONDS = 400 * 86_400
"""Seconds that amounts of an hour are kept."""

DELIVERY_QUEUES = frozenset({DELIVERIES_QUEUE, ENDPOINTS_QUEUE})
_WITHOUT_HANDLERS = DELIVERY_QUEUES | {ALERTS_QUEUE}


class UsageWidth(StrEnum):
    """The length of a period of usage."""

    HOUR = "hour"
    DAY = "day"

    @property
    def width(self) -> Width:
        """The same among all lengths."""
        return Width(self)


class UsageMeasure(StrEnum):
    """What is counted of a tenant."""

    HANDLED = "handled"
    FAILED = "failed"
    DISCARDED = "discarded"
    DELIVERIES = "deliveries"
    ENTITY_CALLS = "entity_calls"
    HANDLER_MICROSECONDS = "handler_microseconds"


class UsageName(Struct, frozen=True, order=True):
    """What a row counts: a measure of a tenant in an hour."""

    tenant: str
    period: datetime
    measure: UsageMeasure


class UsageRow(Struct, frozen=True):
    """The amount of a measure of a tenant in a period."""

    tenant: str
    period: datetime
    measure: str
    amount: int


_OF_USERS = {
    Measure.DONE: UsageMeasure.HANDLED,
    Measure.FAILED: UsageMeasure.FAILED,
    Measure.DISCARDED: UsageMeasure.DISCARDED,
}


def usage_of(noted: Iterable[Noted]) -> dict[UsageName, int]:
    """What notes of settlements add to the row of each hour, in the order of their names."""
    amounts = Counter[UsageName]()
    for note in noted:
        measure = _measure(note)
        if measure is not None:
            period = period_of(note.minute, Width.HOUR)
            amounts[UsageName(note.tenant, period, measure)] += note.messages
    return dict(sorted(amounts.items()))


def _measure(note: Noted) -> UsageMeasure | None:
    """Which measure a note adds to. Deliveries and calls of entities are messages of hidden queues;
    one counts once it has ended, whether it succeeded or failed."""
    if note.measure is Measure.RUN_TIME:
        has_handler = note.queue not in _WITHOUT_HANDLERS
        return UsageMeasure.HANDLER_MICROSECONDS if has_handler else None
    if not is_hidden(note.queue):
        return _OF_USERS.get(note.measure)
    if note.measure not in (Measure.DONE, Measure.FAILED):
        return None
    if note.queue in DELIVERY_QUEUES:
        return UsageMeasure.DELIVERIES
    return UsageMeasure.ENTITY_CALLS if note.queue.startswith(ENTITIES_PREFIX) else None
