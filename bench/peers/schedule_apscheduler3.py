"""APScheduler 3 with its SQLite store (SQLAlchemy): adds schedules, or fires those that are due.

The file is in WAL mode and synced with every commit, as ours; ten threads run the jobs, which is
its default. Each job is added, and moved on when it fires, by a transaction of its own: it knows no
other way. It is moved on after it was handed to a thread, so that a crash may run it again or
lose it; ours commits a message.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from threading import Event
from typing import Any

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import event

_done = Event()
_left = [0]


def handle() -> None:
    """Does nothing, and is counted."""
    _left[0] -= 1
    if _left[0] <= 0:
        _done.set()


def opened(path: str) -> BackgroundScheduler:
    store = SQLAlchemyJobStore(url=f"sqlite:///{path}")

    def set_up(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    event.listen(store.engine, "connect", set_up)
    return BackgroundScheduler(jobstores={"default": store}, timezone=UTC)


def add(scheduler: BackgroundScheduler, count: int) -> float:
    due = datetime.now(UTC)
    began = time.perf_counter()
    for number in range(count):
        scheduler.add_job(
            handle,
            "interval",
            hours=1,
            id=str(number),
            next_run_time=due,
            misfire_grace_time=None,
        )
    return time.perf_counter() - began


def main() -> None:
    path, count, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    scheduler = opened(path)
    scheduler.start(paused=True)
    _left[0] = count
    seconds = add(scheduler, count)
    if what == "firing":
        began = time.perf_counter()
        scheduler.resume()
        _done.wait()
        seconds = time.perf_counter() - began
    scheduler.shutdown()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
