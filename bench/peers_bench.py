"""Area `worker`: others that drain the same queue, beside ours in the same run.

On PostgreSQL all use the same server, each a database of its own; on SQLite each has a file of its
own, in WAL mode and synced with every commit. One worker process each, a handler that does nothing,
the same body. A row's value is ours, its reference the peer's.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from bench.beds import postgres_bed, postgres_server, sqlite_bed
from bench.harness import Goal, Result, bench, judge, ratio_at_least, sized
from bench.peers import PeerFailed, seconds_of, was_tried
from bench.worker_bench import SIZE, drained_per_second

OURS = 100_000
OURS_QUICK = 5_000
PEER_MESSAGES = {"pgqueuer": 50_000, "procrastinate": 2_000, "huey": 10_000}
"""As many as each gets done in some seconds; their pace does not depend on it."""

SETTINGS = {"pgqueuer": (100, 500, 1_000), "procrastinate": (4, 20, 50), "huey": (1, 2, 4)}
"""What a peer's setting may be if it is tuned: all are tried, and the best counts. They are jobs
claimed at once, jobs at a time, and threads."""

QUICK_SHARE = 10
ROUNDS = 3
"""All take turns so often; the middle of each one's rates counts."""


@bench("worker")
def postgres_peers() -> Iterator[Result]:
    """PgQueuer and Procrastinate."""
    with postgres_server() as server:

        def drain(name: str, way: str) -> float:
            return max(drained(name, setting) for setting in _settings(name, way))

        def drained(name: str, setting: tuple[int, ...]) -> float:
            url = asyncio.run(server.create_database())
            try:
                return _rate(name, url, setting)
            finally:
                asyncio.run(server.drop_database(url))  # As with ours.

        yield from _beside(
            ("pgqueuer", "procrastinate"), lambda: postgres_bed(server), drain, goals=(1.8, 3.0)
        )


@bench("worker")
def sqlite_peers() -> Iterator[Result]:
    """Huey."""

    def drain(name: str, way: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return max(
                _rate(name, str(Path(folder) / f"{number}.db"), setting)
                for number, setting in enumerate(_settings(name, way))
            )

    yield from _beside(("huey",), sqlite_bed, drain, goals=(5.0, 8.0))


def _beside(
    names: tuple[str, ...],
    make_bed: Callable[[], AbstractContextManager[Any]],
    drain: Callable[[str, str], float],
    *,
    goals: tuple[float, float],
) -> Iterator[Result]:
    """Goals are those of ours one by one and in batches, beside a peer that is tuned."""
    ways = [(name, way) for name in names for way in ("default", "tuned")]
    theirs: dict[tuple[str, str], list[float]] = {pair: [] for pair in ways}
    failed: dict[tuple[str, str], str] = {}
    ours: dict[int, list[float]] = {0: [], SIZE: []}
    if not any(was_tried(name) for name in names):
        for name in names:
            yield missing(f"worker.peer.{name}", "not installed: make bench-peers", None)
        return
    for _ in range(ROUNDS):
        for size, rates in ours.items():
            with make_bed() as bed:
                rates.append(drained_per_second(bed, sized(OURS, quick=OURS_QUICK), size))
        for pair in ways:
            try:
                theirs[pair].append(drain(*pair))
            except PeerFailed as error:
                failed[pair] = str(error)
    for name, way in ways:
        for (size, rates), bound in zip(ours.items(), goals, strict=True):
            goal = ratio_at_least(bound) if way == "tuned" else None
            row = f"worker.peer.{name}_{way}" + ("_batches" if size else "")
            if (name, way) in failed:
                yield missing(row, failed[name, way], goal)
                continue
            beside = median(theirs[name, way])
            yield judge(row, median(rates), "messages/s", reference=beside, goal=goal)


def _settings(name: str, way: str) -> tuple[tuple[int, ...], ...]:
    """What a peer's script is given: nothing, or one setting after the other."""
    return ((),) if way == "default" else tuple((setting,) for setting in SETTINGS[name])


def _rate(name: str, where: str, setting: tuple[int, ...]) -> float:
    messages = sized(PEER_MESSAGES[name], quick=PEER_MESSAGES[name] // QUICK_SHARE)
    return messages / seconds_of(name, "drain", where, messages, *setting)


def missing(name: str, why: str, goal: Goal | None) -> Result:
    """A row for what could not be measured: with a goal it is a goal missed."""
    return Result(
        name=name,
        value=0.0,
        unit=why,
        reference=None,
        ratio=None,
        goal=goal.text if goal else None,
        ok=goal is None,
    )
