"""Migrations of both stores: from empty and from a release with data in it, step by step, by many
processes at once, and never backwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.conformance.acts import ack, ack_all, counts, make_queue, pull, send, settle
from tests.kit.process import Arm, Children
from tests.store.releases import Kind, Release, Schema
from tickwork.core.model import Counts, SettleResult
from tickwork.errors import StoreBroken
from tickwork.store.shared.doctor import Level
from tickwork.store.shared.sql_files import load_migrations

MIGRATE = "tests.store.programs.migrate"
START_SECONDS_MAX = 60.0
PROCESSES = 4

LENGTHS = """-- The length of a body, also of those that are stored already.
ALTER TABLE tickwork_messages ADD COLUMN body_bytes INTEGER;
UPDATE tickwork_messages SET body_bytes = length(body);
CREATE INDEX tickwork_messages_body_bytes ON tickwork_messages (body_bytes);
"""
NOTES = """-- A table.
CREATE TABLE tickwork_notes (id INTEGER PRIMARY KEY, note TEXT NOT NULL);
INSERT INTO tickwork_notes (id, note) SELECT 1, id FROM tickwork_tenants;
"""
BROKEN = """-- Half of it works.
CREATE TABLE tickwork_half (id INTEGER);
DROP TABLE no_such_table;
"""


@pytest.fixture(params=["sqlite", "postgres"])
def schema(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Schema]:
    """No schema yet: a path without a file, or an empty database."""
    if request.param == "sqlite":
        yield Schema("sqlite", f"sqlite:///{tmp_path}/new.db")
    else:
        yield Schema("postgres", request.getfixturevalue("postgres_url"))


def later(folder: Path, kind: Kind, *scripts: str) -> Release:
    """A release with one migration more for each script."""
    first = len(load_migrations(f"tickwork.store.{kind}")) + 1
    names = (f"{number:04}_later.sql" for number in range(first, first + len(scripts)))
    return Release.write(folder, kind, dict(zip(names, scripts, strict=True)))


async def fetch(schema: Schema, query: str) -> list[tuple[Any, ...]]:
    if schema.kind == "sqlite":
        path = schema.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as file, file:
            return file.execute(query).fetchall()
    connection = await asyncpg.connect(schema.url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def has_table(schema: Schema, name: str) -> bool:
    listed = {"sqlite": "sqlite_schema WHERE name", "postgres": "pg_class WHERE relname"}
    return bool(await fetch(schema, f"SELECT 1 FROM {listed[schema.kind]} = '{name}'"))


async def test_an_empty_database_gets_every_step_once(schema: Schema) -> None:
    assert await schema.version() == 0
    assert await schema.migrate() == schema.steps
    assert await schema.migrate() == ()
    assert await schema.version() == len(schema.steps)
    await (await schema.open()).close()


async def test_an_upgrade_keeps_what_is_stored_and_what_is_claimed(
    schema: Schema, tmp_path: Path
) -> None:
    await schema.migrate()
    store = await schema.open()
    await make_queue(store)
    sent = [await send(store, key=key, body=body) for key, body in (("a", b"1"), ("a", b"22"))]
    (claimed,) = await pull(store)
    assert claimed.id == sent[0].id
    await store.close()

    release = later(tmp_path, schema.kind, LENGTHS, NOTES)
    with release.installed():
        with pytest.raises(StoreBroken, match="too old: run `tickwork migrate --database "):
            await schema.open()
        assert (await schema.examine()).level is Level.BAD
        assert await schema.migrate() == release.load()[len(schema.steps) :]
        assert await schema.migrate() == ()
        assert (await schema.examine()).level is Level.OK
        store = await schema.open()
        try:
            assert await counts(store) == Counts(claimed=1, blocked=1)
            assert await pull(store) == ()
            assert await settle(store, ack(claimed)) == SettleResult()
            assert await ack_all(store) == [sent[1].id]
        finally:
            await store.close()
    assert await fetch(schema, "SELECT note FROM tickwork_notes") == [("default",)]


async def test_a_step_converts_the_rows_that_are_stored(schema: Schema, tmp_path: Path) -> None:
    await schema.migrate()
    store = await schema.open()
    await make_queue(store)
    for body in (b"1", b"22"):
        await send(store, body=body)
    await store.close()
    with later(tmp_path, schema.kind, LENGTHS).installed():
        await schema.migrate()
    found = await fetch(schema, "SELECT body_bytes FROM tickwork_messages ORDER BY 1")
    assert found == [(1,), (2,)]


async def test_a_newer_schema_is_refused_and_left_alone(schema: Schema, tmp_path: Path) -> None:
    with later(tmp_path, schema.kind, NOTES).installed():
        newer = await schema.migrate()
    for use in (schema.migrate, schema.open):
        with pytest.raises(StoreBroken, match="update this installation"):
            await use()
    found = await schema.examine()
    assert (found.level, found.advice) == (Level.BAD, "update this installation")
    assert await schema.version() == len(newer) == len(schema.steps) + 1
    assert await fetch(schema, "SELECT note FROM tickwork_notes") == [("default",)]


async def test_a_step_that_fails_leaves_nothing_behind(schema: Schema, tmp_path: Path) -> None:
    release = later(tmp_path, schema.kind, NOTES, BROKEN)
    with release.installed():
        for _ in range(2):
            with pytest.raises(StoreBroken, match=r"_later\.sql failed: .*no_such_table"):
                await schema.migrate()
    assert await schema.version() == len(schema.steps) + 1
    assert await has_table(schema, "tickwork_notes")
    assert not await has_table(schema, "tickwork_half")


@pytest.mark.parametrize("is_upgrade", [False, True], ids=["from empty", "from the baseline"])
async def test_processes_that_migrate_together_apply_each_step_once(
    schema: Schema, tmp_path: Path, children: Children, is_upgrade: bool
) -> None:
    before = await schema.migrate() if is_upgrade else ()
    release = later(tmp_path, schema.kind, LENGTHS, NOTES)
    words = (schema.kind, schema.url, release.folder, release.package)
    migrating = [
        children.spawn(MIGRATE, *words, arms=[Arm("ready", "pause")]) for _ in range(PROCESSES)
    ]
    for child in migrating:
        await child.reached("ready", START_SECONDS_MAX)
    for child in migrating:
        child.release("ready")
    for child in migrating:
        await child.succeeded(START_SECONDS_MAX)
    # A process that waited for one step may apply the next one.
    applied = sorted(name for child in migrating for name in child.lines())
    assert applied == [step.name for step in release.load()[len(before) :]]
    assert await fetch(schema, "SELECT count(*) FROM tickwork_notes") == [(1,)]
    with release.installed():
        await (await schema.open()).close()


async def test_a_store_needs_its_schema(schema: Schema) -> None:
    if schema.kind == "sqlite":
        await fetch(schema, "CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(StoreBroken, match="run `tickwork migrate --database "):
        await schema.open()
    await schema.migrate()
    await (await schema.open()).close()
    assert await has_table(schema, "theirs") == (schema.kind == "sqlite")


@pytest.mark.parametrize(
    "names",
    [("0099_gap.sql",), ("0002_one.sql", "0002_other.sql"), ("0000_zero.sql",)],
    ids=["a gap", "twice", "zero"],
)
def test_numbers_of_migrations_have_no_gap_and_come_once(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    release = Release.write(tmp_path, "sqlite", dict.fromkeys(names, NOTES))
    with pytest.raises(AssertionError, match="numbered from 1"):
        release.load()


def test_a_file_whose_name_is_no_number_and_words_is_refused(tmp_path: Path) -> None:
    release = Release.write(tmp_path, "sqlite", {"0002_Later.sql": NOTES})
    with pytest.raises(AssertionError, match=r"0002_Later\.sql"):
        release.load()


async def test_a_migrated_file_is_durable_and_strict(tmp_path: Path) -> None:
    schema = Schema("sqlite", f"sqlite:///{tmp_path}/new.db")
    await schema.migrate()
    assert await fetch(schema, "PRAGMA journal_mode") == [("wal",)]
    listed = await fetch(schema, "PRAGMA table_list")
    ours = [(name, strict) for _, name, _, _, _, strict in listed if not name.startswith("sqlite_")]
    assert len(ours) >= 6
    assert all(strict for _, strict in ours)


async def test_the_statements_of_a_trigger_stay_together(tmp_path: Path) -> None:
    counted = """-- A trigger with two statements, on a new table.
    CREATE TABLE tickwork_more (id INTEGER) STRICT;
    CREATE TRIGGER counted AFTER INSERT ON tickwork_more BEGIN
        UPDATE tickwork_meta SET epoch = epoch + 1;
        UPDATE tickwork_meta SET epoch = epoch + 1;
    END;
    INSERT INTO tickwork_more (id) VALUES (1);
    """
    schema = Schema("sqlite", f"sqlite:///{tmp_path}/new.db")
    await schema.migrate()
    with later(tmp_path, "sqlite", counted).installed():
        await schema.migrate()
    assert await fetch(schema, "SELECT epoch FROM tickwork_meta") == [(2,)]
