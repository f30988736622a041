"""The floor of the API: bare Litestar handlers with the same bodies and no database.

`python -m bench.api_floor BODY_FILE` prints its URL and serves until it is killed. `GET /answer`
returns the object in the file, `POST /messages` reads a message and returns an id.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from litestar import Litestar, get, post
from msgspec import Struct

from tickwork.api.serve import serving


class Sent(Struct):
    """What a message that was sent is answered with."""

    id: str
    event_id: str | None = None


class Given(Struct):
    """A message."""

    body: Any


def application(answer: dict[str, Any]) -> Litestar:
    """Two handlers that do nothing but read and write JSON."""

    @get("/answer")
    async def get_answer() -> dict[str, Any]:
        return answer

    @post("/messages")
    async def post_message(data: Given) -> Sent:
        assert data.body is not None
        return Sent("msg_00000000000000000000000000000000")

    return Litestar([get_answer, post_message], openapi_config=None, logging_config=None)


async def main(answer: dict[str, Any]) -> None:
    async with serving(application(answer), host="127.0.0.1", port=0) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes())))
