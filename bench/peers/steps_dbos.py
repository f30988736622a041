"""DBOS: workflows with ten no-op steps each, in one process, several at a time.

Tuned: a pool with a connection for each workflow in flight up to 20, no admin server, no tracing.
The setting is how they run: as coroutines of one event loop, or in threads.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

STEPS = 10
CONNECTIONS_MAX = 20


async def nothing(number: int) -> int:
    """Does nothing."""
    return number


def nothing_in_thread(number: int) -> int:
    """Does nothing."""
    return number


step, step_in_thread = DBOS.step()(nothing), DBOS.step()(nothing_in_thread)


async def ten_steps() -> None:
    for number in range(STEPS):
        await step(number)


def ten_steps_in_thread() -> None:
    for number in range(STEPS):
        step_in_thread(number)


workflow, workflow_in_thread = DBOS.workflow()(ten_steps), DBOS.workflow()(ten_steps_in_thread)


async def in_one_loop(runs: int, in_flight: int) -> None:
    left = iter(range(runs))

    async def one_after_the_other() -> None:
        for _ in left:
            await workflow()

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))


def in_threads(runs: int, in_flight: int) -> None:
    with ThreadPoolExecutor(in_flight) as pool:
        for done in [pool.submit(workflow_in_thread) for _ in range(runs)]:
            done.result()


def main() -> None:
    url, runs, in_flight, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "sys_db_pool_size": min(in_flight, CONNECTIONS_MAX) + 1,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    began = time.perf_counter()
    if way == "loop":
        asyncio.run(in_one_loop(runs, in_flight))
    else:
        in_threads(runs, in_flight)
    seconds = time.perf_counter() - began
    DBOS.destroy()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
