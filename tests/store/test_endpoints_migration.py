"""Endpoints that were stored before breakers looked for their probes, after the migration."""

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.kit.databases import PostgresHost
from tests.stores.clock import START, VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine import migrate as postgres_migrating
from tickwork.store.shared.sql_files import load_migrations
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine import migrate as sqlite_migrating
from tickwork.store.sqlite.engine.sql import to_microseconds

BEFORE = 32
"""Number of migrations before it."""

SINCE, UNTIL = START - timedelta(days=2), START + timedelta(minutes=30)
ENDPOINTS = (
    ("few", 3, SINCE, None, None),
    ("failing", 9, SINCE, UNTIL, None),
    ("disabled", 9, SINCE, UNTIL, START),
)
"""Name, failures in a row, since when, until when the breaker is open, when disabled."""

_INSERT = """
INSERT INTO tickwork_endpoints (
    id, tenant, name, settings, failures_in_row, failing_since, open_until, disabled_at,
    disabled_reason, created_at, updated_at
)
"""
_SETTINGS = '{"url": "https://example.com/", "types": ["*"]}'


async def sqlite_store(file: Path, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> Store:
    """A migrated file that had these endpoints before."""

    def time(at: datetime | None) -> int | None:
        return None if at is None else to_microseconds(at)

    first = load_migrations("tickwork.store.sqlite")[:BEFORE]
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_migrating, "load_migrations", lambda _: first)
        await sqlite_migrating.migrate(file)
    with closing(sqlite3.connect(file)) as connection, connection:
        for name, failures, *times in ENDPOINTS:
            values = (new_id().bytes, name, _SETTINGS, failures, *map(time, times), time(START))
            statement = f"{_INSERT} VALUES (?1, 'default', ?2, ?3, ?4, ?5, ?6, ?7, 'x', ?8, ?8)"
            connection.execute(statement, values)
    await sqlite_migrating.migrate(file)
    return await SqliteStore.open(file, moment=clock.now)


async def postgres_store(url: str, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> Store:
    """A migrated database that had these endpoints before."""
    first = load_migrations("tickwork.store.postgres")[:BEFORE]
    with monkeypatch.context() as patched:
        patched.setattr(postgres_migrating, "load_migrations", lambda _: first)
        await postgres_migrating.migrate(url)
    connection = await asyncpg.connect(url)
    for name, failures, *times in ENDPOINTS:
        statement = f"{_INSERT} VALUES ($1, 'default', $2, $3, $4, $5, $6, $7, 'x', $8, $8)"
        await connection.execute(statement, new_id(), name, _SETTINGS, failures, *times, START)
    await connection.close()
    await postgres_migrating.migrate(url)
    return await PostgresStore.open(url, moment=clock.now)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_migrated_endpoint_is_probed_and_failing_since_its_first_notice(
    kind: str, postgres_server: PostgresHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    url = await postgres_server.create_database()
    if kind == "sqlite":
        store = await sqlite_store(tmp_path / "before.db", monkeypatch, clock)
    else:
        store = await postgres_store(url, monkeypatch, clock)
    try:
        for name, since, until in (
            ("few", None, None),
            ("failing", SINCE, UNTIL),
            ("disabled", SINCE, None),
        ):
            health = (await store.endpoints.get(DEFAULT, name)).health
            assert (health.failing_since, health.open_until) == (since, until)
        assert await store.reaper.next_expiry(SYSTEM) == UNTIL
    finally:
        await store.close()
        await postgres_server.drop_database(url)
