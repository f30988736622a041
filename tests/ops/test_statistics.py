"""Tallies, put in order for reading."""

from __future__ import annotations

from datetime import timedelta

from tests.core.messages import NOON
from tickwork.core.model import Counts
from tickwork.core.queue.stats import KindTally, MinuteTally, Passing, QueueStats
from tickwork.ops.queues import Passed, by_kind, by_minute

STATS = QueueStats(
    counts=Counts(),
    oldest_age_seconds=None,
    minutes=(
        MinuteTally(NOON, Passing.SENT, 3),
        MinuteTally(NOON + timedelta(minutes=1), Passing.SENT, 1),
        MinuteTally(NOON + timedelta(minutes=1), Passing.DONE, 2),
    ),
    kinds=(
        KindTally("order.made", "shop", Passing.SENT, 3),
        KindTally("order.made", "shop", Passing.DONE, 2),
        KindTally(None, None, Passing.SENT, 1),
    ),
)


def test_minutes_stand_in_their_order() -> None:
    assert by_minute(STATS) == (
        Passed("2026-01-05 12:00", {Passing.SENT: 3}),
        Passed("2026-01-05 12:01", {Passing.SENT: 1, Passing.DONE: 2}),
    )


def test_kinds_stand_by_name() -> None:
    assert by_kind(STATS) == (
        Passed("(no type) from (no source)", {Passing.SENT: 1}),
        Passed("order.made from shop", {Passing.SENT: 3, Passing.DONE: 2}),
    )
