"""Checks the settings of a PostgreSQL server."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import asyncpg

from tickwork import tzdata_version as zone_data
from tickwork.clock import now
from tickwork.errors import StoreBroken
from tickwork.store.postgres.engine.database import CONNECT_ERRORS, as_store_error
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.database_url import migrate_command
from tickwork.store.shared.doctor import (
    Finding,
    Level,
    clock_finding,
    schema_finding,
    zones_finding,
)
from tickwork.store.shared.sql_files import load_migrations

VERSION_NUMBER_MIN = 150_000
_DEFAULT_PORT = 5432


async def examine(url: str) -> tuple[Finding, ...]:
    """Checks a database. A failed connection is a finding, not an error."""
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except CONNECT_ERRORS as error:
        message = str(as_store_error(error, url))
        return (Finding("connection", Level.BAD, message, "check the URL, the server and its log"),)
    try:
        before = now()
        row = await connection.fetchrow(SQL.server_settings)
        after = now()
        assert row is not None
        version, newest = 0, None
        known = len(load_migrations("tickwork.store.postgres"))
        if await connection.fetchval(SQL.has_schema):
            meta = await connection.fetchrow(SQL.read_meta)
            version = int(meta["schema_version"]) if meta is not None else 0
        if version == known:
            newest = await connection.fetchval(SQL.newest_zones)
    except asyncpg.PostgresError as error:
        raise StoreBroken(f"connected, but queries fail: {error}") from error
    finally:
        await connection.close()
    middle = before + (after - before) / 2
    return (
        Finding("connection", Level.OK, "connected"),
        _version(row),
        schema_finding(version, known, migrate_command(url)),
        *_durability(row),
        _failover(row),
        clock_finding((row["now"] - middle).total_seconds()),
        zones_finding(zone_data.version(), newest),
        _pooler(url, row),
    )


def _version(row: Any) -> Finding:
    message = f"PostgreSQL {row['version']}"
    if row["version_number"] >= VERSION_NUMBER_MIN:
        return Finding("version", Level.OK, message)
    return Finding("version", Level.BAD, message, "use PostgreSQL 15 or newer")


def _durability(row: Any) -> list[Finding]:
    findings: list[Finding] = []
    for setting, needed, risk in (
        ("fsync", True, "a power cut can lose accepted messages and corrupt the database"),
        ("full_page_writes", True, "a power cut can corrupt the database"),
    ):
        if row[setting] is needed:
            findings.append(Finding(setting, Level.OK, f"{setting} is on"))
        else:
            message = f"{setting} is off: {risk}"
            findings.append(Finding(setting, Level.BAD, message, f"set {setting} = on"))
    commit = row["synchronous_commit"]
    if commit == "off":
        message = "synchronous_commit is off: a crash can lose messages accepted just before it"
        advice = "set synchronous_commit = on, at least for Tickwork's role"
        findings.append(Finding("synchronous_commit", Level.BAD, message, advice))
    else:
        message = f"synchronous_commit is {commit}: accepted messages are on disk"
        findings.append(Finding("synchronous_commit", Level.OK, message))
    return findings


def _failover(row: Any) -> Finding:
    if row["is_replica"]:
        return Finding(
            "failover", Level.BAD, "this server is a read-only replica",
            "connect to the primary",
        )  # fmt: skip
    if row["standbys"]:
        message = (
            "a synchronous standby confirms every commit: a failover loses no accepted message"
        )
        return Finding("failover", Level.OK, message)
    return Finding(
        "failover",
        Level.WARNING,
        "no synchronous standby: a failover can lose messages accepted just before it",
        "set synchronous_standby_names if a failover must not lose messages",
    )


def _pooler(url: str, row: Any) -> Finding:
    """A server whose port differs from the URL's is behind a pooler or a proxy."""
    url_port = urlsplit(url).port or _DEFAULT_PORT
    if row["port"] is None or row["port"] == url_port:
        return Finding("pooler", Level.OK, "connected to the server itself")
    return Finding(
        "pooler",
        Level.WARNING,
        f"the URL has port {url_port}, but the server uses port {row['port']}: "
        "there is a proxy or pooler in between",
        "if it is a transaction pooler, set TICKWORK_DATABASE_DIRECT to the server's own URL",
    )
