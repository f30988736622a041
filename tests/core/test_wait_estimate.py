"""The rate of a queue is measured while messages wait, and at no other time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.core.messages import NOON
from tickwork.core.queue.stats import CounterName, MinuteCount
from tickwork.core.queue.wait_estimate import measured_rate

NOW = NOON + timedelta(seconds=30)


def handled(*messages: int) -> list[MinuteCount]:
    """Counters of the current minute and those before it."""
    return [
        MinuteCount(NOON - timedelta(minutes=ago), CounterName.DONE, number)
        for ago, number in enumerate(messages)
        if number
    ]


@pytest.mark.parametrize(
    ("messages", "waiting_seconds", "rate"),
    [
        ((60,), 30, 2.0),  # Messages have waited since the minute began.
        ((20, 1, 1, 1), 20, 1.0),  # A burst in a queue that is mostly empty, almost.
        ((300, 600), 15, 10.0),  # A steady flow, in which messages have waited for a moment.
        ((0, 60, 60), 150, 120 / 150),  # What is not counted yet is missing.
        ((10,), 3_600, 10 / 30),  # It was paused until this minute.
        ((30, 60, 60, 60, 60, 60, 600), 3_600, 1.0),  # Five minutes count.
        ((1, 1, 1, 1), 0, None),
        ((5,), 9, None),
        ((5,), None, None),
        ((), 300, None),
        ((3, 600), 15, None),
    ],
)
def test_the_rate_of_a_queue_is_measured_while_messages_wait(
    messages: tuple[int, ...], waiting_seconds: float | None, rate: float | None
) -> None:
    assert measured_rate(handled(*messages), NOW, waiting_seconds) == (
        None if rate is None else pytest.approx(rate, rel=0.02)
    )
