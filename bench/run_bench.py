"""Area `durable`: how soon runs of workflows start, go on and wake, on both stores.

The worker runs in this process, which is tuned as a worker's. Seconds are counted from the call
that starts a run or sends its event until the body of the step that follows runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import Result, bench, judge, sized, value_under
from tests.kit.tuned import tuned
from tickwork import Step, Tickwork

ROUNDS = 300
PAUSE_SECONDS = 0.02
"""Seconds between two rounds: a run that was started waits by then."""

ITEMS = 10_000
WOKEN = 10_000
AHEAD_SECONDS = 60.0
"""Seconds until sleeping runs wake: all of them sleep by then."""

TOGETHER = 1_000


@bench("durable")
def postgres_runs() -> Iterator[Result]:
    """Starts, events, 10,000 items of a map, and 10,000 sleepers that wake at one instant."""
    with postgres_server() as server, tuned():
        yield from _judged("postgres", lambda: postgres_bed(server))


@bench("durable")
def sqlite_runs() -> Iterator[Result]:
    """The same on SQLite."""
    with tuned():
        yield from _judged("sqlite", sqlite_bed)


def _judged(store: str, make_bed: Callable[[], AbstractContextManager[Any]]) -> Iterator[Result]:
    with make_bed() as bed:
        started = bed.run(_start_seconds(bed, sized(ROUNDS, quick=30)))
        yield _soon(f"durable.{store}.start_to_step", started)
        resumed = bed.run(_event_seconds(bed, sized(ROUNDS, quick=30)))
        yield _soon(f"durable.{store}.event_to_step", resumed)
    items = sized(ITEMS, quick=500)
    with make_bed() as bed:
        seconds = bed.run(_map_seconds(bed, items))
        yield judge(f"durable.{store}.map", items / seconds, "items/s")
    with make_bed() as bed:
        woken, ahead = sized(WOKEN, quick=500), sized(int(AHEAD_SECONDS), quick=10)
        late = bed.run(_late_seconds(bed, woken, ahead))
        yield judge(
            f"durable.{store}.wake",
            _p99(late),
            f"s, p99 of {woken} that wake",
            goal=value_under(1.0),
        )


def _soon(name: str, seconds: list[float]) -> Result:
    return judge(name, 1000 * _p99(seconds), "ms p99", goal=value_under(20.0))


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


class Moment:
    """When a step ran last."""

    def __init__(self) -> None:
        self.at, self.reached = 0.0, asyncio.Event()

    async def note(self) -> None:
        self.at = time.perf_counter()
        self.reached.set()


async def _start_seconds(bed: Bed, rounds: int) -> list[float]:
    app, step_ran = Tickwork(bed.url, name="bench"), Moment()

    @app.workflow()
    async def first_step(step: Step) -> None:
        await step.do("first", step_ran.note)

    async def one() -> float:
        step_ran.reached.clear()
        began = time.perf_counter()
        await app.workflows.start(first_step)
        await step_ran.reached.wait()
        return step_ran.at - began

    return await _repeated(app, one, rounds)


async def _event_seconds(bed: Bed, rounds: int) -> list[float]:
    app, step_ran = Tickwork(bed.url, name="bench"), Moment()

    @app.workflow()
    async def resumed(step: Step) -> None:
        await step.wait_for_event("event", type="go")
        await step.do("next", step_ran.note)

    async def one() -> float:
        run = await app.workflows.start(resumed)
        while await _delayed(app, "resumed") == 0:  # noqa: ASYNC110  the run waits in the store
            await asyncio.sleep(0.005)
        step_ran.reached.clear()
        began = time.perf_counter()
        await run.send_event("go")
        await step_ran.reached.wait()
        return step_ran.at - began

    return await _repeated(app, one, rounds)


async def _repeated(app: Tickwork, one: Callable[[], Awaitable[float]], rounds: int) -> list[float]:
    """The first rounds prepare statements and are not counted."""
    seconds: list[float] = []
    async with app.running(roles=["worker"]):
        for _ in range(rounds + 3):
            seconds.append(await one())
            await asyncio.sleep(PAUSE_SECONDS)
    await app.close()
    return seconds[3:]


async def _map_seconds(bed: Bed, items: int) -> float:
    app = Tickwork(bed.url, name="bench")

    async def double(number: int) -> int:
        return 2 * number

    @app.workflow()
    async def mapped(step: Step) -> int:
        results = await step.map("double", double, range(items), concurrency=items)
        return sum(results)

    async with app.running(roles=["worker"]):
        began = time.perf_counter()
        run = await app.workflows.start(mapped)
        total = await run.result()
        seconds = time.perf_counter() - began
    assert total == items * (items - 1)
    await app.close()
    return seconds


async def _late_seconds(bed: Bed, woken: int, ahead_seconds: float) -> list[float]:
    app, late, all_awake = Tickwork(bed.url, name="bench"), list[float](), asyncio.Event()
    at = datetime.now(UTC) + timedelta(seconds=ahead_seconds)

    @app.workflow()
    async def nap(step: Step, until: str) -> None:
        await step.sleep_until("nap", datetime.fromisoformat(until))
        late.append((datetime.now(UTC) - at).total_seconds())
        if len(late) == woken:
            all_awake.set()

    async with app.running(roles=["worker"]):
        for _ in range(0, woken, TOGETHER):
            some = min(TOGETHER, woken)
            await app.workflows.start_many(nap, [at.isoformat()] * some)
        while await _delayed(app, "nap") < woken:
            assert datetime.now(UTC) < at, "not all sleep yet"
            await asyncio.sleep(0.2)
        await all_awake.wait()
    await app.close()
    return late


async def _delayed(app: Tickwork, workflow: str) -> int:
    """How many runs wait for an event or a time."""
    return (await app.queues.stats(f"tickwork.workflows.{workflow}")).counts.delayed
