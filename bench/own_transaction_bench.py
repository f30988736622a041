"""Area `own_transaction`: a row of the user's and a message in one transaction, by 16 connections,
beside two plain rows in one transaction.

A message is sent through the public API with `connection=`, or by the function of the schema. A
round is some transactions on each connection; both contenders use the same connections.
Procrastinate beside it has a process of its own, and the same server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import psycopg

from bench.beds import PostgresBed, postgres_bed, postgres_server
from bench.harness import (
    WALL,
    Result,
    Turn,
    bench,
    interleaved,
    judge,
    ratio_at_least,
    sized,
    typical,
)
from bench.peers import PeerFailed, seconds_of, was_tried
from bench.peers_bench import missing
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
_SEND = """SELECT tickwork_send('emails', '{"order": 7}')"""

PEER = "procrastinate"

Transaction = Callable[[Any], Awaitable[object]]
Connect = Callable[[str], Awaitable[Any]]

CONNECT: dict[str, Connect] = {
    "asyncpg": asyncpg.connect,
    "psycopg": lambda url: psycopg.AsyncConnection.connect(url, autocommit=True),
}


@bench("own_transaction")
def own_transactions() -> Iterator[Result]:
    """An order and its email, by asyncpg, by psycopg and in SQL."""
    with postgres_server() as server, tuned(), postgres_bed(server) as bed:
        bed.run(_prepare(bed))
        app = Tickwork(bed.url)
        emails = app.queue("emails")
        bed.run(app.open())

        async def send(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute(_ORDER)
                await emails.send({"order": 7}, connection=connection)

        async def send_in_sql(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute(_ORDER)
                await connection.execute(_SEND)

        rates: dict[str, float] = {}
        goal = ratio_at_least(0.6)
        for name, driver, way, bound in (
            ("asyncpg", "asyncpg", send, goal),
            ("psycopg", "psycopg", send, goal),
            ("sql", "asyncpg", send_in_sql, None),
        ):
            connections = bed.run(_opened(CONNECT[driver], bed.url))
            ours, plain = _beside_plain(bed, connections, way)
            bed.run(_closed(connections))
            rates[name] = CONNECTIONS * TRANSACTIONS / ours
            yield judge(
                f"own_transaction.{name}",
                rates[name],
                "transactions/s",
                reference=CONNECTIONS * TRANSACTIONS / plain,
                goal=bound,
            )
        yield from _peer(bed, rates["psycopg"])
        bed.run(app.close())


def _beside_plain(bed: PostgresBed, connections: list[Any], way: Transaction) -> Turn:
    """The seconds of a round, and of one with two plain rows."""

    async def insert(connection: Any) -> None:
        async with connection.transaction():
            await connection.execute(_ORDER)
            await connection.execute(_NOTE)

    for transaction in (way, insert):  # Statements are prepared on each connection.
        bed.run(_round(connections, transaction))
    return typical(
        interleaved(
            lambda _: bed.run(_round(connections, way)),
            lambda _: bed.run(_round(connections, insert)),
            rounds=sized(ROUNDS, quick=4),
            clock=WALL,
        )
    )


def _peer(bed: PostgresBed, ours: float) -> Iterator[Result]:
    """Procrastinate with the connection of the user."""
    name, goal = f"own_transaction.peer.{PEER}", ratio_at_least(2.0)
    rounds = sized(ROUNDS, quick=4)
    try:
        seconds = seconds_of(PEER, "send", bed.url, CONNECTIONS, TRANSACTIONS, rounds)
    except PeerFailed as error:
        yield missing(name, str(error), goal if was_tried(PEER) else None)
        return
    theirs = CONNECTIONS * TRANSACTIONS / seconds
    yield judge(name, ours, "transactions/s", reference=theirs, goal=goal)


async def _prepare(bed: PostgresBed) -> None:
    connection = await asyncpg.connect(bed.url)
    await connection.execute(_TABLES)
    await connection.close()


async def _opened(connect: Connect, url: str) -> list[Any]:
    return [await connect(url) for _ in range(CONNECTIONS)]


async def _closed(connections: list[Any]) -> None:
    for connection in connections:
        await connection.close()


async def _round(connections: list[Any], transaction: Transaction) -> None:
    async def repeat(connection: Any) -> None:
        for _ in range(TRANSACTIONS):
            await transaction(connection)

    await asyncio.gather(*map(repeat, connections))
