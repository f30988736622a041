"""Huey drains a queue of no-op tasks in one SQLite file, in one process.

Both ways with WAL and `synchronous=FULL` (`fsync=True`), as ours. At its defaults: one worker
thread. Tuned: the number of threads is the setting, no results are kept, nothing looks for
schedules, and SQLite has a larger cache. It takes a message out of the file before its handler
runs: one commit for each where ours has two, and a crash loses it.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from threading import Event

from huey import SqliteHuey

BODY = {"to": "a@example.com", "template": "welcome", "n": 1}


def drain(path: str, count: int, threads: int | None) -> float:
    options = {"results": False, "cache_mb": 64} if threads else {}
    huey = SqliteHuey("bench", filename=path, fsync=True, **options)
    handled, done = itertools.count(1), Event()

    def handle(_body: object) -> None:
        if next(handled) == count:  # Counts right in any number of threads.
            done.set()

    task = huey.task()(handle)
    for _ in range(count):
        task(BODY)
    tuned = {"workers": threads, "periodic": False} if threads else {}
    consumer = huey.create_consumer(**tuned)
    began = time.perf_counter()
    consumer.start()
    done.wait()
    seconds = time.perf_counter() - began
    consumer.stop(graceful=True)
    return seconds


def main() -> None:
    path, count = sys.argv[1], int(sys.argv[2])
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps({"seconds": drain(path, count, threads)}))


if __name__ == "__main__":
    main()
