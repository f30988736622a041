"""Area `scheduler`: APScheduler beside ours, in the same run, at adding and at firing.

A row's value is ours, its reference the peer's. Adding: `create_bulk`, which has no match there:
theirs are added one by one. Firing: a scheduler with handlers that do nothing is started in front
of schedules that are due, until the last handler ran.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench import QUEUE
from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import Result, bench, judge, ratio_at_least, sized
from bench.peers import PeerFailed, seconds_of, was_tried
from bench.scheduler_beds import at_once, make, soon, until
from tickwork import Tickwork

OURS = 20_000
OURS_QUICK = 2_000
PEER_SCHEDULES = {"apscheduler3": 3_000, "apscheduler4": 300}
"""As many as each gets done in some seconds."""

QUICK_SHARE = 5
MAKING_SECONDS = 15.0


@bench("scheduler")
def sqlite_peer() -> Iterator[Result]:
    """APScheduler 3 on SQLite."""
    with tempfile.TemporaryDirectory() as folder:

        def where(what: str) -> str:
            return str(Path(folder) / f"{what}.db")

        yield from _beside("apscheduler3", sqlite_bed, where, {"adding": None, "firing": 3.0})


@bench("scheduler")
def postgres_peer() -> Iterator[Result]:
    """APScheduler 4 on PostgreSQL."""
    with postgres_server() as server:

        def where(_what: str) -> str:
            return asyncio.run(server.create_database())

        goals: dict[str, float | None] = {"adding": 50.0, "firing": 50.0}
        yield from _beside("apscheduler4", lambda: postgres_bed(server), where, goals)


def _beside(
    name: str,
    make_bed: Callable[[], AbstractContextManager[Any]],
    where: Callable[[str], str],
    goals: dict[str, float | None],
) -> Iterator[Result]:
    count = sized(OURS, quick=OURS_QUICK)
    theirs = sized(PEER_SCHEDULES[name], quick=PEER_SCHEDULES[name] // QUICK_SHARE)
    if not was_tried(name):
        yield _missing(f"scheduler.peer.{name}", "not installed: make bench-peers", None)
        return
    with make_bed() as bed:
        ours = dict(zip(goals, _made_and_fired(bed, count), strict=True))
    for what, bound in goals.items():
        row = f"scheduler.peer.{name}_{what}"
        try:
            beside = theirs / seconds_of(name, "schedule", where(what), theirs, what)
        except PeerFailed as error:
            yield _missing(row, str(error), bound)
            continue
        goal = None if bound is None else ratio_at_least(bound)
        yield judge(row, count / ours[what], "schedules/s", reference=beside, goal=goal)


def _made_and_fired(bed: Bed, count: int) -> tuple[float, float]:
    """Seconds for making so many schedules, and for firing and handling them."""
    due = soon(MAKING_SECONDS)
    began = time.perf_counter()
    make(bed, at_once(count, due))
    making = time.perf_counter() - began
    bed.run(until(due))
    return making, bed.run(_fired(bed.url, count))


async def _fired(url: str, count: int) -> float:
    app, left, done = Tickwork(url), count, asyncio.Event()
    app.queue(QUEUE)

    async def handle(_message: object) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            done.set()

    app.on(QUEUE)(handle)
    began = time.perf_counter()
    async with app.running():
        await done.wait()
        return time.perf_counter() - began


def _missing(name: str, why: str, bound: float | None) -> Result:
    """A row for what could not be measured: with a goal it is a goal missed."""
    return Result(
        name=name,
        value=0.0,
        unit=why,
        reference=None,
        ratio=None,
        goal=None if bound is None else ratio_at_least(bound).text,
        ok=bound is None,
    )
