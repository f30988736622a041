"""Procrastinate drains a queue of no-op jobs, in one process.

At its defaults: one job at a time, finished jobs stay in the table. Tuned: how many
at a time is the setting, with a larger pool of connections, finished jobs deleted and no LISTEN. It
has no way to claim several jobs at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from procrastinate import App, PsycopgConnector

BODY = {"to": "a@example.com", "template": "welcome", "n": 1}
SENT_AT_ONCE = 1_000
CONNECTIONS = 20


async def drain(url: str, count: int, at_a_time: int | None) -> float:
    pool = {"min_size": CONNECTIONS, "max_size": CONNECTIONS} if at_a_time else {}
    app = App(connector=PsycopgConnector(conninfo=url, **pool))
    last = 0.0

    async def handle(**_body: object) -> None:
        nonlocal last
        last = time.perf_counter()

    task = app.task(name="bench")(handle)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, count, SENT_AT_ONCE):
            await task.batch_defer_async(*[BODY] * min(SENT_AT_ONCE, count - start))
        began = time.perf_counter()
        if at_a_time:
            await app.run_worker_async(
                wait=False,
                concurrency=at_a_time,
                delete_jobs="always",
                listen_notify=False,
                install_signal_handlers=False,
            )
        else:
            await app.run_worker_async(wait=False, install_signal_handlers=False)
        return last - began


def main() -> None:
    url, count = sys.argv[1], int(sys.argv[2])
    at_a_time = int(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps({"seconds": asyncio.run(drain(url, count, at_a_time))}))


if __name__ == "__main__":
    main()
