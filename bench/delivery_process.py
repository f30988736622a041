"""What delivers, in a process of its own; it says what it saw as one JSON line.

```
python -m bench.delivery_process worker URL --messages 10000 --at-once 100
python -m bench.delivery_process bare --port 9 --receivers 10 --messages 10000 --at-once 100
```

`worker` is a node as `tickwork run` has it: it claims, signs, sends and settles webhooks of
schedules. `bare` posts the same bodies, signed before, with the same client
and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import aiohttp
import msgspec
import uvloop
from yarl import URL

from bench.delivery_server import raise_file_limit
from bench.delivery_user import host_of
from bench.memory import rss_bytes_max
from tickwork import Tickwork
from tickwork.clock import now
from tickwork.core.delivery.signature import signature_headers
from tickwork.service.delivery.deliver import Deliverer
from tickwork.service.node import Node
from tickwork.store.ids import new_id

PAYLOAD = {"to": "a@example.com", "template": "welcome", "n": 1}
KEY = bytes(32)


class Seen(msgspec.Struct, kw_only=True):
    """How long it took, on the wall and of the processor, its memory at most, and the longest time
    between two heartbeats."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rss_bytes_max: int = 0
    heartbeat_gap_seconds: float = 0.0


def worker(asked: argparse.Namespace) -> Seen:
    """Until so many messages are delivered."""
    seen, left, beats, began = Seen(), asked.messages, list[float](), 0.0
    began_cpu = 0.0
    # Each delivery, each heartbeat.
    attempt, renewed = Deliverer._try, Node._renewed  # noqa: SLF001

    async def counted(deliverer: Any, *given: Any) -> Any:
        nonlocal left
        outcome = await attempt(deliverer, *given)
        left -= 1
        if left == 0:
            seen.seconds = time.perf_counter() - began
            seen.cpu_seconds = time.process_time() - began_cpu
            beats.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGTERM)
        return outcome

    def beaten(node: Node, at: float) -> None:
        beats.append(time.monotonic())
        renewed(node, at)

    def on_started() -> None:
        nonlocal began, began_cpu
        began, began_cpu = time.perf_counter(), time.process_time()

    with patch.object(Deliverer, "_try", counted), patch.object(Node, "_renewed", beaten):
        Tickwork(asked.url).run(on_started=on_started)
    seen.heartbeat_gap_seconds = max(after - before for before, after in pairwise(beats))
    return seen


def bare(asked: argparse.Namespace) -> Seen:
    """A loop of the client that a worker has."""
    body = msgspec.json.encode(PAYLOAD)
    urls = [
        URL(f"http://{host_of(number)}:{asked.port}/", encoded=True)
        for number in range(asked.receivers)
    ]
    signed = [(urls[number % len(urls)], _headers(body)) for number in range(asked.messages)]
    seen = Seen()

    async def post(
        session: aiohttp.ClientSession, waiting: Iterator[tuple[URL, Mapping[str, str]]]
    ) -> None:
        for url, headers in waiting:
            async with session.post(url, data=body, headers=headers) as answer:
                assert answer.status == 200
                await answer.read()

    async def post_all() -> None:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=asked.at_once),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        ) as session:
            began, began_cpu, waiting = time.perf_counter(), time.process_time(), iter(signed)
            await asyncio.gather(*(post(session, waiting) for _ in range(asked.at_once)))
            seen.seconds = time.perf_counter() - began
            seen.cpu_seconds = time.process_time() - began_cpu

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(post_all())
    return seen


def _headers(body: bytes) -> dict[str, str]:
    """Headers like those of a delivery."""
    named = new_id()
    return {
        "User-Agent": "Tickwork",
        "Content-Type": "application/json",
        "Idempotency-Key": str(named),
        "Tickwork-Attempt": "1",
        "Tickwork-Fence": "1",
        **signature_headers([KEY], f"msg_{named.hex}", now(), body),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delivery_process")
    parser.add_argument("work", choices=("worker", "bare"))
    parser.add_argument("url", nargs="?")
    parser.add_argument("--port", type=int)
    parser.add_argument("--receivers", type=int, default=1)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    asked = parser.parse_args()
    raise_file_limit()
    seen = worker(asked) if asked.work == "worker" else bare(asked)
    seen.rss_bytes_max = rss_bytes_max()
    sys.stdout.buffer.write(msgspec.json.encode(seen) + b"\n")


if __name__ == "__main__":
    main()
