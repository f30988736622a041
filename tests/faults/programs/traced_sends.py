"""Sends messages one by one after the point `ready`, each with a line `answered`, to be traced.

    python -m tests.faults.programs.traced_sends URL store|careless

`careless` writes to the same file past the store, with a connection that syncs nothing.
"""

import asyncio
import os
import sqlite3
import sys

from tests.faults import tables
from tests.faults.open_store import opened
from tests.faults.steps import send
from tests.kit.points import reach

SENDS = 10
ANSWER = b"answered\n"


async def through_the_store(url: str) -> None:
    async with opened(url) as store:
        await send(store)
        reach("ready")
        for _ in range(SENDS):
            await send(store)
            os.write(sys.stdout.fileno(), ANSWER)


def carelessly(url: str) -> None:
    connection = sqlite3.connect(tables.path_of(url), isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE mine (id INTEGER)")
    reach("ready")
    for _ in range(SENDS):
        connection.execute("INSERT INTO mine VALUES (1)")
        os.write(sys.stdout.fileno(), ANSWER)
    connection.close()


if __name__ == "__main__":
    if sys.argv[2] == "careless":
        carelessly(sys.argv[1])
    else:
        asyncio.run(through_the_store(sys.argv[1]))
