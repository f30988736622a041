"""Area `durable`: calls of entities beside acquire and commit by plain SQL; alarms at one instant.

The floor is in `entity_floor.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.entity_floor import batched, postgres_floor, sqlite_floor
from bench.harness import (
    WALL,
    Result,
    bench,
    fastest,
    interleaved,
    judge,
    ratio_at_least,
    sized,
    value_under,
)
from tests.kit.tuned import tuned
from tickwork import Entity, Tickwork

CALLS = 200
KEYS = 1_000
ROUNDS = 5
ALARMS = 10_000
AHEAD = timedelta(seconds=20)
COUNTERS = "tickwork.entities.Counter"
"""The queue of the calls and alarms of counters."""


class Counter(Entity):
    """Counts its calls."""

    async def add(self) -> int:
        number: int = await self.storage.get("n", 0) + 1
        await self.storage.put("n", number)
        return number

    async def wake(self, seconds: float) -> None:
        await self.set_alarm(self.now + timedelta(seconds=seconds))

    async def alarm(self, info: Any) -> None:
        await self.storage.put("rang", info.late_seconds)


@contextmanager
def _calls(bed: Bed) -> Iterator[Callable[[list[str]], None]]:
    """Calls one entity after the other, or many at once."""
    app = Tickwork(bed.url, name="bench")
    app.entities.register(Counter)

    async def several(keys: list[str]) -> None:
        if len({*keys}) == 1:
            for key in keys:
                await app.entity(Counter, key).add()
        else:
            await asyncio.gather(*(app.entity(Counter, key).add() for key in keys))

    yield lambda keys: bed.run(several(keys))
    bed.run(app.close())


def _compare(
    name: str,
    ours: Callable[[list[str]], None],
    floor: Callable[[list[str]], None],
    keys: list[str],
) -> Result:
    ours(keys)
    floor(keys)
    turn = fastest(
        interleaved(lambda _: ours(keys), lambda _: floor(keys), rounds=ROUNDS, clock=WALL)
    )
    return judge(
        name,
        len(keys) / turn.candidate,
        "calls/s",
        reference=len(keys) / turn.floor,
        goal=ratio_at_least(0.5),
    )


@bench("durable")
def entity_calls() -> Iterator[Result]:
    """Calls on one key, one after the other, and on a thousand keys at once."""
    one, many = ["a"] * CALLS, [str(number) for number in range(KEYS)]
    with (
        tuned(),
        postgres_server() as server,
        postgres_bed(server) as database,
        _calls(database) as ours,
    ):
        floor = postgres_floor(database)
        yield _compare("durable.postgres.entity_1_key", ours, floor, one)
        yield _compare("durable.postgres.entity_1000_keys", ours, floor, many)
    with tuned(), sqlite_bed() as file, _calls(file) as ours:
        floor = sqlite_floor(file)
        yield _compare("durable.sqlite.entity_1_key", ours, floor, one)
        yield _compare("durable.sqlite.entity_1000_keys", ours, floor, many)


@bench("durable")
def entity_alarms() -> Iterator[Result]:
    """Ten thousand alarms at one instant: seconds until the last one is handled."""
    count = sized(ALARMS, quick=500)
    with tuned(), postgres_server() as server, postgres_bed(server) as database:
        yield judge(
            "durable.postgres.entity_alarms",
            database.run(_seconds_of_alarms(database.url, count)),
            f"s for {count} alarms",
            goal=value_under(5.0),
        )
    with tuned(), sqlite_bed() as file:
        yield judge(
            "durable.sqlite.entity_alarms",
            file.run(_seconds_of_alarms(file.url, count)),
            f"s for {count} alarms",
            goal=value_under(5.0),
        )


async def _seconds_of_alarms(url: str, count: int) -> float:
    app = Tickwork(url)
    app.entities.register(Counter)
    began = time.monotonic()
    for keys in batched([*range(count)], 500):
        left = AHEAD.total_seconds() - (time.monotonic() - began)
        await asyncio.gather(*(app.entity(Counter, str(key)).wake(left) for key in keys))
    async with app.running(roles="worker"):
        await asyncio.sleep(max(AHEAD.total_seconds() - (time.monotonic() - began), 0))
        due = time.monotonic()
        while await _is_waiting(app):  # noqa: ASYNC110  other processes could do it
            await asyncio.sleep(0.05)
        return time.monotonic() - due


async def _is_waiting(app: Tickwork) -> bool:
    counts = (await app.queues.stats(COUNTERS)).counts
    return any((counts.ready, counts.delayed, counts.claimed))
