"""PgQueuer drains a queue of no-op jobs, in one process.

At its defaults: `run()` as it is, on the standard library's event loop. Tuned: how many jobs it
claims at once is the setting (finished ones are written in batches of the same size), with a pool
of connections so that claiming and writing overlap, and uvloop. All its tables are logged
("durable"), as it has them by default.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

ENTRYPOINT = "bench"
BODY = b'{"to":"a@example.com","template":"welcome","n":1}'
SENT_AT_ONCE = 1_000
CONNECTIONS = 4


async def fill(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for start in range(0, count, SENT_AT_ONCE):
        size = min(SENT_AT_ONCE, count - start)
        await queries.enqueue([ENTRYPOINT] * size, [BODY] * size, [0] * size)
    await connection.close()


async def drain(url: str, count: int, claimed_at_once: int | None) -> float:
    if claimed_at_once:
        pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))
    else:
        manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))
    left = count

    async def handle(_job: object) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            manager.shutdown.set()

    manager.entrypoint(ENTRYPOINT)(handle)
    began = time.perf_counter()
    await (manager.run(batch_size=claimed_at_once) if claimed_at_once else manager.run())
    return time.perf_counter() - began


def main() -> None:
    url, count = sys.argv[1], int(sys.argv[2])
    claimed_at_once = int(sys.argv[3]) if len(sys.argv) > 3 else None
    asyncio.run(fill(url, count))
    run = uvloop.run if claimed_at_once else asyncio.run
    print(json.dumps({"seconds": run(drain(url, count, claimed_at_once))}))


if __name__ == "__main__":
    main()
