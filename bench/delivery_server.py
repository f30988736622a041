"""A receiver of webhooks in a process of its own: answers 200 and reads what it is sent.

```
python -m bench.delivery_server                  # answers at once
python -m bench.delivery_server --hold 10000     # answers when so many wait, some seconds later
python -m bench.delivery_server --hang 127.0.0.1 # never answers requests to this host
```

Its first line is its port. It listens on all loopback addresses, which stand for hosts. After the
hold it says `{"in_flight_max": …}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource

from aiohttp import web

HOLD_SECONDS = 10.0
"""How long all requests of a hold are kept waiting: two heartbeats of a node."""

BACKLOG = 4_096
"""Connections that may wait to be accepted."""


class Server:
    """Counts the requests that wait."""

    def __init__(self, hold: int, hang: str | None) -> None:
        self._hang, self._is_never = hang, asyncio.Event()
        self._hold, self._waiting, self._most = hold, 0, 0
        self._is_released = asyncio.Event()
        if not hold:
            self._is_released.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        if request.url.host == self._hang:
            await self._is_never.wait()
        if not self._is_released.is_set():
            self._waiting += 1
            self._most = max(self._most, self._waiting)
            if self._waiting == self._hold:
                asyncio.get_running_loop().call_later(HOLD_SECONDS, self._release)
            await self._is_released.wait()
        return web.Response(text="ok")

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
    raise_file_limit()
    asked = parser.parse_args()
    asyncio.run(Server(asked.hold, asked.hang).serve())


if __name__ == "__main__":
    main()
