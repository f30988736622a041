"""The floor of deliveries: a loop that posts the same bodies with the same client.

`python -m bench.delivery_floor --port 9 --receivers 10 --messages 10000 --at-once 100` signs first,
posts, and prints the seconds that posting took.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Mapping

import aiohttp
import msgspec
import uvloop
from yarl import URL

from bench.delivery_server import raise_file_limit
from bench.delivery_user import host_of
from tickwork.clock import now
from tickwork.core.delivery.signature import signature_headers
from tickwork.store.ids import new_id

PAYLOAD = {"to": "a@example.com", "template": "welcome", "n": 1}
KEY = bytes(32)


def seconds_of_loop(asked: argparse.Namespace) -> float:
    """Posts with the client that a worker has."""
    body = msgspec.json.encode(PAYLOAD)
    urls = [
        URL(f"http://{host_of(number)}:{asked.port}/", encoded=True)
        for number in range(asked.receivers)
    ]
    signed = [(urls[number % len(urls)], _headers(body)) for number in range(asked.messages)]

    async def post(
        session: aiohttp.ClientSession, waiting: Iterator[tuple[URL, Mapping[str, str]]]
    ) -> None:
        for url, headers in waiting:
            async with session.post(url, data=body, headers=headers) as answer:
                assert answer.status == 200
                await answer.read()

    async def post_all() -> float:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=asked.at_once),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        ) as session:
            began, waiting = time.perf_counter(), iter(signed)
            await asyncio.gather(*(post(session, waiting) for _ in range(asked.at_once)))
            return time.perf_counter() - began

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(post_all())


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
    parser = argparse.ArgumentParser(prog="python -m bench.delivery_floor")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--receivers", type=int, default=1)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    asked = parser.parse_args()
    raise_file_limit()
    print(seconds_of_loop(asked))


if __name__ == "__main__":
    main()
