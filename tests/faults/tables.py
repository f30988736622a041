"""Reads the tables directly, on a connection of its own."""

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any
from uuid import UUID

import asyncpg

from tickwork.core.answers.ids import parse_public_id
from tickwork.store.message_contract import Joined

EFFECTS = "CREATE TABLE effects (input text NOT NULL, writer text NOT NULL)"
"""A table of the tests: one row per effect, without a constraint against a second one."""

Row = tuple[Any, ...]


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite:")


def path_of(url: str) -> str:
    """The file of a SQLite URL."""
    return url.removeprefix("sqlite:///")


async def fetch(url: str, query: str) -> list[Row]:
    """Runs a query without arguments that both databases understand; no rows if it returns none."""
    if is_sqlite(url):
        with closing(sqlite3.connect(path_of(url), timeout=30)) as file, file:
            return file.execute(query).fetchall()
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


Look = Callable[[str], Awaitable[list[Row]]]
"""Runs a query, which sees one moment of the database."""


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Look]:
    """The same for repeated queries, on one connection."""
    if is_sqlite(url):
        with closing(sqlite3.connect(path_of(url), timeout=30, isolation_level=None)) as file:

            async def look(query: str) -> list[Row]:
                return file.execute(query).fetchall()

            yield look
        return
    connection = await asyncpg.connect(url)

    async def look_there(query: str) -> list[Row]:
        return [tuple(row) for row in await connection.fetch(query)]

    try:
        yield look_there
    finally:
        await connection.close()


async def inputs_in(url: str, queue: str) -> list[str]:
    """The ids of a queue's messages in any state."""
    found = await fetch(url, f"SELECT m.id {_OF_QUEUE.format(queue)}")
    return [as_id(row[0]) for row in found]


async def states_in(url: str, queue: str) -> Counter[str]:
    """Number of messages of a queue by state, counted row by row."""
    found = await fetch(url, f"SELECT m.state {_OF_QUEUE.format(queue)}")
    return Counter(row[0] for row in found)


async def sent_in(url: str, queue: str) -> dict[str, Any]:
    """When each of a queue's messages was sent, by cause; the last one of several."""
    found = await fetch(
        url, f"SELECT m.causation_id, m.sent_at {_OF_QUEUE.format(queue)} ORDER BY m.sent_at"
    )
    return {row[0]: row[1] for row in found}


async def outputs_in(url: str, queue: str) -> list[tuple[str, str]]:
    """The cause and the type of each of a queue's messages."""
    found = await fetch(url, f"SELECT m.causation_id, m.type {_OF_QUEUE.format(queue)}")
    return [(row[0], row[1]) for row in found]


async def dead_of(url: str) -> list[str]:
    """The ids of the messages that have a dead letter."""
    return [
        as_id(row[0]) for row in await fetch(url, "SELECT message_id FROM tickwork_dead_letters")
    ]


async def dead_in(url: str, queue: str) -> dict[str, Any]:
    """When the messages with a dead letter of a queue died; two dead letters are an error."""
    found = await fetch(url, f"SELECT d.message_id, d.failed_at {_DEAD_OF_QUEUE.format(queue)}")
    dead = {as_id(row[0]): row[1] for row in found}
    assert len(dead) == len(found), "a message has two dead letters"
    return dead


async def effects_of(url: str) -> list[str]:
    """The inputs whose effect happened, once for each time."""
    return [row[0] for row in await fetch(url, "SELECT input FROM effects")]


def writing(url: str, input_id: str, writer: str) -> Joined:
    """A function that writes an effect on `input_id`, for a joint settlement."""
    if is_sqlite(url):

        def write_here(connection: Any) -> None:
            connection.execute("INSERT INTO effects VALUES (?, ?)", (input_id, writer))

        return write_here

    async def write_there(connection: Any) -> None:
        await connection.execute("INSERT INTO effects VALUES ($1, $2)", input_id, writer)

    return write_there


def as_id(value: object) -> str:
    """An id as plain text, in the format of either database, or with its prefix."""
    if isinstance(value, bytes):
        return str(UUID(bytes=value))
    return str(parse_public_id(str(value)))


def rows_are(counts: Sequence[int], states: Counter[str]) -> bool:
    """Asserts that ready, delayed, claimed and blocked messages are counted as they are."""
    ready, delayed, claimed, held = counts
    return states == Counter({"ready": ready + delayed, "claimed": claimed, "held": held})


_DEAD_OF_QUEUE = (
    "FROM tickwork_dead_letters d JOIN tickwork_queues q ON q.id = d.queue_id WHERE q.name = '{}'"
)
_OF_QUEUE = (
    "FROM tickwork_messages m JOIN tickwork_queues q ON q.id = m.queue_id WHERE q.name = '{}'"
)
