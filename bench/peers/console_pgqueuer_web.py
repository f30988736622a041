"""PgQueuer's web page, on a database with many failed jobs.

`console_pgqueuer_web.py URL COUNT PORT` serves until it is killed.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg
import uvicorn
from pgqueuer.adapters.web.app import create_web_app
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

ENTRYPOINT = "bench"
BODY = b'{"to":"user@example.com","n":1}'
SENT_AT_ONCE = 1_000


async def fill(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for start in range(0, count, SENT_AT_ONCE):
        size = min(SENT_AT_ONCE, count - start)
        await queries.enqueue([ENTRYPOINT] * size, [BODY] * size, [0] * size)
    await connection.execute("UPDATE pgqueuer SET status = 'failed', attempts = 3")
    await connection.execute("VACUUM (ANALYZE) pgqueuer")
    await connection.close()


def main() -> None:
    url, count, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    asyncio.run(fill(url, count))
    uvicorn.run(create_web_app(url), host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main()
