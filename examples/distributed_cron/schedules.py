"""Creates many interval schedules with their slots spread evenly over the interval."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from examples.distributed_cron.app import QUEUE
from tickwork import Tickwork

START_TIMES_MAX = 1_000
"""Maximum number of different start times."""


async def create_schedules(app: Tickwork, count: int, every_seconds: int, first: datetime) -> int:
    """Create `count` schedules; their first slots start at `first`. Return the number created."""
    return await app.schedules.create_bulk(_fields(count, every_seconds, first))


def _fields(count: int, every_seconds: int, first: datetime) -> Iterator[Any]:
    number_of_starts = min(count, START_TIMES_MAX)
    interval = timedelta(seconds=every_seconds)
    starts = [first + interval * index / number_of_starts for index in range(number_of_starts)]
    for number in range(count):
        yield {
            "interval_seconds": every_seconds,
            "start_at": starts[number % number_of_starts].isoformat(),
            "target": {"type": "queue", "queue": QUEUE},
            "payload": {"number": number},
        }
