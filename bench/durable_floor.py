"""The floors of steps of workflows: plain inserts of the rows that steps leave."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from bench.beds import PostgresBed, SqliteBed
from bench.harness import sized
from tickwork.store.ids import new_id

FLOOR_ROWS = 5_000
FLOOR_ROWS_QUICK = 500

_POSTGRES = """
INSERT INTO tickwork_run_steps
    (uid, key, position, kind, state, attempts, output, started_at, finished_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::integer[],
    $7::bytea[], $8::timestamptz[], $9::timestamptz[])
"""
_SQLITE = """
INSERT INTO tickwork_run_steps
    (uid, key, position, kind, state, attempts, output, started_at, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def _rows(count: int) -> list[tuple[Any, ...]]:
    now = datetime(2027, 3, 14, tzinfo=UTC)
    return [
        (new_id(), f"step#{number}", number, "do", "done", 1, b"1", now, now)
        for number in range(count)
    ]


def postgres_floor(bed: PostgresBed, size: int) -> float:
    rows = _rows(sized(FLOOR_ROWS, quick=FLOOR_ROWS_QUICK))
    groups = [
        [*map(list, zip(*rows[at : at + size], strict=True))] for at in range(0, len(rows), size)
    ]

    async def insert() -> None:
        for group in groups:
            await bed.connection.execute(_POSTGRES, *group)

    began = time.perf_counter()
    bed.run(insert())
    return len(rows) / (time.perf_counter() - began)


def sqlite_floor(bed: SqliteBed, size: int) -> float:
    rows = [
        (uid.bytes, *rest, 1, 1)
        for uid, *rest, _, _ in _rows(sized(FLOOR_ROWS, quick=FLOOR_ROWS_QUICK))
    ]
    began = time.perf_counter()
    for at in range(0, len(rows), size):
        bed.connection.execute("BEGIN IMMEDIATE")
        bed.connection.executemany(_SQLITE, rows[at : at + size])
        bed.connection.commit()
    return len(rows) / (time.perf_counter() - began)
