"""Test beds for the queue: a real database with its schema, a store on it, and the plain driver.

A bed owns an event loop, so that benchmarks can be ordinary functions that are timed from
outside. Databases are durable: what is measured here is what production does.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

import asyncpg

from bench import QUEUE as QUEUE
from tests.kit.postgres import PostgresServer
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    NewMessage,
    QueueSettings,
    Settlement,
)
from tickwork.service.process_lifecycle import new_loop
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine.migrate import migrate as migrate_postgres
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.connection import Connection
from tickwork.store.sqlite.engine.migrate import migrate as migrate_sqlite

Result = TypeVar("Result")

BODY = b'{"to":"a@example.com","template":"welcome","n":1}'
_NODE_TTL_SECONDS = 3_600.0
_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


class Bed:
    """A store on a database of its own, with one queue and one node."""

    url: str

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store) -> None:
        self.loop, self.store = loop, store
        self.node = new_id()
        self.queue_id: UUID = self.run(store.queues.put(DEFAULT, QUEUE, QueueSettings())).id
        self.run(
            store.nodes.join(
                SYSTEM, self.node, name="bench", roles=["worker"], ttl_seconds=_NODE_TTL_SECONDS
            )
        )

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    def send(self, batches: list[list[NewMessage]]) -> None:
        """One batch after the other."""
        self.run(send_all(self.store, batches))

    def fill(self, count: int) -> None:
        """Bulk, not timed."""
        self.run(self.store.messages.send_bulk(DEFAULT, QUEUE, (message() for _ in range(count))))

    def pass_through(self, count: int, size: int) -> None:
        """Claims and acks that many, a batch at a time."""
        self.run(pass_all(self.store, self.node, count, size))


async def send_all(store: Store, batches: list[list[NewMessage]]) -> None:
    for batch in batches:
        await store.messages.send_batch(DEFAULT, QUEUE, batch)


async def pass_all(store: Store, node: UUID, count: int, size: int) -> None:
    request = ClaimRequest(queue=QUEUE, holder=node, limit=size)
    done = 0
    while done < count:
        found = await store.messages.claim(DEFAULT, request)
        assert found, f"the queue ran dry after {done} of {count}"
        endings = tuple(
            Ending(claim=claimed_message.current_claim, fate=Fate.ACK) for claimed_message in found
        )
        result = await store.messages.settle(DEFAULT, Settlement(endings))
        assert not result.refused
        done += len(found)


class PostgresBed(Bed):
    """With a plain connection beside the store."""

    def __init__(self, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.url = url
        loop.run_until_complete(migrate_postgres(url))
        store = loop.run_until_complete(PostgresStore.open(url))
        super().__init__(loop, store)
        self.connection: asyncpg.Connection[asyncpg.Record] = self.run(asyncpg.connect(url))

    def wal_bytes(self) -> int:
        return int(self.run(self.connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'")))

    def commits(self) -> int:
        # A session's counts reach the shared ones when it is idle for a moment.
        self.run(self.connection.execute("SELECT pg_stat_force_next_flush()"))
        query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        return int(self.run(self.connection.fetchval(query)))


class SqliteBed(Bed):
    """With a plain connection beside the store, to another file of the same schema."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self.path, self.floor_path = folder / "ours.db", folder / "floor.db"
        self.url = f"sqlite:///{self.path}"
        loop.run_until_complete(migrate_sqlite(str(self.path)))
        loop.run_until_complete(migrate_sqlite(str(self.floor_path)))
        store = loop.run_until_complete(SqliteStore.open(self.url))
        super().__init__(loop, store)
        self.connection = sqlite3.connect(self.floor_path, isolation_level=None, factory=Connection)
        self.connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        table = self.connection.execute("PRAGMA table_info(tickwork_messages)").fetchall()
        self.columns = [column[1] for column in table]

    def empty_log(self) -> None:
        """Moves what is in our log into the file, so that the log grows from nothing."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def log_bytes(self) -> int:
        return self.path.with_name(f"{self.path.name}-wal").stat().st_size


@contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """A durable server with memory for a million messages."""
    server = PostgresServer(durable=True, settings=_SETTINGS | settings)
    server.start()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def postgres_bed(server: PostgresServer) -> Iterator[PostgresBed]:
    """Gone afterwards: what one leaves behind is not vacuumed while the next one is measured."""
    with _loop() as loop:
        bed = PostgresBed(loop, loop.run_until_complete(server.create_database()))
        try:
            yield bed
        finally:
            bed.run(bed.connection.close())
            bed.run(bed.store.close())
            bed.run(server.drop_database(bed.url))


@contextmanager
def sqlite_bed() -> Iterator[SqliteBed]:
    with tempfile.TemporaryDirectory() as folder, _loop() as loop:
        bed = SqliteBed(loop, Path(folder))
        try:
            yield bed
        finally:
            bed.connection.close()
            bed.run(bed.store.close())


@contextmanager
def slow_commits(seconds: float) -> Iterator[None]:
    """Every connection to SQLite waits before it commits, ours and the floor's alike."""
    commit = sqlite3.Connection.commit

    def slowly(connection: sqlite3.Connection) -> None:
        time.sleep(seconds)
        commit(connection)

    with patch.object(Connection, "commit", slowly):
        yield


class Counted:
    """How many statements and commits SQLite was asked for."""

    def __init__(self) -> None:
        self.statements = self.commits = 0


@contextmanager
def counted() -> Iterator[Counted]:
    """Counts what connections to SQLite do meanwhile."""
    seen = Counted()

    def execute(connection: sqlite3.Connection, *arguments: Any) -> sqlite3.Cursor:
        seen.statements += 1
        return sqlite3.Connection.execute(connection, *arguments)

    def commit(connection: sqlite3.Connection) -> None:
        seen.commits += 1
        sqlite3.Connection.commit(connection)

    with patch.object(Connection, "execute", execute), patch.object(Connection, "commit", commit):
        yield seen


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = new_loop()
    try:
        yield loop
    finally:
        loop.close()


def message() -> NewMessage:
    return NewMessage(id=new_id(), body=BODY, type="mail.send", source="bench")


def batches(count: int, size: int) -> list[list[NewMessage]]:
    return [[message() for _ in range(size)] for _ in range(count // size)]
