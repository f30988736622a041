"""Area `durable`: steps of workflows, on both stores.

Ten no-op steps a run. Beside them stand plain inserts of the same rows: one commit for each with
one run in flight, groups of 100 with 100 runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from bench.beds import Bed, PostgresBed, SqliteBed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import Result, bench, judge, ratio_at_least, sized
from tests.kit.tuned import tuned
from tickwork import Step, Tickwork
from tickwork.store.ids import new_id

STEPS = 10
RUNS = {1: 100, 20: 500, 100: 1_000}
"""Number of runs, by how many are in flight."""

RUNS_QUICK = {1: 10, 20: 40, 100: 200}
GROUP = 100
FLOOR_ROWS = 5_000
FLOOR_ROWS_QUICK = 500
ROUNDS = 3

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


def steps_per_second(bed: Bed, in_flight: int) -> float:
    """Runs an app in this process, tuned as a worker's, and counts the steps of its runs."""
    runs = sized(RUNS[in_flight], quick=RUNS_QUICK[in_flight])
    with tuned():
        return bed.run(_steps_per_second(bed, runs, in_flight))


async def _steps_per_second(bed: Bed, runs: int, in_flight: int) -> float:
    """Runs that wait already, so that as many as may be are in flight all the time."""
    app, all_ended = Tickwork(bed.url, name="bench"), asyncio.Event()
    began = ended = 0.0

    async def nothing(number: int) -> int:
        return number

    @app.workflow(max_concurrency=in_flight)
    async def ten_steps(step: Step) -> None:
        nonlocal began, ended
        began = began or time.perf_counter()
        for number in range(STEPS):
            await step.do("step", nothing, number)
        ended += 1
        if ended == runs:
            all_ended.set()

    await app.workflows.start_many(ten_steps, [None] * runs)
    async with app.running(roles=["worker"]):
        await all_ended.wait()
        return runs * STEPS / (time.perf_counter() - began)


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


def _judged(name: str, bed: AbstractContextManager[Any], floor: Any) -> Iterator[Result]:
    with bed as opened:
        for in_flight in RUNS:
            size = 1 if in_flight == 1 else GROUP
            turns = [
                (steps_per_second(opened, in_flight), floor(opened, size)) for _ in range(ROUNDS)
            ]
            ours, plain = sorted(turns, key=lambda turn: turn[0] / turn[1])[len(turns) // 2]
            goal = None if in_flight == 20 else ratio_at_least(0.5)
            yield judge(
                f"durable.{name}_steps_{in_flight}", ours, "1/s", reference=plain, goal=goal
            )


@bench("durable")
def postgres_steps() -> Iterator[Result]:
    """No-op steps with 1, 20 and 100 runs in flight."""
    with postgres_server() as server:
        yield from _judged("postgres", postgres_bed(server), postgres_floor)


@bench("durable")
def sqlite_steps() -> Iterator[Result]:
    """No-op steps with 1, 20 and 100 runs in flight."""
    yield from _judged("sqlite", sqlite_bed(), sqlite_floor)
