"""A huge system for the console: a million messages, 100,000 dead letters, a run of 10,000 steps,
and many of everything else. Rows are copied by the database itself from one of each kind."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import asyncpg
import httpx

from tests.console.served import kill, make

QUEUE = "huge"


class Sizes(NamedTuple):
    """How many there are of each."""

    messages: int = 1_000_000
    dead_letters: int = 100_000
    steps: int = 10_000
    queues: int = 150
    schedules: int = 10_000
    changes: int = 100_000


class Database(Protocol):
    """What differs between the two databases: `n` counts the copies of a row, from 1."""

    def columns(self, table: str) -> list[str]: ...

    def run(self, statement: str, count: int) -> None: ...

    def new_id(self, kind: int) -> str: ...

    def later(self, column: str, milliseconds: str) -> str: ...

    def analyse(self) -> None: ...


class SqliteFile:
    """A file of SQLite."""

    def __init__(self, path: str) -> None:
        self._path = path

    def columns(self, table: str) -> list[str]:
        with closing(sqlite3.connect(self._path)) as file:
            return [
                row[0] for row in file.execute("SELECT name FROM pragma_table_info(?)", [table])
            ]

    def run(self, statement: str, count: int) -> None:
        series = (
            "WITH RECURSIVE series (n) AS "
            f"(SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count})"
        )
        with closing(sqlite3.connect(self._path, timeout=60)) as file, file:
            file.create_function("new_id", 2, _id_bytes, deterministic=True)
            file.execute(f"{series} {statement}")

    def new_id(self, kind: int) -> str:
        return f"new_id({kind}, n)"

    def later(self, column: str, milliseconds: str) -> str:
        return f"{column} + ({milliseconds}) * 1000"

    def analyse(self) -> None:
        """SQLite needs no statistics here."""


class PostgresDatabase:
    """A database of PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def columns(self, table: str) -> list[str]:
        query = "SELECT column_name FROM information_schema.columns WHERE table_name = $1"
        return [row[0] for row in self._fetch(query, table)]

    def run(self, statement: str, count: int) -> None:
        self._fetch(f"WITH series AS (SELECT n FROM generate_series(1, {count}) AS n) {statement}")

    def new_id(self, kind: int) -> str:
        return f"(lpad(to_hex({kind}), 8, '0') || lpad(to_hex(n), 24, '0'))::uuid"

    def later(self, column: str, milliseconds: str) -> str:
        return f"{column} + ({milliseconds}) * interval '1 millisecond'"

    def analyse(self) -> None:
        self._fetch("VACUUM (ANALYZE)")

    def _fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        async def fetch() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self._url)
            try:
                return await connection.fetch(query, *values, timeout=600)
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as apart:  # A browser's event loop may run in this thread.
            return apart.submit(asyncio.run, fetch()).result()


def _id_bytes(kind: int, number: int) -> bytes:
    return kind.to_bytes(4, "big") + number.to_bytes(12, "big")


def database_of(url: str) -> Database:
    if url.startswith("sqlite"):
        return SqliteFile(urlsplit(url).path.removeprefix("/"))
    return PostgresDatabase(url)


def _copy(
    database: Database, table: str, where: str, count: int, changed: Mapping[str, str]
) -> None:
    """Copies the one row of a table that a condition names, with other values in some columns."""
    columns = [column for column in database.columns(table) if column != "place"]
    values = ", ".join(changed.get(column, f"t.{column}") for column in columns)
    database.run(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM series "
        f"CROSS JOIN (SELECT * FROM {table} WHERE {where} LIMIT 1) AS t",
        count,
    )


def enlarge(http: httpx.Client, url: str, sizes: Sizes | None = None) -> dict[str, str]:
    """Makes a normal system huge, and returns the pages that show the large things."""
    size = sizes or Sizes()
    database = database_of(url)
    make(http, "PUT", f"/v1/queues/{QUEUE}", {"max_retries": 0})
    for type_ in ("dies", "waits"):
        body = {"body": {"to": "user@example.com", "n": 1}, "type": type_}
        make(http, "POST", f"/v1/queues/{QUEUE}/messages", body)
        if type_ == "dies":
            kill(http, QUEUE, 1)
    queue = f"(SELECT id FROM tickwork_queues WHERE name = '{QUEUE}')"
    _copy(
        database, "tickwork_messages", f"queue_id = {queue}", size.messages,
        {
            "id": database.new_id(1),
            "type": "'type ' || (n % 50)",
            "priority": "3 + n % 3",
            "sent_at": database.later("t.sent_at", "n / 1000"),
            "visible_at": database.later(
                "t.visible_at", "n / 1000 + CASE WHEN n % 10 = 0 THEN 86400000 ELSE 0 END"
            ),
        },
    )  # fmt: skip
    _copy(
        database, "tickwork_dead_letters", f"queue_id = {queue}", size.dead_letters,
        {
            "id": database.new_id(2),
            "message_id": database.new_id(3),
            "type": "'type ' || (n % 5)",
            "fingerprint": "'ValueError: no mailbox ' || (n % 40)",
            "error": "'ValueError: no mailbox ' || (n % 40) || ' for user ' || n",
            "failed_at": database.later("t.failed_at", "-n"),
        },
    )  # fmt: skip
    _copy(
        database, "tickwork_queues", f"name = '{QUEUE}'", size.queues,
        {"id": database.new_id(4), "name": "'queue ' || (1000 + n)"},
    )  # fmt: skip
    _copy(
        database, "tickwork_schedules", "status = 'active'", size.schedules,
        {"id": database.new_id(5), "name": "'schedule ' || (100000 + n)", "bucket": "n % 4096"},
    )  # fmt: skip
    _copy(
        database, "tickwork_audit", "action = 'queue.put'", size.changes,
        {"id": database.new_id(6), "at": database.later("t.at", "-n")},
    )  # fmt: skip
    at = database.later("created_at", "n * 100")
    ended = database.later("created_at", "n * 100 + 80")
    database.run(
        "INSERT INTO tickwork_run_steps "
        "(uid, key, position, kind, state, attempts, output, started_at, finished_at) "
        f"SELECT uid, 'step ' || n, n, 'do', 'done', 1, params, {at}, {ended} "
        "FROM series CROSS JOIN tickwork_runs WHERE id = 'run'",
        size.steps,
    )
    database.analyse()
    letter = make(http, "GET", f"/v1/queues/{QUEUE}/dead?limit=1")["items"][0]
    message = make(http, "GET", f"/v1/queues/{QUEUE}/messages?limit=1")["items"][0]
    schedule = make(http, "GET", "/v1/schedules?name=schedule 100001")["items"][0]
    return {
        "huge queue": f"/console/queues/{QUEUE}",
        "huge queue by type": f"/console/queues/{QUEUE}?type=type+7",
        "huge queue, delayed": f"/console/queues/{QUEUE}?state=delayed",
        "huge dead letters": f"/console/dead/{QUEUE}",
        "huge dead letters by group": f"/console/dead/{QUEUE}?fingerprint=ValueError:+no+mailbox+7",
        "a dead letter of many": f"/console/letters/{letter['id']}",
        "a message of many": f"/console/messages/{message['id']}",
        "a schedule of many": f"/console/schedules/{schedule['id']}",
        "late schedules": "/console/schedules?order=next_due_at",
        "huge run": "/console/workflows/content/run",
        "end of the huge run": f"/console/workflows/content/run?from={size.steps - 50}",
    }
