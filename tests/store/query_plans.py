"""SQLite's query plans of the store's statements."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tickwork.core.schedule.model import SHARDS
from tickwork.store.shared.shard_layout import fit_statement
from tickwork.store.sqlite.engine.file import DatabaseFile
from tickwork.store.sqlite.engine.sql import ROWS_MAX, SQL, for_rows


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(DatabaseFile(path).connect()) as opened:
        yield opened


def plan(connection: sqlite3.Connection, name: str, shards: int = SHARDS) -> list[str]:
    statement = fit_statement(getattr(SQL, name), shards)
    if any(blank in statement for blank in ("/*table*/", "/*trigger*/")):
        return []  # A copy fills in each table in turn, and reads all of it.
    if "/*each*/" in statement:
        statement = for_rows(statement, ROWS_MAX)
    values = [None] * parameters(statement)
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def parameters(statement: str) -> int:
    """Number of values it takes: a placeholder without a number has the next one."""
    highest = 0
    for number in re.findall(r"\?(\d*)", re.sub(r"--.*", "", statement)):
        highest = max(highest, int(number)) if number else highest + 1
    return highest


def reached(steps: list[str], *names: str) -> list[str]:
    """The steps that read a table, by its aliases in a statement."""
    return [step for step in steps if re.match(rf"(SCAN|SEARCH) ({'|'.join(names)})\b", step)]


def way(step: str) -> str:
    found = re.search(r"USING (?:COVERING )?(?:INDEX )?(INTEGER PRIMARY KEY|\w+)", step)
    return found[1] if found else ""
