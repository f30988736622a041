"""Area `worker`: a whole worker drains a queue, beside plain SQL that claims and acks the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from bench import postgres_floor, sqlite_floor
from bench.beds import QUEUE, Bed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import Result, bench, judge, ratio_at_least, value_under
from tickwork.facade import Tickwork

DRAINED = 200_000
FLOOR_MESSAGES = 50_000
SIZE = 100
PICKUPS = 200


@bench("worker")
def postgres_drain() -> Iterator[Result]:
    """No-op handlers, one worker, a backlog of 200,000."""
    with postgres_server() as server, postgres_bed(server) as plain:
        plain.fill(FLOOR_MESSAGES)
        began = time.perf_counter()
        postgres_floor.pass_through(plain, FLOOR_MESSAGES, SIZE)
        floor = FLOOR_MESSAGES / (time.perf_counter() - began)
        for name, is_batch, bound in (("per_message", False, 0.4), ("batches", True, 0.7)):
            with postgres_bed(server) as bed:
                yield _drain(f"worker.postgres.{name}", bed, bed.url, is_batch, floor, bound)


@bench("worker")
def sqlite_drain() -> Iterator[Result]:
    """The same on one file."""
    with sqlite_bed() as plain:
        now = int(time.time() * 1_000_000)
        sqlite_floor.insert(plain, sqlite_floor.arguments(plain, FLOOR_MESSAGES, SIZE, now))
        began = time.perf_counter()
        sqlite_floor.pass_through(plain, FLOOR_MESSAGES, SIZE, now)
        floor = FLOOR_MESSAGES / (time.perf_counter() - began)
    for name, is_batch, bound in (("per_message", False, 0.3), ("batches", True, 0.55)):
        with sqlite_bed() as bed:
            url = f"sqlite:///{bed.path}"
            yield _drain(f"worker.sqlite.{name}", bed, url, is_batch, floor, bound)


@bench("worker")
def pickup() -> Iterator[Result]:
    """From idle to the first line of a handler: a send, and nothing else going on."""
    with postgres_server() as server, postgres_bed(server) as database, sqlite_bed() as file:
        for name, bed, url in (
            ("postgres", database, database.url),
            ("sqlite", file, f"sqlite:///{file.path}"),
        ):
            waits = sorted(bed.run(_pick_up(url)))
            median, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
            yield judge(f"worker.{name}.pickup_p50", median * 1e3, "ms", goal=value_under(5))
            yield judge(f"worker.{name}.pickup_p99", late * 1e3, "ms", goal=value_under(20))


def _drain(name: str, bed: Bed, url: str, is_batch: bool, floor: float, bound: float) -> Result:
    bed.fill(DRAINED)
    seconds = bed.run(_drained(url, is_batch=is_batch))
    return judge(name, DRAINED / seconds, "messages/s", reference=floor, goal=ratio_at_least(bound))


async def _drained(url: str, *, is_batch: bool) -> float:
    app, done, left = Tickwork(url), asyncio.Event(), DRAINED
    app.queue(QUEUE, max_batch_size=SIZE if is_batch else 10)

    def count(messages: int) -> None:
        nonlocal left
        left -= messages
        if left <= 0:
            done.set()

    async def handle_one(_message: Any) -> None:
        count(1)

    async def handle_batch(batch: Any) -> None:
        count(len(batch))

    if is_batch:
        app.consumer(QUEUE)(handle_batch)
    else:
        app.on(QUEUE)(handle_one)
    began = time.perf_counter()
    async with app.running():
        await done.wait()
        return time.perf_counter() - began


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
    return waits
