"""Area `durable`: steps of workflows, on both stores.

Ten no-op steps a run. Beside them stand plain inserts of the same rows: one commit for each with
one run in flight, groups of 100 with 100 runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.durable_floor import postgres_floor, sqlite_floor
from bench.harness import Result, bench, judge, ratio_at_least, sized
from tests.kit.tuned import tuned
from tickwork import Step, Tickwork

STEPS = 10
RUNS = {1: 100, 20: 500, 100: 1_000}
"""Number of runs, by how many are in flight."""

RUNS_QUICK = {1: 10, 20: 40, 100: 200}
GROUP = 100
ROUNDS = 3


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
