"""Migrations on PostgreSQL: from empty, step by step, concurrently, and never backwards."""

import asyncio

import asyncpg
import pytest

from tickwork.errors import StoreBroken
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine import migrate as migrating
from tickwork.store.postgres.engine.migrate import migrate, schema_version
from tickwork.store.shared.sql_files import Migration, load_migrations

STEPS = load_migrations("tickwork.store.postgres")


async def test_an_empty_database_gets_every_step_once(postgres_url: str) -> None:
    assert await schema_version(postgres_url) == 0
    assert await migrate(postgres_url) == STEPS
    assert await migrate(postgres_url) == ()
    assert await schema_version(postgres_url) == len(STEPS)


async def test_a_later_step_is_applied_to_an_existing_schema(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(postgres_url)
    later = Migration(len(STEPS) + 1, "0002_more.sql", "ALTER TABLE tickwork_meta ADD more text")
    monkeypatch.setattr(migrating, "load_migrations", lambda _: (*STEPS, later))
    assert await migrate(postgres_url) == (later,)
    assert await schema_version(postgres_url) == later.version


async def test_a_step_that_fails_leaves_nothing_behind(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(postgres_url)
    broken = Migration(len(STEPS) + 1, "0002_bad.sql", "CREATE TABLE half (id int); SELECT 1 / 0")
    monkeypatch.setattr(migrating, "load_migrations", lambda _: (*STEPS, broken))
    with pytest.raises(StoreBroken, match=r"0002_bad\.sql failed: division by zero"):
        await migrate(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT to_regclass('half')") is None
    await connection.close()
    assert await schema_version(postgres_url) == len(STEPS)


async def test_nodes_that_start_together_migrate_once(postgres_url: str) -> None:
    applied = await asyncio.gather(*(migrate(postgres_url) for _ in range(4)))
    # The process that waited for the first step may apply the second one.
    taken = [step for steps in applied for step in steps]
    assert sorted(taken, key=lambda step: step.version) == [*STEPS]


async def test_a_newer_schema_is_refused(postgres_url: str) -> None:
    await migrate(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("UPDATE tickwork_meta SET schema_version = schema_version + 1")
    await connection.close()
    for attempt in (migrate(postgres_url), PostgresStore.open(postgres_url)):
        with pytest.raises(StoreBroken, match="update this installation"):
            await attempt


async def test_a_store_needs_its_schema(postgres_url: str) -> None:
    with pytest.raises(StoreBroken, match="run `tickwork migrate --database "):
        await PostgresStore.open(postgres_url)
