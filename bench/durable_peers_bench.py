"""Area `durable`: others that run ten no-op steps a workflow, beside ours in the same run.

All use the same PostgreSQL server, each a database of its own, and one process. A row's value is
ours, its reference the peer's, with the best of its settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from statistics import median

from bench.beds import postgres_bed, postgres_server
from bench.durable_bench import RUNS, STEPS, steps_per_second
from bench.harness import Result, bench, judge, ratio_at_least, sized
from bench.peers import PeerFailed, seconds_of, was_tried
from bench.peers_bench import missing
from tests.kit.postgres import PostgresServer

PEER_RUNS = 100
"""As many as each gets done in some seconds; their pace does not depend on it."""

SETTINGS: dict[str, tuple[object, ...]] = {"dbos": ("loop", "threads"), "absurd": (1, 4)}
GOALS = {"dbos": 10.0, "absurd": 2.0}
ROUNDS = 3


@bench("durable")
def peers() -> Iterator[Result]:
    """DBOS and Absurd."""
    if not any(map(was_tried, GOALS)):
        for name in GOALS:
            yield missing(f"durable.peer.{name}", "not installed: make bench-peers", None)
        return
    with postgres_server() as server:
        for in_flight in RUNS:
            yield from _beside(server, in_flight)


def _beside(server: PostgresServer, in_flight: int) -> Iterator[Result]:
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in GOALS}
    failed: dict[str, str] = {}
    for _ in range(ROUNDS):
        with postgres_bed(server) as bed:
            ours.append(steps_per_second(bed, in_flight))
        for name, rates in theirs.items():
            try:
                rates.append(
                    max(_rate(server, name, in_flight, setting) for setting in SETTINGS[name])
                )
            except PeerFailed as error:
                failed[name] = str(error)
    for name, bound in GOALS.items():
        row, goal = f"durable.peer.{name}_{in_flight}", ratio_at_least(bound)
        if name in failed:
            yield missing(row, failed[name], goal)
        else:
            yield judge(row, median(ours), "1/s", reference=median(theirs[name]), goal=goal)


def _rate(server: PostgresServer, name: str, in_flight: int, setting: object) -> float:
    runs = max(sized(PEER_RUNS, quick=PEER_RUNS // 5), in_flight)
    url = asyncio.run(server.create_database())
    try:
        return runs * STEPS / seconds_of(name, "steps", url, runs, in_flight, setting)
    finally:
        asyncio.run(server.drop_database(url))
