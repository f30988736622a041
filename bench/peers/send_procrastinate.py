"""Procrastinate defers a job in the transaction of a user's row, by several connections of psycopg.

Its way is the documented one: the connection of the transaction is an
option of the job. There is nothing to tune. Seconds are those of the typical round.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

import psycopg
from procrastinate import App, PsycopgConnector

ORDER = "INSERT INTO orders (body) VALUES ('an order of somebody, with some words')"


async def send(url: str, connections: int, transactions: int, rounds: int) -> float:
    app = App(connector=PsycopgConnector(conninfo=url))

    async def handle(**_body: object) -> None:
        """Nothing runs it here."""

    task = app.task(name="bench")(handle)
    opened = [
        await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(connections)
    ]

    async def repeat(connection: psycopg.AsyncConnection) -> None:
        for _ in range(transactions):
            async with connection.transaction():
                await connection.execute(ORDER)
                await task.configure(connection=connection).defer_async(order=7)

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        seconds = []
        for _ in range(rounds + 1):  # Statements are prepared in the first.
            began = time.perf_counter()
            await asyncio.gather(*map(repeat, opened))
            seconds.append(time.perf_counter() - began)
    for connection in opened:
        await connection.close()
    return statistics.median(seconds[1:])


def main() -> None:
    url, connections, transactions, rounds = sys.argv[1:]
    took = asyncio.run(send(url, int(connections), int(transactions), int(rounds)))
    print(json.dumps({"seconds": took}))


if __name__ == "__main__":
    main()
