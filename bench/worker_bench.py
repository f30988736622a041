"""Area `worker`: a whole worker, in a process of its own, on both stores.

Its throughput stands beside plain SQL that claims and acks the same.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec

from bench import postgres_floor, sqlite_floor
from bench.beds import (
    Bed,
    PostgresBed,
    SqliteBed,
    postgres_bed,
    postgres_server,
    sqlite_bed,
)
from bench.harness import (
    Goal,
    Result,
    bench,
    judge,
    ratio_at_least,
    ratio_at_most,
    sized,
    value_under,
)
from bench.worker_process import STARTED, Seen
from tickwork import Tickwork

DRAINED = 200_000
DRAINED_QUICK = 20_000
FLOOR_MESSAGES = 50_000
FLOOR_MESSAGES_QUICK = 20_000
SIZE = 100
ROUNDS = 3
"""Floor and worker take turns so often; the turn with the middle ratio counts."""

PICKUPS = 500
IDLE_SECONDS = 0.02
"""Between two of them: the one before is settled then, and nothing is going on."""

RATE = 5_000
SLOTS = 250
HANDLER_SECONDS = 0.04
"""So that 200 of the 250 slots are busy on average. With 0.05 all would be, always, and whatever
is late by a moment would never be caught up with."""

LOAD_SECONDS = 60
LOAD_SECONDS_QUICK = 12
SETTLED_SECONDS = 10
"""From then on memory must not grow."""

GROWTH_MAX = 1.1

BACKLOG = 1_000_000
BACKLOG_QUICK = 50_000
BACKLOG_DRAINED = 100_000
BACKLOG_DRAINED_QUICK = 10_000
MEMORY_BYTES_MAX = 150 * 1024 * 1024

ANSWER_SECONDS_MAX = 600.0


@contextmanager
def begun(module: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A module of this suite in a process of its own; it ends with the block."""
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def seen_by(process: subprocess.Popen[bytes]) -> Seen:
    """What a worker saw, when it has ended."""
    said, _ = process.communicate(timeout=ANSWER_SECONDS_MAX)
    assert process.returncode == 0, f"the worker ended with status {process.returncode}"
    return msgspec.json.decode(said.splitlines()[-1], type=Seen)


def drained_per_second(bed: Bed, messages: int, batch_size: int = 0) -> float:
    """Fills a queue, and drains it with one worker."""
    bed.fill(messages)
    arguments = ("drain", bed.url, "--messages", messages, "--batch-size", batch_size)
    with begun("worker_process", *arguments) as worker:
        return messages / seen_by(worker).seconds


@bench("worker")
def postgres_drain() -> Iterator[Result]:
    """No-op handlers, one worker, a backlog of 200,000."""

    def floor(bed: PostgresBed, messages: int) -> float:
        bed.fill(messages)
        began = time.perf_counter()
        postgres_floor.pass_through(bed, messages, SIZE)
        return messages / (time.perf_counter() - began)

    with postgres_server() as server:
        bounds = {"per_message": 0.4, "batches": 0.7}
        yield from _drains("postgres", lambda: postgres_bed(server), floor, bounds)


@bench("worker")
def sqlite_drain() -> Iterator[Result]:
    """The same on one file."""

    def floor(bed: SqliteBed, messages: int) -> float:
        now = int(time.time() * 1_000_000)
        sqlite_floor.insert(bed, sqlite_floor.arguments(bed, messages, SIZE, now))
        began = time.perf_counter()
        sqlite_floor.pass_through(bed, messages, SIZE, now)
        return messages / (time.perf_counter() - began)

    yield from _drains("sqlite", sqlite_bed, floor, {"per_message": 0.3, "batches": 0.55})


@bench("worker")
def pickup() -> Iterator[Result]:
    """From idle to the first line of a handler: a send, and nothing else going on."""
    with postgres_server() as server, postgres_bed(server) as database, sqlite_bed() as file:
        for name, bed in {"postgres": database, "sqlite": file}.items():
            waits = sorted(bed.run(_pick_up(bed.url)))
            median, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
            yield judge(f"worker.{name}.pickup_p50", median * 1e3, "ms", goal=value_under(5))
            yield judge(f"worker.{name}.pickup_p99", late * 1e3, "ms", goal=value_under(20))


@bench("worker")
def postgres_load() -> Iterator[Result]:
    """5,000 messages a second through 250 slots, for a minute; another process sends."""
    with postgres_server() as server, postgres_bed(server) as bed:
        yield from _load("postgres", bed)


@bench("worker")
def sqlite_load() -> Iterator[Result]:
    """The same on one file, which both processes write to."""
    with sqlite_bed() as bed:
        yield from _load("sqlite", bed)


@bench("worker")
def backlog_memory() -> Iterator[Result]:
    """A worker in front of a million: while it drains, and while no slot is free."""
    with postgres_server() as server, postgres_bed(server) as database, sqlite_bed() as file:
        for name, bed in {"postgres": database, "sqlite": file}.items():
            bed.fill(sized(BACKLOG, quick=BACKLOG_QUICK))
            drained = sized(BACKLOG_DRAINED, quick=BACKLOG_DRAINED_QUICK)
            arguments = ("full", bed.url, "--messages", drained, "--slots", SLOTS)
            with begun("worker_process", *arguments) as worker:
                seen = seen_by(worker)
            assert seen.in_flight_max == SLOTS
            yield judge(
                f"worker.{name}.backlog_1000000",
                seen.rss_bytes_max / 2**20,
                "MiB",
                reference=MEMORY_BYTES_MAX / 2**20,
                goal=ratio_at_most(1.0),
            )


def _drains(
    name: str,
    make_bed: Callable[[], AbstractContextManager[Any]],
    floor: Callable[[Any, int], float],
    bounds: dict[str, float],
) -> Iterator[Result]:
    for way, bound in bounds.items():
        turns: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            with make_bed() as plain:
                beside = floor(plain, sized(FLOOR_MESSAGES, quick=FLOOR_MESSAGES_QUICK))
            with make_bed() as bed:
                size = SIZE if way == "batches" else 0
                ours = drained_per_second(bed, sized(DRAINED, quick=DRAINED_QUICK), size)
            turns.append((ours, beside))
        ours, beside = sorted(turns, key=lambda turn: turn[0] / turn[1])[ROUNDS // 2]
        yield judge(
            f"worker.{name}.{way}",
            ours,
            "messages/s",
            reference=beside,
            goal=ratio_at_least(bound),
        )


def _load(name: str, bed: Bed) -> Iterator[Result]:
    seconds = sized(LOAD_SECONDS, quick=LOAD_SECONDS_QUICK)
    messages, url = RATE * seconds, bed.url
    slots = ("--slots", SLOTS, "--wait-seconds", HANDLER_SECONDS)
    with begun("worker_process", "load", url, "--messages", messages, *slots) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline().decode().strip() == STARTED
        with begun("sender_process", url, "--rate", RATE, "--messages", messages):
            seen = seen_by(worker)
    full = Goal(f"value <= {SLOTS}", lambda value, _: value <= SLOTS)
    yield judge(f"worker.{name}.load_in_flight", seen.in_flight_max, "handlers", goal=full)
    yield judge(f"worker.{name}.load_pickup_p50", seen.wait_p50 * 1e3, "ms")
    late = seen.wait_p99 * 1e3
    yield judge(f"worker.{name}.load_pickup_p99", late, "ms", goal=value_under(100))
    settled = seen.rss_bytes[min(SETTLED_SECONDS, len(seen.rss_bytes) - 1)]
    yield judge(
        f"worker.{name}.load_memory",
        seen.rss_bytes[-1] / 2**20,
        "MiB",
        reference=settled / 2**20,
        goal=ratio_at_most(GROWTH_MAX),
    )


async def _pick_up(url: str) -> list[float]:
    app, waits, picked = Tickwork(url), list[float](), asyncio.Event()
    queue = app.queue("pickup")

    async def handle(message: Any) -> None:
        waits.append(time.perf_counter() - message.body)
        picked.set()

    app.on("pickup")(handle)
    async with app.running():
        for _ in range(PICKUPS):
            picked.clear()
            await queue.send(time.perf_counter())
            await picked.wait()
            await asyncio.sleep(IDLE_SECONDS)
    return waits
