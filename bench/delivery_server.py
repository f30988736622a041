"""A receiver of webhooks in a process of its own: answers 200 and reads what it is sent.

```
python -m bench.delivery_server                     # answers at once
python -m bench.delivery_server --delay-ms 200      # answers after so many milliseconds
python -m bench.delivery_server --hold 10000        # answers when so many wait, some seconds later
python -m bench.delivery_server --hang 127.0.0.1    # never answers requests to this host
python -m bench.delivery_server --count 1000 --seconds 10
```

Its first line is its port. It listens on all loopback addresses, which stand for hosts. After the
hold it says `{"in_flight_max": …}`. With `--count` it says what it answered once that is so many,
or after the seconds: `{"answered": …, "seconds": …, "at_once_max": …}`, from the first request
on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time

from aiohttp import web

HOLD_SECONDS = 10.0
"""How long all requests of a hold are kept waiting: two heartbeats of a node."""

BACKLOG = 4_096
"""Connections that may wait to be accepted."""


class Server:
    """Counts the requests that wait, and those that were answered."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._hang, self._is_never = asked.hang, asyncio.Event()
        self._delay_seconds = asked.delay_ms / 1_000
        self._hold, self._waiting, self._most = asked.hold, 0, 0
        self._count, self._seconds = asked.count, asked.seconds
        self._answered = self._running = self._at_once_max = 0
        self._began: float | None = None
        self._is_released = asyncio.Event()
        if not asked.hold:
            self._is_released.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._begin()
        await request.read()
        if request.url.host == self._hang:
            await self._is_never.wait()
        self._running += 1
        self._at_once_max = max(self._at_once_max, self._running)
        if not self._is_released.is_set():
            self._waiting += 1
            self._most = max(self._most, self._waiting)
            if self._waiting == self._hold:
                asyncio.get_running_loop().call_later(HOLD_SECONDS, self._release)
            await self._is_released.wait()
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        self._running -= 1
        self._answered += 1
        if self._answered == self._count:
            self._say()
        return web.Response(text="ok")

    def _begin(self) -> None:
        if self._began is None:
            self._began = time.perf_counter()
            if self._count:
                asyncio.get_running_loop().call_later(self._seconds, self._say)

    def _say(self) -> None:
        assert self._began is not None
        said = {
            "answered": self._answered,
            "seconds": time.perf_counter() - self._began,
            "at_once_max": self._at_once_max,
        }
        print(json.dumps(said), flush=True)

    def _release(self) -> None:
        print(json.dumps({"in_flight_max": self._most}), flush=True)
        self._is_released.set()

    async def serve(self) -> None:
        runner = web.ServerRunner(web.Server(self.handle), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "0.0.0.0", 0, backlog=BACKLOG)  # noqa: S104
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()


def raise_file_limit() -> None:
    """As many open files as the system lets us have: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delivery_server")
    parser.add_argument("--hold", type=int, default=0)
    parser.add_argument("--hang")
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    raise_file_limit()
    asked = parser.parse_args()
    asyncio.run(Server(asked).serve())


if __name__ == "__main__":
    main()
