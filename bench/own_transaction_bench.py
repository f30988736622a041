"""Area `own_transaction`: a row of the user's and a message in one transaction, by 16 connections,
beside two plain rows in one transaction.

Each message is sent through the public API with `connection=`. A round is some transactions on each
connection; both contenders use the same connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import psycopg

from bench.beds import PostgresBed, postgres_bed, postgres_server
from bench.harness import WALL, Result, bench, interleaved, judge, ratio_at_least, sized, typical
from tests.kit.tuned import tuned
from tickwork import Tickwork

CONNECTIONS = 16
TRANSACTIONS = 20
"""Transactions of each connection in a round."""

ROUNDS = 20

_TABLES = """
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)
"""
_ORDER = "INSERT INTO orders (body) VALUES ('an order of somebody, with some words')"
_NOTE = "INSERT INTO notes (body) VALUES ('a note about the order, as long as a message')"

Transaction = Callable[[Any], Awaitable[object]]


@bench("own_transaction")
def own_transactions() -> Iterator[Result]:
    """An order and its email, by asyncpg and by psycopg."""
    with postgres_server() as server, tuned(), postgres_bed(server) as bed:
        bed.run(_prepare(bed))
        app = Tickwork(bed.url)
        emails = app.queue("emails")

        async def send(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute(_ORDER)
                await emails.send({"order": 7}, connection=connection)

        async def insert(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute(_ORDER)
                await connection.execute(_NOTE)

        drivers: dict[str, Callable[[], Awaitable[Any]]] = {
            "asyncpg": lambda: asyncpg.connect(bed.url),
            "psycopg": lambda: psycopg.AsyncConnection.connect(bed.url, autocommit=True),
        }
        for driver, connect in drivers.items():
            connections = bed.run(_opened(connect))
            for transaction in (send, insert):  # Statements are prepared on each connection.
                bed.run(_round(connections, transaction))
            ours, plain = typical(
                interleaved(
                    lambda _, on=connections: bed.run(_round(on, send)),  # type: ignore[misc]
                    lambda _, on=connections: bed.run(_round(on, insert)),  # type: ignore[misc]
                    rounds=sized(ROUNDS, quick=4),
                    clock=WALL,
                )
            )
            count = CONNECTIONS * TRANSACTIONS
            yield judge(
                f"own_transaction.{driver}",
                count / ours,
                "transactions/s",
                reference=count / plain,
                goal=ratio_at_least(0.6),
            )
            bed.run(_closed(connections))
        bed.run(app.close())


async def _prepare(bed: PostgresBed) -> None:
    connection = await asyncpg.connect(bed.url)
    await connection.execute(_TABLES)
    await connection.close()


async def _opened(connect: Callable[[], Awaitable[Any]]) -> list[Any]:
    return [await connect() for _ in range(CONNECTIONS)]


async def _closed(connections: list[Any]) -> None:
    for connection in connections:
        await connection.close()


async def _round(connections: list[Any], transaction: Transaction) -> None:
    async def repeat(connection: Any) -> None:
        for _ in range(TRANSACTIONS):
            await transaction(connection)

    await asyncio.gather(*map(repeat, connections))
