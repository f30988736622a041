"""A node's memory levels off under mixed work: its caches are bounded by what they are worth."""

from __future__ import annotations

import asyncio
import gc
import resource
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.kit.waiting import delay
from tests.stores.home import Home
from tickwork import Firing, Fixed, Message, Permanent, Snooze, Tickwork
from tickwork.clock import monotonic, now

SOAK_MINUTES = 30.0
SAMPLES = 30
GROWTH_MIB_MAX = 3.0
"""Most by which memory may grow from the second third of the run to the last."""

BURST = 20
"""Messages and one-shot schedules that are sent and created at a time."""


@pytest.mark.soak
async def test_a_nodes_memory_levels_off(home: Home) -> None:
    samples = await soak(home.url, SOAK_MINUTES)
    third = len(samples) // 3
    growth = max(samples[-third:]) - max(samples[third : 2 * third])
    assert growth <= GROWTH_MIB_MAX, [round(each, 1) for each in samples]


async def soak(url: str, minutes: float) -> list[float]:
    """Runs keyed messages with every outcome, intervals and one-shots; the memory over time."""
    app = Tickwork(url, min_interval_seconds=1)
    app.queue("work", max_retries=1, backoff=Fixed(0))
    app.queue("copies")

    @app.on("work")
    async def handle(message: Message[int]) -> None:
        match message.body % 10:
            case 0 if message.attempts == 1:
                raise ValueError("no luck")
            case 1:
                raise Permanent("never")
            case 2 if message.attempts == 1:
                raise Snooze(0.01)
            case 3 | 4 | 5:
                message.send("copies", message.body)

    @app.on("copies")
    async def copy(message: Message[int]) -> None: ...

    @app.schedule(interval_seconds=1)
    async def tick(firing: Firing) -> None: ...

    async def feed() -> None:
        number = 0
        while True:
            for _ in range(BURST):
                number += 1
                await app.queue("work").send(number, key=f"key {number % 50}")
            soon = now() + timedelta(seconds=2)
            await app.schedules.create_many(
                [
                    {
                        "once_at": soon + timedelta(microseconds=number + each),
                        "target": {"queue": "copies"},
                        "payload": number,
                    }
                    for each in range(BURST)
                ]
            )
            await delay(0.05)

    samples: list[float] = []
    async with app.running():
        feeding = asyncio.create_task(feed())
        until = monotonic() + minutes * 60
        while monotonic() < until and not feeding.done():
            await delay(minutes * 60 / SAMPLES)
            gc.collect()
            samples.append(memory_mib())
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding
    return samples


def memory_mib() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1024 / 1024
