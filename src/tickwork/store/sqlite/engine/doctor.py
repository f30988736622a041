"""Checks a SQLite file for `tickwork doctor`: schema, journal, durability, integrity."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from shutil import disk_usage

from tickwork import tzdata_version as zone_data
from tickwork.errors import StoreError
from tickwork.store.shared.doctor import Finding, Level, schema_finding, zones_finding
from tickwork.store.shared.sql_files import load_migrations
from tickwork.store.sqlite.engine.file import DatabaseFile, locate
from tickwork.store.sqlite.engine.migrate import read_version
from tickwork.store.sqlite.engine.sql import SQL

_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}
_FULL = 2
_DISK_BYTES_MIN = 16 * 1024 * 1024
"""Free bytes below which writes may fail: a log grows to this size before a checkpoint."""

_OTHERS = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
_DISK_BYTES_LOW = 1024 * 1024 * 1024


async def examine(url: str) -> tuple[Finding, ...]:
    """Checks one file. A file that cannot be opened is a finding, not an error."""
    return await asyncio.to_thread(_examine, DatabaseFile(locate(url)))


def _examine(file: DatabaseFile) -> tuple[Finding, ...]:
    try:
        with closing(file.connect()) as connection:
            version = read_version(connection)
            known = len(load_migrations("tickwork.store.sqlite"))
            newest = None
            if version == known:
                (newest,) = connection.execute(SQL.newest_zones).fetchone()
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
            (problem,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except (sqlite3.Error, StoreError) as error:
        says = str(file.as_store_error(error))
        advice = "make the file readable and writable, or create a new one"
        return Finding("connection", Level.BAD, says, advice), *_disk_of(file.path)
    return (
        Finding("connection", Level.OK, f"{file.path} can be opened"),
        Finding("version", Level.OK, f"SQLite {sqlite3.sqlite_version}"),
        schema_finding(version, known, file.migrate_command),
        _journal(journal),
        _synchronous(synchronous),
        _integrity(problem),
        _disk(file.path),
        _mode(file.path),
        Finding("clock", Level.OK, "a SQLite file uses this machine's clock"),
        zones_finding(zone_data.version(), newest),
        Finding(
            "failover",
            Level.WARNING,
            "one file on one disk: if the disk fails, its data is lost",
            "back it up with `sqlite3 FILE .backup`, or move to PostgreSQL with a standby",
        ),
    )


def _disk_of(path: Path) -> tuple[Finding, ...]:
    """The finding about the disk of a file that may not exist."""
    return (_disk(path),) if path.parent.is_dir() else ()


def _disk(path: Path) -> Finding:
    free = disk_usage(path.parent).free
    says = f"{free / 1024**2:,.0f} MiB are free"
    advice = f"free some space on the disk of {path}"
    if free < _DISK_BYTES_MIN:
        return Finding("disk", Level.BAD, f"{says}: writes fail or will soon", advice)
    if free < _DISK_BYTES_LOW:
        return Finding("disk", Level.WARNING, says, advice)
    return Finding("disk", Level.OK, says)


def _mode(path: Path) -> Finding:
    """A copy of a file may have the mode that the shell gives."""
    if path.stat().st_mode & _OTHERS == 0:
        return Finding("access", Level.OK, "only the owner of the file can read it")
    says = "other users of this machine can read the file, with the bodies of messages"
    advice = f"run chmod 600 {path} {path}-wal {path}-shm"
    return Finding("access", Level.WARNING, says, advice)


def _journal(mode: str) -> Finding:
    if mode == "wal":
        return Finding("journal_mode", Level.OK, "the file uses a write-ahead log")
    says = f"the journal mode is {mode}: readers and writers block each other"
    return Finding("journal_mode", Level.BAD, says, "put the file on a local disk")


def _synchronous(setting: int) -> Finding:
    name = _SYNCHRONOUS.get(setting, str(setting))
    if setting >= _FULL:
        says = f"synchronous is {name}: accepted messages are on disk"
        return Finding("synchronous", Level.OK, says)
    says = f"synchronous is {name}: a power cut can lose accepted messages"
    return Finding("synchronous", Level.BAD, says, "open the file only through Tickwork")


def _integrity(problem: str) -> Finding:
    if problem == "ok":
        return Finding("integrity", Level.OK, "the file is not damaged")
    return Finding("integrity", Level.BAD, f"the file is damaged: {problem}", "restore a backup")
