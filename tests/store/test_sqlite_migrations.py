"""Migrations of a SQLite file: from empty, step by step, one process at a time."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.process import Arm, Children
from tickwork.errors import StoreBroken
from tickwork.store.shared.sql_files import Migration, load_migrations
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine import migrate as module
from tickwork.store.sqlite.engine.migrate import migrate, schema_version

MIGRATE = "tests.store.programs.migrate"
KNOWN = load_migrations("tickwork.store.sqlite")
START_SECONDS_MAX = 60.0

GOOD = Migration(
    len(KNOWN) + 1,
    "more.sql",
    """-- A table, and a trigger with statements of its own.
    CREATE TABLE more (id INTEGER) STRICT;
    CREATE TRIGGER counted AFTER INSERT ON more BEGIN
        UPDATE tickwork_meta SET epoch = epoch + 1;
        UPDATE tickwork_meta SET epoch = epoch + 1;
    END;
    """,
)
BAD = Migration(
    len(KNOWN) + 2,
    "bad.sql",
    "-- Half of it works.\nCREATE TABLE half (id INTEGER) STRICT;\nDROP TABLE no_such;\n",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A path without a file."""
    return tmp_path / "new.db"


def is_there(file: Path) -> bool:
    return file.exists()


def know(monkeypatch: pytest.MonkeyPatch, *migrations: Migration) -> None:
    monkeypatch.setattr(module, "load_migrations", lambda _package: migrations)


def tables(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


def set_version(file: Path, version: int) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE tickwork_meta SET schema_version = ?", (version,))


async def test_an_empty_file_is_migrated_once(file: Path) -> None:
    assert await schema_version(file) == 0
    assert not is_there(file)
    assert await migrate(file) == KNOWN
    assert await migrate(file) == ()
    assert await schema_version(file) == len(KNOWN)


async def test_a_migrated_file_is_durable_and_strict(file: Path) -> None:
    await migrate(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        listed = connection.execute("PRAGMA table_list").fetchall()
    ours = [(name, strict) for _, name, _, _, _, strict in listed if not name.startswith("sqlite_")]
    assert len(ours) >= 6
    assert all(strict for _, strict in ours)


async def test_migrations_are_applied_step_by_step(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in range(1, len(KNOWN) + 1):
        know(monkeypatch, *KNOWN[:count])
        assert await migrate(file) == (KNOWN[count - 1],)
        assert await schema_version(file) == count
    know(monkeypatch, *KNOWN, GOOD)
    with pytest.raises(StoreBroken, match="too old: run `tickwork migrate --database "):
        await SqliteStore.open(file)
    assert await migrate(file) == (GOOD,)
    await (await SqliteStore.open(file)).close()
    assert {"more", "counted"} <= tables(file)


async def test_migrated_messages_are_blocked_behind_their_key(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, KNOWN[0])
    await migrate(file)
    with closing(sqlite3.connect(file)) as connection, connection:
        for number, key in enumerate(("a", "b", "a", None, None)):
            connection.execute(
                "INSERT INTO tickwork_messages "
                "(tenant, id, queue_id, visible_at, sent_at, key, body) "
                "VALUES ('default', ?, x'00', 0, 0, ?, x'00')",
                (bytes([number]) * 16, key),
            )
    know(monkeypatch, *KNOWN)
    await migrate(file)
    with closing(sqlite3.connect(file)) as connection:
        states = connection.execute("SELECT state FROM tickwork_messages ORDER BY place").fetchall()
    assert [state for (state,) in states] == ["ready", "ready", "held", "ready", "ready"]


async def test_a_failed_migration_leaves_nothing_behind(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, *KNOWN, GOOD, BAD)
    with pytest.raises(StoreBroken, match=r"migration bad\.sql failed: no such table: no_such"):
        await migrate(file)
    assert await schema_version(file) == GOOD.version
    assert "more" in tables(file)
    assert "half" not in tables(file)


async def test_a_newer_schema_is_refused_and_left_alone(file: Path) -> None:
    await migrate(file)
    set_version(file, len(KNOWN) + 1)
    for use in (SqliteStore.open, migrate):
        with pytest.raises(StoreBroken, match="update this installation"):
            await use(file)
    assert await schema_version(file) == len(KNOWN) + 1


async def test_a_file_without_a_schema_raises_an_error_that_names_the_fix(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(StoreBroken, match="run `tickwork migrate --database "):
        await SqliteStore.open(file)
    await migrate(file)
    await (await SqliteStore.open(file)).close()
    assert "theirs" in tables(file)


async def test_processes_that_migrate_together_wait_for_each_other(
    file: Path, children: Children
) -> None:
    migrating = [children.spawn(MIGRATE, file, arms=[Arm("ready", "pause")]) for _ in range(4)]
    for child in migrating:
        await child.reached("ready", START_SECONDS_MAX)
    for child in migrating:
        child.release("ready")
    for child in migrating:
        await child.succeeded(START_SECONDS_MAX)
    applied = sorted(name for child in migrating for name in child.lines())
    assert applied == sorted(migration.name for migration in KNOWN)
    await (await SqliteStore.open(file)).close()
