"""Procrastinate posts a JSON body to a server from each job, with httpx, in one process.

Tuned as where it drains no-op jobs: the setting is how many jobs at a time, with a pool of
connections, finished jobs deleted and no LISTEN. One client with keep-alive is shared by all jobs.
Nothing is signed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import httpx
from procrastinate import App, PsycopgConnector

BODY = {"to": "a@example.com", "template": "welcome", "n": 1}
SENT_AT_ONCE = 1_000
CONNECTIONS = 20


async def deliver(url: str, count: int, at_a_time: int, target: str) -> float:
    pool = {"min_size": CONNECTIONS, "max_size": CONNECTIONS}
    app = App(connector=PsycopgConnector(conninfo=url, **pool))
    last = 0.0
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=at_a_time)) as client:

        async def handle(**body: object) -> None:
            nonlocal last
            (await client.post(target, json=body)).raise_for_status()
            last = time.perf_counter()

        task = app.task(name="bench")(handle)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            for start in range(0, count, SENT_AT_ONCE):
                await task.batch_defer_async(*[BODY] * min(SENT_AT_ONCE, count - start))
            began = time.perf_counter()
            await app.run_worker_async(
                wait=False,
                concurrency=at_a_time,
                delete_jobs="always",
                listen_notify=False,
                install_signal_handlers=False,
            )
            return last - began


def main() -> None:
    url, count, at_a_time, target = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    print(json.dumps({"seconds": asyncio.run(deliver(url, count, at_a_time, target))}))


if __name__ == "__main__":
    main()
