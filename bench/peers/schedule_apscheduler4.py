"""APScheduler 4 (a pre-release) with its PostgreSQL store over asyncpg: adds schedules, or fires
those that are due.

As its documentation has it; events stay in the process (`LocalEventBroker`), which is the quickest.
Schedules are added one by one: it has no other way.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import UTC, datetime

from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.local import LocalEventBroker
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy.ext.asyncio import create_async_engine

_done = asyncio.Event()
_left = [0]


async def handle() -> None:
    """Does nothing, and is counted."""
    _left[0] -= 1
    if _left[0] <= 0:
        _done.set()


async def measure(url: str, count: int, what: str) -> float:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    _left[0] = count
    async with AsyncScheduler(SQLAlchemyDataStore(engine), LocalEventBroker()) as scheduler:
        due = datetime.now(UTC)
        began = time.perf_counter()
        for number in range(count):
            await scheduler.add_schedule(
                handle, IntervalTrigger(hours=1, start_time=due), id=str(number)
            )
        if what == "firing":
            began = time.perf_counter()
            await scheduler.start_in_background()
            await _done.wait()
        return time.perf_counter() - began


def main() -> None:
    url, count, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    print(json.dumps({"seconds": asyncio.run(measure(url, count, what))}))


if __name__ == "__main__":
    main()
