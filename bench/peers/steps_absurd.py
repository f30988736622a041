"""Absurd: tasks with ten no-op steps each, in one process, several at a time.

The tasks wait already. Its asynchronous worker runs them on one connection; the setting is how many
worker objects, each with a connection of its own, share the process and the tasks in flight.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

STEPS = 10


async def measure(url: str, runs: int, in_flight: int, workers: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
    apps = [AsyncAbsurd(url) for _ in range(min(workers, in_flight))]
    all_done, done, began = asyncio.Event(), 0, 0.0

    async def nothing() -> int:
        return 1

    async def ten_steps(_params: Any, context: Any) -> None:
        nonlocal done, began
        began = began or time.perf_counter()
        for number in range(STEPS):
            await context.step(f"step {number}", nothing)
        done += 1
        if done == runs:
            all_done.set()

    await apps[0].create_queue()
    for app in apps:
        app.register_task(name="ten_steps")(ten_steps)
    for _ in range(runs):
        await apps[0].spawn("ten_steps", {})
    working = [
        asyncio.create_task(app.start_worker(concurrency=in_flight // len(apps))) for app in apps
    ]
    await all_done.wait()
    seconds = time.perf_counter() - began
    for app in apps:
        app.stop_worker()
    await asyncio.gather(*working)
    for app in apps:
        await app.close()
    return seconds


def main() -> None:
    url, *numbers = sys.argv[1:]
    print(json.dumps({"seconds": asyncio.run(measure(url, *map(int, numbers)))}))


if __name__ == "__main__":
    main()
