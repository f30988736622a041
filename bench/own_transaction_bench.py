"""Area `own_transaction`: a row of the user's and a message in one transaction, by 16 connections,
beside two plain rows in one transaction.

A message is sent through the public API with `connection=`, or by the function of the schema. A
round is some transactions on each connection; both contenders use the same connections.
Procrastinate beside it has a process of its own, and the same server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from statistics import median
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

COUNT = CONNECTIONS * TRANSACTIONS
ROUNDS = 20
PEER_TURNS, PEER_ROUNDS = 3, 5
"""The peer and ours take turns; the typical one counts, and of its rounds the middle one."""


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

        goal = ratio_at_least(0.6)
        for name, driver, way, bound in (
            ("asyncpg", "asyncpg", send, goal),
            ("psycopg", "psycopg", send, goal),
            ("sql", "asyncpg", send_in_sql, None),
        ):
            connections = bed.run(_opened(CONNECT[driver], bed.url))
            ours, plain = _beside_plain(bed, connections, way)
            bed.run(_closed(connections))
            yield judge(
                f"own_transaction.{name}",
                COUNT / ours,
                "transactions/s",
                reference=COUNT / plain,
                goal=bound,
            )
        yield from _beside_peer(bed, send)
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


def _beside_peer(bed: PostgresBed, send: Transaction) -> Iterator[Result]:
    """Procrastinate with the connection of the user, which is of psycopg: beside ours by the same
    driver, and by asyncpg."""
    rounds, goals = sized(PEER_ROUNDS, quick=2), {"psycopg": None, "asyncpg": ratio_at_least(2.0)}
    turns: dict[str, list[Turn]] = {driver: [] for driver in goals}
    opened = {driver: bed.run(_opened(CONNECT[driver], bed.url)) for driver in goals}
    failed: str | None = None
    try:
        for _ in range(PEER_TURNS):
            theirs = seconds_of(PEER, "send", bed.url, CONNECTIONS, TRANSACTIONS, rounds)
            for driver, connections in opened.items():
                seconds = [_seconds(bed, connections, send) for _ in range(rounds + 1)]
                turns[driver].append(Turn(median(seconds[1:]), theirs))
    except PeerFailed as error:
        failed = str(error)
    for driver, goal in goals.items():
        name = f"own_transaction.peer.{PEER}_{driver}"
        if failed is not None:
            yield missing(name, failed, goal if was_tried(PEER) else None)
            continue
        ours, theirs = typical(turns[driver])
        yield judge(name, COUNT / ours, "transactions/s", reference=COUNT / theirs, goal=goal)
    for connections in opened.values():
        bed.run(_closed(connections))


def _seconds(bed: PostgresBed, connections: list[Any], send: Transaction) -> float:
    """How long a round takes."""
    began = WALL()
    bed.run(_round(connections, send))
    return WALL() - began


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
