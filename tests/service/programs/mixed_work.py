"""A node under mixed work: keyed messages with every outcome, intervals and one-shots.

    python -m tests.service.programs.mixed_work URL MINUTES SAMPLES

It prints its memory in MiB, so many times. (Under pytest, the kept log lines would count, too.)
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from tests.kit.waiting import delay
from tickwork import Firing, Fixed, Message, Permanent, Snooze, Tickwork
from tickwork.clock import now

PROGRAM = "tests.service.programs.mixed_work"
BURST = 20
"""Messages and one-shot schedules that are sent and created at a time."""


async def work(url: str, minutes: float, samples: int) -> None:
    """Works for so long, and prints the memory."""
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
                        "once_at": soon + timedelta(microseconds=number + index),
                        "target": {"queue": "copies"},
                        "payload": number,
                    }
                    for index in range(BURST)
                ]
            )
            await delay(0.05)

    async with app.running():
        feeding = asyncio.create_task(feed())
        for _ in range(samples):
            await delay(minutes * 60 / samples)
            assert not feeding.done(), feeding.exception()
            gc.collect()
            sys.stdout.write(f"{memory_mib():.1f}\n")
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding


def memory_mib() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1024 / 1024


if __name__ == "__main__":
    logging.disable()
    asyncio.run(work(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
