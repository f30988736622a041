"""A worker in a process of its own, as `tickwork run` has it; it says what it saw as one JSON line.

```
python -m bench.worker_process drain URL --messages 200000 [--batch-size 100]
python -m bench.worker_process load URL --messages 300000 --slots 250 --wait-seconds 0.04
python -m bench.worker_process full URL --messages 100000 --slots 250
```

`drain` handles so many messages with a handler that does nothing. `load` handles messages whose
body is the moment at which they were sent, by the machine's monotonic clock, and waits in each.
`full` handles so many that do nothing; then every slot takes one that does not end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any

import msgspec

from bench import QUEUE
from bench.memory import rss_bytes, rss_bytes_max
from tickwork import Tickwork

SAMPLE_SECONDS = 1.0
STARTED = "started"
"""The first line it says: from now on it claims."""

FULL_SECONDS = 5.0
"""So long all slots stay full while memory is looked at."""


class Seen(msgspec.Struct, kw_only=True):
    """What a worker saw: how long it took, how long messages waited for a handler, and its
    memory, second by second and at most."""

    seconds: float = 0.0
    wait_p50: float = 0.0
    wait_p99: float = 0.0
    in_flight_max: int = 0
    rss_bytes: list[int] = []
    rss_bytes_max: int = 0


class Work:
    """The app of a worker, what it has seen, and the end of it."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.seen = asked, Seen()
        self.app = Tickwork(asked.url)
        self.left, self.running = asked.messages, 0
        self.began = 0.0

    def run(self, *, watches_memory: bool) -> None:
        """Until the work has ended."""

        def on_started() -> None:
            self.began = time.perf_counter()
            print(STARTED, flush=True)
            if watches_memory:
                self._sampling = asyncio.ensure_future(self._sample())

        self.app.run(on_started=on_started)
        self.seen.rss_bytes_max = rss_bytes_max()

    def count(self, messages: int) -> None:
        """So many are handled."""
        self.left -= messages
        if self.left <= 0 and not self.seen.seconds:
            self.end()

    def end(self) -> None:
        """As a user ends it: with a signal."""
        self.seen.seconds = time.perf_counter() - self.began
        os.kill(os.getpid(), signal.SIGTERM)

    async def _sample(self) -> None:
        while True:
            self.seen.rss_bytes.append(rss_bytes())
            await asyncio.sleep(SAMPLE_SECONDS)


def drain(work: Work) -> None:
    size = work.asked.batch_size
    work.app.queue(QUEUE, max_batch_size=size or 10)

    async def handle_one(_message: Any) -> None:
        work.count(1)

    async def handle_batch(batch: Any) -> None:
        work.count(len(batch))

    if size:
        work.app.consumer(QUEUE)(handle_batch)
    else:
        work.app.on(QUEUE)(handle_one)
    work.run(watches_memory=False)


def load(work: Work) -> None:
    # All of it from the beginning: what is measured must not grow by the measuring.
    waits, wait_seconds = array("d", bytes(8 * work.left)), work.asked.wait_seconds

    async def handle(message: Any) -> None:
        waits[work.left - 1 - work.running] = time.monotonic() - message.body
        work.running += 1
        work.seen.in_flight_max = max(work.seen.in_flight_max, work.running)
        await asyncio.sleep(wait_seconds)
        work.running -= 1
        work.count(1)

    work.app.queue(QUEUE)
    work.app.on(QUEUE, max_concurrency=work.asked.slots)(handle)
    work.run(watches_memory=True)
    ordered = sorted(waits)
    work.seen.wait_p50, work.seen.wait_p99 = (
        ordered[int(len(ordered) * share)] for share in (0.5, 0.99)
    )


def full(work: Work) -> None:
    stuck = asyncio.Event()

    async def handle(_message: Any) -> None:
        if work.left > 0:
            work.left -= 1
            return
        work.running += 1
        if work.running == work.asked.slots:
            asyncio.get_running_loop().call_later(FULL_SECONDS, finish)
        await stuck.wait()

    def finish() -> None:
        work.seen.in_flight_max = work.running
        work.end()
        stuck.set()

    work.app.queue(QUEUE)
    work.app.on(QUEUE, max_concurrency=work.asked.slots)(handle)
    work.run(watches_memory=True)


WORKS: dict[str, Callable[[Work], None]] = {"drain": drain, "load": load, "full": full}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.worker_process")
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("url")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=0)
    parser.add_argument("--slots", type=int, default=250)
    parser.add_argument("--wait-seconds", type=float, default=0.0)
    work = Work(parser.parse_args())
    WORKS[work.asked.work](work)
    sys.stdout.buffer.write(msgspec.json.encode(work.seen) + b"\n")


if __name__ == "__main__":
    main()
