"""Counters of a queue are grouped by minute and by kind."""

from __future__ import annotations

from datetime import timedelta

from tests.core.messages import NOON
from tickwork.core.answers.queue import LabeledCounts
from tickwork.core.model import Counts
from tickwork.core.queue.stats import CounterName, MinuteCount, QueueStats, TypeCount
from tickwork.ops.queues import by_kind, by_minute

STATS = QueueStats(
    counts=Counts(),
    oldest_age_seconds=None,
    minutes=(
        MinuteCount(NOON, CounterName.SENT, 3),
        MinuteCount(NOON + timedelta(minutes=1), CounterName.SENT, 1),
        MinuteCount(NOON + timedelta(minutes=1), CounterName.DONE, 2),
    ),
    kinds=(
        TypeCount("order.made", "shop", CounterName.SENT, 3),
        TypeCount("order.made", "shop", CounterName.DONE, 2),
        TypeCount(None, None, CounterName.SENT, 1),
    ),
)


def test_counts_by_minute_are_ordered_by_minute() -> None:
    assert by_minute(STATS) == (
        LabeledCounts("2026-01-05 12:00", {CounterName.SENT: 3}),
        LabeledCounts("2026-01-05 12:01", {CounterName.SENT: 1, CounterName.DONE: 2}),
    )


def test_kinds_are_sorted_by_name() -> None:
    assert by_kind(STATS) == (
        LabeledCounts("(no type) from (no source)", {CounterName.SENT: 1}),
        LabeledCounts("order.made from shop", {CounterName.SENT: 3, CounterName.DONE: 2}),
    )
